import torch.nn as nn
import torch.nn.functional as F

from ..registry import BACKBONES
from .ops import ConvBN


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride, dilation):
        super().__init__()
        self.conv1 = ConvBN(cin, cout, 3, stride, dilation)
        self.conv2 = ConvBN(cout, cout, 3, 1, dilation, act=None)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = ConvBN(cin, cout, 1, stride, act=None)

    def forward(self, x):
        skip = x if self.down is None else self.down(x)
        return F.relu(self.conv2(self.conv1(x)) + skip)


@BACKBONES.register
class DilatedResNet(nn.Module):
    def __init__(self, widths, strides, dilations):
        super().__init__()
        self.stem = ConvBN(3, widths[0], 3, 2)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layers = nn.ModuleList(
            BasicBlock(cin, cout, s, d)
            for cin, cout, s, d in zip(widths[:-1], widths[1:], strides, dilations)
        )
        self.low_channels, self.mid_channels, self.out_channels = widths[1], widths[2], widths[3]
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.pool(self.stem(x))
        feats = []
        for layer in self.layers:
            x = layer(x)
            feats.append(x)
        return feats
