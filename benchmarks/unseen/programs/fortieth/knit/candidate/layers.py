import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, KaimingNormal, XavierUniform

from .ops import ring_conv1d, ring_conv2d


def linear(a, b, bias=True):
    return nn.Linear(a, b, weight_attr=XavierUniform(), bias_attr=Constant(0.0) if bias else False)


class Ring2D(nn.Layer):
    def __init__(self, channels, spread=1):
        super().__init__()
        self.spread = spread
        self.weight = self.create_parameter([channels, channels, 3, 3], default_initializer=KaimingNormal())
        self.bias = self.create_parameter([channels], is_bias=True)

    def forward(self, x):
        return ring_conv2d(x, self.weight, self.bias, self.spread)


class Ring1D(nn.Layer):
    def __init__(self, taken, given):
        super().__init__()
        self.weight = self.create_parameter([given, taken, 3], default_initializer=XavierUniform())
        self.bias = self.create_parameter([given], is_bias=True)

    def forward(self, x):
        return ring_conv1d(x, self.weight, self.bias)


class ConvNorm(nn.Layer):
    def __init__(self, channels, groups, spread=1, act=None):
        super().__init__()
        self.conv = Ring2D(channels, spread)
        self.gn = nn.GroupNorm(groups, channels)
        self.act = act

    def forward(self, x):
        x = self.gn(self.conv(x))
        return self.act(x) if self.act else x


class YarnBlock(nn.Layer):
    """Two convolutions, a gate by what is known of the yarn, and the way round them."""

    def __init__(self, channels, groups, spread, facts):
        super().__init__()
        self.first = ConvNorm(channels, groups, spread, F.silu)
        self.second = ConvNorm(channels, groups)
        self.yarn = linear(facts, channels)

    def forward(self, x, facts):
        gate = F.sigmoid(self.yarn(facts)).unsqueeze([2, 3])
        return F.silu(x + 2.0 * gate * self.second(self.first(x)))
