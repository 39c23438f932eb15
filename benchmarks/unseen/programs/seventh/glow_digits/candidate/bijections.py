"""Invertible maps. Each takes x and gives (y, log |det dy/dx|), a number or one for each sample."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Assign, Constant, Normal

ZERO = Constant(0.0)


def conv(cin, cout, k, init):
    return nn.Conv2D(cin, cout, k, padding=k // 2, weight_attr=paddle.ParamAttr(initializer=init), bias_attr=paddle.ParamAttr(initializer=ZERO))


class ZeroConv(nn.Layer):
    def __init__(self, cin, cout, speed=3.0):
        super().__init__()
        self.inner = conv(cin, cout, 3, ZERO)
        self.log_gain = self.create_parameter([cout, 1, 1], default_initializer=ZERO)
        self.speed = speed

    def forward(self, x):
        return self.inner(x) * (self.log_gain * self.speed).exp()


class ChannelAffine(nn.Layer):
    """Glow's actnorm."""

    def __init__(self, channels):
        super().__init__()
        shape = [1, channels, 1, 1]
        self.shift = self.create_parameter(shape, default_initializer=ZERO)
        self.log_scale = self.create_parameter(shape, default_initializer=ZERO)
        self.register_buffer("seen", paddle.zeros([1], dtype="uint8"))

    def from_data(self, x):
        with paddle.no_grad():
            axes = [0, 2, 3]
            std = paddle.std(x, axis=axes, unbiased=False, keepdim=True)
            self.shift.set_value(-x.mean(axis=axes, keepdim=True))
            self.log_scale.set_value(-paddle.log(std + 1e-6))
            self.seen.set_value(paddle.ones([1], dtype="uint8"))

    def forward(self, x):
        if self.training and self.seen.item() == 0:
            self.from_data(x)
        pixels = x.shape[2] * x.shape[3]
        return (x + self.shift) * paddle.exp(self.log_scale), pixels * self.log_scale.sum()


class ChannelMix(nn.Layer):
    """A learnt rotation of the channels."""

    def __init__(self, channels):
        super().__init__()
        rotation, _ = paddle.linalg.qr(paddle.randn([channels, channels]))
        self.matrix = self.create_parameter([channels, channels], default_initializer=Assign(rotation))

    def forward(self, x):
        pixels = x.shape[2] * x.shape[3]
        y = paddle.einsum("oc,bchw->bohw", self.matrix, x)
        return y, paddle.linalg.slogdet(self.matrix)[1] * pixels


class HalfAffine(nn.Layer):
    """Affine coupling: the first half of the channels says how the second is scaled."""

    def __init__(self, channels, width):
        super().__init__()
        self.half = channels // 2
        self.net = nn.Sequential(conv(self.half, width, 3, Normal(0.0, 0.05)), nn.ReLU(), conv(width, width, 1, Normal(0.0, 0.05)), nn.ReLU(), ZeroConv(width, channels))

    def forward(self, x):
        still, moved = paddle.split(x, [self.half, self.half], axis=1)
        h = self.net(still)
        n, _, height, breadth = h.shape
        h = h.reshape([n, self.half, 2, height, breadth])
        shift, raw = h[:, :, 0], h[:, :, 1] + 2
        moved = F.sigmoid(raw) * (moved + shift)
        return paddle.concat([still, moved], axis=1), F.log_sigmoid(raw).sum(axis=[1, 2, 3])


class Chain(nn.Layer):
    def __init__(self, maps):
        super().__init__()
        self.maps = nn.LayerList(maps)

    def forward(self, x):
        total = 0.0
        for m in self.maps:
            x, volume = m(x)
            total = total + volume
        return x, total
