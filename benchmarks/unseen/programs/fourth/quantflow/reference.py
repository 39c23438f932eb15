"""Probabilistic demand forecasts: variable selection, causal convolutions, one interpretable attention, quantiles."""
import csv
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from layers import GRN, CausalConv, GateAddNorm, InterpretableAttention, VariableSelection

PAST, HORIZON, STRIDE = 24, 6, 5
BORDER = 0.7
QUANTILES = [0.1, 0.5, 0.9]
D, HEADS, STORES = 16, 4, 3
BATCH, CLIP = 8, 0.5
LR, WARM, TOTAL, DECAY = 4e-3, 5, 50, 1e-3


# ------------------------------------------------------------------ data

def read(path):
    """{store: (hours, sales with nan, temperature)}"""
    table = {}
    with open(path) as f:
        for r in csv.DictReader(f):
            s = table.setdefault(int(r["store"]), ([], [], []))
            s[0].append(int(r["hour"]))
            s[1].append(float(r["sales"]) if r["sales"] else float("nan"))
            s[2].append(float(r["temp"]))
    return {k: tuple(torch.tensor(c, dtype=torch.float64) for c in v) for k, v in table.items()}


def forward_fill(x):
    x, seen = x.clone(), ~torch.isnan(x)
    for i in range(1, len(x)):
        if not seen[i]:
            x[i] = x[i - 1]
    return x, seen


class Scaler:
    """mean and deviation of a store's sales in the training part; of the temperature over all stores"""

    def __init__(self, table):
        self.sales = {}
        temps = []
        for k, (_, y, temp) in table.items():
            n = int(len(y) * BORDER)
            y = forward_fill(y)[0][:n]
            self.sales[k] = (y.mean().item(), max(y.std().item(), 1e-3))
            temps.append(temp[:n])
        temps = torch.cat(temps)
        self.temp = (temps.mean().item(), temps.std().item())

    def features(self, store, hours, y, temp):
        m, s = self.sales[store]
        angle = 2 * math.pi * (hours % 24) / 24
        return torch.stack([(y - m) / s, (temp - self.temp[0]) / self.temp[1], torch.sin(angle), torch.cos(angle)], -1)


class Windows(Dataset):
    def __init__(self, path, split):
        self.table = read(path)
        self.scaler = Scaler(self.table)
        self.items = []
        for store, (hours, y, temp) in self.table.items():
            y, seen = forward_fill(y)
            feats = self.scaler.features(store, hours, y, temp)
            n, cut = len(y), int(len(y) * BORDER)
            first, last = (0, cut) if split == "train" else (cut - PAST, n)
            for a in range(first, last - PAST - HORIZON + 1, STRIDE):
                self.items.append((store, feats[a:a + PAST + HORIZON].float(), seen[a:a + PAST + HORIZON].float()))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        store, x, seen = self.items[i]
        return {
            "past": x[:PAST],
            "future": x[PAST:, 1:],
            "store": torch.tensor(store),
            "labels": torch.stack([x[PAST:, 0], seen[PAST:]], -1),
        }


def build_dataset(split):
    return Windows("sales.csv", split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=BATCH, shuffle=False)


# ------------------------------------------------------------------ model

class Forecaster(nn.Module):
    def __init__(self, d=D, heads=HEADS, stores=STORES):
        super().__init__()
        self.store = nn.Embedding(stores, d)
        self.static_select = GRN(d, d, d)
        self.static_enrich = GRN(d, d, d)
        self.vs_past = VariableSelection(4, d)
        self.vs_future = VariableSelection(3, d)
        self.local = nn.ModuleList([CausalConv(d, 3, r) for r in (1, 2, 4)])
        self.local_gate = GateAddNorm(d)
        self.enrich = GRN(d, d, d, n_context=d)
        self.attention = InterpretableAttention(d, heads)
        self.attention_gate = GateAddNorm(d)
        self.position = GRN(d, d, d)
        self.final_gate = GateAddNorm(d)
        self.quantiles = nn.Linear(d, len(QUANTILES))

    def forward(self, past, future, store):
        s = self.store(store)
        cs, ce = self.static_select(s), self.static_enrich(s)
        p, wp = self.vs_past(past, cs)
        f, wf = self.vs_future(future, cs)
        x = torch.cat([p, f], 1)
        h = x
        for conv in self.local:
            h = conv(h)
        h = self.local_gate(h, x)
        e = self.enrich(h, ce.unsqueeze(1))
        T, H = e.shape[1], future.shape[1]
        steps = torch.arange(T)
        mask = steps[None, :] > steps[T - H:, None]
        a, weights = self.attention(e[:, -H:], e, mask)
        a = self.attention_gate(a, e[:, -H:])
        y = self.final_gate(self.position(a), h[:, -H:])
        raw = self.quantiles(y)
        mid = raw[..., 1:2]
        low = mid - F.softplus(raw[..., 0:1])
        high = mid + F.softplus(raw[..., 2:3])
        return {"quantiles": torch.cat([low, mid, high], -1), "attention": weights, "select": (wp, wf)}


def build_model():
    return Forecaster()


# ------------------------------------------------------------------ loss, metric

def loss(outputs, labels):
    """weighted pinball loss; hours without a measurement don't count, near hours count more"""
    y, w = labels[..., 0], labels[..., 1]
    H = y.shape[1]
    w = w * (0.9 ** torch.arange(H, dtype=y.dtype, device=y.device))
    total = 0
    for i, q in enumerate(QUANTILES):
        e = y - outputs["quantiles"][..., i]
        total = total + (torch.maximum(q * e, (q - 1) * e) * w).sum() / w.sum()
    return total


def metric(outputs, labels):
    q = outputs["quantiles"].double().numpy()
    y, w = labels[..., 0].double().numpy(), labels[..., 1].double().numpy()
    out = {}
    denom = (np.abs(y) * w).sum()
    for i, level in enumerate(QUANTILES):
        risk = 0.0
        for b in range(y.shape[0]):
            for t in range(y.shape[1]):
                e = y[b, t] - q[b, t, i]
                risk += w[b, t] * max(level * e, (level - 1) * e)
        out[f"risk{int(level * 100)}"] = 2 * risk / denom
    inside = (y >= q[..., 0]) & (y <= q[..., -1])
    out["coverage"] = (inside * w).sum() / w.sum()
    per_series = [(np.abs(y[b] - q[b, :, 1]) * w[b]).sum() / max(w[b].sum(), 1) for b in range(y.shape[0])]
    out["mae"] = float(np.mean(per_series))
    return out


# ------------------------------------------------------------------ optimisation

class Yogi(torch.optim.Optimizer):
    """Zaheer et al. 2018, with decoupled weight decay"""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-3, start=1e-6, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, start=start, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            for p in g["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["t"] = 0
                    s["m"] = torch.zeros_like(p)
                    s["v"] = torch.full_like(p, g["start"])
                s["t"] += 1
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                sq = p.grad * p.grad
                s["v"].addcmul_(torch.sign(s["v"] - sq), sq, value=-(1 - b2))
                denom = (s["v"] / (1 - b2 ** s["t"])).sqrt_().add_(g["eps"])
                p.mul_(1 - g["lr"] * g["weight_decay"])
                p.addcdiv_(s["m"], denom, value=-g["lr"] / (1 - b1 ** s["t"]))


def build_optimizer(model):
    return Yogi(model.parameters(), LR, weight_decay=DECAY)


def build_scheduler(optimizer):
    def shape(step):
        if step < WARM:
            return (step + 1) / (WARM + 1)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - WARM) / (TOTAL - WARM))))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, shape)


def train_step(model, optimizer, batch):
    batch = dict(batch)
    labels = batch.pop("labels")
    optimizer.zero_grad()
    value = loss(model(**batch), labels)
    value.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return value.detach()


# ------------------------------------------------------------------ prediction

def predict(path, model):
    scaler = Scaler(read("sales.csv"))
    (store, (hours, y, temp)), = read(path).items()
    y, _ = forward_fill(y)
    x = scaler.features(store, hours, y, temp).to(next(model.parameters()).dtype)[None]
    with torch.no_grad():
        out = model(x[:, :PAST], x[:, PAST:PAST + HORIZON, 1:], torch.tensor([store]))
    m, s = scaler.sales[store]
    sales = (out["quantiles"][0] * s + m).clamp(min=0)
    return {"hours": hours[PAST:].long().numpy(), "sales": sales.numpy(), "attention": out["attention"][0].numpy()}
