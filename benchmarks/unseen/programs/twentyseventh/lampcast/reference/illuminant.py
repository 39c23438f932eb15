"""Colour constancy: estimate the colour of the lamp from a raw-ish photograph."""
import csv
import json
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Sampler

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data")
GRID = (16, 20)
BATCH = 5
BASE_LR = 0.02
WARMUP = 9
TOTAL = 120

BLOCKS = {}


def register(name):
    def deco(cls):
        BLOCKS[name] = cls
        return cls

    return deco


# ------------------------------------------------------------------ blocks
@register("stem")
class Stem(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, 3, padding=1, padding_mode="replicate", bias=False)
        self.norm = nn.BatchNorm2d(c_out, eps=1e-3, momentum=0.05)
        self.act = nn.PReLU(c_out, init=0.2)

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


@register("fire")
class Fire(nn.Module):
    def __init__(self, c_in, c_out, squeeze=6, groups=2):
        super().__init__()
        self.groups = groups
        half = c_out // 2
        self.squeeze = nn.Conv2d(c_in, squeeze, 1)
        self.act = nn.PReLU(squeeze, init=0.2)
        self.expand1 = nn.Conv2d(squeeze, half, 1, bias=False)
        self.expand3 = nn.Conv2d(squeeze, half, 3, padding=1, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(c_out, eps=1e-3, momentum=0.05)

    def forward(self, x):
        s = self.act(self.squeeze(x))
        y = torch.cat([self.expand1(s), self.expand3(s)], dim=1)
        b, c, h, w = y.shape
        y = y.view(b, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(b, c, h, w)
        y = self.norm(y)
        if y.shape == x.shape:
            y = y + x
        return F.leaky_relu(y, 0.1)


@register("pool")
class Pool(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.pool = nn.AvgPool2d(3, stride=2, padding=1)

    def forward(self, x):
        return self.pool(x)


@register("excite")
class Excite(nn.Module):
    def __init__(self, c_in, c_out, ratio=4):
        super().__init__()
        self.down = nn.Linear(c_in, c_in // ratio)
        self.up = nn.Linear(c_in // ratio, c_out)

    def forward(self, x):
        z = x.mean(dim=(2, 3))
        z = F.hardsigmoid(self.up(F.relu(self.down(z))))
        return x * z[:, :, None, None]


PLAN = [("stem", 3, 12), ("fire", 12, 16), ("pool", 16, 16), ("fire", 16, 16), ("excite", 16, 16)]


class LampNet(nn.Module):
    def __init__(self, plan=PLAN, cameras=3):
        super().__init__()
        self.trunk = nn.ModuleList([BLOCKS[kind](a, b) for kind, a, b in plan])
        width = plan[-1][2]
        self.film = nn.Linear(cameras, 2 * width)
        self.head = nn.Conv2d(width, 4, 1)
        self.reset()

    def reset(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, a=0.2, mode="fan_out", nonlinearity="leaky_relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight, gain=0.5)
                nn.init.constant_(m.bias, 0.01)
        nn.init.trunc_normal_(self.head.weight, std=0.05, a=-0.1, b=0.1)
        with torch.no_grad():
            self.head.bias.copy_(torch.tensor([0.5, 0.7, 0.4, -1.0]))

    def forward(self, image, camera):
        x = image
        for block in self.trunk:
            x = block(x)
        gamma, beta = self.film(camera).chunk(2, dim=1)
        x = x * (1 + gamma[:, :, None, None]) + beta[:, :, None, None]
        y = self.head(x)
        local = F.normalize(F.softplus(y[:, :3]), dim=1)
        conf = torch.sigmoid(y[:, 3:])
        pooled = (local * conf).sum(dim=(2, 3)) / conf.sum(dim=(2, 3))
        return {"illum": F.normalize(pooled, dim=1), "local": local, "conf": conf.squeeze(1)}


def build_model():
    return LampNet()


# -------------------------------------------------------------------- data
def read_linear(path, camera, limit):
    raw = torch.from_numpy(np.array(Image.open(path).convert("RGB"), dtype=np.float32))
    clipped = (raw >= limit).any(dim=2, keepdim=True)
    lin = ((raw - camera["black"]).clamp(min=0) / (255.0 - camera["black"])) ** 2.2
    lin = lin / torch.tensor(camera["gain"])
    lin = torch.where(clipped, torch.zeros_like(lin), lin)
    return lin.permute(2, 0, 1)


def expose(lin):
    top = torch.quantile(lin.reshape(-1), 0.95)
    return lin / (top + 1e-4)


class Shots(Dataset):
    def __init__(self, split):
        with open(os.path.join(DATA, "cameras.json")) as f:
            spec = json.load(f)
        self.cameras = spec["cameras"]
        self.limit = spec["saturation"]
        self.names = [c["name"] for c in self.cameras]
        with open(os.path.join(DATA, "shots.csv")) as f:
            self.rows = [r for r in csv.DictReader(f) if r["split"] == split]
        self.rows.sort(key=lambda r: r["file"])
        self.flip = split == "train"

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        k = self.names.index(row["camera"])
        x = expose(read_linear(os.path.join(DATA, row["file"]), self.cameras[k], self.limit))
        if self.flip and i % 3 == 2:
            x = x.flip(-1)
        lamp = torch.tensor([float(row[c]) for c in "rgb"])
        lamp = lamp / lamp.norm()
        onehot = F.one_hot(torch.tensor(k), len(self.names)).float()
        weight = torch.tensor(math.sqrt(int(row["votes"])), dtype=torch.float32)
        return x.contiguous(), onehot, {"illum": lamp, "weight": weight}


class FixedOrder(Sampler):
    def __init__(self, n, seed):
        self.order = np.random.RandomState(seed).permutation(n).tolist()

    def __iter__(self):
        return iter(self.order)

    def __len__(self):
        return len(self.order)


def build_dataset(split):
    return Shots(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        return DataLoader(ds, batch_size=BATCH, sampler=FixedOrder(len(ds), 77), drop_last=True)
    return DataLoader(ds, batch_size=8)


# ---------------------------------------------------------- loss and metric
def angle(a, b):
    cross = torch.linalg.cross(a, b, dim=1)
    return torch.atan2((cross.pow(2).sum(dim=1) + 1e-10).sqrt(), (a * b).sum(dim=1))


def loss(outputs, labels):
    w = labels["weight"]
    ang = (w * angle(outputs["illum"], labels["illum"])).sum() / w.sum()
    loc = outputs["local"]
    tv = (loc[..., 1:, :] - loc[..., :-1, :]).abs().mean() + (loc[..., 1:] - loc[..., :-1]).abs().mean()
    p = outputs["conf"].flatten(1)
    p = p / p.sum(dim=1, keepdim=True)
    entropy = -(p * torch.log(p + 1e-8)).sum(dim=1).mean() / math.log(p.shape[1])
    return {"loss": ang + 0.1 * tv + 0.02 * (1 - entropy), "angular": ang, "tv": tv, "entropy": entropy}


def metric(outputs, labels):
    with torch.no_grad():
        est, gt = outputs["illum"].double(), labels["illum"].double()
        deg = torch.rad2deg(angle(est, gt))
        ratio = F.normalize(gt / est.clamp(min=1e-6), dim=1)
        white = torch.full_like(ratio, 1 / math.sqrt(3))
        rep = torch.rad2deg(angle(ratio, white))
        q = torch.quantile(deg, torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
        k = max(1, math.ceil(0.25 * deg.numel()))
        worst = torch.sort(deg, descending=True).values[:k].mean()
        return {
            "mean": float(deg.mean()),
            "median": float(q[1]),
            "trimean": float((q[0] + 2 * q[1] + q[2]) / 4),
            "worst25": float(worst),
            "reproduction": float(rep.mean()),
            "spread": float(deg.std()) if deg.numel() > 1 else 0.0,
        }


# ---------------------------------------------------------------- training
def build_optimizer(model):
    head, decay, plain = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("head."):
            head.append(p)
        elif p.dim() > 1:
            decay.append(p)
        else:
            plain.append(p)
    return torch.optim.SGD(
        [
            {"params": decay, "weight_decay": 5e-3},
            {"params": plain, "weight_decay": 0.0},
            {"params": head, "weight_decay": 1e-3, "lr": 2 * BASE_LR},
        ],
        lr=BASE_LR,
        momentum=0.85,
        nesterov=True,
    )


def build_scheduler(optimizer):
    def factor(step):
        if step < WARMUP:
            return 0.1 + 0.9 * step / WARMUP
        t = min(step - WARMUP, TOTAL - WARMUP) / (TOTAL - WARMUP)
        return 0.04 + 0.96 * (1 - t) ** 1.5

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    image, camera, labels = batch
    model.train()
    optimizer.zero_grad()
    parts = loss(model(image, camera), labels)
    parts["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.6)
    optimizer.step()
    return {"loss": parts["loss"].detach(), "angular": parts["angular"].detach(), "grad_norm": norm.detach()}


# --------------------------------------------------------------- inference
def predict(path, model):
    with open(path) as f:
        job = json.load(f)
    with open(os.path.join(DATA, "cameras.json")) as f:
        spec = json.load(f)
    names = [c["name"] for c in spec["cameras"]]
    k = names.index(job["camera"])
    folder = os.path.dirname(os.path.abspath(path))
    lin = read_linear(os.path.join(folder, job["image"]), spec["cameras"][k], spec["saturation"])
    model.eval()
    with torch.no_grad():
        small = F.adaptive_avg_pool2d(lin.unsqueeze(0), GRID)
        out = model(expose(small), F.one_hot(torch.tensor([k]), len(names)).float())
        lamp = out["illum"][0]
        gains = lamp[1] / lamp
        fixed = (lin * gains[:, None, None]).clamp(0, 1) ** (1 / 2.2)
        conf = out["conf"][0]
        cells = conf.flatten().topk(job["cells"]).indices
    ratio = float(lamp[0] / lamp[2])
    tone = "warm" if ratio > 1.1 else "cool" if ratio < 0.9 else "neutral"
    w = conf.shape[1]
    return {
        "illuminant": lamp.numpy(),
        "corrected": fixed.permute(1, 2, 0).numpy(),
        "cells": [[int(c) // w, int(c) % w] for c in cells],
        "red_blue": [ratio],
        "tone": tone,
    }
