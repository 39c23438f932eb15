"""Load forecasting with learned spectral filters on PaddlePaddle."""
import csv
import json
import math
import os

import numpy as np
import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute
from paddle.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
CFG = json.loads("""
{"model": {"channels": 4, "history": 32, "horizon": 8, "dim": 16, "depth": 3, "drop_path": 0.2,
           "layer_scale": 0.1, "mlp_ratio": 2},
 "data":  {"cut": 400, "stride": 3, "batch": 8},
 "train": {"lr": 4e-3, "betas": [0.9, 0.98], "eps": 1e-6, "decay": 0.05, "clip": 1.0, "accumulate": 2,
           "warmup": 10, "steps": 120, "floor": 0.01, "huber": 0.5}}
""")
M, D, T = CFG["model"], CFG["data"], CFG["train"]


def attr(init):
    return paddle.ParamAttr(initializer=init)


def dense(n_in, n_out):
    # TruncatedNormal cuts at two standard deviations
    return nn.Linear(n_in, n_out, attr(nn.initializer.TruncatedNormal(std=0.05, a=-0.1, b=0.1)),
                     attr(nn.initializer.Constant(0.0)))


class InstanceScaler(nn.Layer):
    """Reversible instance normalisation; the statistics are handed round, not stored."""

    def __init__(self, n):
        super().__init__()
        self.shift = self.create_parameter([n], default_initializer=nn.initializer.Constant(0.0))
        self.scale = self.create_parameter([n], default_initializer=nn.initializer.Constant(1.0))

    @staticmethod
    @paddle.no_grad()
    def statistics(x):
        return x.mean(axis=1, keepdim=True), (x.var(axis=1, unbiased=False, keepdim=True) + 1e-5).sqrt()

    def normalise(self, x, stats):
        return (x - stats[0]) / stats[1] * self.scale + self.shift

    def restore(self, y, stats):
        return (y - self.shift) / (self.scale + 1e-8) * stats[1] + stats[0]


class SpectralBlock(nn.Layer):
    def __init__(self, dim, drop):
        super().__init__()
        freqs = M["history"] // 2 + 1
        gauss = nn.initializer.Normal(std=0.02)
        self.drop = drop
        self.pre = nn.LayerNorm(dim, epsilon=1e-6)
        self.post = nn.LayerNorm(dim, epsilon=1e-6)
        self.real = self.create_parameter([freqs, dim], default_initializer=gauss)
        self.imag = self.create_parameter([freqs, dim], default_initializer=gauss)
        self.mlp = nn.Sequential(dense(dim, dim * M["mlp_ratio"]), nn.GELU(), dense(dim * M["mlp_ratio"], dim))
        self.layer_scale = self.create_parameter(
            [dim], default_initializer=nn.initializer.Constant(M["layer_scale"]))

    def mix(self, x):
        # forward and backward norms undo one another, as the ortho pair does
        z = paddle.fft.rfft(x, axis=1)
        return paddle.fft.irfft(z * paddle.complex(self.real, self.imag), n=x.shape[1], axis=1)

    def forward(self, x):
        h = self.layer_scale * self.mlp(self.post(self.mix(self.pre(x))))
        if self.training and self.drop > 0:
            alive = paddle.bernoulli(paddle.full([x.shape[0], 1, 1], 1.0 - self.drop))
            h = h * alive / (1.0 - self.drop)
        return x + h


class SpectralForecaster(nn.Layer):
    def __init__(self):
        super().__init__()
        self.position = self.create_parameter(
            [M["history"], M["dim"]],
            default_initializer=nn.initializer.TruncatedNormal(std=0.02, a=-0.04, b=0.04))
        self.scaler = InstanceScaler(M["channels"])
        self.to_tokens = dense(M["channels"], M["dim"])
        self.final_norm = nn.LayerNorm(M["dim"], epsilon=1e-6)
        self.layers = nn.LayerList(
            SpectralBlock(M["dim"], M["drop_path"] * i / (M["depth"] - 1)) for i in range(M["depth"]))
        self.over_channels = dense(M["dim"], M["channels"])
        self.over_time = dense(M["history"], M["horizon"])

    def forward(self, x):
        stats = self.scaler.statistics(x)
        h = self.to_tokens(self.scaler.normalise(x, stats)) + self.position
        for layer in self.layers:
            h = recompute(layer, h) if self.training else layer(h)
        h = self.over_time(self.final_norm(h).transpose([0, 2, 1]))
        return self.scaler.restore(self.over_channels(h.transpose([0, 2, 1])), stats)


class LoadWindows(paddle.io.Dataset):
    def __init__(self, mode):
        with open(os.path.join(HERE, "..", "data", "load.csv"), newline="") as f:
            reader = csv.reader(f)
            next(reader)
            series = np.array([[float(v) for v in row] for row in reader], dtype="float32")
        h, p = M["history"], M["horizon"]
        series, step = (series[:D["cut"]], D["stride"]) if mode == "train" else (series[D["cut"] - h:], p)
        self.windows = np.lib.stride_tricks.sliding_window_view(series, h + p, axis=0)[::step]

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, i):
        w = np.ascontiguousarray(self.windows[i].T)
        return tuple(np.split(w, [M["history"]]))


def build_model():
    return SpectralForecaster()


def build_dataset(split):
    return LoadWindows(split)


def build_dataloader(split):
    flags = {"shuffle": True, "drop_last": True} if split == "train" else {}
    return paddle.io.DataLoader(LoadWindows(split), batch_size=D["batch"], **flags)


def loss(outputs, labels):
    # Paddle's delta version is beta times PyTorch's beta version
    return {"loss": F.smooth_l1_loss(outputs, labels, delta=T["huber"]) / T["huber"]}


def metric(outputs, labels):
    y = labels.numpy()
    e = outputs.numpy() - y
    naive = np.abs(np.diff(y, axis=1)).mean()
    return {"rmse": float(np.sqrt(np.square(e).mean())), "mae": float(np.abs(e).mean()),
            "mase_last": float(np.abs(e[:, -1]).mean() / naive)}


class WarmCosine(paddle.optimizer.lr.LRScheduler):
    def get_lr(self):
        t = self.last_epoch
        if t < T["warmup"]:
            return self.base_lr * max(1, t) / T["warmup"]
        done = (t - T["warmup"]) / (T["steps"] - T["warmup"])
        return self.base_lr * max(T["floor"], 0.5 + 0.5 * math.cos(math.pi * done))


def build_optimizer(model):
    decayed = {p.name for layer in model.sublayers() if isinstance(layer, nn.Linear) for p in [layer.weight]}
    return paddle.optimizer.AdamW(
        learning_rate=WarmCosine(T["lr"]), beta1=T["betas"][0], beta2=T["betas"][1], epsilon=T["eps"],
        parameters=model.parameters(), weight_decay=T["decay"], apply_decay_param_fun=decayed.__contains__)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def clip_by_norm(params, limit):
    grads = [p.grad for p in params if p.grad is not None]
    norm = paddle.sqrt(sum(g.square().sum() for g in grads))
    ratio = paddle.clip(limit / (norm + 1e-6), max=1.0)
    for g in grads:
        g.set_value(g * ratio)
    return float(norm)


def train_step(model, optimizer, batch):
    model.train()
    n, total = T["accumulate"], 0.0
    for x, y in zip(*(paddle.chunk(part, n) for part in batch)):
        value = loss(model(x), y)["loss"] / n
        value.backward()                       # Paddle adds to the gradients already there
        total += float(value)
    norm = clip_by_norm(model.parameters(), T["clip"])
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": total, "grad_norm": norm, "lr": optimizer.get_lr()}


def predict(path, model):
    model.eval()
    with open(path) as f:
        x = np.asarray(json.load(f)["history"], "float32")
    with paddle.no_grad():
        y = model(paddle.to_tensor(x[None])).numpy()[0]
    return {"spread": y.std(axis=0, ddof=1).tolist(), "peak_hour": int(y.sum(axis=1).argmax()), "forecast": y}
