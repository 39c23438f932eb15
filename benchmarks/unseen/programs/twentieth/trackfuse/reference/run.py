"""Entry points; `python -m reference.run` trains."""
import json

import torch

from . import engine, events, net, objective
from .config import CFG


def build_model():
    return net.FusionFilter(CFG.model)


def transforms(split="val"):
    return events.make_transforms()


def build_dataset(split):
    return events.TrackDataset(split)


def build_dataloader(split):
    return events.make_loader(split)


def loss(outputs, labels):
    return objective.nll(outputs, labels)


def metric(outputs, labels):
    return objective.report(outputs, labels)


def build_optimizer(model):
    return engine.make_optimizer(model)


def build_scheduler(optimizer):
    return engine.make_scheduler(optimizer)


def train_step(model, optimizer, batch):
    return engine.step_once(model, optimizer, batch)


@torch.no_grad()
def predict(path, model):
    """Track of one recording in its own units, with a 90 % band."""
    with open(path) as fh:
        sample = events.to_arrays(json.load(fh))
    for t in events.make_transforms():
        sample = t(sample)
    batch = events.collate([sample])
    p = next(model.parameters())
    batch = {k: v.to(p.dtype) if v.is_floating_point() else v for k, v in batch.items()}
    mean, var = model(**batch)[0].unbind(-1)
    centre, scale = events.statistics()["a"]
    mean = mean * scale + centre
    std = var.clamp(min=CFG.var_floor).sqrt() * scale
    band = torch.stack([mean - 1.6449 * std, mean + 1.6449 * std], dim=-1)
    slope = torch.diff(mean) / (torch.diff(batch["query"][0]) * CFG.data.time_unit)
    return {"mean": mean.numpy(), "band": band.numpy(), "slope": slope.numpy()}


if __name__ == "__main__":
    torch.manual_seed(0)
    engine.fit(build_model(), build_dataloader("train"), build_dataloader("val"))
