import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal

from .bijections import Chain, ChannelAffine, ChannelMix, HalfAffine, ZeroConv

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def normal_log_density(x, mean, log_std):
    return (-HALF_LOG_TAU - log_std - 0.5 * ((x - mean) / paddle.exp(log_std)) ** 2).sum(axis=[1, 2, 3])


def level(channels, depth, width):
    maps = []
    for _ in range(depth):
        maps += [ChannelAffine(channels), ChannelMix(channels), HalfAffine(channels, width)]
    return Chain(maps)


class DigitFlow(nn.Layer):
    """Two levels on 8 x 8 pictures: (1, 8, 8) -> (4, 4, 4) -> half leaves -> (8, 2, 2)."""

    def __init__(self, depth=3, width=24, margin=0.05, classes=10):
        super().__init__()
        self.margin = margin
        self.fine, self.coarse = level(4, depth, width), level(8, depth, width)
        self.leaving = ZeroConv(2, 4)
        self.top = ZeroConv(16, 16)
        self.read = nn.Linear(8, classes, weight_attr=Normal(0.0, 0.1), bias_attr=paddle.ParamAttr(initializer=Constant(0.0)))

    def to_real_line(self, x):
        span = 1 - 2 * self.margin
        x = self.margin + span * x
        y = paddle.log(x / (1 - x))
        return y, (F.softplus(y) + F.softplus(-y) + math.log(span)).sum(axis=[1, 2, 3])

    def forward(self, x):
        x, volume = self.to_real_line(x)
        x, v = self.fine(F.pixel_unshuffle(x, 2))
        volume = volume + v
        x, early = x[:, :2], x[:, 2:]
        mean, log_std = self.leaving(x).chunk(2, axis=1)
        density = normal_log_density(early, mean, log_std)
        x, v = self.coarse(F.pixel_unshuffle(x, 2))
        volume = volume + v
        mean, log_std = self.top(paddle.zeros([1, 16, 2, 2], dtype=x.dtype)).chunk(2, axis=1)
        density = density + normal_log_density(x, mean, log_std)
        z = paddle.concat([early.flatten(1), x.flatten(1)], axis=1)
        return {"z": z, "logdet": volume, "logp": density, "class_logits": self.read(x.mean(axis=[2, 3]))}
