import math

import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I

from .workspace import create, register


class ConvNorm(nn.Layer):
    def __init__(self, cin, cout, stride, num_groups, std=None):
        super().__init__()
        init = I.Normal(0.0, std) if std else I.Normal(0.0, math.sqrt(2.0 / (cout * 9)))
        self.conv = nn.Conv2D(cin, cout, 3, stride=stride, padding=1, weight_attr=paddle.ParamAttr(initializer=init), bias_attr=False)
        self.norm = nn.GroupNorm(num_groups, cout)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


@register
class Trunk(nn.Layer):
    def __init__(self, widths, taps, num_groups):
        super().__init__()
        self.taps = set(taps)
        self.blocks = nn.LayerList([ConvNorm(a, b, 2, num_groups) for a, b in zip((3,) + tuple(widths), widths)])

    def forward(self, x):
        levels = []
        for depth, block in enumerate(self.blocks):
            x = block(x)
            if depth in self.taps:
                levels.append(x)
        return levels


def he_conv(cin, cout, kernel):
    std = math.sqrt(2.0 / (cout * kernel * kernel))
    return nn.Conv2D(cin, cout, kernel, padding=kernel // 2, weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, std)),
                     bias_attr=paddle.ParamAttr(initializer=I.Constant(0.0)))


@register
class TopDown(nn.Layer):
    def __init__(self, widths, width):
        super().__init__()
        self.inner = nn.LayerList([he_conv(w, width, 1) for w in widths])
        self.outer = nn.LayerList([he_conv(width, width, 3) for _ in widths])

    def forward(self, levels):
        merged = None
        outs = []
        for x, inner, outer in reversed(list(zip(levels, self.inner, self.outer))):
            x = inner(x)
            if merged is not None:
                x = x + F.interpolate(merged, size=x.shape[2:], mode="bilinear", align_corners=False, align_mode=0)
            merged = x
            outs.insert(0, outer(merged))
        return outs


@register
class DenseHead(nn.Layer):
    def __init__(self, classes, width, depth, levels, per_cell, num_groups, prior):
        super().__init__()
        self.classes = classes
        self.cls_tower = nn.Sequential(*[ConvNorm(width, width, 1, num_groups, std=0.01) for _ in range(depth)])
        self.box_tower = nn.Sequential(*[ConvNorm(width, width, 1, num_groups, std=0.01) for _ in range(depth)])
        self.cls_out = self._predictor(width, per_cell * classes, -math.log((1 - prior) / prior))
        self.box_out = self._predictor(width, per_cell * 4, 0.0)
        self.gains = nn.ParameterList([self.create_parameter([1], default_initializer=I.Constant(1.0)) for _ in range(levels)])

    @staticmethod
    def _predictor(cin, cout, bias):
        return nn.Conv2D(cin, cout, 3, padding=1, weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, 0.01)),
                         bias_attr=paddle.ParamAttr(initializer=I.Constant(bias)))

    @staticmethod
    def _rows(x, columns):
        return x.transpose([0, 2, 3, 1]).reshape([x.shape[0], -1, columns])

    def forward(self, levels):
        logits, offsets = [], []
        for gain, x in zip(self.gains, levels):
            logits.append(self._rows(self.cls_out(self.cls_tower(x)), self.classes))
            offsets.append(self._rows(self.box_out(self.box_tower(x)) * gain, 4))
        return paddle.concat(logits, axis=1), paddle.concat(offsets, axis=1)


@register
class OneStageDetector(nn.Layer):
    def __init__(self, trunk, pyramid, head):
        super().__init__()
        self.trunk = create(trunk)
        self.pyramid = create(pyramid)
        self.head = create(head)

    def forward(self, images):
        return self.head(self.pyramid(self.trunk(images)))
