import math

from torch import nn
from torch.nn import functional as F

from .blocks import Residual, Up, fan_out_
from .registry import MODELS


@MODELS.register()
class AttentionUNet(nn.Module):
    def __init__(self, in_channels, widths, norm, act, gate_ratio, dilation, dropout, prior):
        super().__init__()
        self.down = nn.ModuleList()
        before = in_channels
        for i, width in enumerate(widths):
            self.down.append(Residual(before, width, norm, act, dilation=dilation if i == len(widths) - 1 else 1))
            before = width
        self.pool = nn.MaxPool2d(2, ceil_mode=True)
        self.drop = nn.Dropout(dropout)
        self.up = nn.ModuleList()
        for deep, skip in zip(widths[:0:-1], widths[-2::-1]):
            self.up.append(Up(deep, skip, skip, gate_ratio, norm, act))
        self.head = fan_out_(nn.Conv2d(widths[0], 1, 1), 1.0)
        self.aux = fan_out_(nn.Conv2d(widths[1], 1, 1), 1.0)
        for head in (self.head, self.aux):
            nn.init.constant_(head.bias, -math.log((1 - prior) / prior))

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
