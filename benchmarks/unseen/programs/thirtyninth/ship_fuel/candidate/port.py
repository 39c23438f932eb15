"""Noon reports to fuel, for PaddlePaddle. Pure functions over a flat dictionary of tensors;
a thin Layer owns the tensors so that optimizers and state dicts find them."""
import json
import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import BatchSampler, DataLoader, Dataset

N_FEAT, D, H, E, K, N_KIND = 8, 14, 18, 5, 2, 3
W_BALANCE, W_Z = 0.02, 1e-3
DECAY, MAX_NORM = 0.95, 0.15
LR, WARM = 0.05, 8


def specs():
    """name -> (shape, initializer); matrices of dense layers are (in, out) here."""
    from paddle.nn.initializer import Constant, Normal, Uniform

    def glorot(n_in, n_out, gain=1.0):
        b = gain * math.sqrt(6.0 / (n_in + n_out))
        return Uniform(-b, b)

    table = {
        "kind": ([N_KIND, 4], Normal(0.0, 0.3)),
        "in_w": ([N_FEAT + 4, D], glorot(N_FEAT + 4, D)),
        "in_b": ([D], Constant(0.0)),
    }
    for i in (0, 1):
        table.update({
            f"norm{i}": ([D], Constant(1.0)),
            f"router{i}": ([D, E], Normal(0.0, 0.2)),
            f"up{i}": ([E, D, 2 * H], glorot(D, H)),
            f"down{i}": ([E, H, D], glorot(D, H)),
            f"shift{i}": ([E, D], Constant(0.0)),
        })
    table["norm_out"] = ([D], Constant(1.0))
    table["out_w"] = ([D, 1], glorot(D, 1, 0.5))
    table["out_b"] = ([1], Constant(2.5))
    return table


def rms(x, g):
    return g * x / paddle.sqrt(paddle.mean(x * x, axis=-1, keepdim=True) + 1e-6)


def router(x, w):
    logits = x @ w
    top, idx = paddle.topk(logits, K, axis=-1)
    chosen = F.one_hot(idx, E).astype(x.dtype)                       # n, k, e
    gates = (F.softmax(top, axis=-1).unsqueeze(-1) * chosen).sum(axis=1)
    load = chosen.sum(axis=1).mean(axis=0) / K
    importance = F.softmax(logits, axis=-1).mean(axis=0)
    lse = paddle.logsumexp(logits, axis=-1)
    return gates, E * paddle.sum(load * importance), paddle.mean(lse * lse)


def moe(x, gates, up, down, shift):
    wide = paddle.einsum("nd,edh->neh", x, up)
    act = F.silu(wide[:, :, :H]) * wide[:, :, H:]
    each = paddle.einsum("neh,ehd->ned", act, down) + shift.unsqueeze(0)
    return (gates.unsqueeze(-1) * each).sum(axis=1)


def fuel_net(theta, numbers, kind):
    x = paddle.concat([numbers, F.embedding(kind, theta["kind"])], axis=-1)
    x = F.tanh(x @ theta["in_w"] + theta["in_b"])
    penalties = []
    for i in (0, 1):
        h = rms(x, theta[f"norm{i}"])
        gates, balance, z = router(h, theta[f"router{i}"])
        x = x + moe(h, gates, theta[f"up{i}"], theta[f"down{i}"], theta[f"shift{i}"])
        penalties.append((balance, z))
    y = rms(x, theta["norm_out"]) @ theta["out_w"] + theta["out_b"]
    balance, z = (sum(v) for v in zip(*penalties))
    return {"log_fuel": y[:, 0], "balance": balance, "z": z}


class FuelModel(nn.Layer):
    def __init__(self):
        super().__init__()
        self.keys = list(specs())
        for key, (shape, how) in specs().items():
            tensor = self.create_parameter(shape, default_initializer=how)
            self.add_parameter(key, tensor)
            self.register_buffer("avg_" + key, tensor.detach().clone())

    def theta(self):
        return {k: getattr(self, k) for k in self.keys}

    def smooth_theta(self):
        return {k: getattr(self, "avg_" + k) for k in self.keys}

    def forward(self, numbers, kind):
        return fuel_net(self.theta(), numbers, kind)


def build_model():
    return FuelModel()


def huber(error, delta):
    size = error.abs()
    inner = paddle.minimum(size, paddle.full_like(size, delta))
    return (0.5 * inner * inner + delta * (size - inner)).mean()


def loss(outputs, labels):
    fit = huber(outputs["log_fuel"] - paddle.log(labels), 0.4)
    return {"loss": fit + W_BALANCE * outputs["balance"] + W_Z * outputs["z"], "fit": fit}


def metric(outputs, labels):
    diff = np.exp(outputs["log_fuel"].numpy()) - labels.numpy()
    return {"mape": float((np.abs(diff) / labels.numpy()).mean()), "bias": float(diff.mean())}


class WarmInverseRoot(paddle.optimizer.lr.LRScheduler):
    def __init__(self, base, warm):
        self.warm = warm
        super().__init__(learning_rate=base)

    def get_lr(self):
        n = self.last_epoch + 1
        return self.base_lr * min(n / self.warm, math.sqrt(self.warm / n))


def build_optimizer(model):
    theta = model.theta()
    return paddle.optimizer.Adagrad(
        learning_rate=WarmInverseRoot(LR, WARM), epsilon=1e-8, initial_accumulator_value=0.1,
        parameters=[
            {"params": [p for k, p in theta.items() if "router" not in k]},
            {"params": [p for k, p in theta.items() if "router" in k], "learning_rate": 0.25},
        ])


def train_step(model, optimizer, batch):
    *inputs, fuel = batch
    parts = loss(model(*inputs), fuel)
    parts["loss"].backward()
    with paddle.no_grad():
        for p in model.parameters():
            size = float(paddle.linalg.norm(p.grad))
            if size > MAX_NORM:
                p.grad.set_value(p.grad * (MAX_NORM / size))
    optimizer.step()
    optimizer.clear_grad()
    with paddle.no_grad():
        smooth = model.smooth_theta()
        for key, p in model.theta().items():
            smooth[key].set_value(DECAY * smooth[key] + (1 - DECAY) * p)
    return parts


def columns(table):
    with open("data/scaler.json") as f:
        stats = json.load(f)
    speed, draught, wind, direction, wave, age, kind = table[:, :7].T
    plain = np.stack([speed, draught, wind, wave, age], axis=1)
    plain = (plain - np.array(stats["mean"], "float32")) / np.array(stats["std"], "float32")
    rad = np.deg2rad(direction)
    extra = np.stack([np.sin(rad), np.cos(rad), wind * np.cos(rad) / 10.0], axis=1)
    return np.hstack([plain, extra]).astype("float32"), kind.astype("int64")


class Reports(Dataset):
    def __init__(self, split):
        table = np.load("data/reports.npz")[split]
        self.numbers, self.kind = columns(table)
        self.fuel = table[:, 7]

    def __len__(self):
        return len(self.fuel)

    def __getitem__(self, i):
        return self.numbers[i], self.kind[i], self.fuel[i]


class EveryThird(BatchSampler):
    def __init__(self, n, size):
        self.order = np.concatenate([np.arange(n)[s::3] for s in range(3)]).tolist()
        self.size = size

    def __iter__(self):
        for at in range(0, len(self.order), self.size):
            yield self.order[at:at + self.size]

    def __len__(self):
        return -(-len(self.order) // self.size)


def build_dataset(split):
    return Reports(split)


def build_dataloader(split):
    data = Reports(split)
    if split == "train":
        return DataLoader(data, batch_sampler=EveryThird(len(data), 8))
    return DataLoader(data, batch_size=8)


def predict(path, model):
    numbers, kind = columns(np.load(path))
    theta = model.smooth_theta()
    with paddle.no_grad():
        out = fuel_net(theta, paddle.to_tensor(numbers).astype(theta["in_w"].dtype), paddle.to_tensor(kind))
    return {"fuel": np.exp(out["log_fuel"].numpy())}
