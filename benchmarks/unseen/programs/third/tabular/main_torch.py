"""Multi-task forecasting of a bike-sharing station: quantiles of two counts and the rate of broken bikes (PyTorch).

Everything is built from a `Config` through registries.
"""
import csv
import math
from dataclasses import dataclass, field
from typing import Dict, Tuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

REGISTRY: Dict[str, Dict[str, type]] = {"head": {}, "loss": {}, "block": {}}


def register(kind, name):
    def add(obj):
        REGISTRY[kind][name] = obj
        return obj
    return add


@dataclass
class Task:
    head: str
    loss: str
    column: str
    scale: bool
    quantiles: Tuple[float, ...] = ()
    weight: float = 1.0


@dataclass
class Config:
    tasks: Dict[str, Task] = field(default_factory=lambda: {
        "rented": Task("quantile", "pinball", "rented", True, (0.1, 0.5, 0.9)),
        "returned": Task("quantile", "huber_pinball", "returned", True, (0.25, 0.5, 0.75), 0.7),
        "broken": Task("rate", "poisson", "broken", False, (), 0.3),
    })
    cats: Tuple[str, ...] = ("station", "weather", "day")
    cat_dim: int = 5
    bins: int = 6
    width: int = 32
    blocks: Tuple[str, ...] = ("glu", "bottleneck", "glu")
    experts: int = 3
    expert_dim: int = 16
    valid_every: int = 5
    batch: int = 8
    kappa: float = 0.2
    lr: float = 0.02
    wd: float = 0.02
    clip: float = 1.0
    total_steps: int = 40
    end: float = 0.05
    power: float = 2.0


CFG = Config()


# ------------------------------------------------------------------ table

def read(path):
    with open(path) as f:
        return list(csv.DictReader(f))


def number(text):
    return float(text) if text != "" else float("nan")


class Table:
    """what is learned of the train split: categories, means, deviations, quantiles, target scales"""
    NUMBERS = ("temp", "humidity", "wind")

    def __init__(self, path="bikes.csv"):
        rows = read(path)
        self.train = [r for i, r in enumerate(rows) if i % CFG.valid_every != 0]
        self.valid = [r for i, r in enumerate(rows) if i % CFG.valid_every == 0]
        self.codes = {c: {v: k + 1 for k, v in enumerate(sorted({r[c] for r in self.train}))} for c in CFG.cats}
        raw = np.array([self.raw(r) for r in self.train])
        self.mean, self.std = np.nanmean(raw, 0), np.nanstd(raw, 0)
        z = np.where(np.isnan(raw), 0.0, (raw - self.mean) / self.std)
        self.edges = np.quantile(z, np.linspace(0, 1, CFG.bins + 1), axis=0).T  # [numbers, bins + 1]
        self.target = {}
        for name, t in CFG.tasks.items():
            y = np.array([float(r[t.column]) for r in self.train])
            self.target[name] = (y.mean(), y.std()) if t.scale else (0.0, 1.0)

    def raw(self, row):
        t, h, w = (number(row[c]) for c in self.NUMBERS)
        return [t, h, math.log1p(w)]

    def encode(self, row):
        cats = [self.codes[c].get(row[c], 0) for c in CFG.cats]
        x = np.array(self.raw(row))
        z = (x - self.mean) / self.std
        missing = np.isnan(z)
        z[missing] = 0.0
        angle = 2 * math.pi * float(row["hour"]) / 24
        return np.array(cats), np.concatenate([z, [math.sin(angle), math.cos(angle), float(missing[0])]])

    def targets(self, row):
        return np.array([(float(row[t.column]) - self.target[n][0]) / self.target[n][1] for n, t in CFG.tasks.items()])


TABLE = Table()


class Rows(Dataset):
    def __init__(self, split):
        self.rows = getattr(TABLE, split)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        cats, nums = TABLE.encode(self.rows[i])
        return {"cats": torch.tensor(cats), "nums": torch.tensor(nums, dtype=torch.float32),
                "labels": torch.tensor(TABLE.targets(self.rows[i]), dtype=torch.float32)}


def build_dataset(split):
    return Rows(split)


def build_dataloader(split):
    return DataLoader(Rows(split), batch_size=CFG.batch, drop_last=split == "train")


# ------------------------------------------------------------------ model

class PiecewiseLinear(nn.Module):
    """Gorishniy et al. 2022: a number becomes its filled share of each bin"""

    def __init__(self, edges):
        super().__init__()
        self.left, self.right = torch.from_numpy(edges[:, :-1].copy()), torch.from_numpy(edges[:, 1:].copy())

    def forward(self, x):
        left, right = self.left.to(x), self.right.to(x)
        e = (x[..., None] - left) / (right - left).clamp(min=1e-4)
        lower, upper = torch.full_like(e, 0.0), torch.full_like(e, 1.0)
        lower[..., 0] = -float("inf")
        upper[..., -1] = float("inf")
        return torch.maximum(torch.minimum(e, upper), lower).flatten(1)


@register("block", "glu")
class GLUBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.BatchNorm1d(d, eps=1e-3, momentum=0.05)
        self.fc = nn.Linear(d, 2 * d)

    def forward(self, x):
        return (x + F.glu(self.fc(self.norm(x)), dim=-1)) * math.sqrt(0.5)


@register("block", "bottleneck")
class Bottleneck(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d, eps=1e-6)
        self.down = nn.Linear(d, d // 2)
        self.up = nn.Linear(d // 2, d)

    def forward(self, x):
        return x + self.up(F.gelu(self.down(self.norm(x)), approximate="tanh"))


@register("head", "quantile")
class QuantileHead(nn.Module):
    """the lowest quantile, then positive steps: they never cross"""

    def __init__(self, d, task):
        super().__init__()
        self.fc = nn.Linear(d, len(task.quantiles))

    def forward(self, h):
        y = self.fc(h)
        return torch.cat([y[:, :1], y[:, :1] + F.softplus(y[:, 1:]).cumsum(1)], 1)


@register("head", "rate")
class RateHead(nn.Module):
    def __init__(self, d, task):
        super().__init__()
        self.fc = nn.Linear(d, 1)

    def forward(self, h):
        return self.fc(h).squeeze(-1).clamp(-6, 6)


class Forecaster(nn.Module):
    def __init__(self, cfg, table):
        super().__init__()
        self.embed = nn.ModuleList(nn.Embedding(len(table.codes[c]) + 1, cfg.cat_dim) for c in cfg.cats)
        self.ple = PiecewiseLinear(table.edges)
        self.first = nn.Linear(len(cfg.cats) * cfg.cat_dim + 3 * cfg.bins + 3, cfg.width)
        self.trunk = nn.Sequential(*[REGISTRY["block"][b](cfg.width) for b in cfg.blocks])
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(cfg.width, cfg.expert_dim), nn.ELU(0.5)) for _ in range(cfg.experts))
        self.gates = nn.ModuleDict({n: nn.Linear(cfg.width, cfg.experts, bias=False) for n in cfg.tasks})
        self.heads = nn.ModuleDict({n: REGISTRY["head"][t.head](cfg.expert_dim, t) for n, t in cfg.tasks.items()})
        self.log_var = nn.Parameter(torch.tensor([0.1, -0.1, 0.2]))

    def forward(self, cats, nums):
        e = [emb(cats[:, i]) for i, emb in enumerate(self.embed)]
        x = torch.cat(e + [self.ple(nums[:, :3]), nums[:, 3:]], 1)
        x = self.trunk(self.first(x))
        experts = torch.stack([f(x) for f in self.experts], 1)
        out = {}
        for name in self.heads:
            g = torch.softmax(self.gates[name](x), -1)
            out[name] = self.heads[name]((g[..., None] * experts).sum(1))
        out["log_var"] = self.log_var
        return out


def build_model():
    return Forecaster(CFG, TABLE)


# ------------------------------------------------------------------ losses

@register("loss", "pinball")
def pinball(pred, y, task):
    q = torch.tensor(task.quantiles, dtype=pred.dtype)
    d = y[:, None] - pred
    return torch.maximum(q * d, (q - 1) * d).sum(1).mean()


@register("loss", "huber_pinball")
def huber_pinball(pred, y, task):
    q = torch.tensor(task.quantiles, dtype=pred.dtype)
    d = y[:, None] - pred
    h = torch.where(d.abs() <= CFG.kappa, 0.5 * d ** 2 / CFG.kappa, d.abs() - 0.5 * CFG.kappa)
    return (torch.abs(q - (d < 0).to(q.dtype)) * h).sum(1).mean()


@register("loss", "poisson")
def poisson(pred, y, task):
    return F.poisson_nll_loss(pred, y, log_input=True, full=False)


def loss(outputs, labels):
    parts, total = {}, 0
    for k, (name, t) in enumerate(CFG.tasks.items()):
        parts[name] = REGISTRY["loss"][t.loss](outputs[name], labels[:, k], t)
        s = outputs["log_var"][k]
        total = total + t.weight * (torch.exp(-s) * parts[name] + 0.5 * s)
    return {"loss": total, **parts}


def evaluate(outputs, labels):
    """in units of the table: error of the median, share of truths inside the outer quantiles, deviance of the rate"""
    res = {}
    for k, (name, t) in enumerate(CFG.tasks.items()):
        mean, std = TABLE.target[name]
        p, y = outputs[name].numpy().astype(np.float64), labels[:, k].numpy().astype(np.float64)
        if t.quantiles:
            res[name + "_mae"] = float(np.abs(p[:, 1] - y).mean() * std)
            res[name + "_inside"] = float(((p[:, 0] <= y) & (y <= p[:, -1])).mean())
        else:
            mu = np.exp(p)
            res[name + "_deviance"] = float(np.mean(2 * (np.where(y > 0, y * np.log(np.maximum(y, 1e-9) / mu), 0.0) - (y - mu))))
    return res


metric = evaluate


# ------------------------------------------------------------------ optimizer

class Lamb(torch.optim.Optimizer):
    """You et al. 2020; gradients are first brought to a global norm of at most `clip`"""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, clip=1.0, max_trust=10.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.clip, self.max_trust = clip, max_trust

    @torch.no_grad()
    def step(self, closure=None):
        grads = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.sqrt(sum((g ** 2).sum() for g in grads))
        factor = torch.clamp(self.clip / norm, max=1.0)
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st["step"], st["m"], st["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                st["step"] += 1
                g = p.grad * factor
                st["m"].mul_(b1).add_(g, alpha=1 - b1)
                st["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                m = st["m"] / (1 - b1 ** st["step"])
                v = st["v"] / (1 - b2 ** st["step"])
                r = m / (v.sqrt() + group["eps"])
                trust = 1.0
                if p.dim() > 1:
                    r = r + group["weight_decay"] * p
                    a, b = p.norm(), r.norm()
                    if a > 0 and b > 0:
                        trust = min((a / b).item(), self.max_trust)
                p.add_(r, alpha=-group["lr"] * trust)


def build_optimizer(model):
    return Lamb(model.parameters(), CFG.lr, weight_decay=CFG.wd, clip=CFG.clip)


def build_scheduler(optimizer):
    def factor(t):
        return CFG.end + (1 - CFG.end) * (1 - min(t, CFG.total_steps) / CFG.total_steps) ** CFG.power
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


# ------------------------------------------------------------------ use

@torch.no_grad()
def predict(path, model):
    cats, nums = zip(*(TABLE.encode(r) for r in read(path)))
    out = model(torch.tensor(np.array(cats)), torch.tensor(np.array(nums), dtype=model.first.weight.dtype))
    res = {}
    for name, t in CFG.tasks.items():
        mean, std = TABLE.target[name]
        res[name] = np.maximum(out[name].numpy() * std + mean, 0) if t.quantiles else np.exp(out[name].numpy())
    return res
