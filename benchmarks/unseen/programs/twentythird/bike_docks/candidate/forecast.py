"""Dock departures, Paddle port; closures over the tables."""
import json
import os
import sys

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import BatchSampler, DataLoader, Dataset, Sampler

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pipeline as pl  # noqa: E402
from rmsprop import TorchRMSprop  # noqa: E402

LEVELS = [0.1, 0.5, 0.9]
MIX = [0.3, 0.4, 0.3]
HIDDEN = 16


def attr(init):
    return paddle.ParamAttr(initializer=init)


def torch_linear(i, o, bias=True):
    """Linear with torch's default law."""
    k = i ** -0.5
    u = nn.initializer.Uniform(-k, k)
    return nn.Linear(i, o, weight_attr=attr(u), bias_attr=attr(u) if bias else False)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        init = nn.initializer
        self.zone = nn.Embedding(len(pl.ZONE_ID), 4, weight_attr=attr(init.Normal(0.0, 0.2)))
        self.rnn = nn.GRU(8, HIDDEN)
        self.score = torch_linear(HIDDEN, 1, bias=False)
        self.step = torch_linear(len(pl.KNOWN_COLS), HIDDEN)
        self.merge = nn.Linear(2 * HIDDEN + 4, 24, weight_attr=attr(init.XavierNormal()), bias_attr=attr(init.Constant(0.0)))
        self.out = nn.Linear(24, len(LEVELS), weight_attr=attr(init.Uniform(-0.05, 0.05)), bias_attr=attr(init.Constant(0.1)))

    def attend(self, q, h):
        s = paddle.matmul(q, h, transpose_y=True) * HIDDEN ** -0.5
        s = s + self.score(h).squeeze(-1).unsqueeze(1)
        return F.softmax(s, axis=-1)

    def forward(self, past, future, zone):
        h, last = self.rnn(past)
        q = self.step(future)
        att = self.attend(q, h)
        ctx = paddle.bmm(att, h)
        side = paddle.concat([last[-1], self.zone(zone)], axis=-1)
        side = paddle.tile(side.unsqueeze(1), [1, q.shape[1], 1])
        raw = self.out(F.silu(self.merge(paddle.concat([ctx + q, side], axis=-1))))
        cols = [raw[:, :, 0]]
        for j in range(1, len(LEVELS)):
            cols.append(cols[-1] + F.softplus(raw[:, :, j], beta=2.0))
        return {"quantiles": paddle.stack(cols, axis=-1), "attention": att}


def build_model():
    return Net()


class Items(Dataset):
    def __init__(self, items):
        super().__init__()
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Weighted(Sampler):
    def __init__(self, items, count, seed=404):
        super().__init__(items)
        self.p = pl.sampling_weights(items)
        self.count, self.seed, self.epoch = count, seed, 0

    def __len__(self):
        return self.count

    def __iter__(self):
        rng = np.random.default_rng(self.seed + self.epoch)
        self.epoch += 1
        race = -np.log(rng.random(len(self.p))) / self.p
        yield from race.argsort(kind="stable")[: self.count].tolist()


def build_dataset(split):
    return Items(pl.make_windows(split))


def build_dataloader(split):
    ds = build_dataset(split)
    if split != "train":
        return DataLoader(ds, batch_size=18, shuffle=False)
    return DataLoader(ds, batch_sampler=BatchSampler(sampler=Weighted(ds.items, 140), batch_size=14))


def loss(outputs, labels):
    q, y = outputs["quantiles"], labels["y"]
    per = 0.0
    for j, (tau, share) in enumerate(zip(LEVELS, MIX)):
        d = y - q[:, :, j]
        per = per + share * (tau * F.relu(d) + (1 - tau) * F.relu(-d))
    horizon = paddle.linspace(1.0, 0.5, per.shape[1])
    w = labels["seen"] * horizon * paddle.sqrt(labels["cap"] / 25.0).unsqueeze(1)
    fit = (per * w).sum() / (w.sum() + 1e-6)
    spread = paddle.square(outputs["attention"]).sum(-1).mean()
    return {"loss": fit + 0.01 * spread, "fit": fit, "spread": spread}


def metric(outputs, labels):
    cap = labels["cap"].numpy()[:, None]
    mask = labels["seen"].numpy() > 0
    q = np.maximum(outputs["quantiles"].detach().numpy() * cap[..., None], 0.0)
    y = (labels["y"].numpy() * cap)[mask]
    low, mid, high = (q[..., j][mask] for j in range(3))
    err = mid - y
    return {
        "mae": float(np.abs(err).mean()),
        "rmse": float(np.sqrt((err ** 2).mean())),
        "bias": float(err.mean()),
        "coverage": float(((low <= y) & (y <= high)).mean()),
        "width": float((high - low).mean()),
        "spread_between": float(y.std(ddof=1)),
    }


def build_optimizer(model):
    schedule = paddle.optimizer.lr.MultiStepDecay(4e-3, milestones=[3, 5, 6], gamma=0.4)
    return TorchRMSprop(
        schedule, model.parameters(), rates={model.zone.weight.name: 0.5},
        alpha=0.95, eps=1e-4, momentum=0.6, weight_decay=1e-3)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    parts = loss(model(*inputs), labels)
    parts["loss"].backward()
    for p in model.parameters():
        if p.grad is not None:
            p.grad.set_value(p.grad.clip(-0.05, 0.05))
    optimizer.step()
    optimizer.clear_grad()
    return {k: float(v) for k, v in parts.items()}


def predict(path, model):
    model.eval()
    with open(path) as f:
        job = json.load(f)
    book = pl.load_stations()
    home = book[job["station"]]
    hour = job["first_hour"] + np.arange(pl.PAST + pl.AHEAD)

    def series(name):
        known = [np.nan if v is None else float(v) for v in job[name]]
        return np.array(known + [np.nan] * pl.AHEAD)

    dep, arr = series("departures"), series("arrivals")
    rows = {
        "hour": hour, "temp": np.array(job["temp"]), "rain": np.array(job["rain"]), "seen": 1.0 - np.isnan(dep),
        "departures": pl.fill_counts(dep), "arrivals": pl.fill_counts(arr),
    }
    f = pl.feature_matrix(rows, pl.make_scaler(book))
    past = paddle.to_tensor(f[None, : pl.PAST])
    future = paddle.to_tensor(f[None, pl.PAST:, pl.KNOWN_COLS])
    with paddle.no_grad():
        q = model(past, future, paddle.to_tensor([home["zone"]]))["quantiles"][0]
    q = np.maximum(q.numpy(), 0.0) * home["capacity"]
    peak = int(hour[pl.PAST + int(q[:, 1].argmax())]) % 24
    return {"quantiles": q, "total": q[:, 1].sum(), "peak_hour": np.array(peak), "text": "%s peaks at %02dh" % (job["station"], peak)}
