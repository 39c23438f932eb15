import torch
from torch import nn
from torch.nn import functional as F


class GatedBlock(nn.Module):
    """Causal dilated convolution, tanh times sigmoid, residual and skip."""

    def __init__(self, width, kernel, dilation):
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.conv = nn.Conv1d(width, 2 * width, kernel, dilation=dilation)
        self.mix = nn.Conv1d(width, 2 * width, 1)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        y = self.conv(F.pad(x, (self.left, 0), mode="replicate"))
        value, gate = y.chunk(2, 1)
        residual, skip = self.mix(torch.tanh(value) * torch.sigmoid(gate)).chunk(2, 1)
        x = self.norm((x + residual).transpose(1, 2)).transpose(1, 2)
        return x, skip


class Encoder(nn.Module):
    """A context vector of the past: attention over time, and the last hour."""

    def __init__(self, cfg, features):
        super().__init__()
        self.inp = nn.Conv1d(features, cfg.width, 1)
        self.blocks = nn.ModuleList(GatedBlock(cfg.width, cfg.kernel, d) for d in cfg.dilations)
        self.score = nn.Linear(cfg.width, 1)

    def forward(self, x):
        x = self.inp(x.transpose(1, 2))
        total = 0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        h = F.elu(total).transpose(1, 2)
        weights = self.score(h).softmax(1)
        return torch.cat([(weights * h).sum(1), h[:, -1]], -1)
