import torch
import torch.nn as nn
import torch.nn.functional as F

from ..registry import HEADS
from .ops import ConvBN


class GlobalBranch(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        g = F.adaptive_avg_pool2d(x, 1)
        return F.hardswish(self.conv(g)).expand(-1, -1, *x.shape[2:])


@HEADS.register
class AtrousHead(nn.Module):
    def __init__(self, cin, low_cin, n_classes, rates, width, low_width, dropout):
        super().__init__()
        branches = [ConvBN(cin, width, 1, act=nn.Hardswish)]
        branches += [ConvBN(cin, width, 3, dilation=r, act=nn.Hardswish) for r in rates]
        branches.append(GlobalBranch(cin, width))
        self.branches = nn.ModuleList(branches)
        self.project = ConvBN(width * len(branches), width, 1, act=nn.Hardswish)
        self.drop = nn.Dropout2d(dropout)
        self.low = ConvBN(low_cin, low_width, 1)
        self.fuse = ConvBN(width + low_width, width, 3, act=nn.Hardswish)
        self.classifier = nn.Conv2d(width, n_classes, 1)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.xavier_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.normal_(self.classifier.weight, std=0.1)

    def forward(self, low, high):
        x = self.project(torch.cat([b(high) for b in self.branches], dim=1))
        x = F.interpolate(self.drop(x), size=low.shape[2:], mode="bilinear", align_corners=False)
        return self.classifier(self.fuse(torch.cat([x, self.low(low)], dim=1)))
