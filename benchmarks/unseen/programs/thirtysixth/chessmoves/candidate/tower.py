"""Convolutional part."""
import paddle
from paddle import nn
from paddle.nn import functional as F

from .starts import conv, linear


def conv_bn(n_in, n_out, size):
    return nn.Sequential(conv(n_in, n_out, size), nn.BatchNorm2D(n_out, momentum=0.95, epsilon=1e-3))


class ChannelGate(nn.Layer):
    def __init__(self, width, narrow):
        super().__init__()
        self.net = nn.Sequential(linear(width, narrow), nn.ReLU(), linear(narrow, 2 * width))
        self.width = width

    def forward(self, x):
        pooled = F.adaptive_avg_pool2d(x, 1).flatten(1)
        both = self.net(pooled).reshape([-1, 2, self.width, 1, 1])
        return x * F.sigmoid(both[:, 0]) + both[:, 1]


class Pair(nn.Layer):
    def __init__(self, width, narrow=8):
        super().__init__()
        self.conv1 = conv_bn(width, width, 3)
        self.conv2 = conv_bn(width, width, 3)
        self.gate = ChannelGate(width, narrow)

    def forward(self, x):
        return F.mish(x + self.gate(self.conv2(F.mish(self.conv1(x)))))


class Tower(nn.Layer):
    def __init__(self, planes, width, depth):
        super().__init__()
        self.entry = conv_bn(planes, width, 3)
        self.pairs = nn.LayerList([Pair(width) for _ in range(depth)])

    def forward(self, planes):
        x = F.mish(self.entry(planes))
        for pair in self.pairs:
            x = pair(x)
        return x
