"""Quantiles of soil carbon from twelve soil and terrain values; a script with globals and closures."""
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEVELS = [0.1, 0.5, 0.9]
INPUTS, WIDTH, TEMPERATURE = 12, 16, 0.7
LOW, HIGH, HALF = 5e-4, 6e-3, 7
CLIP = 0.02
noisy = True


def gumbel_like(x):
    u = torch.rand_like(x).clamp(1e-6, 1 - 1e-6)
    return -torch.log(-torch.log(u))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(4, INPUTS))

    def forward(self, x):
        z = self.logits
        if self.training and noisy:
            z = z + gumbel_like(z)
        choice = (z / TEMPERATURE).softmax(-1)
        return torch.cat([x * choice.sum(0), x @ choice.t()], -1)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.a = nn.Linear(WIDTH, WIDTH)
        self.b = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        h = self.norm(x)
        return x + self.b(F.softplus(self.a(h), beta=2.0))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()
        self.enter = nn.Linear(INPUTS + 4, WIDTH)
        self.middle = nn.Sequential(Residual(), Residual())
        self.leave = nn.Linear(WIDTH, len(LEVELS))

    def forward(self, x):
        y = self.leave(self.middle(self.enter(self.gate(x))))
        return torch.cat([y[:, :1], y[:, :1] + F.softplus(y[:, 1:]).cumsum(1)], 1)   # never crossing


class Samples(torch.utils.data.Dataset):
    def __init__(self, split):
        self.x = np.load(os.path.join(HERE, "data", split + "_x.npy"))
        self.y = np.load(os.path.join(HERE, "data", split + "_y.npy"))
        train = np.load(os.path.join(HERE, "data", "train_x.npy"))
        self.mean, self.std = train.mean(0), train.std(0, ddof=1)
        self.jitter = split == "train"

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = (self.x[i] - self.mean) / self.std
        if self.jitter:
            rng = np.random.RandomState(i)
            x = np.where(rng.rand(INPUTS) < 0.1, 0, x).astype(np.float32)
        return x, self.y[i:i + 1]


def build_model():
    return Net()


def build_dataset(split):
    return Samples(split)


def build_dataloader(split):
    return torch.utils.data.DataLoader(Samples(split), batch_size=8)


def make_pinball(levels):
    def pinball(outputs, labels):
        q = torch.tensor(levels, dtype=outputs.dtype)
        error = labels - outputs
        return torch.maximum(q * error, (q - 1) * error).sum(1).mean()
    return pinball


loss = make_pinball(LEVELS)


def metric(outputs, labels):
    o, y = outputs.detach().numpy(), labels.numpy()[:, 0]
    inside = (y >= o[:, 0]) & (y <= o[:, 2])
    return {"coverage": float(inside.mean()), "mae": float(np.abs(o[:, 1] - y).astype(np.float64).mean())}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=HIGH, weight_decay=1e-3)


def build_scheduler(optimizer):
    def triangle(step):
        cycle = step // (2 * HALF)
        part = abs(step / HALF - 2 * cycle - 1)
        return (LOW + (HIGH - LOW) * (1 - part) * math.pow(0.8, cycle)) / HIGH
    return torch.optim.lr_scheduler.LambdaLR(optimizer, triangle)


def train_step(model, optimizer, batch):
    x, y = batch
    optimizer.zero_grad(set_to_none=True)
    value = loss(model(x), y)
    value.backward()
    nn.utils.clip_grad_value_(model.parameters(), CLIP)
    optimizer.step()
    return value.detach()
