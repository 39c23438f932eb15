"""N-BEATS, interpretable variant (Oreshkin et al. 2020), on monthly series."""
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset

DATA = Path(__file__).resolve().parents[1] / "data"
BACK, HORIZON, PERIOD = 18, 6, 12
SETUP = {"stacks": [("trend", 2, 3), ("seasonal", 2, 4), ("generic", 1, 5)], "hidden": 24, "batch": 9,
         "lr": 4e-3, "accumulate": 3, "step_size": 40, "clip": 1.0, "ema": 0.9}


def polynomial(p):
    t = lambda n: np.arange(n) / n
    return [np.stack([t(n) ** i for i in range(p)]).astype(np.float32) for n in (BACK, HORIZON)]


def fourier(h):
    grids = np.arange(BACK) / HORIZON - BACK / HORIZON, np.arange(HORIZON) / HORIZON
    return [np.concatenate([np.stack([f(2 * np.pi * i * g) for i in range(1, h + 1)]) for f in (np.cos, np.sin)])
            .astype(np.float32) for g in grids]


class Basis(nn.Module):
    def __init__(self, back, fore):
        super().__init__()
        self.register_buffer("back", torch.from_numpy(back))
        self.register_buffer("fore", torch.from_numpy(fore))

    def forward(self, theta_b, theta_f):
        return theta_b @ self.back, theta_f @ self.fore


class Generic(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.back, self.fore = nn.Linear(k, BACK), nn.Linear(k, HORIZON)

    def forward(self, theta_b, theta_f):
        return self.back(theta_b), self.fore(theta_f)


def make_basis(kind, k):
    if kind == "trend":
        return Basis(*polynomial(k)), k
    if kind == "seasonal":
        return Basis(*fourier(k)), 2 * k
    return Generic(k), k


class Block(nn.Module):
    def __init__(self, kind, k, hidden):
        super().__init__()
        self.mlp = nn.Sequential()
        for i, n in enumerate([BACK, hidden, hidden]):
            self.mlp.add_module(f"fc{i}", nn.Linear(n, hidden))
            self.mlp.add_module(f"act{i}", nn.SELU() if kind == "generic" else nn.ReLU())
        self.basis, n = make_basis(kind, k)
        self.theta_b = nn.Linear(hidden, n, bias=False)
        self.theta_f = self.theta_b if kind == "generic" else nn.Linear(hidden, n, bias=False)
        for m in {self.theta_b, self.theta_f}:
            nn.init.orthogonal_(m.weight, gain=0.5)

    def forward(self, x):
        h = self.mlp(x)
        return self.basis(self.theta_b(h), self.theta_f(h))


class Stack(nn.Module):
    """Blocks share their weights within the interpretable stacks."""

    def __init__(self, kind, repeats, k):
        super().__init__()
        self.kind = kind
        block = Block(kind, k, SETUP["hidden"])
        self.blocks = nn.ModuleList([block] * repeats)

    def forward(self, residual):
        total = 0
        for block in self.blocks:
            back, fore = block(residual)
            residual, total = residual - back, total + fore
        return residual, total


class NBeats(nn.Module):
    def __init__(self):
        super().__init__()
        self.stacks = nn.ModuleList(Stack(*s) for s in SETUP["stacks"])
        self.register_buffer("scale_ema", torch.ones(1))

    def forward(self, x, mask):
        level = (x * mask).abs().sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        level = level.clamp(min=1e-3)
        if self.training:
            with torch.no_grad():
                self.scale_ema.lerp_(level.mean(), 1 - SETUP["ema"])
        residual, parts = torch.flip(x * mask / level, [1]), {}
        for stack in self.stacks:
            residual, parts[stack.kind] = stack(residual)
        forecast = sum(parts.values()) * level
        return {"forecast": forecast, "residual": residual, "parts": parts, "level": level.squeeze(1)}


class Windows(Dataset):
    def __init__(self, series, starts):
        self.s, self.starts = np.asarray(series, np.float32), starts
        d = np.abs(self.s[PERIOD:] - self.s[:-PERIOD])
        self.naive = float(np.nanmean(d))

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        a = self.starts[i]
        w = torch.from_numpy(self.s[a:a + BACK + HORIZON].copy())
        ok = ~w.isnan()
        w = torch.nan_to_num(w)
        return (w[:BACK], ok[:BACK].float(),
                {"y": w[BACK:], "mask": ok[BACK:].float(), "naive": torch.tensor(self.naive)})


def build_model():
    return NBeats()


def build_dataset(split):
    series = json.loads((DATA / "series.json").read_text())
    sets = []
    for s in series:
        s = [math.nan if v is None else v for v in s]
        n = len(s) - BACK - HORIZON + 1
        sets.append(Windows(s, list(range(0, n - 6)) if split == "train" else [n - 4, n - 1]))
    return ConcatDataset(sets)


def build_dataloader(split):
    return DataLoader(build_dataset(split), SETUP["batch"], shuffle=split == "train")


def loss(outputs, labels):
    f, y, m = outputs["forecast"], labels["y"], labels["mask"]
    smape = 2 * (f - y).abs() / (f.detach().abs() + y.abs()).clamp(min=1e-3)
    main = (smape * m).sum() / m.sum().clamp(min=1)
    ridge = outputs["residual"].pow(2).mean()
    return {"loss": main + 0.05 * ridge, "smape": main, "ridge": ridge}


@torch.no_grad()
def metric(outputs, labels):
    err = (outputs["forecast"] - labels["y"]).abs() * labels["mask"]
    n = labels["mask"].sum(1)
    mase = (err.sum(1) / n.clamp(min=1) / labels["naive"])[n > 0].mean()
    share = outputs["parts"]["seasonal"].abs().mean() / sum(v.abs().mean() for v in outputs["parts"].values())
    return {"mase": float(mase), "mae": float(err.sum() / n.sum()), "seasonal_share": float(share)}


def build_optimizer(model):
    return torch.optim.NAdam(model.parameters(), lr=SETUP["lr"], momentum_decay=4e-3)


def build_scheduler(optimizer):
    step = torch.optim.lr_scheduler.StepLR(optimizer, SETUP["step_size"], gamma=0.5)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=8)
    return torch.optim.lr_scheduler.ChainedScheduler([warm, step])


def train_step(model, optimizer, batch):
    """Three micro-batches, their losses averaged; then one update."""
    optimizer.zero_grad()
    chunks = list(zip(*(c.chunk(SETUP["accumulate"]) for c in (batch[0], batch[1], *batch[2].values()))))
    log = 0.0
    for x, m, *rest in chunks:
        value = loss(model(x, m), dict(zip(batch[2], rest)))["loss"] / len(chunks)
        value.backward()
        log += value.item()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), SETUP["clip"])
    optimizer.step()
    return {"loss": log, "norm": norm.item()}


@torch.no_grad()
def predict(path, model):
    s = torch.tensor([math.nan if v is None else v for v in json.loads(Path(path).read_text())["history"]])
    w = s[-BACK:][None]
    model.eval()
    out = model(torch.nan_to_num(w), (~w.isnan()).float())
    return {"forecast": out["forecast"][0].numpy(), **{k: v[0].numpy() for k, v in out["parts"].items()}}
