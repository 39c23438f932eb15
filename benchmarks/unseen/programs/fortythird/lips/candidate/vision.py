"""From strips to a vector for each frame."""
from math import sqrt

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal

from .plain import around, fan_in, point


class EvenConv(nn.Layer):
    """Weight standardisation."""

    def __init__(self, n_in, n_out, size, stride=1):
        super().__init__()
        self.stride, self.padding = stride, size // 2
        self.weight = self.create_parameter([n_out, n_in, size, size], default_initializer=around(n_in * size * size))
        self.gain = self.create_parameter([n_out, 1, 1, 1], default_initializer=Constant(1.0))

    def forward(self, x):
        w = self.weight
        off = w - w.mean(axis=[1, 2, 3], keepdim=True)
        var = off.square().sum(axis=[1, 2, 3], keepdim=True) / (fan_in(w) - 1)
        w = off / paddle.sqrt(paddle.clip(var * fan_in(w), min=1e-4)) * self.gain
        return F.conv2d(x, w, stride=self.stride, padding=self.padding)


def neighbours(x, frames):
    """A quarter of the channels from the frame before, a quarter from the next."""
    _, c, h, w = x.shape
    q = c // 4
    x = x.reshape([-1, frames, c, h, w])
    nothing = paddle.zeros_like(x[:, :1, :q])
    earlier = paddle.concat([nothing, x[:, :-1, :q]], axis=1)
    later = paddle.concat([x[:, 1:, q:2 * q], nothing], axis=1)
    return paddle.concat([earlier, later, x[:, :, 2 * q:]], axis=2).reshape([-1, c, h, w])


class Stage(nn.Layer):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.before = nn.GroupNorm(4, n_in)
        self.first = EvenConv(n_in, n_out, 3, stride)
        self.between = nn.GroupNorm(4, n_out)
        self.second = EvenConv(n_out, n_out, 3)
        self.narrow, self.widen = point(n_out, n_out // 4), point(n_out // 4, n_out)
        self.bridge = EvenConv(n_in, n_out, 1) if n_in != n_out else None
        self.pool = nn.AvgPool2D(stride, ceil_mode=True, exclusive=True)

    def forward(self, x, frames):
        y = F.silu(self.before(x))
        z = self.second(F.silu(self.between(self.first(neighbours(y, frames)))))
        valve = self.widen(F.relu(self.narrow(F.adaptive_avg_pool2d(z, 1))))
        z = 2 * F.sigmoid(valve) * z
        kept = x if self.bridge is None else self.bridge(self.pool(y))
        return kept + 0.7 * z


class Eyes(nn.Layer):
    def __init__(self):
        super().__init__()
        self.entry = nn.Conv3D(2, 8, (3, 5, 5), stride=(1, 2, 2), padding=(1, 2, 2), bias_attr=False,
                               weight_attr=Normal(0.0, sqrt(2 / (8 * 3 * 5 * 5))))
        self.even = nn.InstanceNorm3D(8)
        self.bend = nn.PReLU(8)
        self.stages = nn.LayerList([Stage(8, 8, 1), Stage(8, 16, 2), Stage(16, 16, 1)])
        self.close = nn.GroupNorm(4, 16)

    def forward(self, clip, there):
        x = self.bend(self.even(self.entry(clip)))
        x = x * there.reshape([there.shape[0], 1, -1, 1, 1])
        frames = x.shape[2]
        # frames become a batch of pictures; the pool looks at one frame at a time in any case
        x = x.transpose([0, 2, 1, 3, 4]).flatten(0, 1)
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        for stage in self.stages:
            x = stage(x, frames)
        return F.silu(self.close(x)).mean(axis=[2, 3]).reshape([-1, frames, x.shape[1]])
