import torch
from torch import nn

BLOCKS = {}


def register(name):
    def add(cls):
        BLOCKS[name] = cls
        return cls

    return add


class ConvBN(nn.Sequential):
    def __init__(self, cin, cout, kernel, cfg, stride=1, groups=1, dilation=1, act=True):
        layers = [
            nn.Conv2d(cin, cout, kernel, stride, (kernel - 1) // 2 * dilation, dilation, groups, bias=False),
            nn.BatchNorm2d(cout, eps=cfg.bn_eps, momentum=cfg.bn_momentum),
        ]
        if act:
            layers.append(nn.Hardswish())
        super().__init__(*layers)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction=4):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, channels // reduction, 1)
        self.expand = nn.Conv2d(channels // reduction, channels, 1)
        self.relu = nn.ReLU()
        self.gate = nn.Hardsigmoid()

    def forward(self, x):
        return x * self.gate(self.expand(self.relu(self.reduce(self.pool(x)))))


@register("inverted")
class InvertedResidual(nn.Module):
    def __init__(self, cin, out, cfg, stride=1, expand=2, dilation=1, se=False):
        super().__init__()
        hidden = cin * expand
        self.expand = ConvBN(cin, hidden, 1, cfg)
        self.depthwise = ConvBN(hidden, hidden, 3, cfg, stride, hidden, dilation)
        self.se = SqueezeExcite(hidden) if se else nn.Identity()
        self.project = ConvBN(hidden, out, 1, cfg, act=False)
        self.shortcut = stride == 1 and cin == out

    def forward(self, x):
        y = self.project(self.se(self.depthwise(self.expand(x))))
        return x + y if self.shortcut else y


def channel_shuffle(x, groups):
    b, c, h, w = x.shape
    return x.view(b, groups, c // groups, h, w).transpose(1, 2).reshape(b, c, h, w)


@register("shuffle")
class ShuffleBlock(nn.Module):
    """1x1 grouped, shuffle, 3x3 depthwise, 1x1 grouped."""

    def __init__(self, cin, out, cfg, groups=4):
        super().__init__()
        self.groups = groups
        self.pw1 = ConvBN(cin, out, 1, cfg, groups=groups)
        self.dw = ConvBN(out, out, 3, cfg, groups=out, act=False)
        self.pw2 = ConvBN(out, out, 1, cfg, groups=groups, act=False)

    def forward(self, x):
        y = channel_shuffle(self.pw1(x), self.groups)
        return torch.relu(x + self.pw2(self.dw(y)))
