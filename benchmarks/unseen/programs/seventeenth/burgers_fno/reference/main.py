"""Training and use of the operator.

    python main.py train
    python main.py ../data/initial_0.txt
"""

import sys

import numpy as np
import torch
from torch.utils.data import DataLoader

from fno import trainer
from fno.config import config
from fno.datasets import BurgersPairs, StratifiedSampler, load_split
from fno.losses import derivative
from fno.model import FNO1d
from fno.scheduler import CosineRestarts


def build_model():
    return FNO1d(config.model)


def build_dataset(split):
    return BurgersPairs(split, config.seed)


def build_dataloader(split):
    dataset = build_dataset(split)
    sampler = StratifiedSampler(dataset, config.seed) if split == "train" else None
    return DataLoader(dataset, batch_size=config.batch_size, sampler=sampler, drop_last=split == "train")


def loss(outputs, targets):
    return trainer.criterion(outputs, targets, config.h1_weight)


def metric(outputs, targets):
    return trainer.evaluate(outputs, targets, config.bands)


def build_optimizer(model):
    return trainer.make_optimizer(model, config.optim)


def build_scheduler(optimizer):
    return CosineRestarts(optimizer, config.schedule)


def train_step(model, optimizer, batch):
    field, viscosity, targets = batch
    return trainer.pushforward_step(model, optimizer, field, viscosity, targets, config)


def predict(path, model):
    """The trajectory from a file of positions and values, its energy and where the front is steepest."""
    with open(path) as f:
        viscosity = float(f.readline().split("=")[1])
    values = np.loadtxt(path)[:, 1]
    points = load_split("train")[0].shape[-1]
    field = torch.from_numpy(values[:: len(values) // points])
    states = trainer.rollout(model, field, viscosity, config.horizon)
    steepest = derivative(states).argmin(-1)
    return {"states": states.numpy(), "energy": (states**2).mean(-1).numpy() / 2, "front": steepest.numpy() / points}


def train():
    model, loader = build_model(), build_dataloader("train")
    optimizer = build_optimizer(model)
    scheduler = build_scheduler(optimizer)
    for epoch in range(config.schedule.epochs):
        for batch in loader:
            report = train_step(model.train(), optimizer, batch)
            scheduler.step()
        print(epoch, report)
    return model


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train()
    else:
        print(predict(sys.argv[1], build_model().eval()))
