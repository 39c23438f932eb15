"""Crop yield from weather and soil: a calibrated forecast for each county, year and crop."""
import csv
import json
import math
from pathlib import Path

import torch

from . import training  # noqa: F401  (registers)
from .data import Tables, YieldSet, loader
from .model import YieldNet
from .registry import LOSSES, OPTIMIZERS, SCHEDULES

CONFIG = json.loads((Path(__file__).parent / "config.json").read_text())
_criterion = LOSSES.build(CONFIG["loss"])


def build_model():
    return YieldNet(**CONFIG["model"])


def build_dataset(split):
    return YieldSet(CONFIG["data"], split)


def build_dataloader(split):
    return loader(CONFIG["data"], split)


def loss(outputs, labels):
    return _criterion(outputs, labels)


def metric(outputs, labels):
    """RMSE, the continuous ranked probability score, and coverage of the 80 % interval."""
    mean, scale = outputs["mean"], outputs["scale"]
    labels = labels.to(mean.dtype)
    z = (labels - mean) / scale
    density = torch.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    below = 0.5 * (1.0 + torch.erf(z / math.sqrt(2.0)))
    crps = scale * (z * (2.0 * below - 1.0) + 2.0 * density - 1.0 / math.sqrt(math.pi))
    return {
        "rmse": float(((labels - mean) ** 2).mean().sqrt()),
        "crps": float(crps.mean()),
        "coverage": float((z.abs() <= 1.2815515655446004).to(mean.dtype).mean()),
    }


def build_optimizer(model):
    return OPTIMIZERS.build(CONFIG["optimizer"], model)


def build_scheduler(optimizer):
    return SCHEDULES.build(CONFIG["schedule"], optimizer)


def predict(path, model):
    """Tonnes per hectare, with the 10 % and 90 % quantiles, for a list of fields."""
    tables = Tables(CONFIG["data"])
    with open(path, newline="") as f:
        fields = [(r["county"], int(r["year"]), r["crop"]) for r in csv.DictReader(f)]
    weather, soil, crop = zip(*(tables.features(*field) for field in fields))
    dtype = next(model.parameters()).dtype
    with torch.no_grad():
        out = model(
            torch.stack([torch.from_numpy(w) for w in weather]).to(dtype),
            torch.stack([torch.from_numpy(s) for s in soil]).to(dtype),
            torch.tensor(crop),
        )
    answer = []
    for (_, year, name), mean, scale in zip(fields, out["mean"].tolist(), out["scale"].tolist()):
        centre, spread = tables.tonnes(year, name, mean, scale)
        answer.append([centre - 1.2815515655446004 * spread, centre, centre + 1.2815515655446004 * spread])
    return torch.tensor(answer, dtype=torch.float64)
