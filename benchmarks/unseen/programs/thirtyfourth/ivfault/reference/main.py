"""Faults of solar strings from their IV sweeps."""
import json

import numpy as np
import torch

from . import blocks, losses, model, optim  # noqa: F401  (they register themselves)
from .config import load
from .data import Sweeps, environment, features, loader
from .registry import LOSSES, MODELS, OPTIMS, SCHEDULES

CFG = load("ivnet.json")
CLASSES = CFG["classes"]
_criterion = None


def build_model():
    return MODELS.build(CFG["model"], classes=len(CLASSES))


def build_dataset(split):
    return Sweeps(CFG["data"], split)


def build_dataloader(split):
    return loader(CFG["data"], split)


def loss(outputs, labels):
    global _criterion
    if _criterion is None:
        counts = Sweeps(CFG["data"], "train").counts(len(CLASSES))
        _criterion = LOSSES.build(CFG["loss"], counts=counts)
    return _criterion(outputs, labels)


def metric(outputs, labels):
    guess = outputs["fault"].argmax(1)
    target = labels["fault"].long()
    f1 = []
    for c in range(len(CLASSES)):
        hit = ((guess == c) & (target == c)).sum().item()
        found, there = (guess == c).sum().item(), (target == c).sum().item()
        if found + there:
            f1.append(2 * hit / (found + there))
    bad = target != 0
    gap = (outputs["severity"] - labels["severity"].to(outputs["severity"].dtype)).abs()
    return {"macro_f1": float(np.mean(f1)), "severity_mae": (gap[bad].mean().item() if bad.any() else 0.0)}


def build_optimizer(model):
    return OPTIMS.build(CFG["optim"], model=model)


def build_scheduler(optimizer):
    return SCHEDULES.build(CFG["schedule"], optimizer=optimizer)


def train_step(model, optimizer, batch):
    curve, env, labels = batch
    optimizer.zero_grad(set_to_none=True)
    out = loss(model(curve, env), labels)
    out["loss"].backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CFG["optim"]["clip"])
    optimizer.step()
    return {"loss": out["loss"].detach(), "norm": norm}


def predict(path, model):
    with open(path) as handle:
        sweep = json.load(handle)
    like = next(model.parameters())
    curve = torch.from_numpy(features(sweep["volt"], sweep["amp"], CFG["data"]["points"])).to(like)
    env = torch.from_numpy(environment(sweep, CFG["data"]["env_scale"])).to(like)
    with torch.no_grad():
        out = model(curve[None], env[None])
    prob = out["fault"].softmax(1)[0]
    return {"class": CLASSES[int(prob.argmax())], "prob": prob.numpy(), "severity": out["severity"].item()}
