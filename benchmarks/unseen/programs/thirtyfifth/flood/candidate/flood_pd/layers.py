import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Uniform


def plain_conv(cin, cout, k=1, bias=None, **kw):
    r = 1 / math.sqrt(cin * k * k)
    return nn.Conv2D(cin, cout, k, weight_attr=Uniform(-r, r), bias_attr=bias or Uniform(-r, r), **kw)


class SpectralConv(nn.Layer):
    """weight / sigma(weight), sigma by power iteration with a kept left vector."""

    def __init__(self, cin, cout, k, stride=1, groups=1):
        super().__init__()
        r = 1 / math.sqrt(cin // groups * k * k)
        self.weight = self.create_parameter([cout, cin // groups, k, k], default_initializer=Uniform(-r, r))
        self.register_buffer("left", F.normalize(paddle.randn([cout]), axis=0))
        self.options = dict(stride=stride, padding=k // 2, groups=groups)

    def forward(self, x):
        mat = self.weight.reshape([self.weight.shape[0], -1])
        frozen = mat.detach()
        right = F.normalize(paddle.mv(frozen.t(), self.left), axis=0)
        left = F.normalize(paddle.mv(frozen, right), axis=0)
        if self.training:
            self.left.set_value(left)
        sigma = (left * paddle.mv(mat, right)).sum()
        return F.conv2d(x, self.weight / sigma, **self.options)


class ConvINAct(nn.Layer):
    def __init__(self, cin, cout, k=3, stride=1, groups=1):
        super().__init__()
        self.conv = SpectralConv(cin, cout, k, stride, groups)
        self.inorm = nn.InstanceNorm2D(cout)

    def forward(self, x):
        return F.leaky_relu(self.inorm(self.conv(x)), 0.1)


class GroupedResidual(nn.Layer):
    def __init__(self, cin, cout, stride, groups):
        super().__init__()
        self.main = nn.Sequential(
            ConvINAct(cin, cout, 1),
            ConvINAct(cout, cout, 3, stride, groups),
            SpectralConv(cout, cout, 1),
            nn.InstanceNorm2D(cout, weight_attr=False, bias_attr=False),
        )
        self.proj, self.stride = plain_conv(cin, cout), stride

    def forward(self, x):
        skip = self.proj(F.avg_pool2d(x, self.stride, self.stride, ceil_mode=True))
        return F.leaky_relu(self.main(x) + skip, negative_slope=0.1)
