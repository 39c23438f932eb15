"""NIR panel in Paddle."""
import math
import os
import sys

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from grains import CFG, Grains, RoundRobin, prepare, read_table, settings, target_scale  # noqa: E402

TRAIN = settings("train")
WIDTH, DILATIONS, REDUCE, EPS = 16, (1, 2, 4), 4, 1e-3
I = nn.initializer


def uniform(bound):
    return paddle.ParamAttr(initializer=I.Uniform(-bound, bound))


def const(v):
    return paddle.ParamAttr(initializer=I.Constant(v))


def dense(i, o):
    b = 1 / math.sqrt(i)
    return nn.Linear(i, o, weight_attr=uniform(b), bias_attr=uniform(b))


class Block(nn.Layer):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1D(width, width, 3, padding=dilation, dilation=dilation,
                              weight_attr=uniform(math.sqrt(6 / (3 * width))), bias_attr=const(0.0))
        self.norm = nn.LayerNorm(width, epsilon=EPS)
        self.down = dense(width, width // REDUCE)
        self.up = dense(width // REDUCE, width)

    def forward(self, x):
        h = F.relu(self.conv(x)).transpose([0, 2, 1])
        h = self.norm(h)
        gate = F.sigmoid(self.up(paddle.tanh(self.down(h.mean(axis=1)))))
        return x + (h * gate.unsqueeze(1)).transpose([0, 2, 1])


class Dilated(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1D(2, WIDTH, 7, stride=2, padding=3, bias_attr=False,
                              weight_attr=paddle.ParamAttr(initializer=I.TruncatedNormal(0.0, 0.1, a=-0.2, b=0.2)))
        self.blocks = nn.LayerList([Block(WIDTH, d) for d in DILATIONS])
        self.head = nn.Linear(2 * WIDTH, 3, weight_attr=paddle.ParamAttr(initializer=I.Orthogonal(gain=0.7)), bias_attr=const(0.0))
        self.kind = dense(2 * WIDTH, 3)

    def forward(self, x):
        x = F.elu(self.stem(x), alpha=0.5)
        for b in self.blocks:
            x = b(x)
        soft_max = paddle.log(paddle.exp(x).mean(axis=-1))
        z = paddle.concat([x.mean(axis=-1), soft_max], axis=1)
        return {"y": self.head(z), "kind": self.kind(z)}


def build_model():
    return Dilated()


def build_dataset(split):
    return Grains(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        return DataLoader(ds, batch_sampler=RoundRobin([int(it[1]["kind"]) for it in ds.items]))
    return DataLoader(ds, batch_size=10)


def huber(d, delta):
    a = d.abs()
    return paddle.where(a <= delta, 0.5 * a * a, delta * (a - 0.5 * delta))


def loss(outputs, labels):
    cfg = TRAIN["loss"]
    per = huber(outputs["y"] - labels["y"], cfg["delta"])
    reg = paddle.matmul(per, paddle.to_tensor(cfg["analyte_weights"])).mean()
    ce = F.cross_entropy(outputs["kind"], labels["kind"])
    return {"loss": reg + cfg["kind_weight"] * ce, "reg": reg, "ce": ce}


def metric(outputs, labels):
    _, std = target_scale(read_table())
    y = labels["y"].numpy() * std
    e = outputs["y"].detach().numpy() * std - y
    hit = outputs["kind"].numpy().argmax(1) == labels["kind"].numpy()
    res = {"accuracy": float(hit.mean())}
    for a, ej, yj in zip(CFG["analytes"], e.T, y.T):
        sep = ej.std(ddof=1)
        res.update({a + "_bias": float(ej.mean()), a + "_sep": float(sep), a + "_rpd": float(yj.std(ddof=1) / sep)})
    return res


class Poly(paddle.optimizer.lr.LRScheduler):
    def __init__(self, base, power, total, final):
        self.power, self.total, self.final = power, total, final
        super().__init__(base)

    def get_lr(self):
        left = 1 - min(self.last_epoch, self.total) / self.total
        return self.base_lr * (self.final + (1 - self.final) * left ** self.power)


def build_optimizer(model):
    o = TRAIN["optim"]
    buckets = {}
    for n, p in model.named_parameters():
        is_head = n.split(".")[0] in ("head", "kind")
        buckets.setdefault((is_head, len(p.shape) > 1), []).append(p)
    groups = [
        {"params": ps, "learning_rate": o["head_scale"] if is_head else 1.0, "weight_decay": o["weight_decay"] if matrix else 0.0}
        for (is_head, matrix), ps in buckets.items()
    ]
    return paddle.optimizer.AdamW(Poly(o["lr"], **TRAIN["schedule"]), parameters=groups,
                                  beta1=o["beta1"], beta2=o["beta2"], epsilon=o["eps"])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    x, labels = batch
    parts = loss(model(x), labels)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {k: float(v) for k, v in parts.items()}


def predict(path, model):
    model.eval()
    with open(path) as f:
        rows = [[float(v) for v in line.split(",")] for line in f.read().splitlines()[1:]]
    scans = np.array(rows).T[1:]
    mean, std = target_scale(read_table())
    with paddle.no_grad():
        out = model(paddle.to_tensor(prepare(scans)))
    conc = np.maximum(out["y"].numpy() * std + mean, 0.0)
    p = F.softmax(out["kind"], axis=-1).numpy().mean(axis=0)
    return {"scans": conc, "mean": conc.mean(axis=0), "kind_probs": p,
            "text": CFG["kinds"][int(p.argmax())]}
