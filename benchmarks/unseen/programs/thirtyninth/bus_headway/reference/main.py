"""Delay of a bus at each stop of its trip, with its own scale (Laplace likelihood).

A trip is a sequence of stop visits; service alerts of the whole trip are a bag of tags.
"""
import csv
import math
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

PAD_DELAY = -999.0


@dataclass
class FeatureConfig:
    columns: tuple = ("dist_m", "dwell_s", "headway_s")
    centre: tuple = (520.0, 22.0, 480.0)
    spread: tuple = (210.0, 8.0, 120.0)
    alerts: int = 10
    delay_scale: float = 60.0

    @property
    def width(self):
        return len(self.columns) + 2


@dataclass
class ModelConfig:
    hidden: int = 12
    layers: int = 2
    alert_dim: int = 6
    head: int = 20
    dropout: float = 0.1


@dataclass
class OptimConfig:
    lr: float = 4e-3
    bag_lr: float = 1e-3
    weight_decay: float = 0.05
    clip: float = 0.7
    warmup: int = 5
    total: int = 48
    floor: float = 0.05


@dataclass
class Config:
    features: FeatureConfig = field(default_factory=FeatureConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    batch: int = 4


CFG = Config()


def read_trips(path, cfg):
    trips = {}
    with open(path, newline="") as handle:
        for row in csv.DictReader(handle):
            trips.setdefault(row["trip"], []).append(row)
    out = []
    for rows in trips.values():
        rows.sort(key=lambda r: int(r["stop"]))
        x = np.array([[float(r[c]) for c in cfg.columns] for r in rows])
        x = (x - np.array(cfg.centre)) / np.array(cfg.spread)
        angle = np.array([float(r["hour"]) for r in rows]) * (2 * np.pi / 24)
        x = np.concatenate([x, np.sin(angle)[:, None], np.cos(angle)[:, None]], axis=1)
        tags = [int(t) for t in rows[0]["alerts"].split(";") if t]
        y = np.array([float(r["delay_s"]) for r in rows]) / cfg.delay_scale
        out.append((x.astype(np.float32), np.array(tags, dtype=np.int64), y.astype(np.float32)))
    return out


class Trips(Dataset):
    def __init__(self, path, cfg, augment):
        self.trips = read_trips(path, cfg)
        self.augment = augment

    def __len__(self):
        return len(self.trips)

    def __getitem__(self, i):
        x, tags, y = self.trips[i]
        if self.augment:
            rng = np.random.RandomState(900 + i)
            x = x.copy()
            x[:, 2] += rng.normal(0.0, 0.1, size=len(x)).astype(np.float32)
            if len(x) > 4 and rng.rand() < 0.5:
                x, y = x[1:], y[1:]
        return torch.from_numpy(x), torch.from_numpy(tags), torch.from_numpy(y.copy())


def collate(samples):
    xs, tags, ys = zip(*samples)
    lengths = torch.tensor([len(x) for x in xs])
    x = nn.utils.rnn.pad_sequence(xs, batch_first=True)
    y = nn.utils.rnn.pad_sequence(ys, batch_first=True, padding_value=PAD_DELAY)
    width = max(1, max(len(t) for t in tags))
    bag = torch.zeros(len(tags), width, dtype=torch.long)
    for row, t in enumerate(tags):
        bag[row, : len(t)] = t
    return x, lengths, bag, y


class DelayNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        m, f = cfg.model, cfg.features
        self.alerts = nn.EmbeddingBag(f.alerts, m.alert_dim, mode="mean", padding_idx=0)
        self.rnn = nn.GRU(f.width, m.hidden, m.layers, batch_first=True, bidirectional=True)
        width = 4 * m.hidden + m.alert_dim
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(m.dropout)
        self.fc = nn.Linear(width, m.head)
        self.out = nn.Linear(m.head, 2)

    def forward(self, x, lengths, bag):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        seq, last = self.rnn(packed)
        seq, _ = pad_packed_sequence(seq, batch_first=True, total_length=x.size(1))
        trip = torch.cat([last[-2], last[-1], self.alerts(bag)], dim=1)
        trip = trip.unsqueeze(1).expand(-1, x.size(1), -1)
        h = self.norm(torch.cat([seq, trip], dim=2))
        return self.out(F.gelu(self.fc(self.drop(h))))


def build_model():
    return DelayNet(CFG)


def loss(outputs, labels):
    valid = (labels != PAD_DELAY).to(outputs.dtype)
    mu, log_b = outputs[..., 0], outputs[..., 1].clamp(-4, 4)
    nll = (labels - mu).abs() * torch.exp(-log_b) + log_b
    per_trip = (nll * valid).sum(1) / valid.sum(1)
    return per_trip.mean()


def metric(outputs, labels):
    out, y = outputs.detach().cpu().numpy(), labels.cpu().numpy()
    keep = y != PAD_DELAY
    error = np.abs(out[..., 0] - y)[keep] * CFG.features.delay_scale
    cover = error <= np.exp(out[..., 1])[keep] * np.log(5.0) * CFG.features.delay_scale
    return {"mae_s": float(error.mean()), "p90_s": float(np.quantile(error, 0.9)), "cover80": float(cover.mean())}


def build_dataset(split):
    return Trips(f"data/{split}.csv", CFG.features, augment=split == "train")


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=CFG.batch, collate_fn=collate)


def build_optimizer(model):
    o = CFG.optim
    bag, decay, plain = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("alerts"):
            bag.append(p)
        elif p.ndim > 1:
            decay.append(p)
        else:
            plain.append(p)
    return torch.optim.AdamW([
        {"params": decay, "weight_decay": o.weight_decay},
        {"params": plain, "weight_decay": 0.0},
        {"params": bag, "weight_decay": 0.0, "lr": o.bag_lr},
    ], lr=o.lr, betas=(0.9, 0.98), eps=1e-8)


def build_scheduler(optimizer):
    o = CFG.optim

    def factor(step):
        if step < o.warmup:
            return (step + 1) / o.warmup
        t = min(1.0, (step - o.warmup) / (o.total - o.warmup))
        return o.floor + (1 - o.floor) * 0.5 * (1 + math.cos(math.pi * t))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    x, lengths, bag, y = batch
    optimizer.zero_grad()
    value = loss(model(x, lengths, bag), y)
    value.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), CFG.optim.clip)
    optimizer.step()
    return {"loss": value.detach(), "norm": norm}


def predict(path, model):
    x, lengths, bag, _ = collate(list(Trips(path, CFG.features, augment=False)))
    like = next(model.parameters())
    with torch.no_grad():
        out = model(x.to(like.dtype), lengths, bag)
    mask = torch.arange(x.size(1))[None] < lengths[:, None]
    return (out[..., 0][mask] * CFG.features.delay_scale).cpu().numpy()
