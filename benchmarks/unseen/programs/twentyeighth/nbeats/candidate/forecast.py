"""Interpretable N-BEATS in Paddle: one shared block per stack, run several times."""
import json
import os

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn.initializer import Orthogonal, Uniform

LOOKBACK = 3 * 6
AHEAD = 6
SEASON = 12
HIDDEN = 24
SERIES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "data", "series.json")


class BlockMixin:
    """MLP trunk and the two coefficient layers; sub-classes say what the coefficients mean."""
    activation = staticmethod(F.relu)
    shared_theta = False

    def build(self, n_coef):
        self.fcs = nn.LayerList([self.dense(i, HIDDEN) for i in (LOOKBACK, HIDDEN, HIDDEN)])
        self.coef_fore = nn.Linear(HIDDEN, n_coef, weight_attr=Orthogonal(gain=0.5), bias_attr=False)
        if not self.shared_theta:
            self.coef_back = nn.Linear(HIDDEN, n_coef, weight_attr=Orthogonal(gain=0.5), bias_attr=False)

    @staticmethod
    def dense(i, o):
        u = Uniform(-i ** -0.5, i ** -0.5)
        return nn.Linear(i, o, weight_attr=u, bias_attr=u)

    def forward(self, x):
        for fc in self.fcs:
            x = self.activation(fc(x))
        f = self.coef_fore(x)
        b = f if self.shared_theta else self.coef_back(x)
        return self.project(b, f)

    def project(self, b, f):
        return paddle.mm(b, self.basis_back), paddle.mm(f, self.basis_fore)

    def set_basis(self, back, fore):
        self.register_buffer("basis_back", paddle.to_tensor(back.astype("float32")))
        self.register_buffer("basis_fore", paddle.to_tensor(fore.astype("float32")))


class TrendBlock(BlockMixin, nn.Layer):
    def __init__(self, degree):
        nn.Layer.__init__(self)
        self.build(degree)
        self.set_basis(*[np.vander(np.linspace(0, 1, n, endpoint=False), degree, increasing=True).T
                         for n in (LOOKBACK, AHEAD)])


class SeasonBlock(BlockMixin, nn.Layer):
    def __init__(self, harmonics):
        nn.Layer.__init__(self)
        self.build(harmonics * 2)
        k = 2 * np.pi * np.arange(1, harmonics + 1)[:, None]
        tb, tf = (np.arange(LOOKBACK) - LOOKBACK) / AHEAD, np.arange(AHEAD) / AHEAD
        self.set_basis(*[np.vstack([np.cos(k * t), np.sin(k * t)]) for t in (tb, tf)])


class GenericBlock(BlockMixin, nn.Layer):
    activation = staticmethod(F.selu)
    shared_theta = True

    def __init__(self, size):
        nn.Layer.__init__(self)
        self.to_fore, self.to_back = self.dense(size, AHEAD), self.dense(size, LOOKBACK)
        self.build(size)

    def project(self, b, f):
        return self.to_back(b), self.to_fore(f)


class Forecaster(nn.Layer):
    passes = {"trend": 2, "seasonal": 2, "generic": 1}

    def __init__(self):
        super().__init__()
        self.register_buffer("running_level", paddle.to_tensor([1.0]))
        self.generic, self.seasonal, self.trend = GenericBlock(5), SeasonBlock(4), TrendBlock(3)

    def forward(self, x, mask):
        x = x * mask
        level = paddle.sum(paddle.abs(x), axis=1, keepdim=True) / paddle.clip(mask.sum(axis=1, keepdim=True), min=1.0)
        level = paddle.maximum(level, paddle.full([1], 1e-3))
        if self.training:
            with paddle.no_grad():
                self.running_level.set_value(self.running_level * 0.9 + level.mean() * 0.1)
        r = paddle.flip(x / level, axis=[-1])
        parts = {}
        for name, times in self.passes.items():
            block, acc = getattr(self, name), []
            for _ in range(times):
                back, fore = block(r)
                r = r - back
                acc.append(fore)
            parts[name] = paddle.add_n(acc)
        y = paddle.add_n(list(parts.values())) * level
        return {"forecast": y, "residual": r, "parts": parts, "level": level.flatten()}


class WindowDataset(paddle.io.Dataset):
    def __init__(self, mode):
        super().__init__()
        with open(SERIES) as f:
            self.series = [np.array([np.nan if v is None else v for v in s], dtype="float32") for s in json.load(f)]
        self.scale = [np.nanmean(np.abs(s[SEASON:] - s[:len(s) - SEASON])) for s in self.series]
        self.index = []
        for k, s in enumerate(self.series):
            last = len(s) - LOOKBACK - AHEAD
            self.index += [(k, a) for a in (range(last - 5) if mode == "train" else (last - 3, last))]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        k, a = self.index[i]
        w = self.series[k][a:a + LOOKBACK + AHEAD]
        seen = np.isfinite(w).astype("float32")
        w = np.where(seen > 0, w, np.float32(0))
        past, future = slice(None, LOOKBACK), slice(LOOKBACK, None)
        return w[past], seen[past], {"y": w[future], "mask": seen[future], "naive": np.float32(self.scale[k])}


def build_model():
    return Forecaster()


def build_dataset(split):
    return WindowDataset(split)


def build_dataloader(split):
    return paddle.io.DataLoader(build_dataset(split), batch_size=9, shuffle=(split == "train"))


def loss(outputs, labels):
    yhat, y, m = outputs["forecast"], labels["y"], labels["mask"]
    scale = (yhat.detach().abs() + y.abs()) / 2
    ratio = paddle.abs(yhat - y) / paddle.clip(scale, min=5e-4)
    s = paddle.sum(ratio * m) / paddle.clip(paddle.sum(m), min=1.0)
    ridge = paddle.mean(paddle.square(outputs["residual"]))
    return {"loss": s + 0.05 * ridge, "smape": s, "ridge": ridge}


def metric(outputs, labels):
    m = labels["mask"].numpy()
    err = np.abs(outputs["forecast"].numpy() - labels["y"].numpy()) * m
    rows = m.sum(1) > 0
    mase = err[rows].sum(1) / m[rows].sum(1) / labels["naive"].numpy()[rows]
    size = {k: float(np.abs(v.numpy()).mean()) for k, v in outputs["parts"].items()}
    return {"mase": float(mase.mean()), "mae": float(err.sum() / m.sum()),
            "seasonal_share": size["seasonal"] / sum(size.values())}


class WarmStep(paddle.optimizer.lr.LRScheduler):
    """A quarter of the rate at first, whole after eight steps; halved every forty."""

    def get_lr(self):
        t = self.last_epoch
        return self.base_lr * min(1.0, 0.25 + 0.75 * t / 8) * 0.5 ** (t // 40)


def build_optimizer(model):
    return paddle.optimizer.NAdam(learning_rate=WarmStep(4e-3), parameters=model.parameters(), momentum_decay=0.004)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def clip_by_norm_(params, limit):
    grads = [p.grad for p in params if p.grad is not None]
    total = paddle.sqrt(paddle.add_n([g.square().sum() for g in grads]))
    if float(total) > limit:
        for p in params:
            if p.grad is not None:
                p.grad.set_value(p.grad * (limit / (total + 1e-6)))
    return float(total)


def train_step(model, optimizer, batch):
    x, m, labels = batch
    edges = np.array_split(np.arange(x.shape[0]), 3)
    if x.shape[0] % 3:                       # equal pieces of ceil(n / 3) and a shorter rest
        n = -(-x.shape[0] // 3)
        edges = [np.arange(a, min(a + n, x.shape[0])) for a in range(0, x.shape[0], n)]
    running = 0.0
    for e in edges:
        a, b = int(e[0]), int(e[-1]) + 1
        part = loss(model(x[a:b], m[a:b]), {k: v[a:b] for k, v in labels.items()})["loss"]
        (part / len(edges)).backward()
        running += part.item() / len(edges)
    norm = clip_by_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": running, "norm": norm}


def predict(path, model):
    with open(path) as f:
        h = np.array(json.load(f)["history"], dtype="float64")[-LOOKBACK:]
    model.eval()
    seen = np.isfinite(h)
    x, m = (paddle.to_tensor(v[None].astype("float32")) for v in (np.where(seen, h, 0.0), seen))
    with paddle.no_grad():
        out = model(x, m)
    res = {k: v.numpy()[0] for k, v in out["parts"].items()}
    res["forecast"] = out["forecast"].numpy()[0]
    return res
