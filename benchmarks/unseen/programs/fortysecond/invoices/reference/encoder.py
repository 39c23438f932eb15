import math

import torch
import torch.nn.functional as F
from torch import nn

from .registry import MODULES


def bucket(distance, buckets, exact, furthest):
    """Near distances one by one, far ones by their logarithm; the upper half is for positive ones."""
    half = buckets // 2
    n = distance.abs()
    far = torch.log(n.clamp(min=1).float() / exact) / math.log(furthest / exact) * (half - exact)
    far = (exact + far.floor().long()).clamp(max=half - 1)
    return torch.where(n < exact, n, far) + half * (distance > 0).long()


class SpatialAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, bias):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        score = (q @ k.transpose(-1, -2)) / math.sqrt(self.size) + bias
        mixed = F.softmax(score, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(b, n, d))


class GatedFeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        value, gate = self.up(x).chunk(2, dim=-1)
        return self.down(value * F.gelu(gate))


class Layer(nn.Module):
    def __init__(self, width, heads, hidden, drop):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = SpatialAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.forward_ = GatedFeedForward(width, hidden)
        self.drop = nn.Dropout(drop)

    def forward(self, x, bias):
        x = x + self.drop(self.attention(self.norm1(x), bias))
        return x + self.drop(self.forward_(self.norm2(x)))


@MODULES.register
class SpatialEncoder(nn.Module):
    def __init__(self, width, heads, depth, hidden, buckets, exact, furthest, drop):
        super().__init__()
        self.rule = (buckets, exact, furthest)
        self.across = nn.Embedding(buckets, heads)
        self.along = nn.Embedding(buckets, heads)
        self.layers = nn.ModuleList([Layer(width, heads, hidden, drop) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def spatial_bias(self, boxes, present):
        x = torch.div(boxes[..., 0] + boxes[..., 2], 2, rounding_mode="floor")
        y = torch.div(boxes[..., 1] + boxes[..., 3], 2, rounding_mode="floor")
        dx, dy = x.unsqueeze(1) - x.unsqueeze(2), y.unsqueeze(1) - y.unsqueeze(2)
        bias = self.across(bucket(dx, *self.rule)) + self.along(bucket(dy, *self.rule))
        bias = bias.permute(0, 3, 1, 2)
        return bias.masked_fill(present[:, None, None, :] == 0, -1e9)

    def forward(self, x, boxes, present):
        bias = self.spatial_bias(boxes, present)
        for layer in self.layers:
            x = layer(x, bias)
        return self.norm(x)
