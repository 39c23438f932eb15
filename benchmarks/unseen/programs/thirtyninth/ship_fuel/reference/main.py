"""Fuel per hour of a ship from its noon report: mixture of experts, written as functions of a
dictionary of parameters. The module at the end only holds the dictionary and the running average."""
import json

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

FEATURES, WIDTH, HIDDEN, EXPERTS, TOP, KINDS = 8, 14, 18, 5, 2, 3
BALANCE, ROUTER_Z, EMA_DECAY, CLIP = 0.02, 1e-3, 0.95, 0.15
WARMUP, BASE_LR = 8, 0.05


# ------------------------------------------------------------------ parameters

def dense(n_in, n_out, gain=1.0):
    w = torch.empty(n_out, n_in)
    nn.init.xavier_uniform_(w, gain)
    return w


def init_params():
    p = {"kind": torch.randn(KINDS, 4) * 0.3,
         "in_w": dense(FEATURES + 4, WIDTH), "in_b": torch.zeros(WIDTH)}
    for layer in range(2):
        p[f"norm{layer}"] = torch.ones(WIDTH)
        p[f"router{layer}"] = torch.randn(EXPERTS, WIDTH) * 0.2
        bound = (6.0 / (WIDTH + HIDDEN)) ** 0.5
        p[f"up{layer}"] = torch.empty(EXPERTS, WIDTH, 2 * HIDDEN).uniform_(-bound, bound)
        p[f"down{layer}"] = torch.empty(EXPERTS, HIDDEN, WIDTH).uniform_(-bound, bound)
        p[f"shift{layer}"] = torch.zeros(EXPERTS, WIDTH)
    p["norm_out"] = torch.ones(WIDTH)
    p["out_w"], p["out_b"] = dense(WIDTH, 1, 0.5), torch.full((1,), 2.5)
    return p


# ------------------------------------------------------------------ functions

def rms_norm(x, scale, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * scale


def route(x, w):
    """Weights of all experts (zero but for the best TOP) and the two penalties of the router."""
    logits = F.linear(x, w)
    best, index = logits.topk(TOP, dim=-1)
    gates = torch.zeros_like(logits).scatter(-1, index, best.softmax(-1))
    probs = logits.softmax(-1)
    share = (gates > 0).to(x.dtype).mean(0) / TOP
    balance = EXPERTS * (share * probs.mean(0)).sum()
    z = torch.logsumexp(logits, dim=-1).pow(2).mean()
    return gates, balance, z


def experts(x, up, down, shift):
    a, b = torch.einsum("nd,edh->neh", x, up).chunk(2, dim=-1)
    return torch.einsum("neh,ehd->ned", F.silu(a) * b, down) + shift


def apply(p, numbers, kind):
    x = torch.cat([numbers, F.embedding(kind, p["kind"])], dim=-1)
    x = torch.tanh(F.linear(x, p["in_w"], p["in_b"]))
    balance = z = 0.0
    for layer in range(2):
        h = rms_norm(x, p[f"norm{layer}"])
        gates, b, zz = route(h, p[f"router{layer}"])
        out = experts(h, p[f"up{layer}"], p[f"down{layer}"], p[f"shift{layer}"])
        x = x + torch.einsum("ne,ned->nd", gates, out)
        balance, z = balance + b, z + zz
    y = F.linear(rms_norm(x, p["norm_out"]), p["out_w"], p["out_b"])
    return {"log_fuel": y.squeeze(-1), "balance": balance, "z": z}


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        for name, value in init_params().items():
            setattr(self, name, nn.Parameter(value))
            self.register_buffer("avg_" + name, value.clone())

    def tree(self, averaged=False):
        names = [n for n, _ in self.named_parameters()]
        return {n: getattr(self, "avg_" + n if averaged else n) for n in names}

    def forward(self, numbers, kind):
        return apply(self.tree(), numbers, kind)


def build_model():
    return Holder()


# ------------------------------------------------------------------ training

def loss(outputs, labels):
    fit = F.huber_loss(outputs["log_fuel"], labels.log(), delta=0.4)
    total = fit + BALANCE * outputs["balance"] + ROUTER_Z * outputs["z"]
    return {"loss": total, "fit": fit}


def metric(outputs, labels):
    fuel = np.exp(outputs["log_fuel"].detach().cpu().numpy())
    true = labels.cpu().numpy()
    return {"mape": float(np.mean(np.abs(fuel - true) / true)), "bias": float(np.mean(fuel - true))}


def build_optimizer(model):
    p = model.tree()
    gates = [v for n, v in p.items() if n.startswith("router")]
    rest = [v for n, v in p.items() if not n.startswith("router")]
    return torch.optim.Adagrad([{"params": rest}, {"params": gates, "lr": BASE_LR * 0.25}], lr=BASE_LR,
                               initial_accumulator_value=0.1, eps=1e-8)


def build_scheduler(optimizer):
    """Linear warm-up, then one over the root of the step."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP, (WARMUP / (step + 1)) ** 0.5))


def train_step(model, optimizer, batch):
    numbers, kind, fuel = batch
    for group in optimizer.param_groups:
        for v in group["params"]:
            v.grad = None
    parts = loss(model(numbers, kind), fuel)
    parts["loss"].backward()
    with torch.no_grad():
        for v in model.parameters():  # each tensor by its own norm
            norm = v.grad.norm()
            if norm > CLIP:
                v.grad.mul_(CLIP / norm)
        optimizer.step()
        average = model.tree(averaged=True)
        for n, v in model.tree().items():
            average[n].mul_(EMA_DECAY).add_(v, alpha=1 - EMA_DECAY)
    return {n: v.detach() for n, v in parts.items()}


# ------------------------------------------------------------------ data

def featurise(table):
    with open("data/scaler.json") as handle:
        scaler = json.load(handle)
    z = (table[:, [0, 1, 2, 4, 5]] - np.float32(scaler["mean"])) / np.float32(scaler["std"])
    angle = np.deg2rad(table[:, 3])
    head = table[:, 2] * np.cos(angle) / 10.0
    numbers = np.concatenate([z, np.stack([np.sin(angle), np.cos(angle), head], axis=1)], axis=1)
    return numbers.astype(np.float32), table[:, 6].astype(np.int64)


class Strided(Sampler):
    """0, 3, 6, ..., 1, 4, ...: no random numbers, but no order of time either."""

    def __init__(self, n, stride=3):
        self.order = [i for start in range(stride) for i in range(start, n, stride)]

    def __iter__(self):
        return iter(self.order)

    def __len__(self):
        return len(self.order)


def build_dataset(split):
    table = np.load("data/reports.npz")[split]
    numbers, kind = featurise(table)
    return TensorDataset(torch.from_numpy(numbers), torch.from_numpy(kind), torch.from_numpy(table[:, 7].copy()))


def build_dataloader(split):
    data = build_dataset(split)
    return DataLoader(data, batch_size=8, sampler=Strided(len(data)) if split == "train" else None)


def predict(path, model):
    numbers, kind = featurise(np.load(path))
    p = model.tree(averaged=True)
    with torch.no_grad():
        out = apply(p, torch.from_numpy(numbers).to(p["in_w"].dtype), torch.from_numpy(kind))
    return {"fuel": out["log_fuel"].exp().cpu().numpy()}
