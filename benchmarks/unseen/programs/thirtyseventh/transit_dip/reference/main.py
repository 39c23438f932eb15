"""Classify light curves of stars: quiet, planet (box shaped dip), eclipsing pair (round dip)."""
import csv
import math
import os
from dataclasses import dataclass, field
from typing import Tuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass(frozen=True)
class NetConfig:
    width: int = 12
    dilations: Tuple[int, ...] = (1, 2, 4, 8)
    groups: int = 3
    pooled: int = 7
    hidden: int = 20
    classes: int = 3


@dataclass(frozen=True)
class TrainConfig:
    batch: int = 8
    rate: float = 3e-3
    head_times: float = 5.0
    decay: float = 0.05
    warmup: int = 6
    total: int = 36
    floor: float = 0.05
    smoothing: float = 0.1
    class_weights: Tuple[float, ...] = (0.6, 1.0, 1.7)


@dataclass(frozen=True)
class Config:
    net: NetConfig = field(default_factory=NetConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


CFG = Config()


class DilatedBlock(nn.Module):
    def __init__(self, cfg: NetConfig, dilation: int):
        super().__init__()
        self.conv = nn.utils.weight_norm(
            nn.Conv1d(cfg.width, cfg.width, 3, padding=dilation, dilation=dilation, groups=cfg.groups))
        self.norm = nn.GroupNorm(cfg.groups, cfg.width)
        self.mix = nn.Conv1d(cfg.width, cfg.width, 1)

    def forward(self, x):
        h = F.gelu(self.norm(self.conv(x)))
        return x + self.mix(h)


class DipNet(nn.Module):
    def __init__(self, cfg: NetConfig):
        super().__init__()
        self.stem = nn.Conv1d(2, cfg.width, 5, stride=2, padding=2, padding_mode="replicate")
        self.blocks = nn.ModuleList(DilatedBlock(cfg, d) for d in cfg.dilations)
        self.average = nn.AdaptiveAvgPool1d(cfg.pooled)
        self.largest = nn.AdaptiveMaxPool1d(cfg.pooled)
        self.hidden = nn.Linear(2 * cfg.width * cfg.pooled, cfg.hidden)
        self.norm = nn.LayerNorm(cfg.hidden, eps=1e-6)
        self.head = nn.Linear(cfg.hidden, cfg.classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = torch.cat([self.average(x), self.largest(x)], dim=1).flatten(1)
        return self.head(F.leaky_relu(self.norm(self.hidden(x))))


class Curves(Dataset):
    def __init__(self, split):
        self.train = split == "train"
        with open(os.path.join(HERE, "data", split + ".csv")) as f:
            rows = list(csv.reader(f))[1:]
        self.kinds = np.array([int(r[0]) for r in rows], dtype=np.int64)
        self.flux = np.array([[float(v) for v in r[1:]] for r in rows], dtype=np.float32)

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, i):
        x = self.flux[i]
        if self.train:
            rng = np.random.RandomState(1000 + i)
            x = np.roll(x, rng.randint(-5, 6))
            if rng.rand() < 0.5:
                x = x[::-1]
        x = (x - np.median(x)) / (x.std() + np.float32(1e-6))
        slope = np.diff(x, prepend=x[:1])
        return np.stack([x, slope]).astype(np.float32), self.kinds[i]


def build_model():
    return DipNet(CFG.net)


def build_dataset(split):
    return Curves(split)


def build_dataloader(split):
    return DataLoader(Curves(split), batch_size=CFG.train.batch, drop_last=split == "train")


def loss(outputs, labels):
    weight = torch.tensor(CFG.train.class_weights, dtype=outputs.dtype, device=outputs.device)
    return F.cross_entropy(outputs, labels, weight=weight, label_smoothing=CFG.train.smoothing)


def metric(outputs, labels):
    guess = outputs.detach().cpu().numpy().argmax(1)
    truth = labels.cpu().numpy()
    scores = []
    for k in range(CFG.net.classes):
        hit = np.sum((guess == k) & (truth == k))
        total = np.sum(guess == k) + np.sum(truth == k)
        scores.append(2.0 * hit / total if total else 0.0)
    return {"macro_f1": float(np.mean(scores)), "accuracy": float(np.mean(guess == truth))}


def build_optimizer(model):
    t = CFG.train
    plain, decayed, head = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("head."):
            head.append(p)
        elif p.ndim == 1 or name.endswith("_g"):
            plain.append(p)
        else:
            decayed.append(p)
    return torch.optim.AdamW([
        {"params": decayed, "weight_decay": t.decay},
        {"params": plain, "weight_decay": 0.0},
        {"params": head, "lr": t.rate * t.head_times, "weight_decay": t.decay},
    ], lr=t.rate, betas=(0.9, 0.98))


def build_scheduler(optimizer):
    t = CFG.train

    def factor(step):
        if step < t.warmup:
            return (step + 1) / t.warmup
        part = min(1.0, (step - t.warmup) / (t.total - t.warmup))
        return t.floor + (1 - t.floor) * 0.5 * (1 + math.cos(math.pi * part))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
