import math

import paddle.nn as nn
import paddle.nn.functional as F

from .layers import ChannelNorm, ConvNormAct, DropPath, SqueezeExcite
from .registry import register


class InvertedResidual(nn.Layer):
    def __init__(self, cin, cout, kernel, stride, expansion, rate, cfg):
        super().__init__()
        mid = cin * expansion
        self.expand = ConvNormAct(cin, mid, bn=cfg["bn"]) if expansion > 1 else None
        self.depthwise = ConvNormAct(mid, mid, kernel, stride, groups=mid, bn=cfg["bn"])
        self.se = SqueezeExcite(mid, max(1, int(cin * cfg["se_ratio"])))
        self.project = ConvNormAct(mid, cout, act=False, bn=cfg["bn"])
        self.residual = cin == cout and stride == 1
        self.drop_path = DropPath(rate)

    def forward(self, x):
        y = x if self.expand is None else self.expand(x)
        y = self.project(self.se(self.depthwise(y)))
        if self.residual:
            y = x + self.drop_path(y)
        return y


class Downsample(nn.Layer):
    def __init__(self, cin, cout, kernel, stride, expansion, rate, cfg):
        super().__init__()
        self.norm = ChannelNorm(cin, **cfg["ln"])
        self.conv = nn.Conv2D(cin, cout, kernel, stride)

    def forward(self, x):
        return self.conv(self.norm(x))


class ConvNextBlock(nn.Layer):
    """the linear layers work on channels-last maps"""

    def __init__(self, cin, cout, kernel, stride, expansion, rate, cfg):
        super().__init__()
        self.dwconv = nn.Conv2D(cin, cin, kernel, padding=kernel // 2, groups=cin)
        self.norm = nn.LayerNorm(cin, **cfg["ln"])
        self.pwconv1 = nn.Linear(cin, expansion * cin)
        self.pwconv2 = nn.Linear(expansion * cin, cin)
        self.gamma = self.create_parameter([cin], default_initializer=nn.initializer.Constant(cfg["layer_scale"]))
        self.drop_path = DropPath(rate)

    def forward(self, x):
        y = self.dwconv(x).transpose([0, 2, 3, 1])
        y = self.pwconv2(F.gelu(self.pwconv1(self.norm(y)))) * self.gamma
        return x + self.drop_path(y.transpose([0, 3, 1, 2]))


KINDS = {"mb": InvertedResidual, "down": Downsample, "next": ConvNextBlock}


def drop_rates(blocks, top):
    """rises linearly over the blocks that have a residual path"""
    deep = [i for i, b in enumerate(blocks) if b[0] != "down"]
    rates = [0.0] * len(blocks)
    for rank, i in enumerate(deep):
        rates[i] = top * rank / len(deep)
    return rates


@register("hybrid")
class Hybrid(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.stem = ConvNormAct(3, cfg["stem"], 3, bn=cfg["bn"])
        channels, layers = cfg["stem"], []
        for block, rate in zip(cfg["blocks"], drop_rates(cfg["blocks"], cfg["drop_path"])):
            kind, width, kernel, stride, expansion = block
            layers.append(KINDS[kind](channels, width, kernel, stride, expansion, rate, cfg))
            channels = width
        self.blocks = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(channels, **cfg["ln"])
        self.classifier = nn.Linear(channels, cfg["num_classes"])
        self.reset()

    def reset(self):
        for layer in self.sublayers():
            if isinstance(layer, nn.Conv2D):
                out, _, kh, kw = layer.weight.shape
                std = math.sqrt(2 / (kh * kw * out / layer._groups))
                nn.initializer.Normal(0.0, std)(layer.weight)
                if layer.bias is not None:
                    nn.initializer.Constant(0.0)(layer.bias)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        x = self.norm(x.mean(axis=[2, 3]))
        return self.classifier(x)
