"""Layers, local correlation and the learning rate."""
import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as I


def conv(n_in, n_out, k, stride=1):
    std = 1.2 * math.sqrt(2.0 / ((n_in + n_out) * k * k))
    return nn.Conv2D(
        n_in, n_out, k, stride=stride, padding=k // 2,
        weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, std)),
        bias_attr=paddle.ParamAttr(initializer=I.Constant(0.0)),
    )


def plain_linear(n_in, n_out):
    bound = 1 / math.sqrt(n_in)
    law = lambda: paddle.ParamAttr(initializer=I.Uniform(-bound, bound))  # noqa: E731
    return nn.Linear(n_in, n_out, weight_attr=law(), bias_attr=law())


def small_linear(n_in, n_out):
    return nn.Linear(
        n_in, n_out,
        weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, 0.05)),
        bias_attr=paddle.ParamAttr(initializer=I.Constant(0.0)),
    )


def correlation(a, b, reach):
    """Products of a with b shifted by up to reach cells, rows of shifts first."""
    h, w = a.shape[2:]
    wide = F.pad(b, [reach] * 4)
    maps = []
    for dy in range(2 * reach + 1):
        for dx in range(2 * reach + 1):
            maps.append((a * wide[:, :, dy : dy + h, dx : dx + w]).sum(axis=1))
    return paddle.stack(maps, axis=1)


class Similarity:
    def __init__(self, window, floor=1e-2):
        self.box = nn.AvgPool2D(window, stride=1, padding=window // 2)
        self.floor = floor

    def __call__(self, a, b):
        mean_a, mean_b = self.box(a), self.box(b)
        var_a = F.relu(self.box(a.square()) - mean_a.square())
        var_b = F.relu(self.box(b.square()) - mean_b.square())
        cov = self.box(a * b) - mean_a * mean_b
        return (cov.square() / (var_a * var_b + self.floor)).flatten(1).mean(axis=1)


class RiseThenSteps(paddle.optimizer.lr.LRScheduler):
    def __init__(self, base, warmup, start, step, gamma):
        self.warmup, self.start, self.every, self.gamma = warmup, start, step, gamma
        super().__init__(learning_rate=base)

    def get_lr(self):
        t = self.last_epoch
        if t < self.warmup:
            return self.base_lr * (self.start + (1 - self.start) * t / self.warmup)
        return self.base_lr * self.gamma ** ((t - self.warmup) // self.every)
