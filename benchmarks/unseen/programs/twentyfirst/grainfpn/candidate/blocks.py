import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Assign, Constant, Normal, TruncatedNormal


def conv_init(cout, k):
    if k == 1:
        return TruncatedNormal(std=0.06, a=-0.12, b=0.12)
    return Normal(std=math.sqrt(2.0 / (cout * k * k)))


def conv(cin, cout, k=1, bias=0.0, **kw):
    kw.setdefault("padding", k // 2)
    bias_attr = False if bias is None else Constant(bias)
    return nn.Conv2D(cin, cout, k, weight_attr=conv_init(cout, k), bias_attr=bias_attr, **kw)


class StandardizedConv2D(nn.Conv2D):
    def __init__(self, cin, cout, k, **kw):
        super().__init__(cin, cout, k, padding=k // 2, weight_attr=conv_init(cout, k), bias_attr=Constant(0.0), **kw)
        self.gain = self.create_parameter([cout, 1, 1, 1], default_initializer=Constant(1.0))

    def standardized(self):
        flat = self.weight.flatten(start_axis=1)
        centred = flat - flat.mean(axis=1, keepdim=True)
        var = paddle.var(flat, axis=1, keepdim=True)
        flat = centred / paddle.sqrt(paddle.clip(var * flat.shape[1], min=1e-4))
        return flat.reshape(self.weight.shape) * self.gain

    def forward(self, x):
        return F.conv2d(x, self.standardized(), self.bias, stride=self._stride, padding=self._padding)


class BlurDown(nn.Layer):
    def __init__(self, c):
        super().__init__()
        k = np.outer([1, 2, 1], [1, 2, 1]).astype("float32")
        self.register_buffer("blur", paddle.to_tensor(np.tile(k / k.sum(), (c, 1, 1, 1))), persistable=False)

    def forward(self, x):
        x = F.pad(x, [1, 1, 1, 1], mode="reflect")
        return F.conv2d(x, self.blur, stride=2, groups=x.shape[1])


class LayerNorm2D(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.ln = nn.LayerNorm(c, epsilon=1e-6)

    def forward(self, x):
        return self.ln(x.transpose([0, 2, 3, 1])).transpose([0, 3, 1, 2])


class ResponseNorm(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.alpha = self.create_parameter([1, c, 1, 1], default_initializer=Constant(0.2))
        self.shift = self.create_parameter([1, c, 1, 1], default_initializer=Constant(0.0))

    def forward(self, x):
        energy = paddle.sqrt(paddle.sum(x * x, axis=[2, 3], keepdim=True))
        relative = energy / (energy.mean(axis=1, keepdim=True) + 1e-6)
        return x * (1 + self.alpha * relative) + self.shift


class ResponseBlock(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(
            ("spatial", conv(c, c, 5, groups=c)), ("norm", LayerNorm2D(c)), ("expand", conv(c, 2 * c)),
            ("act", nn.GELU()), ("response", ResponseNorm(2 * c)), ("project", conv(2 * c, c)))

    def forward(self, x):
        return self.body(x) + x


class ChannelGate(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.squeeze, self.excite = conv(c, c // 4), conv(c // 4, c)

    def forward(self, x):
        s = self.excite(F.relu(self.squeeze(x.mean(axis=[2, 3], keepdim=True))))
        return x * (F.relu6(s + 3.0) / 6.0)


class Trunk(nn.Layer):
    def __init__(self, widths, depths):
        super().__init__()
        self.entry = StandardizedConv2D(3, widths[0], 3, stride=2)
        self.entry_norm = nn.GroupNorm(4, widths[0])
        self.levels = nn.LayerList()
        for i, (c, n) in enumerate(zip(widths, depths)):
            level = [] if i == 0 else [BlurDown(widths[i - 1]), conv(widths[i - 1], c)]
            level += [ResponseBlock(c) for _ in range(n)]
            if i > 0:
                level.append(ChannelGate(c))
            self.levels.append(nn.Sequential(*level))

    def forward(self, x):
        x = F.silu(self.entry_norm(self.entry(x)))
        out = []
        for level in self.levels:
            x = level(x)
            out.append(x)
        return out


class Merge(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.share = self.create_parameter([2], default_initializer=Assign(np.array([1.0, 0.5], "float32")))
        self.smooth = StandardizedConv2D(c, c, 3)

    def forward(self, lateral, top):
        top = F.interpolate(top, size=lateral.shape[2:], mode="bilinear", align_corners=False)
        a, b = paddle.unbind(F.relu(self.share))
        return self.smooth(F.silu((a * lateral + b * top) / (a + b + 1e-4)))


class GrainNet(nn.Layer):
    def __init__(self, widths, depths, c, prior, drop):
        super().__init__()
        self.trunk = Trunk(widths, depths)
        self.side = nn.LayerList([conv(k, c) for k in widths])
        self.merge2, self.merge4 = Merge(c), Merge(c)
        self.mask_head = nn.Sequential(nn.GroupNorm(8, c), nn.Silu(), conv(c, 4, 3), nn.PixelShuffle(2))
        self.local_mean = nn.AvgPool2D(3, stride=1, padding=1)
        self.centre_head = nn.Sequential(conv(2 * c, c, 3, bias=None), nn.GroupNorm(8, c), nn.ReLU(),
                                         nn.Dropout2D(drop))
        self.heat_out = conv(c, 1, bias=-math.log((1 - prior) / prior))
        self.size_out = conv(c, 2, bias=2.2)

    def forward(self, image):
        s2, s4, s8 = [side(f) for side, f in zip(self.side, self.trunk(image))]
        p4 = self.merge4(s4, s8)
        p2 = self.merge2(s2, p4)
        c = self.centre_head(paddle.concat([p4, p4 - self.local_mean(p4)], axis=1))
        return {"mask": self.mask_head(p2), "heat": self.heat_out(c), "size": self.size_out(c)}
