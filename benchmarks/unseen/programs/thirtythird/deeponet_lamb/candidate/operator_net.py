"""DeepONet for x -> integral of u from 0 to x (Paddle)."""
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import paddle
import paddle.nn as nn
from paddle.io import DataLoader, TensorDataset
from paddle.nn.initializer import Constant, XavierNormal

HERE = Path(__file__).resolve().parent
ARCH = {"branch": (24, 32, 32, 20), "trunk": (9, 32, 32, 20)}
TRAIN = {"lr": 1e-2, "min_lr": 1e-4, "first_cycle": 28, "decay": 2e-2, "batch_size": 6}


class WNLinear(nn.Layer):
    """x @ (g * v / |v|) + b, one gain per output unit."""

    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.v = self.create_parameter([fan_in, fan_out], default_initializer=XavierNormal())
        self.g = self.create_parameter([1, fan_out], default_initializer=Constant(1.0))
        self.g.set_value(self.column_norm(self.v.detach()))
        self.b = self.create_parameter([fan_out], is_bias=True)

    @staticmethod
    def column_norm(v):
        return paddle.sqrt((v * v).sum(axis=0, keepdim=True))

    def forward(self, x):
        # scaling the product column by column is the same as scaling the weight
        return paddle.matmul(x, self.v) * (self.g / self.column_norm(self.v)) + self.b


class SlopeTanh(nn.Layer):
    SCALE = 5.0

    def __init__(self):
        super().__init__()
        self.slope = self.create_parameter([1], default_initializer=Constant(1 / self.SCALE))

    def forward(self, x):
        return nn.functional.tanh(x * (self.SCALE * self.slope))


def mlp(dims):
    layers = []
    for a, b in zip(dims, dims[1:]):
        layers.extend([WNLinear(a, b), SlopeTanh()])
    return nn.Sequential(*layers[:-1])


class OperatorNet(nn.Layer):
    def __init__(self, arch=ARCH):
        super().__init__()
        self.shift = self.create_parameter([1], default_initializer=Constant(0.0))
        for name, dims in sorted(arch.items(), reverse=True):
            self.add_sublayer(name, mlp(dims))
        n = (arch["trunk"][0] - 1) // 2
        self.omega = [math.pi * k for k in range(1, n + 1)]
        self.scale = 1.0 / math.sqrt(arch["trunk"][-1])

    def basis(self, pts):
        phase = pts * paddle.to_tensor(self.omega, dtype=pts.dtype)
        return paddle.tanh(self.trunk(paddle.concat([pts, phase.sin(), phase.cos()], axis=-1)))

    def forward(self, sensors, pts):
        coef = self.branch(sensors).unsqueeze(-1)
        val = paddle.bmm(self.basis(pts), coef).squeeze(-1)
        return pts[..., 0] * (val * self.scale + self.shift)


def build_model():
    return OperatorNet()


def jitter(u):
    noise = [np.random.RandomState(seed).normal(0.0, 0.01, row.shape) for seed, row in enumerate(u, start=1000)]
    return u + np.stack(noise).astype(u.dtype)


def build_dataset(split):
    with np.load(HERE.parent / "data" / f"{split}.npz") as z:
        u, y, g = z["u"], z["y"], z["g"]
    u = jitter(u) if split == "train" else u
    return TensorDataset([paddle.to_tensor(t) for t in (u, y, g)])


def build_dataloader(split, **kw):
    make = partial(DataLoader, build_dataset(split), batch_size=TRAIN["batch_size"])
    return make(shuffle=split == "train", **kw)


def loss(outputs, labels):
    diff = outputs - labels
    ratio = paddle.norm(diff, p=2, axis=-1) / (paddle.norm(labels, p=2, axis=-1) + 1e-4)
    return ratio.mean() + paddle.square(diff).mean() * 0.5


def metric(outputs, labels):
    p, t = outputs.numpy(), labels.numpy()
    return {"rmse": float(np.sqrt(np.mean((p - t) ** 2))), "max_err": float(np.abs(p - t).max()),
            "r2": float(1.0 - np.mean((p - t) ** 2) / t.var())}


class SGDR(paddle.optimizer.lr.LRScheduler):
    """Cosine cycles, each twice as long as the one before."""

    def __init__(self, lr, first, floor):
        self.first, self.floor = first, floor
        super().__init__(lr)

    def get_lr(self):
        t, length = self.last_epoch, self.first
        while t >= length:
            t, length = t - length, length * 2
        return self.floor + (self.base_lr - self.floor) * (1 + math.cos(math.pi * t / length)) / 2


def build_optimizer(model):
    directions = {id(m.v) for m in model.sublayers() if isinstance(m, WNLinear)}
    names = {p.name for p in model.parameters() if id(p) in directions}
    return paddle.optimizer.Lamb(
        SGDR(TRAIN["lr"], TRAIN["first_cycle"], TRAIN["min_lr"]), lamb_weight_decay=TRAIN["decay"],
        beta1=0.9, beta2=0.99, epsilon=1e-6, parameters=model.parameters(),
        exclude_from_weight_decay_fn=lambda p: p.name not in names)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    *inputs, target = batch
    model.train()
    value = loss(model(*inputs), target)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": value.item()}


@paddle.no_grad()
def predict(path, model):
    content = json.loads(Path(path).read_text())
    sensors = paddle.to_tensor(np.array(content["sensors"], "float32"))
    grid = np.array(content["grid"], "float32")
    model.eval()
    pts = paddle.tile(paddle.to_tensor(grid).reshape([1, -1, 1]), [sensors.shape[0], 1, 1])
    sol = model(sensors, pts).numpy()
    area = (0.5 * (sol[:, 1:] + sol[:, :-1]) * np.diff(grid)).sum(axis=1)
    return {"peak": sol.argmax(axis=1).tolist(), "integral": area, "solution": sol}
