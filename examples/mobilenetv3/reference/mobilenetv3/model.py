"""MobileNetV3-small after table 2 of Howard et al., "Searching for MobileNetV3" (arXiv 1905.02244).

One small deviation: with ``smooth`` the last feature map goes through a 3x3 mean before the global pooling.
"""

from collections import OrderedDict
from typing import NamedTuple

from torch import nn

NUM_CLASSES = 8


class Row(NamedTuple):
    """One bottleneck of table 2."""

    kernel: int
    expanded: int
    channels: int
    squeeze: bool
    activation: type
    stride: int


BOTTLENECKS = (
    Row(3, 16, 16, True, nn.ReLU, 2),
    Row(3, 72, 24, False, nn.ReLU, 2),
    Row(3, 88, 24, False, nn.ReLU, 1),
    Row(5, 96, 40, True, nn.Hardswish, 2),
    Row(5, 240, 40, True, nn.Hardswish, 1),
    Row(5, 240, 40, True, nn.Hardswish, 1),
    Row(5, 120, 48, True, nn.Hardswish, 1),
    Row(5, 144, 48, True, nn.Hardswish, 1),
    Row(5, 288, 96, True, nn.Hardswish, 2),
    Row(5, 576, 96, True, nn.Hardswish, 1),
    Row(5, 576, 96, True, nn.Hardswish, 1),
)


def divisible(channels, divisor=8):
    """The multiple of ``divisor`` nearest to ``channels``, but no more than a tenth below it."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


class ConvBN(nn.Sequential):
    def __init__(self, inputs, outputs, kernel, *, stride=1, groups=1, activation=nn.Identity):
        super().__init__(
            OrderedDict(
                conv=nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                bn=nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01),
                act=activation(),
            )
        )


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        squeezed = divisible(channels / 4)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.relu = nn.ReLU()
        self.expand = nn.Conv2d(squeezed, channels, 1)
        self.gate = nn.Hardsigmoid()

    def forward(self, x):
        return x * self.gate(self.expand(self.relu(self.reduce(self.pool(x)))))


class Bottleneck(nn.Module):
    def __init__(self, inputs, row):
        super().__init__()
        self.residual = row.stride == 1 and inputs == row.channels
        self.expand = nn.Identity() if row.expanded == inputs else ConvBN(inputs, row.expanded, 1, activation=row.activation)
        self.depthwise = ConvBN(row.expanded, row.expanded, row.kernel, stride=row.stride, groups=row.expanded, activation=row.activation)
        self.se = SqueezeExcite(row.expanded) if row.squeeze else nn.Identity()
        self.project = ConvBN(row.expanded, row.channels, 1)

    def forward(self, x):
        y = self.project(self.se(self.depthwise(self.expand(x))))
        return x + y if self.residual else y


class MobileNetV3Small(nn.Module):
    """Images, float ``[N, 3, 224, 224]`` -> logits, float ``[N, num_classes]``."""

    def __init__(self, num_classes=NUM_CLASSES, dropout=0.2, smooth=True):
        super().__init__()
        inputs = [16] + [row.channels for row in BOTTLENECKS[:-1]]
        self.stem = ConvBN(3, 16, 3, stride=2, activation=nn.Hardswish)
        self.blocks = nn.Sequential(*(Bottleneck(*pair) for pair in zip(inputs, BOTTLENECKS, strict=True)))
        self.last = ConvBN(96, 576, 1, activation=nn.Hardswish)
        self.se = SqueezeExcite(576)
        self.smooth = nn.AvgPool2d(3, stride=1, padding=1) if smooth else nn.Identity()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.hidden = nn.Linear(576, 1024)
        self.act = nn.Hardswish()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(1024, num_classes)

    def forward(self, x):
        x = self.se(self.last(self.blocks(self.stem(x))))
        x = self.pool(self.smooth(x)).flatten(1)
        return self.classifier(self.dropout(self.act(self.hidden(x))))
