"""CO2 quantile forecaster, Paddle edition.  Channels-last all the way through."""
import json
from math import cos, pi, sqrt
from pathlib import Path

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import BatchSampler, DataLoader, Dataset
from paddle.nn.initializer import Constant, Normal, Uniform
from statsmodels.datasets import co2

CFG = dict(
    context=24, horizon=6, width=12, dilations=[1, 2, 4], taus=[0.1, 0.5, 0.9],
    batch_size=16, epochs=8,
    optim=dict(lr=3e-3, beta1=0.9, beta2=0.95, decay=0.05, clip=0.5),
)


def torch_like(fan_in):
    bound = 1.0 / sqrt(fan_in)
    return dict(weight_attr=paddle.ParamAttr(initializer=Uniform(-bound, bound)),
                bias_attr=paddle.ParamAttr(initializer=Uniform(-bound, bound)))


def standardise(window, n):
    """Scale by the population moments of the first n values."""
    head = window[:n]
    mu = head.mean()
    sd = np.sqrt(((head - mu) ** 2).mean()) + 1e-6
    return ((window - mu) / sd).astype("float32"), mu, sd


class Co2Windows(Dataset):
    _cache = None

    def __init__(self, mode="train"):
        super().__init__()
        n, h = CFG["context"], CFG["horizon"]
        if Co2Windows._cache is None:
            s = co2.load_pandas().data.co2
            s = s.groupby(s.index.to_period("M")).mean()
            s = s.ffill()
            Co2Windows._cache = (s.values.astype("float64"), np.array([p.month for p in s.index], dtype="int64") - 1)
        y, m = Co2Windows._cache
        pairs = [(y[k:k + n + h], m[k:k + n]) for k in range(0, len(y) - n - h + 1, 2)]
        n_train = int(len(pairs) * 0.8)
        self.items = pairs[:n_train] if mode == "train" else pairs[n_train + (n + h) // 2:]

    def __getitem__(self, idx):
        raw, month = self.items[idx]
        scaled, _, _ = standardise(raw, CFG["context"])
        n = CFG["context"]
        return scaled[:n], month, scaled[n:]

    def __len__(self):
        return len(self.items)


class GatedCausal(nn.Layer):
    """Left-padded gated convolution on [batch, time, channel]."""

    def __init__(self, c_in, c_out, dilation, p=0.1):
        super().__init__()
        self.left = 2 * dilation
        self.proj = None
        if c_in != c_out:
            self.proj = nn.Conv1D(c_in, c_out, 1, data_format="NLC", **torch_like(c_in))
        self.gated = nn.Conv1D(c_in, 2 * c_out, 3, dilation=dilation, data_format="NLC", **torch_like(3 * c_in))
        self.dropout = nn.Dropout(p)
        self.gain = self.create_parameter([c_out], default_initializer=Constant(1.0))
        self.offset = self.create_parameter([c_out], is_bias=True)
        self.groups = 3

    def group_norm(self, x):
        b, t, c = x.shape
        g = x.reshape([b, t, self.groups, c // self.groups])
        mu = g.mean(axis=[1, 3], keepdim=True)
        var = ((g - mu) ** 2).mean(axis=[1, 3], keepdim=True)
        return ((g - mu) * paddle.rsqrt(var + 1e-5)).reshape([b, t, c]) * self.gain + self.offset

    def forward(self, x):
        padded = F.pad(x, [self.left, 0], data_format="NLC")
        content, gate = paddle.chunk(self.gated(padded), 2, axis=-1)
        y = self.dropout(content * F.sigmoid(gate))
        return self.group_norm(y + (x if self.proj is None else self.proj(x)))


class Forecaster(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        w, k = cfg["width"], len(cfg["taus"])
        self.k, self.horizon = k, cfg["horizon"]
        self.increments = nn.Linear(w, self.horizon * (k - 1), **torch_like(w))
        self.lowest = nn.Linear(w, self.horizon, **torch_like(w))
        sizes = [5] + [w] * len(cfg["dilations"])
        self.blocks = nn.LayerList([GatedCausal(a, b, d) for a, b, d in zip(sizes, sizes[1:], cfg["dilations"])])
        self.season = nn.Embedding(12, 4, weight_attr=paddle.ParamAttr(initializer=Normal(0.0, 1.0)))

    def forward(self, past, month):
        h = paddle.concat([past.unsqueeze(-1), self.season(month)], axis=-1)
        for blk in self.blocks:
            h = blk(h)
        h = h[:, -1]
        q = [past[:, -1:] + self.lowest(h)]
        inc = F.softplus(self.increments(h)).reshape([-1, self.horizon, self.k - 1])
        for j in range(self.k - 1):
            q.append(q[-1] + inc[:, :, j])
        return paddle.stack(q, axis=-1)


def build_model():
    return Forecaster(CFG)


def build_dataset(split):
    return Co2Windows(mode=split)


def build_dataloader(split):
    ds = build_dataset(split)
    is_train = split == "train"
    sampler = BatchSampler(ds, shuffle=is_train, batch_size=CFG["batch_size"], drop_last=is_train)
    return DataLoader(ds, batch_sampler=sampler)


def loss(outputs, labels):
    h = CFG["horizon"]
    w = paddle.to_tensor([0.9 ** i for i in range(h)], dtype="float32")
    w = w / w.sum()
    total, names = 0.0, {}
    for j, (tau, name) in enumerate(zip(CFG["taus"], ["low", "mid", "high"])):
        u = labels - outputs[:, :, j]
        pin = F.relu(u) * tau + F.relu(-u) * (1.0 - tau)
        names[name] = pin.mean()
        total = total + paddle.matmul(pin, w).mean()
    return {"loss": total, **names}


def metric(outputs, labels):
    q, y = outputs.numpy(), labels.numpy()
    lo, mid, hi = (q[:, :, j] for j in range(3))
    return {
        "mase": float(np.abs(y - mid).mean() / np.abs(np.diff(y, axis=1)).mean()),
        "coverage": float(np.logical_and(lo <= y, y <= hi).mean()),
        "bias": float((mid - y).mean()),
        "width": float((hi - lo).mean()),
    }


def build_optimizer(model):
    o = CFG["optim"]
    steps = CFG["epochs"] * (len(build_dataset("train")) // CFG["batch_size"])
    warm = steps // 10
    cosine = lambda s: 0.05 + 0.475 * (1.0 + cos(pi * (s - warm) / max(steps - warm, 1)))
    schedule = paddle.optimizer.lr.LambdaDecay(o["lr"], lambda s: (s + 1) / warm if s < warm else cosine(s))
    decayed = {p.name for p in model.parameters() if len(p.shape) > 1}
    return paddle.optimizer.AdamW(
        learning_rate=schedule, beta1=o["beta1"], beta2=o["beta2"], weight_decay=o["decay"],
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(o["clip"]), parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    out = loss(model(*batch[:-1]), batch[-1])
    out["loss"].backward()
    sq = sum(float((p.grad ** 2).sum()) for p in model.parameters() if p.grad is not None)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(out["loss"]), "mid": float(out["mid"]), "grad_norm": sqrt(sq)}


def predict(path, model):
    model.eval()
    rec = json.loads(Path(path).read_text())
    n = CFG["context"]
    scaled, mu, sd = standardise(np.array(rec["co2"][-n:], dtype="float64"), n)
    month = np.array([(rec["last_month"] - 1 - back) % 12 for back in range(n - 1, -1, -1)], dtype="int64")
    with paddle.no_grad():
        q = model(paddle.to_tensor(scaled[None]), paddle.to_tensor(month[None])).numpy()[0]
    q = q * np.float32(sd) + np.float32(mu)
    return {"source": Path(path).name, "quantiles": q, "median": [float(v) for v in q[:, 1]]}
