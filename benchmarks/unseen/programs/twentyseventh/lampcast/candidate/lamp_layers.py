"""Layers of the lamp estimator and the laws they start from."""
import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as I


def conv_law(out_channels, kernel, slope=0.2):
    gain = math.sqrt(2.0 / (1.0 + slope**2))
    fan = out_channels * kernel * kernel
    return paddle.ParamAttr(initializer=I.Normal(0.0, gain / math.sqrt(fan)))


def dense_law(n_in, n_out, gain=0.5):
    bound = gain * math.sqrt(6.0 / (n_in + n_out))
    return paddle.ParamAttr(initializer=I.Uniform(-bound, bound))


def constant(value):
    return paddle.ParamAttr(initializer=I.Constant(value))


def conv(n_in, n_out, kernel=1, groups=1, bias=True, **kw):
    return nn.Conv2D(
        n_in, n_out, kernel, padding=kernel // 2, groups=groups,
        weight_attr=conv_law(n_out, kernel), bias_attr=constant(0.0) if bias else False, **kw
    )


def dense(n_in, n_out):
    return nn.Linear(n_in, n_out, weight_attr=dense_law(n_in, n_out), bias_attr=constant(0.01))


class RunningNorm(nn.BatchNorm2D):
    """Batch norm whose running variance is the unbiased one, as the original keeps it."""

    def __init__(self, channels):
        super().__init__(channels, momentum=0.95, epsilon=1e-3)

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        count = x.shape[0] * x.shape[2] * x.shape[3]
        mean = x.mean(axis=[0, 2, 3], keepdim=True)
        centred = x - mean
        var = (centred * centred).mean(axis=[0, 2, 3], keepdim=True)
        with paddle.no_grad():
            keep = self._momentum
            fresh = var.flatten() * (count / (count - 1))
            self._mean.set_value(keep * self._mean + (1 - keep) * mean.flatten())
            self._variance.set_value(keep * self._variance + (1 - keep) * fresh)
        scale = self.weight.reshape([1, -1, 1, 1])
        shift = self.bias.reshape([1, -1, 1, 1])
        return centred * paddle.rsqrt(var + self._epsilon) * scale + shift


class Stem(nn.Layer):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.conv = conv(n_in, n_out, 3, bias=False, padding_mode="replicate")
        self.norm = RunningNorm(n_out)
        self.act = nn.PReLU(n_out, init=0.2)

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Fire(nn.Layer):
    def __init__(self, n_in, n_out, narrow=6, groups=2):
        super().__init__()
        self.squeeze = conv(n_in, narrow)
        self.act = nn.PReLU(narrow, init=0.2)
        self.expand1 = conv(narrow, n_out // 2, bias=False)
        self.expand3 = conv(narrow, n_out // 2, 3, groups=groups, bias=False)
        self.norm = RunningNorm(n_out)
        self.mix = nn.ChannelShuffle(groups)
        self.skip = n_in == n_out

    def forward(self, x):
        s = self.act(self.squeeze(x))
        y = self.norm(self.mix(paddle.concat([self.expand1(s), self.expand3(s)], axis=1)))
        return F.leaky_relu(y + x if self.skip else y, 0.1)


class Pool(nn.Layer):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.pool = nn.AvgPool2D(3, stride=2, padding=1, exclusive=False)

    def forward(self, x):
        return self.pool(x)


class Excite(nn.Layer):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.down = dense(n_in, n_in // 4)
        self.up = dense(n_in // 4, n_out)

    def forward(self, x):
        z = F.adaptive_avg_pool2d(x, 1).flatten(1)
        z = self.up(F.relu(self.down(z)))
        gate = paddle.clip(z + 3.0, 0.0, 6.0) / 6.0
        return x * gate.unsqueeze([2, 3])


KINDS = {c.__name__.lower(): c for c in (Stem, Fire, Pool, Excite)}
