import math

import torch
from torch import nn
from torch.nn import functional as F

from .attention import RelativeAttention, relative_positions


class Subsample(nn.Module):
    """A quarter of the frames."""

    def __init__(self, c):
        super().__init__()
        self.first = nn.Conv2d(1, c.channels, 3, stride=2)
        self.second = nn.Conv2d(c.channels, c.channels, 3, stride=2)
        self.project = nn.Linear(c.channels * (((c.mels - 1) // 2 - 1) // 2), c.dim)

    def forward(self, x, lengths):
        x = F.relu(self.second(F.relu(self.first(x.unsqueeze(1)))))
        b, c, t, f = x.shape
        x = self.project(x.transpose(1, 2).reshape(b, t, c * f))
        return x, ((lengths - 1) // 2 - 1) // 2


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.LayerNorm(c.dim, eps=c.norm_eps)
        self.up = nn.Linear(c.dim, c.feed)
        self.down = nn.Linear(c.feed, c.dim)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x):
        return self.dropout(self.down(self.dropout(F.silu(self.up(self.norm(x))))))


class Convolution(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.LayerNorm(c.dim, eps=c.norm_eps)
        self.gate = nn.Conv1d(c.dim, 2 * c.dim, 1)
        self.depthwise = nn.Conv1d(c.dim, c.dim, c.kernel, padding=(c.kernel - 1) // 2, groups=c.dim)
        self.batch = nn.BatchNorm1d(c.dim, momentum=c.batch_momentum)
        self.point = nn.Conv1d(c.dim, c.dim, 1)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x, keep):
        x = F.glu(self.gate(self.norm(x).transpose(1, 2)), dim=1)
        x = x.masked_fill(~keep[:, None, :], 0.0)
        x = self.point(F.silu(self.batch(self.depthwise(x))))
        return self.dropout(x.transpose(1, 2))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.half = c.macaron
        self.before = FeedForward(c)
        self.norm = nn.LayerNorm(c.dim, eps=c.norm_eps)
        self.attention = RelativeAttention(c.dim, c.heads, c.dropout)
        self.convolution = Convolution(c)
        self.after = FeedForward(c)
        self.last = nn.LayerNorm(c.dim, eps=c.norm_eps)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x, positions, keep):
        x = x + self.half * self.before(x)
        x = x + self.dropout(self.attention(self.norm(x), positions, keep))
        x = x + self.convolution(x, keep)
        x = x + self.half * self.after(x)
        return self.last(x)


class Conformer(nn.Module):
    """Gulati et al. 2020, with a class for every fourth frame."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.subsample = Subsample(c)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.classify = nn.Linear(c.dim, c.classes)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, feats, lengths):
        x, lengths = self.subsample(feats, lengths)
        keep = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
        positions = self.dropout(relative_positions(x.shape[1], x.shape[2], x.dtype).to(x.device))
        x = self.dropout(x * math.sqrt(self.config.dim))
        for block in self.blocks:
            x = block(x, positions, keep)
        return self.classify(x), lengths
