"""Supervised momentum contrast on bird-call spectrograms (PyTorch)."""
import copy
import csv
import math
from dataclasses import dataclass
from typing import Tuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass(frozen=True)
class StageCfg:
    width: int
    stride: int
    dilation: int = 1


@dataclass(frozen=True)
class EncoderCfg:
    stem: int = 8
    stages: Tuple[StageCfg, ...] = (StageCfg(16, 2), StageCfg(24, 1, 2))
    groups: int = 4
    embed: int = 16


@dataclass(frozen=True)
class MocoCfg:
    bank: int = 14
    momentum: float = 0.95
    temperature: float = 0.15


@dataclass(frozen=True)
class OptimCfg:
    lr: float = 0.08
    decay: float = 1e-3
    warmup: int = 6
    total: int = 40
    floor: float = 0.02


@dataclass(frozen=True)
class Config:
    encoder: EncoderCfg = EncoderCfg()
    moco: MocoCfg = MocoCfg()
    optim: OptimCfg = OptimCfg()
    frames: int = 32
    batch: int = 4


CFG = Config()
SPECIES = {"wren": 0, "robin": 1, "finch": 2}


class SqueezeExcite(nn.Module):
    def __init__(self, width, reduce=4):
        super().__init__()
        self.down = nn.Conv2d(width, width // reduce, 1)
        self.up = nn.Conv2d(width // reduce, width, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class Separable(nn.Module):
    def __init__(self, cin, cfg: StageCfg, groups):
        super().__init__()
        self.depth = nn.Conv2d(cin, cin, 3, cfg.stride, cfg.dilation, cfg.dilation, groups=cin, bias=False)
        self.norm1 = nn.GroupNorm(groups, cin)
        self.point = nn.Conv2d(cin, cfg.width, 1, bias=False)
        self.norm2 = nn.GroupNorm(groups, cfg.width)
        self.se = SqueezeExcite(cfg.width)

    def forward(self, x):
        x = F.silu(self.norm1(self.depth(x)))
        return self.se(F.silu(self.norm2(self.point(x))))


class Encoder(nn.Module):
    def __init__(self, cfg: EncoderCfg):
        super().__init__()
        self.stem = nn.Conv2d(1, cfg.stem, 3, 2, 1)
        ins = [cfg.stem] + [s.width for s in cfg.stages]
        self.blocks = nn.Sequential(*[Separable(w, s, cfg.groups) for w, s in zip(ins, cfg.stages)])
        self.pool = nn.AdaptiveAvgPool2d((2, 1))
        self.fc1, self.fc2 = nn.Linear(2 * ins[-1], 32), nn.Linear(32, cfg.embed)

    def forward(self, x):
        x = self.pool(self.blocks(F.silu(self.stem(x)))).flatten(1)
        return F.normalize(self.fc2(F.relu(self.fc1(x))), dim=1)


class Moco(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg.moco
        self.query = Encoder(cfg.encoder)
        self.key = copy.deepcopy(self.query)
        for p in self.key.parameters():
            p.requires_grad = False
        self.register_buffer("bank", F.normalize(torch.randn(cfg.moco.bank, cfg.encoder.embed), dim=1))
        self.register_buffer("bank_species", torch.full((cfg.moco.bank,), -1, dtype=torch.long))
        self.register_buffer("cursor", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def follow(self):
        m = self.cfg.momentum
        for k, q in zip(self.key.parameters(), self.query.parameters()):
            k.mul_(m).add_(q, alpha=1 - m)

    @torch.no_grad()
    def enqueue(self, keys, species):
        n = self.cfg.bank
        at = (self.cursor + torch.arange(len(keys))) % n
        self.bank[at] = keys
        self.bank_species[at] = species
        self.cursor[0] = (self.cursor[0] + len(keys)) % n

    def forward(self, view_q, view_k):
        with torch.no_grad():
            keys = self.key(view_k)
        return {"query": self.query(view_q), "keys": keys,
                "bank": self.bank.clone(), "bank_species": self.bank_species.clone()}


def build_model():
    return Moco(CFG)


def loss(outputs, labels):
    candidates = torch.cat([outputs["keys"], outputs["bank"]])
    species = torch.cat([labels, outputs["bank_species"]])
    logits = outputs["query"] @ candidates.t() / CFG.moco.temperature
    positive = (labels[:, None] == species[None]).to(logits.dtype)
    logp = F.log_softmax(logits, dim=1)
    return -((logp * positive).sum(1) / positive.sum(1)).mean()


def metric(outputs, labels):
    q, k = (outputs[n].detach().cpu().numpy().astype(np.float64) for n in ("query", "keys"))
    y = labels.cpu().numpy()
    d = ((q[:, None] - q[None]) ** 2).sum(-1)
    upper = np.triu_indices(len(q), 1)
    uniformity = np.log(np.exp(-2 * d[upper]).mean()) if len(q) > 1 else 0.0
    same = y[(q @ k.T - 10 * np.eye(len(q))).argmax(1)] == y
    return {"alignment": float(((q - k) ** 2).sum(1).mean()), "uniformity": float(uniformity), "neighbour": float(same.mean())}


class Calls(Dataset):
    def __init__(self, split):
        self.rows = [r for r in csv.DictReader(open("data/meta.csv")) if r["split"] == split]
        self.split = split

    def __len__(self):
        return len(self.rows)

    def view(self, x, rng):
        if self.split == "train":
            start = rng.randint(0, x.shape[1] - CFG.frames + 1)
            x = x[:, start:start + CFG.frames] * np.float32(rng.uniform(0.8, 1.25))
            low = rng.randint(0, x.shape[0] - 3)
            x[low:low + 3] = x.mean()
        else:
            start = (x.shape[1] - CFG.frames) // 2 + rng.randint(0, 4)
            x = x[:, start:start + CFG.frames].copy()
        return ((x - x.mean()) / (x.std() + np.float32(1e-5)))[None]

    def __getitem__(self, i):
        row = self.rows[i]
        x = np.load("data/calls/" + row["file"])
        rng = np.random.RandomState(1000 + i)
        return self.view(x, rng), self.view(x, rng), SPECIES[row["species"]]


def build_dataset(split):
    return Calls(split)


def build_dataloader(split):
    return DataLoader(Calls(split), CFG.batch, shuffle=False, drop_last=split == "train")


def build_optimizer(model):
    return torch.optim.SGD([{"params": [p for p in model.query.parameters() if p.ndim > 1], "weight_decay": CFG.optim.decay},
                            {"params": [p for p in model.query.parameters() if p.ndim <= 1], "weight_decay": 0.0}],
                           lr=CFG.optim.lr, momentum=0.875, nesterov=True)


def build_scheduler(optimizer):
    o = CFG.optim

    def factor(step):
        if step < o.warmup:
            return (step + 1) / o.warmup
        t = min(1.0, (step - o.warmup) / (o.total - o.warmup))
        return o.floor + (1 - o.floor) * 0.5 * (1 + math.cos(math.pi * t))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    view_q, view_k, species = batch
    model.follow()
    optimizer.zero_grad()
    outputs = model(view_q, view_k)
    value = loss(outputs, species)
    value.backward()
    optimizer.step()
    model.enqueue(outputs["keys"], species)
    return value


def predict(path, model):
    x = np.load(path)[:, :CFG.frames]
    x = ((x - x.mean()) / (x.std() + np.float32(1e-5)))[None, None]
    with torch.no_grad():
        return model.query(torch.from_numpy(x).to(model.bank.dtype))[0].numpy()
