import math

import paddle
import paddle.nn.functional as F
from paddle import ParamAttr, nn
from paddle.nn.initializer import Constant, Normal, Uniform


def round_channels(value, unit=4):
    """To the nearest multiple of `unit`, but never more than a tenth below."""
    rounded = max(unit, int(value + unit / 2) // unit * unit)
    if rounded < 0.9 * value:
        rounded += unit
    return rounded


def conv2d(cin, cout, k, stride=1, groups=1, bias=False):
    std = math.sqrt(2.0 / (k * k * cout // groups))
    return nn.Conv2D(cin, cout, k, stride=stride, padding=(k - 1) // 2, groups=groups,
                     weight_attr=ParamAttr(initializer=Normal(0.0, std)), bias_attr=ParamAttr(initializer=Constant(0.0)) if bias else False)


def linear(cin, cout):
    bound = cout ** -0.5
    return nn.Linear(cin, cout, weight_attr=ParamAttr(initializer=Uniform(-bound, bound)), bias_attr=ParamAttr(initializer=Constant(0.0)))


class ConvUnit(nn.Layer):
    def __init__(self, cin, cout, k, stride=1, groups=1, swish=True):
        super().__init__()
        self.conv = conv2d(cin, cout, k, stride, groups)
        self.bn = nn.BatchNorm2D(cout, momentum=0.99, epsilon=1e-3)
        self.swish = swish

    def forward(self, x):
        x = self.bn(self.conv(x))
        return F.silu(x) if self.swish else x


def stochastic_depth(x, rate, training):
    if not training or rate == 0:
        return x
    survival = 1.0 - rate
    noise = paddle.rand([x.shape[0]] + [1] * (x.ndim - 1), dtype=x.dtype)
    return x / survival * paddle.floor(noise + survival)


class ChannelGate(nn.Layer):
    def __init__(self, channels, hidden):
        super().__init__()
        self.squeeze = conv2d(channels, hidden, 1, bias=True)
        self.excite = conv2d(hidden, channels, 1, bias=True)

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1)
        return x * F.sigmoid(self.excite(F.silu(self.squeeze(s))))


class InvertedBottleneck(nn.Layer):
    def __init__(self, cin, cout, k, stride, widen, gate, rate):
        super().__init__()
        wide = round_channels(cin * widen)
        self.grow = ConvUnit(cin, wide, 1) if widen > 1 else None
        self.spatial = ConvUnit(wide, wide, k, stride=stride, groups=wide)
        self.attention = ChannelGate(wide, max(1, int(cin * gate)))
        self.shrink = ConvUnit(wide, cout, 1, swish=False)
        self.skip = stride == 1 and cin == cout
        self.rate = rate

    def forward(self, x):
        y = x if self.grow is None else self.grow(x)
        y = self.spatial(y)
        y = self.attention(y)
        y = self.shrink(y)
        if not self.skip:
            return y
        return stochastic_depth(y, self.rate, self.training) + x


class ModernBlock(nn.Layer):
    """ConvNeXt's block; the linear layers are applied to the last axis."""

    def __init__(self, width, k, rate, scale):
        super().__init__()
        self.spatial = conv2d(width, width, k, groups=width, bias=True)
        self.norm = nn.LayerNorm(width, epsilon=1e-6)
        self.mlp = nn.Sequential(linear(width, width * 4), nn.GELU(), linear(width * 4, width))
        self.scale = self.create_parameter([width], default_initializer=Constant(scale))
        self.rate = rate

    def forward(self, x):
        y = self.spatial(x).transpose([0, 2, 3, 1])
        y = self.mlp(self.norm(y)) * self.scale
        y = y.transpose([0, 3, 1, 2])
        return x + stochastic_depth(y, self.rate, self.training)
