"""DeepONet (Lu et al., 2021): learn the antiderivative operator. LAMB written out."""
import json
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
SENSORS, WIDTH, BASIS, FREQS = 24, 32, 20, 4
LR, DECAY, BATCH = 0.01, 0.02, 6


class Operators(Dataset):
    def __init__(self, split):
        z = np.load(os.path.join(HERE, "..", "data", f"{split}.npz"))
        self.u, self.y, self.g = (torch.from_numpy(z[k]) for k in "uyg")
        self.noisy = split == "train"

    def __len__(self):
        return self.u.shape[0]

    def __getitem__(self, i):
        u = self.u[i]
        if self.noisy:  # fixed jitter per item
            r = np.random.RandomState(1000 + i).normal(scale=0.01, size=u.shape)
            u = u + torch.from_numpy(r.astype(np.float32))
        return u, self.y[i], self.g[i]


class AdaptiveTanh(nn.Module):
    """tanh(n * a * x) with a learned slope a (Jagtap et al., 2020)."""

    def __init__(self, n=5.0):
        super().__init__()
        self.n = n
        self.a = nn.Parameter(torch.tensor([1.0 / n]))

    def forward(self, x):
        return torch.tanh(self.n * self.a * x)


def wn_linear(i, o):
    m = nn.Linear(i, o)
    nn.init.xavier_normal_(m.weight)
    nn.init.zeros_(m.bias)
    return nn.utils.weight_norm(m)


class Net(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.linears = nn.ModuleList(wn_linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.acts = nn.ModuleList(AdaptiveTanh() for _ in dims[2:])

    def forward(self, x):
        for lin, act in zip(self.linears, self.acts):
            x = act(lin(x))
        return self.linears[-1](x)


class DeepONet(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("freq", math.pi * torch.arange(1, FREQS + 1).float())
        self.branch = Net([SENSORS, WIDTH, WIDTH, BASIS])
        self.trunk = Net([1 + 2 * FREQS, WIDTH, WIDTH, BASIS])
        self.b0 = nn.Parameter(torch.zeros(1))

    def embed(self, y):
        w = y * self.freq
        return torch.cat([y, torch.sin(w), torch.cos(w)], -1)

    def forward(self, u, y):
        b, t = self.branch(u), torch.tanh(self.trunk(self.embed(y)))
        out = torch.einsum("bk,bpk->bp", b, t) / BASIS ** 0.5 + self.b0
        return out * y.squeeze(-1)          # hard boundary condition G(u)(0) = 0


def build_model():
    return DeepONet()


def build_dataset(split):
    return Operators(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), BATCH, shuffle=(split == "train"))


def loss(outputs, labels):
    """Mean relative L2 error plus a little MSE."""
    rel = torch.linalg.vector_norm(outputs - labels, dim=1) / (torch.linalg.vector_norm(labels, dim=1) + 1e-4)
    return rel.mean() + 0.5 * F.mse_loss(outputs, labels)


def metric(outputs, labels):
    e = outputs - labels
    r2 = 1 - e.pow(2).sum() / (labels - labels.mean()).pow(2).sum()
    return {"max_err": e.abs().max().item(), "rmse": e.pow(2).mean().sqrt().item(), "r2": r2.item()}


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            for p in g["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["step"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["step"] += 1
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                s["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                up = (s["m"] / (1 - b1 ** s["step"])) / ((s["v"] / (1 - b2 ** s["step"])).sqrt() + g["eps"])
                ratio = 1.0
                if g["weight_decay"] > 0:       # no layer adaptation where nothing decays
                    up = up + g["weight_decay"] * p
                    pn, un = p.norm().item(), up.norm().item()
                    ratio = pn / un if pn > 0 and un > 0 else 1.0
                p.add_(up, alpha=-g["lr"] * ratio)


def build_optimizer(model):
    v = [p for n, p in model.named_parameters() if n.endswith("weight_v")]
    rest = [p for n, p in model.named_parameters() if not n.endswith("weight_v")]
    return Lamb([{"params": v, "weight_decay": DECAY}, {"params": rest}], lr=LR)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=28, T_mult=2, eta_min=1e-4)


def train_step(model, optimizer, batch):
    model.train()
    u, y, g = batch
    optimizer.zero_grad()
    l = loss(model(u, y), g)
    l.backward()
    optimizer.step()
    return {"loss": l.item()}


def predict(path, model):
    with open(path) as fh:
        d = json.load(fh)
    u = torch.tensor(d["sensors"])
    y = torch.tensor(d["grid"])[None, :, None].expand(len(u), -1, -1)
    model.eval()
    with torch.no_grad():
        g = model(u, y)
    mass = torch.trapezoid(g, y[..., 0], dim=1)
    return {"solution": g.numpy(), "integral": mass.numpy(), "peak": g.argmax(1).tolist()}
