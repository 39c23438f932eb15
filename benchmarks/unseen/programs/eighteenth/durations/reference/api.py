import math

import numpy as np
import pandas as pd
import torch
from torch.optim.lr_scheduler import LambdaLR

from . import likelihood, table
from .model import INTERVALS, DurationNet

LR, WARMUP, TOTAL, FLOOR = 6e-3, 4, 40, 0.05


def build_model():
    return DurationNet()


def build_dataset(split):
    return table.Couples(split)


def build_dataloader(split):
    return table.loader(split)


def transforms(split):
    return table.transforms(table.load()[1])


def loss(outputs, labels):
    return likelihood.objective(outputs, labels)


def metric(outputs, labels):
    return likelihood.evaluate(outputs, labels)


def build_optimizer(model):
    """Embeddings learn fast and undecayed, the trunk normally, the heads slowly."""
    groups = {"embed": [], "heads": [], "decay": [], "plain": []}
    for name, p in model.named_parameters():
        if name.startswith(("embeddings", "tokens", "cls")):
            groups["embed"].append(p)
        elif name.startswith(("risk", "hazard")):
            groups["heads"].append(p)
        else:
            groups["decay" if p.ndim == 2 else "plain"].append(p)
    return torch.optim.AdamW([
        {"params": groups["embed"], "lr": 2 * LR, "weight_decay": 0.0},
        {"params": groups["heads"], "lr": 0.3 * LR, "weight_decay": 0.05},
        {"params": groups["decay"], "weight_decay": 0.05},
        {"params": groups["plain"], "weight_decay": 0.0},
    ], lr=LR, betas=(0.9, 0.95), eps=1e-7)


def build_scheduler(optimizer):
    def factor(step):
        if step < WARMUP:
            return (step + 1) / WARMUP
        progress = min(1.0, (step - WARMUP) / (TOTAL - WARMUP))
        return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * progress))

    return LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    out = likelihood.objective(model(batch["numeric"], batch["codes"]), batch["target"])
    optimizer.zero_grad(set_to_none=True)
    out["loss"].backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return {**{k: v.detach() for k, v in out.items()}, "grad_norm": norm}


@torch.no_grad()
def risks(model, data):
    rows = [data[i] for i in range(len(data))]
    dtype = model.cls.dtype
    numeric = torch.from_numpy(np.stack([r["numeric"] for r in rows])).to(dtype)
    return model(numeric, torch.from_numpy(np.stack([r["codes"] for r in rows])))


def breslow(risk, time, event):
    """Baseline cumulative hazard at the times of events."""
    times = np.unique(time[event > 0])
    jumps = [((time == t) & (event > 0)).sum() / np.exp(risk[time >= t]).sum() for t in times]
    return times, np.cumsum(jumps)


def predict(path, model):
    """Survival curves of new couples: average of both heads' curves, and the median duration."""
    frame, stats = table.load()
    train = table.Couples("train")
    base_risk = risks(model, train)["risk"].numpy().astype(np.float64)
    times, cumulative = breslow(base_risk - base_risk.mean(), train.target[:, 0], train.target[:, 1])
    out = risks(model, table.Couples(frame=pd.read_csv(path), stats=stats))
    risk = out["risk"].numpy().astype(np.float64) - base_risk.mean()
    position = np.searchsorted(times, INTERVALS, side="right")
    at = np.concatenate([[0.0], cumulative])[position]
    cox = np.exp(-np.exp(risk)[:, None] * at)
    discrete = torch.cumprod(1 - out["hazard"].double().sigmoid(), dim=1)[:, :-1].numpy()
    curve = np.sqrt(cox * discrete)
    below = curve <= 0.5
    median = np.where(below.any(axis=1), np.array(INTERVALS)[below.argmax(axis=1)], np.inf)
    rank = (-risk).argsort(kind="stable").argsort()
    return {"survival": curve, "median": np.minimum(median, 99.0), "rank": rank, "risk": risk}
