"""Quantiles of the next six hours' departures at bike docks."""
import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tables  # noqa: E402

LEVELS = (0.1, 0.5, 0.9)
HIDDEN = 16


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.zone = nn.Embedding(len(tables.ZONES), 4)
        self.rnn = nn.GRU(8, HIDDEN, batch_first=True)
        self.score = nn.Linear(HIDDEN, 1, bias=False)
        self.step = nn.Linear(len(tables.KNOWN), HIDDEN)
        self.merge = nn.Linear(2 * HIDDEN + 4, 24)
        self.out = nn.Linear(24, len(LEVELS))
        nn.init.normal_(self.zone.weight, std=0.2)
        nn.init.xavier_normal_(self.merge.weight)
        nn.init.zeros_(self.merge.bias)
        nn.init.uniform_(self.out.weight, -0.05, 0.05)
        nn.init.constant_(self.out.bias, 0.1)

    def forward(self, past, future, zone):
        h, last = self.rnn(past)
        q = self.step(future)                                    # B,A,H
        att = torch.einsum("bah,bth->bat", q, h) / HIDDEN ** 0.5 + self.score(h).transpose(1, 2)
        ctx = torch.einsum("bat,bth->bah", att.softmax(dim=-1), h)
        n = q.shape[1]
        z = torch.cat([ctx + q, last[-1][:, None].expand(-1, n, -1), self.zone(zone)[:, None].expand(-1, n, -1)], dim=-1)
        raw = self.out(F.silu(self.merge(z)))
        low = raw[..., :1]
        steps = F.softplus(raw[..., 1:], beta=2.0)
        return {"quantiles": torch.cat([low, low + steps.cumsum(dim=-1)], dim=-1), "attention": att.softmax(-1)}


def build_model():
    return Net()


class Windows(Dataset):
    def __init__(self, split):
        self.samples = tables.windows(split)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        s = self.samples[i]
        labels = {"y": torch.from_numpy(s["y"]), "seen": torch.from_numpy(s["seen"]), "cap": torch.tensor(s["cap"])}
        return torch.from_numpy(s["past"]), torch.from_numpy(s["future"]), torch.tensor(s["zone"]), labels


class Weighted(Sampler):
    """Weighted draw without replacement, another one every epoch."""

    def __init__(self, samples, count, seed=404):
        self.p, self.count, self.seed, self.epoch = tables.zone_weights(samples), count, seed, 0

    def __len__(self):
        return self.count

    def __iter__(self):
        rng = np.random.default_rng(self.seed + self.epoch)
        self.epoch += 1
        keys = np.log(rng.random(len(self.p))) / self.p
        return iter(np.argsort(-keys, kind="stable")[: self.count].tolist())


def build_dataset(split):
    return Windows(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        return DataLoader(ds, batch_size=14, sampler=Weighted(ds.samples, 140))
    return DataLoader(ds, batch_size=18)


def pinball(q, y, levels):
    d = y.unsqueeze(-1) - q
    return torch.maximum(levels * d, (levels - 1) * d)


def loss(outputs, labels):
    levels = torch.tensor(LEVELS)
    per = pinball(outputs["quantiles"], labels["y"], levels) @ torch.tensor([0.3, 0.4, 0.3])
    horizon = torch.linspace(1.0, 0.5, per.shape[1])
    w = labels["seen"] * horizon * torch.sqrt(labels["cap"] / 25.0)[:, None]
    fit = (per * w).sum() / (w.sum() + 1e-6)
    spread = outputs["attention"].pow(2).sum(-1).mean()
    return {"loss": fit + 0.01 * spread, "fit": fit, "spread": spread}


@torch.no_grad()
def metric(outputs, labels):
    cap, seen = labels["cap"][:, None], labels["seen"]
    q = (outputs["quantiles"] * cap[..., None]).clamp(min=0.0)
    y = labels["y"] * cap
    n = seen.sum().clamp(min=1.0)
    err = (q[..., 1] - y) * seen
    inside = ((y >= q[..., 0]) & (y <= q[..., 2])).float() * seen
    width = (q[..., 2] - q[..., 0]) * seen
    return {
        "mae": float(err.abs().sum() / n),
        "rmse": float((err.pow(2).sum() / n).sqrt()),
        "bias": float(err.sum() / n),
        "coverage": float(inside.sum() / n),
        "width": float(width.sum() / n),
        "spread_between": float(y[seen > 0].std()),
    }


def build_optimizer(model):
    emb = [model.zone.weight]
    rest = [p for n, p in model.named_parameters() if n != "zone.weight"]
    return torch.optim.RMSprop(
        [{"params": rest}, {"params": emb, "lr": 2e-3}], lr=4e-3, alpha=0.95, eps=1e-4, momentum=0.6, weight_decay=1e-3)


build_scheduler = partial(torch.optim.lr_scheduler.MultiStepLR, milestones=[3, 5, 6], gamma=0.4)


def train_step(model, optimizer, batch):
    model.train()
    past, future, zone, labels = batch
    parts = loss(model(past, future, zone), labels)
    optimizer.zero_grad()
    parts["loss"].backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.05)
    optimizer.step()
    return {k: float(v.detach()) for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    job = json.loads(Path(path).read_text())
    full = tables.hourly()
    n = tables.PAST + tables.AHEAD
    stat = full[full["station"] == job["station"]].iloc[0]
    pad = [np.nan] * tables.AHEAD
    df = pd.DataFrame({"hour": range(job["first_hour"], job["first_hour"] + n), "temp": job["temp"], "rain": job["rain"]})
    df["departures"] = np.array(job["departures"] + pad, dtype=float)
    df["arrivals"] = np.array(job["arrivals"] + pad, dtype=float)
    df["seen"] = df["departures"].notna().astype(float)
    for c in ("departures", "arrivals"):
        df[c] = df[c].ffill(limit=2).fillna(0.0)
    x = tables.features(df, tables.fit_scaler(full))
    past = torch.tensor(x.iloc[: tables.PAST].to_numpy("float32"))[None]
    future = torch.tensor(x[tables.KNOWN].iloc[tables.PAST:].to_numpy("float32"))[None]
    zone = torch.tensor([tables.ZONES.index(stat["zone"])])
    q = model(past, future, zone)["quantiles"][0].clamp(min=0.0).numpy() * float(stat["capacity"])
    peak = int(df["hour"].iloc[tables.PAST + q[:, 1].argmax()]) % 24
    return {"quantiles": q, "total": q[:, 1].sum(), "peak_hour": np.array(peak), "text": f"{job['station']} peaks at {peak:02d}h"}
