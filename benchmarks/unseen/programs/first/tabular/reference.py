"""Tabular regression with periodic embeddings (diabetes progression)."""
import csv
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NUM = ["age", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]


class Diabetes(Dataset):
    def __init__(self, path, split):
        with open(path) as f:
            rows = list(csv.DictReader(f))
        train = [r for i, r in enumerate(rows) if i % 5 != 0]
        mine = train if split == "train" else [r for i, r in enumerate(rows) if i % 5 == 0]
        x = np.array([[float(r[c]) for c in NUM] for r in train])
        y = np.array([float(r["target"]) for r in train])
        self.mean, self.std = x.mean(0), x.std(0, ddof=1)
        self.y_mean, self.y_std = y.mean(), y.std(ddof=1)
        self.rows = mine

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        x = np.array([float(r[c]) for c in NUM])
        x = (x - self.mean) / self.std
        x = np.clip(x, -2.5, 2.5)
        cat = int(float(r["sex"])) - 1
        y = (float(r["target"]) - self.y_mean) / self.y_std
        return x.astype(np.float32), np.int64(cat), np.float32(y)


def collate(batch):
    x, c, y = zip(*batch)
    return torch.from_numpy(np.stack(x)), torch.tensor(np.array(c)), torch.tensor(np.array(y))


def build_dataset(split):
    return Diabetes("data/diabetes.csv", split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=32, shuffle=False, collate_fn=collate)


class PLR(nn.Module):
    """x -> ReLU(Linear(sin(2 pi c x), cos(2 pi c x))), one set of frequencies per feature"""

    def __init__(self, n, k=6, d=8, sigma=0.3):
        super().__init__()
        self.coef = nn.Parameter(torch.randn(n, k) * sigma)
        self.weight = nn.Parameter(torch.randn(n, 2 * k, d) / math.sqrt(2 * k))
        self.bias = nn.Parameter(torch.zeros(n, d))

    def forward(self, x):
        v = 2 * math.pi * self.coef * x[..., None]
        v = torch.cat([torch.sin(v), torch.cos(v)], -1)
        return F.relu((v[..., None, :] @ self.weight).squeeze(-2) + self.bias)


class ResBlock(nn.Module):
    def __init__(self, d, h, p):
        super().__init__()
        self.norm = nn.BatchNorm1d(d)
        self.lin1 = nn.Linear(d, h)
        self.lin2 = nn.Linear(h, d)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        return x + self.drop(self.lin2(F.silu(self.lin1(self.norm(x)))))


class TabNet(nn.Module):
    def __init__(self, n_num=9, n_cat=2, d=24, blocks=2):
        super().__init__()
        self.plr = PLR(n_num)
        self.cat = nn.Embedding(n_cat, 4)
        self.first = nn.Linear(n_num * 8 + 4, d)
        self.blocks = nn.ModuleList([ResBlock(d, 2 * d, 0.1) for _ in range(blocks)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, 1)
        self.wide = nn.Linear(n_num, 1, bias=False)

    def forward(self, x, cat):
        h = torch.cat([self.plr(x).flatten(1), self.cat(cat)], 1)
        h = self.first(h)
        for b in self.blocks:
            h = b(h)
        return (self.head(F.leaky_relu(self.norm(h))) + self.wide(x)).squeeze(1)


def build_model():
    return TabNet()


def loss(out, y):
    return F.huber_loss(out, y, delta=0.5)


def metric(out, y):
    out, y = out.detach().double().numpy(), y.detach().double().numpy()
    res = y - out
    return {
        "mae": float(np.abs(res).mean()),
        "explained_variance": float(1 - res.var() / y.var()),
        "r2": float(1 - (res ** 2).sum() / ((y - y.mean()) ** 2).sum()),
        "median_ae": float(np.median(np.abs(res))),
    }


class TwoOptimizers:
    """AdamW on the deep part, SGD on embeddings and the wide part"""

    def __init__(self, model):
        fast = [p for n, p in model.named_parameters() if n.startswith(("plr", "cat", "wide"))]
        ids = {id(p) for p in fast}
        rest = [p for p in model.parameters() if id(p) not in ids]
        self.sgd = torch.optim.SGD(fast, lr=0.05, momentum=0.9, nesterov=True)
        self.adam = torch.optim.AdamW(rest, lr=2e-3, weight_decay=0.05, betas=(0.9, 0.98))

    def zero_grad(self, set_to_none=True):
        self.sgd.zero_grad(set_to_none)
        self.adam.zero_grad(set_to_none)

    def step(self):
        self.sgd.step()
        self.adam.step()


class TwoSchedulers:
    def __init__(self, opt):
        self.a = torch.optim.lr_scheduler.CosineAnnealingLR(opt.adam, T_max=20, eta_min=1e-4)
        self.b = torch.optim.lr_scheduler.MultiStepLR(opt.sgd, [6, 11], gamma=0.3)

    def step(self):
        self.a.step()
        self.b.step()


def build_optimizer(model):
    return TwoOptimizers(model)


def build_scheduler(opt):
    return TwoSchedulers(opt)
