"""Colour constancy with Paddle: which colour had the lamp?"""
import json
import os
import sys

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import BatchSampler, DataLoader, Dataset
from paddle.nn import initializer as I
from paddle.optimizer.lr import LinearWarmup, PolynomialDecay

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lamp_ops as ops  # noqa: E402
from lamp_layers import KINDS, dense  # noqa: E402

LAYOUT = "stem:3>12 fire:12>16 pool:16>16 fire:16>16 excite:16>16"
RATE, FLOOR, WARM, SPAN = 0.02, 0.04, 9, 120
CLIP = 0.6


def parse(layout):
    for word in layout.split():
        kind, widths = word.split(":")
        a, b = map(int, widths.split(">"))
        yield KINDS[kind](a, b), b


class LampNet(nn.Layer):
    def __init__(self, cameras=3):
        super().__init__()
        made = list(parse(LAYOUT))
        self.trunk = nn.LayerList([m for m, _ in made])
        width = made[-1][1]
        self.film = dense(cameras, 2 * width)
        self.head = nn.Conv2D(
            width, 4, 1,
            weight_attr=paddle.ParamAttr(initializer=I.TruncatedNormal(0.0, 0.05, a=-0.1, b=0.1)),
            bias_attr=paddle.ParamAttr(initializer=I.Assign(np.array([0.5, 0.7, 0.4, -1.0], "float32"))),
        )

    def forward(self, image, camera):
        x = image
        for block in self.trunk:
            x = block(x)
        gamma, beta = self.film(camera).unsqueeze([2, 3]).split(2, axis=1)
        rgb, conf = self.head(x * (1 + gamma) + beta).split([3, 1], axis=1)
        local = ops.unit(F.softplus(rgb))
        conf = F.sigmoid(conf).squeeze(1)
        pooled = paddle.einsum("bchw,bhw->bc", local, conf) / conf.sum(axis=[1, 2]).unsqueeze(1)
        return {"illum": ops.unit(pooled), "local": local, "conf": conf}


def build_model():
    return LampNet()


class Album(Dataset):
    def __init__(self, split):
        super().__init__()
        self.rows = ops.shots(split)
        self.cameras = ops.cameras()
        self.slot = {c["name"]: k for k, c in enumerate(self.cameras)}
        self.mirror = 3 if split == "train" else 0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        slot = self.slot[row["camera"]]
        x = ops.expose(ops.linearise(os.path.join(ops.FOLDER, row["file"]), self.cameras[slot]))
        if self.mirror and (i + 1) % self.mirror == 0:
            x = np.ascontiguousarray(x[:, :, ::-1])
        lamp = np.array([row["r"], row["g"], row["b"]], dtype="float32")
        lamp = lamp / np.linalg.norm(lamp)
        which = np.eye(len(self.cameras), dtype="float32")[slot]
        weight = np.float32(float(row["votes"]) ** 0.5)
        return x, which, {"illum": lamp, "weight": np.asarray(weight)}


class FixedBatches(BatchSampler):
    def __init__(self, n, size, seed):
        order = np.random.RandomState(seed).permutation(n)
        self.groups = [order[k : k + size].tolist() for k in range(0, n - size + 1, size)]

    def __iter__(self):
        yield from self.groups

    def __len__(self):
        return len(self.groups)


def build_dataset(split):
    return Album(split)


def build_dataloader(split):
    album = build_dataset(split)
    if split != "train":
        return DataLoader(album, batch_size=8)
    return DataLoader(album, batch_sampler=FixedBatches(len(album), 5, 77))


def loss(outputs, labels):
    w = labels["weight"]
    ang = (w * ops.between(outputs["illum"], labels["illum"])).sum() / w.sum()
    local, conf = outputs["local"], outputs["conf"]
    down = paddle.diff(local, axis=2).abs().mean()
    across = paddle.diff(local, axis=3).abs().mean()
    tv = down + across
    cells = conf.shape[1] * conf.shape[2]
    share = conf / conf.sum(axis=[1, 2], keepdim=True)
    entropy = -(share * paddle.log(share + 1e-8)).sum(axis=[1, 2]).mean() / float(np.log(cells))
    total = ang + 0.1 * tv + 0.02 * (1 - entropy)
    return {"loss": total, "angular": ang, "tv": tv, "entropy": entropy}


def metric(outputs, labels):
    est = np.asarray(outputs["illum"].numpy(), dtype=np.float64)
    truth = np.asarray(labels["illum"].numpy(), dtype=np.float64)
    result = ops.summary(ops.between_np(est, truth))
    ratio = truth / np.maximum(est, 1e-6)
    ratio /= np.linalg.norm(ratio, axis=1, keepdims=True)
    white = np.full_like(ratio, 3**-0.5)
    result["reproduction"] = float(ops.between_np(ratio, white).mean())
    return result


def build_optimizer(model):
    bags = {"decay": [], "plain": [], "head": []}
    for name, p in model.named_parameters():
        key = "head" if name.split(".")[0] == "head" else "decay" if p.ndim > 1 else "plain"
        bags[key].append(p)
    after = PolynomialDecay(RATE, decay_steps=SPAN - WARM, end_lr=FLOOR * RATE, power=1.5)
    rate = LinearWarmup(after, warmup_steps=WARM, start_lr=0.1 * RATE, end_lr=RATE)
    return paddle.optimizer.Momentum(
        rate,
        momentum=0.85,
        use_nesterov=True,
        parameters=[
            {"params": bags["decay"], "weight_decay": 5e-3},
            {"params": bags["plain"], "weight_decay": 0.0},
            {"params": bags["head"], "weight_decay": 1e-3, "learning_rate": 2.0},
        ],
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def shrink(parameters, limit):
    """Scale all gradients together; the groups of the optimizer would clip each on its own."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = paddle.sqrt(sum((g * g).sum() for g in grads))
    factor = (limit / (norm + 1e-6)).clip(max=1.0)
    for g in grads:
        g.set_value(g * factor)
    return norm


def train_step(model, optimizer, batch):
    image, camera, labels = batch
    model.train()
    parts = loss(model(image, camera), labels)
    parts["loss"].backward()
    norm = shrink(model.parameters(), CLIP)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": parts["loss"].detach(), "angular": parts["angular"].detach(), "grad_norm": norm}


@paddle.no_grad()
def predict(path, model):
    with open(path) as f:
        job = json.load(f)
    known = ops.cameras()
    slot = [c["name"] for c in known].index(job["camera"])
    lin = ops.linearise(os.path.join(os.path.dirname(os.path.abspath(path)), job["image"]), known[slot])
    model.eval()
    small = F.adaptive_avg_pool2d(paddle.to_tensor(lin[None]), [16, 20]).numpy()
    which = F.one_hot(paddle.to_tensor([slot]), len(known))
    out = model(paddle.to_tensor(ops.expose(small)), which)
    lamp = out["illum"].numpy()[0]
    fixed = np.clip(lin.transpose(1, 2, 0) * (lamp[1] / lamp), 0, 1) ** np.float32(1 / 2.2)
    conf = out["conf"].numpy()[0]
    best = np.argsort(-conf, axis=None, kind="stable")[: job["cells"]]
    ratio = float(lamp[0] / lamp[2])
    tone = {True: "warm", False: "cool"}[ratio > 1.0] if abs(ratio - 1) > 0.1 else "neutral"
    return {
        "illuminant": lamp,
        "corrected": fixed,
        "cells": [list(map(int, np.unravel_index(c, conf.shape))) for c in best],
        "red_blue": [ratio],
        "tone": tone,
    }
