import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from pp_settings import get

I = nn.initializer


def attr(init):
    return paddle.ParamAttr(initializer=init)


def uniform_for(fan_in, slope=0.1):
    bound = math.sqrt(6.0 / ((1.0 + slope ** 2) * fan_in))
    return I.Uniform(-bound, bound)


class Mirror(nn.Layer):
    """3x3 convolution over a mirrored border."""

    def __init__(self, cin, cout, init=None):
        super().__init__()
        self.weight = self.create_parameter([cout, cin, 3, 3], attr=attr(init or uniform_for(9 * cin)))
        self.bias = self.create_parameter([cout], is_bias=True)

    def forward(self, x):
        return F.conv2d(F.pad(x, [1, 1, 1, 1], mode="reflect"), self.weight, self.bias)


class Attend(nn.Layer):
    def __init__(self, c, hidden):
        super().__init__()
        zero = attr(I.Constant(0.0))
        self.inner = nn.Conv2D(c, hidden, 1, weight_attr=attr(uniform_for(c)), bias_attr=zero)
        self.outer = nn.Conv2D(hidden, c, 1, weight_attr=attr(uniform_for(hidden)), bias_attr=zero)

    def forward(self, x):
        s = x.mean(axis=[2, 3], keepdim=True)
        s = F.leaky_relu(self.inner(s), negative_slope=0.1)
        return x * F.sigmoid(self.outer(s))


class Stage(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.first = Mirror(c, c)
        self.norm = nn.GroupNorm(get("network.norm_groups"), c)
        self.film = nn.Linear(1, 2 * c, weight_attr=attr(I.Normal(0.0, 0.05)))
        self.second = Mirror(c, c)
        self.attend = Attend(c, get("network.bottleneck"))
        self.c = c

    def forward(self, x, level):
        film = self.film(level).reshape([-1, 2, self.c, 1, 1])
        h = self.norm(self.first(x))
        h = F.silu(h + h * film[:, 0] + film[:, 1])
        return x + get("network.branch_weight") * self.attend(self.second(h))


def unfold_channels(x, r):
    b, c, h, w = x.shape
    x = x.reshape([b, c // (r * r), r, r, h, w])
    return x.transpose([0, 1, 4, 2, 5, 3]).reshape([b, c // (r * r), h * r, w * r])


class SharpNet(nn.Layer):
    def __init__(self):
        super().__init__()
        c = get("network.channels")
        self.head = Mirror(3, c)
        self.blocks = nn.LayerList([Stage(c) for _ in range(get("network.depth"))])
        self.tail = Mirror(c, 12, init=I.Normal(0.0, 0.02))

    def forward(self, low, level):
        start = self.head(low)
        x = start
        for stage in self.blocks:
            x = stage(x, level)
        detail = unfold_channels(self.tail(start + x), 2)
        size = [2 * low.shape[2], 2 * low.shape[3]]
        base = F.interpolate(low, size=size, mode="bicubic", align_corners=False)
        planes = paddle.unbind(base + detail, axis=1)
        moments = zip(get("patches.channel_mean"), get("patches.channel_std"))
        return paddle.stack([p * s + m for p, (m, s) in zip(planes, moments)], axis=1)
