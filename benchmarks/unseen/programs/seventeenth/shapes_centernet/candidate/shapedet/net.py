import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Normal

from .settings import S


def conv(cin, cout, k, stride=1, bias=False, std=None, fill=0.0):
    """A padded convolution; its weights are drawn for the fan of its outputs unless std is given."""
    std = math.sqrt(2.0 / (cout * k * k)) if std is None else std
    bias_attr = paddle.ParamAttr(initializer=Constant(fill)) if bias else False
    return nn.Conv2D(cin, cout, k, stride, k // 2, weight_attr=paddle.ParamAttr(initializer=Normal(0.0, std)), bias_attr=bias_attr)


def conv_gn(cin, cout, k=3, stride=1):
    return nn.Sequential(conv(cin, cout, k, stride), nn.GroupNorm(num_groups=4, num_channels=cout))


class Residual(nn.Layer):
    """Halves the resolution."""

    def __init__(self, cin, cout):
        super().__init__()
        self.main = nn.Sequential(conv_gn(cin, cout, stride=2), nn.ReLU(), conv_gn(cout, cout))
        self.skip = conv_gn(cin, cout, k=1, stride=2)

    def forward(self, x):
        return F.relu(self.main(x) + self.skip(x))


class Detector(nn.Layer):
    def __init__(self):
        super().__init__()
        c = S.channels
        self.stem = nn.Sequential(conv_gn(3, c[0], stride=2), nn.ReLU())
        self.stages = nn.LayerList([Residual(a, b) for a, b in zip(c, c[1:])])
        self.lateral = nn.LayerList([conv(w, S.fpn, 1, bias=True) for w in c[1:]])
        self.fuse = nn.LayerList([conv_gn(S.fpn, S.fpn) for _ in c[2:]])
        self.heat = self._branch(len(S.labels), -math.log(1 / S.prior - 1))
        self.wh = self._branch(2, S.typical_size)
        self.reg = self._branch(2, 0.5)

    @staticmethod
    def _branch(cout, start):
        return nn.Sequential(
            conv(S.fpn, S.branch, 3, bias=True),
            nn.ReLU(),
            conv(S.branch, cout, 1, bias=True, std=S.last_std, fill=start),
        )

    def trunk_parameters(self):
        return self.stem.parameters() + self.stages.parameters()

    def pyramid(self, x):
        levels = []
        x = self.stem(x)
        for stage, lateral in zip(self.stages, self.lateral):
            x = stage(x)
            levels.append(lateral(x))
        top = levels.pop()
        while levels:
            level = levels.pop()
            top = F.interpolate(top, size=level.shape[2:], mode="bilinear", align_corners=False)
            top = F.leaky_relu(self.fuse[len(levels)](top + level), negative_slope=0.1)
        return top

    def forward(self, images):
        x = self.pyramid(images)
        return {"heatmap": self.heat(x), "size": self.wh(x), "offset": self.reg(x)}
