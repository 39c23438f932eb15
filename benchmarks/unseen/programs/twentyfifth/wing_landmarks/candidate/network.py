"""The wing network in Paddle."""
import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from settings import GRID, MODEL, POINTS


def conv(cin, cout, k, bias=True, std=None, **kwargs):
    if std is None:
        std = math.sqrt(2.0 / (cout * k * k))
    return nn.Conv2D(
        cin, cout, k,
        weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, std)),
        bias_attr=paddle.ParamAttr(initializer=I.Constant(0.0)) if bias else False,
        **kwargs)


def dense(cin, cout, start=0.0):
    gain = math.sqrt(2.0 / (1.0 + MODEL["slope"] ** 2))
    return nn.Linear(
        cin, cout,
        weight_attr=paddle.ParamAttr(initializer=I.XavierUniform(gain=gain)),
        bias_attr=paddle.ParamAttr(initializer=I.Constant(start)))


def group_norm(groups, width, start=1.0):
    return nn.GroupNorm(groups, width, weight_attr=paddle.ParamAttr(initializer=I.Constant(start)))


class Gate(nn.Layer):
    def __init__(self, width):
        super().__init__()
        small = width // MODEL["gate_ratio"]
        self.squeeze = conv(width, small, 1)
        self.excite = conv(small, width, 1)

    def forward(self, x):
        s = F.adaptive_avg_pool2d(x, 1)
        s = self.excite(F.relu(self.squeeze(s)))
        return x * paddle.clip(s / 6.0 + 0.5, 0.0, 1.0)


class Inverted(nn.Layer):
    def __init__(self, width, dilation):
        super().__init__()
        mid = MODEL["expand"] * width
        self.widen = conv(width, mid, 1, bias=False)
        self.norm1 = group_norm(MODEL["norm_groups"], mid)
        self.depth = conv(mid, mid, 3, bias=False, padding=dilation, dilation=dilation, groups=mid)
        self.norm2 = group_norm(MODEL["norm_groups"], mid, start=0.5)
        self.gate = Gate(mid)
        self.narrow = conv(mid, width, 1, bias=False)

    def forward(self, x):
        y = self.norm1(self.widen(x))
        y = self.norm2(self.depth(y * F.sigmoid(y)))
        y = y * F.sigmoid(y)
        return self.narrow(self.gate(y)) + x


class Stem(nn.Layer):
    def __init__(self, mid, out):
        super().__init__()
        self.conv1 = conv(1, mid, 3, bias=False, padding=1)
        self.norm = group_norm(MODEL["stem_groups"], mid)
        self.act = nn.PReLU(num_parameters=mid)
        self.conv2 = conv(mid, out, 3, stride=2, padding=1)

    def forward(self, x):
        return self.conv2(self.act(self.norm(self.conv1(x))))


class WingNet(nn.Layer):
    def __init__(self):
        super().__init__()
        width, points = MODEL["width"], len(POINTS)
        self.stem = Stem(MODEL["stem"], width)
        self.fine = nn.LayerList([Inverted(width, d) for d in MODEL["dilations"]])
        self.pool = nn.AvgPool2D(3, stride=2, padding=1, exclusive=False)
        self.coarse = Inverted(width, 1)
        self.heat = conv(width, points, 1, bias=False, std=0.05)
        self.vis1 = dense(2 * width, 16)
        self.vis2 = dense(16, points, start=math.log(4.0))
        self.sharp = self.create_parameter([points], default_initializer=I.Constant(math.log(2.0)))
        cell = (paddle.arange(GRID, dtype="float32") + 0.5) / GRID
        gy, gx = paddle.meshgrid(cell, cell)
        grid = paddle.stack([gx.flatten(), gy.flatten()], axis=-1)
        self.register_buffer("grid", grid, persistable=False)

    def forward(self, image):
        x = self.stem(image)
        for block in self.fine:
            x = block(x)
        low = self.coarse(self.pool(x))
        up = F.interpolate(low, size=[GRID, GRID], mode="bilinear", align_corners=False, align_mode=0)
        logits = self.heat(x + up) * paddle.exp(self.sharp).reshape([1, -1, 1, 1])
        xy = paddle.matmul(F.softmax(logits.flatten(2), axis=-1), self.grid)
        pooled = paddle.concat([low.mean(axis=[2, 3]), low.max(axis=[2, 3])], axis=1)
        vis = self.vis2(F.leaky_relu(self.vis1(pooled), MODEL["slope"]))
        return {"logits": logits, "xy": xy, "vis": vis}
