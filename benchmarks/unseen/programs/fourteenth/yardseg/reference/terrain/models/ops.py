import torch.nn as nn

from ..config import cfg


class ConvBN(nn.Module):
    def __init__(self, cin, cout, k=3, stride=1, dilation=1, act=nn.ReLU):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, k, stride, dilation * (k // 2), dilation, bias=False)
        self.bn = nn.BatchNorm2d(cout, eps=cfg.norm.eps, momentum=cfg.norm.momentum)
        self.act = act() if act is not None else nn.Identity()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))
