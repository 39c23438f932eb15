import torch
import torch.nn.functional as F
from torch import nn

from .ring import RingConv2d


class Stem(nn.Module):
    def __init__(self, dim, groups):
        super().__init__()
        self.conv = RingConv2d(dim, dim)
        self.norm = nn.GroupNorm(groups, dim)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


class YarnGate(nn.Module):
    """Gauge and needle open or close channels; the gate is 1 where nothing is known."""

    def __init__(self, dim, meta):
        super().__init__()
        self.fc = nn.Linear(meta, dim)
        nn.init.xavier_uniform_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x, meta):
        return x * (2 * torch.sigmoid(self.fc(meta)))[:, :, None, None]


class Residual(nn.Module):
    def __init__(self, dim, groups, dilation, meta):
        super().__init__()
        self.conv1 = RingConv2d(dim, dim, dilation)
        self.norm1 = nn.GroupNorm(groups, dim)
        self.conv2 = RingConv2d(dim, dim)
        self.norm2 = nn.GroupNorm(groups, dim)
        self.gate = YarnGate(dim, meta)

    def forward(self, x, meta):
        h = F.silu(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        return F.silu(x + self.gate(h, meta))
