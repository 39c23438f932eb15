"""Conditional coupling flow over the telemetry of irrigation pumps: find odd readings, repair them."""
import csv
import functools
import json
import math
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
SENSORS = ("flow", "head", "current", "vibration", "temp", "noise")
VALVES = ("butterfly", "gate", "globe", "none")
DEPTH, HIDDEN, CTX, CLAMP = 4, 18, 10, 1.6
D = len(SENSORS)


# ------------------------------------------------------------- functional core
def mask_of(level):
    """Alternate even/odd sensors, then first half/second half."""
    idx = torch.arange(D)
    kind = (idx % 2 == 0, idx % 2 == 1, idx < D // 2, idx >= D // 2)[level % 4]
    return kind.float()


def make_embed(net):
    def embed(cond, valve):
        e = F.embedding(valve, net["valve"].weight)
        return torch.tanh(net["ctx"](torch.cat([cond, e], dim=-1)))
    return embed


def make_coupling(net, level):
    mask = mask_of(level)
    a, b, rescale = net[f"a{level}"], net[f"b{level}"], net[f"rescale{level}"].weight

    def params(x, ctx):
        h = F.leaky_relu(a(torch.cat([x * mask, ctx], dim=-1)), 0.1)
        s, t = b(h).chunk(2, dim=-1)
        s = CLAMP * torch.tanh(s / CLAMP) * torch.exp(rescale[0])
        return s * (1 - mask), t * (1 - mask)

    def forward(x, ctx):
        s, t = params(x, ctx)
        return x * torch.exp(s) + t, s.sum(-1)

    def inverse(y, ctx):
        s, t = params(y, ctx)
        return (y - t) * torch.exp(-s)

    return forward, inverse


def student_logpdf(z, log_df):
    df = 2.0 + torch.exp(log_df)
    const = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * torch.log(df * math.pi)
    return const - (df + 1) / 2 * torch.log1p(z ** 2 / df)


def rotate(x):
    return torch.roll(x, shifts=1, dims=-1)


def unrotate(x):
    return torch.roll(x, shifts=-1, dims=-1)


class Bundle(nn.Module):
    """Only a holder of parameters; what it does is given as closures."""

    def __init__(self):
        super().__init__()
        net = {"valve": nn.Embedding(len(VALVES), 3), "ctx": nn.Linear(5 + 3, CTX)}
        for k in range(DEPTH):
            net[f"a{k}"] = nn.Linear(D + CTX, HIDDEN)
            net[f"b{k}"] = nn.Linear(HIDDEN, 2 * D)
            net[f"rescale{k}"] = nn.Embedding(1, D)
        net["tail"] = nn.Embedding(1, D)
        self.net = nn.ModuleDict(net)
        init_(self.net)

    def forward(self, x, cond, valve):
        return push(self.net, x, cond, valve)


def init_(net):
    for key, layer in net.items():
        if key[0] == "b":
            nn.init.uniform_(layer.weight, -0.08, 0.08)
            nn.init.zeros_(layer.bias)
        elif key.startswith("rescale"):
            nn.init.zeros_(layer.weight)
        elif key == "tail":
            nn.init.constant_(layer.weight, 1.5)
        elif key == "valve":
            nn.init.trunc_normal_(layer.weight, std=0.3, a=-0.6, b=0.6)
        else:
            nn.init.kaiming_uniform_(layer.weight, a=0.1, nonlinearity="leaky_relu")
            bound = 1 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.bias, -bound, bound)


def push(net, x, cond, valve):
    ctx = make_embed(net)(cond, valve)
    logdet, scales = 0.0, []
    for k in range(DEPTH):
        x, ld = make_coupling(net, k)[0](x, ctx)
        logdet = logdet + ld
        scales.append(ld)
        x = rotate(x)
    log_base = student_logpdf(x, net["tail"].weight[0]).sum(-1)
    return {"z": x, "logdet": logdet, "logp": log_base + logdet, "scales": torch.stack(scales, 1)}


def pull(net, z, cond, valve):
    ctx = make_embed(net)(cond, valve)
    for k in reversed(range(DEPTH)):
        z = make_coupling(net, k)[1](unrotate(z), ctx)
    return z


def build_model():
    return Bundle()


# ------------------------------------------------------------------------ data
@functools.lru_cache(maxsize=None)
def statistics():
    rows = [r for r in read_rows("train") if r["fault"] == "0"]
    table = np.array([raw_sensors(r) for r in rows])
    med = np.median(table, axis=0)
    iqr = np.percentile(table, 75, axis=0) - np.percentile(table, 25, axis=0)
    return med, iqr / 1.349


def read_rows(split):
    with open(os.path.join(HERE, "..", "data", split + ".csv")) as f:
        return list(csv.DictReader(f))


def raw_sensors(row):
    v = [float(row[s]) for s in SENSORS]
    v[3] = math.log(v[3] + 1e-3)        # vibration is log-normal
    return v


def condition(row):
    hour = float(row["hour"]) * 2 * math.pi / 24
    day = (float(row["day"]) - 1) * 2 * math.pi / 365.25
    return [math.sin(hour), math.cos(hour), math.sin(day), math.cos(day), float(row["speed"]) / 100]


def encode(row):
    med, scale = statistics()
    x = np.clip((np.array(raw_sensors(row)) - med) / scale, -6, 6)
    return (torch.tensor(x, dtype=torch.float32), torch.tensor(condition(row), dtype=torch.float32),
            torch.tensor(VALVES.index(row["valve"])))


class Rows(torch.utils.data.Dataset):
    def __init__(self, split):
        rows = read_rows(split)
        if split == "train":
            rows = sorted(rows, key=lambda r: (int(r["day"]), float(r["hour"])))
        self.items = [r for r in rows if r["status"] != "maintenance"]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        r = self.items[i]
        labels = {"fault": torch.tensor(int(r["fault"])),
                  "trust": torch.tensor(0.5 if r["status"] == "suspect" else 1.0)}
        return (*encode(r), labels)


def build_dataset(split):
    return Rows(split)


def build_dataloader(split):
    train = split == "train"
    return torch.utils.data.DataLoader(Rows(split), batch_size=16 if train else 25, shuffle=train,
                                       drop_last=False)


# ------------------------------------------------------------------- objective
def loss(outputs, labels):
    logp, w = outputs["logp"], labels["trust"]
    # readings that the flow finds very unlikely are damped: soft trimming (weights are constants)
    centre = logp.detach().median()
    damp = torch.sigmoid((logp.detach() - centre + 1.5) / 0.8)
    keep = torch.where(labels["fault"] > 0, 0.25 * damp, damp) * w
    nll = -(keep * logp).sum() / keep.sum()
    volume = outputs["scales"].pow(2).mean()
    moment = (outputs["z"].mean(0) ** 2).sum() + (outputs["z"].var(0, unbiased=False) - 1).abs().mean()
    return {"loss": nll / D + 0.02 * volume + 0.05 * moment, "nll": nll, "volume": volume,
            "moment": moment}


def metric(outputs, labels):
    score = (-outputs["logp"]).detach().double().numpy()
    y = labels["fault"].numpy()
    pos, neg = score[y == 1], score[y == 0]
    wins = (pos[:, None] > neg[None]).sum() + 0.5 * (pos[:, None] == neg[None]).sum()
    order = np.argsort(-score, kind="stable")
    k = max(int(y.sum()), 1)
    hits = np.cumsum(y[order])
    precision = hits / np.arange(1, len(y) + 1)
    return {"bits_per_dim": float(score[y == 0].mean() / (D * math.log(2))),
            "auroc": float(wins / max(len(pos) * len(neg), 1)),
            "r_precision": float(y[order[:k]].mean()),
            "ap": float((precision * y[order]).sum() / k),
            "q95": float(np.quantile(neg, 0.95))}


# -------------------------------------------------------------------- training
def build_optimizer(model):
    def pick(*keys):
        return [p for n, p in model.named_parameters() if n.split(".")[1].rstrip("0123456789") in keys]
    # decay only where every weight gets a gradient (masked inputs of the couplings get none)
    return torch.optim.RMSprop([{"params": pick("ctx"), "weight_decay": 1e-3},
                                {"params": pick("valve", "a", "b")},
                                {"params": pick("rescale", "tail"), "lr": 5e-4}],
                               lr=2e-3, alpha=0.95, eps=1e-7, momentum=0.6, centered=True)


def build_scheduler(optimizer, warm=10, period=34, shrink=0.7):
    def factor(step):
        if step < warm:
            return (step + 1) / warm
        cycle, at = divmod(step - warm, period)
        return shrink ** cycle * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * at / period)))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    optimizer.zero_grad()
    out = model(*inputs)
    parts = loss(out, labels)
    parts["loss"].backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.05)
    optimizer.step()
    return {**{k: v.item() for k, v in parts.items()}, "logp": out["logp"].detach().mean().item()}


@torch.no_grad()
def predict(path, model):
    """Score a log of readings, and say what an ordinary reading near to each odd one would be."""
    model.eval()
    with open(path) as f:
        log = json.load(f)
    rows = [{**log["common"], **r} for r in log["readings"]]
    x, cond, valve = (torch.stack(c) for c in zip(*map(encode, rows)))
    out = push(model.net, x, cond, valve)
    radius = out["z"].norm(dim=-1, keepdim=True)
    limit = math.sqrt(D)
    repaired = pull(model.net, out["z"] * torch.clamp(limit / radius, max=1.0), cond, valve)
    med, scale = statistics()
    values = repaired.double().numpy() * scale + med
    values[:, 3] = np.exp(values[:, 3]) - 1e-3
    worst = (repaired - x).abs().argmax(dim=-1)
    odd = radius[:, 0] > limit
    return {"score": (-out["logp"] / D).numpy(), "repaired": values,
            "sensor": " ".join(SENSORS[int(i)] if o else "-" for i, o in zip(worst, odd)),
            "odd": odd.int().numpy()}
