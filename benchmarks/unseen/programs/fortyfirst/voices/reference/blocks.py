"""Attention over notes by interval and by distance in time, and what sounds together."""
import math

import torch
from torch import nn
import torch.nn.functional as F

from .norm import RMSNorm
from .relations import BUCKETS


class RelativeAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.dim = heads, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.interval = nn.Embedding(BUCKETS, heads)
        self.decay = nn.Parameter(torch.linspace(-2.0, 1.0, heads))
        nn.init.normal_(self.interval.weight, std=0.1)
        nn.init.xavier_uniform_(self.q.weight, gain=1 / math.sqrt(2))

    def heads_first(self, x):
        return x.unflatten(-1, (self.heads, self.dim)).transpose(1, 2)

    def forward(self, x, bucket, distance, real):
        k, v = self.kv(x).chunk(2, dim=-1)
        q, k, v = map(self.heads_first, (self.q(x), k, v))
        score = q @ k.mT / math.sqrt(self.dim) + self.interval(bucket).permute(0, 3, 1, 2)
        score = score - F.softplus(self.decay)[:, None, None] * distance.unsqueeze(1)
        score = score.masked_fill(real[:, None, None, :] == 0, -torch.inf)
        mixed = score.softmax(dim=-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class GatedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        value, gate = self.up(x).chunk(2, dim=-1)
        return self.down(value * F.gelu(gate, approximate="tanh"))


class Chord(nn.Module):
    """A note beside the mean of all that sounds when it begins, itself included."""

    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(2 * width, width)

    def forward(self, x, together):
        share = together / together.sum(dim=-1, keepdim=True).clamp(min=1.0)
        return torch.tanh(self.mix(torch.cat([x, share @ x], dim=-1)))


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(3))
        self.attention = RelativeAttention(width, heads)
        self.chord = Chord(width)
        self.forward_ = GatedForward(width, hidden)
        self.scale = nn.Parameter(torch.full((3, width), 0.3))

    def forward(self, x, bucket, distance, together, real):
        x = x + self.scale[0] * self.attention(self.norms[0](x), bucket, distance, real)
        x = x + self.scale[1] * self.chord(self.norms[1](x), together)
        return x + self.scale[2] * self.forward_(self.norms[2](x))
