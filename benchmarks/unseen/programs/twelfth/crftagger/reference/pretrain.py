"""Trains the tagger for some epochs and stores its parameters as one vector."""
import argparse

import numpy as np
import torch
from torch.nn.utils import parameters_to_vector

from entry import build_dataloader, build_optimizer, build_scheduler, build_untrained, train_step
from tagger.config import BASE


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=9)
    args = parser.parse_args()
    torch.manual_seed(1)
    model = build_untrained()
    optimizer = build_optimizer(model)
    schedule = build_scheduler(optimizer)
    for epoch in range(args.epochs):
        losses = []
        for batch in build_dataloader("train"):
            losses.append(float(train_step(model, optimizer, batch)["loss"]))
            schedule.step()
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}")
    (BASE / "checkpoints").mkdir(exist_ok=True)
    np.save(BASE / "checkpoints" / "tagger.npy", parameters_to_vector(model.parameters()).detach().numpy())


if __name__ == "__main__":
    main()
