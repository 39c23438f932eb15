import math

import paddle.nn.functional as F
from paddle import nn

from .blocks import Residual, Up, conv
from .registry import MODELS


@MODELS.register()
class AttentionUNet(nn.Layer):
    def __init__(self, in_channels, widths, norm, act, gate_ratio, dilation, dropout, prior):
        super().__init__()
        last = len(widths) - 1
        channels = [in_channels, *widths]
        self.down = nn.LayerList(
            [Residual(channels[i], channels[i + 1], norm, act, dilation=dilation if i == last else 1) for i in range(len(widths))]
        )
        self.pool = nn.MaxPool2D(2, ceil_mode=True)
        self.drop = nn.Dropout(dropout)
        self.up = nn.LayerList()
        for level in range(last, 0, -1):
            skip = widths[level - 1]
            self.up.append(Up(widths[level], skip, skip, gate_ratio, norm, act))
        self.head = conv(widths[0], 1, 1, slope=1.0)
        self.aux = conv(widths[1], 1, 1, slope=1.0)
        odds = -math.log((1 - prior) / prior)
        for head in (self.head, self.aux):
            nn.initializer.Constant(odds)(head.bias)

    def forward(self, image):
        size = image.shape[-2:]
        skips, x = [], image
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else self.pool(x))
            skips.append(x)
        x = self.drop(skips.pop())
        maps, gates = [], []
        for block in self.up:
            x, alpha = block(x, skips.pop())
            maps.append(x)
            gates.append(alpha)
        aux = F.interpolate(self.aux(maps[0]), size=size, mode="bilinear", align_corners=False)
        return {"mask": self.head(maps[-1]), "aux": aux, "gate": gates[-1]}
