import math

import torch
from torch import nn


def relative_positions(length, dim, dtype):
    """Sines and cosines of the distances length - 1, ..., 0, ..., 1 - length: [1, 2 * length - 1, dim]."""
    distance = torch.arange(length - 1, -length, -1.0, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * -(math.log(10000.0) / dim))
    table = torch.zeros(2 * length - 1, dim, dtype=torch.float64)
    table[:, 0::2] = torch.sin(distance * rate)
    table[:, 1::2] = torch.cos(distance * rate)
    return table[None].to(dtype)


class RelativeAttention(nn.Module):
    """Attention by content and distance (Dai et al. 2019)."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads, self.depth = heads, dim // heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.position = nn.Linear(dim, dim, bias=False)
        self.bias_u = nn.Parameter(torch.empty(heads, self.depth))
        self.bias_v = nn.Parameter(torch.empty(heads, self.depth))
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def shift(x):
        """[b, h, t, 2t - 1] by distance to [b, h, t, t] by key."""
        b, h, t, n = x.shape
        x = torch.cat([x.new_zeros(b, h, t, 1), x], dim=-1).view(b, h, n + 1, t)
        return x[:, :, 1:].reshape(b, h, t, n)[..., : n // 2 + 1]

    def split(self, x):
        return x.view(x.shape[0], -1, self.heads, self.depth)

    def forward(self, x, positions, keep):
        q = self.split(self.query(x))
        k, v = self.split(self.key(x)).transpose(1, 2), self.split(self.value(x)).transpose(1, 2)
        p = self.split(self.position(positions)).transpose(1, 2)
        content = torch.matmul((q + self.bias_u).transpose(1, 2), k.transpose(-2, -1))
        distance = self.shift(torch.matmul((q + self.bias_v).transpose(1, 2), p.transpose(-2, -1)))
        scores = (content + distance) / math.sqrt(self.depth)
        hidden = ~keep[:, None, None, :]
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
        mixed = torch.matmul(self.dropout(weights), v).transpose(1, 2).reshape(x.shape)
        return self.out(mixed)
