"""Layers by name."""
import math

import paddle
import paddle.nn.functional as F
from paddle import nn

I = nn.initializer


class _Parts:
    def __init__(self):
        self.table = {}

    def __call__(self, name):
        return lambda item: self.table.setdefault(name, item)

    def make(self, name, *args, **kw):
        return self.table[name](*args, **kw)

    call = make


PARTS = _Parts()


def conv(cin, cout, k, stride=1, groups=1):
    """Normal weights scaled by what the layer sends out."""
    std = math.sqrt(2.0 / (cout * k * k))
    return nn.Conv2D(cin, cout, k, stride=stride, padding=k // 2, groups=groups,
                     weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, std)), bias_attr=False)


def glorot_linear(cin, cout, bias=None):
    edge = 0.8 * math.sqrt(6.0 / (cin + cout))
    start = I.Constant(0.0) if bias is None else I.Assign(bias)
    return nn.Linear(cin, cout, weight_attr=paddle.ParamAttr(initializer=I.Uniform(-edge, edge)),
                     bias_attr=paddle.ParamAttr(initializer=start))


def group_norm(ch, scale=1.0):
    return nn.GroupNorm(4, ch, weight_attr=paddle.ParamAttr(initializer=I.Constant(scale)))


@PARTS("coords")
def add_coords(image):
    b, _, h, w = image.shape
    ys, xs = paddle.meshgrid(paddle.linspace(1, -1, h), paddle.linspace(-1, 1, w))
    extra = paddle.stack([xs, ys, paddle.sqrt(xs * xs + ys * ys)])
    return paddle.concat([image, extra.unsqueeze(0).tile([b, 1, 1, 1])], axis=1)


@PARTS("stem")
class Entry(nn.Layer):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = conv(cin, cout, 3, 2)
        self.norm = group_norm(cout)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


@PARTS("squeeze")
class ChannelGate(nn.Layer):
    def __init__(self, ch):
        super().__init__()
        self.down = glorot_linear(ch, ch // 4)
        self.up = glorot_linear(ch // 4, ch)

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1).flatten(1)
        s = F.sigmoid(self.up(F.relu(self.down(s))))
        return x * s.unsqueeze(-1).unsqueeze(-1)


@PARTS("sep")
class DepthPoint(nn.Layer):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.residual = stride == 1 and cin == cout
        self.depth = conv(cin, cin, 3, stride, groups=cin)
        self.norm1 = group_norm(cin)
        self.point = conv(cin, cout, 1)
        self.norm2 = group_norm(cout, 0.2 if self.residual else 1.0)
        self.gate = PARTS.make("squeeze", cout)

    def forward(self, x):
        y = self.point(F.silu(self.norm1(self.depth(x))))
        y = self.gate(self.norm2(y))
        return F.silu(x + y if self.residual else y)


@PARTS("gem")
class PowerMean(nn.Layer):
    def __init__(self, power, floor=1e-4):
        super().__init__()
        self.p = self.create_parameter([1], default_initializer=I.Constant(power))
        self.floor = floor

    def forward(self, x):
        flat = paddle.clip(x, min=self.floor).flatten(2)
        return paddle.pow(paddle.pow(flat, self.p).mean(axis=-1), 1.0 / self.p)


@PARTS("softargmax")
class Whereabouts(nn.Layer):
    def __init__(self, sharpness):
        super().__init__()
        self.sharpness = sharpness

    def forward(self, x):
        h, w = x.shape[2:]
        heat = F.softmax(self.sharpness * x.flatten(2), axis=-1).reshape([0, 0, h, w])
        across = paddle.matmul(heat.sum(axis=2), paddle.linspace(-1, 1, w))
        along = paddle.matmul(heat.sum(axis=3), paddle.linspace(1, -1, h))
        return paddle.concat([across, along], axis=1)


@PARTS("head/direction")
class PointerHead(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.hid = glorot_linear(width, 20)
        self.out = glorot_linear(20, 2)

    def forward(self, z):
        v = self.out(paddle.tanh(self.hid(z)))
        return v / paddle.clip(paddle.sqrt((v * v).sum(axis=-1, keepdim=True)), min=1e-6)


@PARTS("head/kind")
class KindHead(nn.Layer):
    def __init__(self, width, kinds, prior=(0.5, 0.3, 0.2)):
        super().__init__()
        self.out = glorot_linear(width, kinds, [math.log(p) for p in prior])

    def forward(self, z):
        return self.out(z)


@PARTS("head/span")
class SpanHead(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.out = glorot_linear(width, 1)

    def forward(self, z):
        return F.sigmoid(self.out(z.detach()))[:, 0]
