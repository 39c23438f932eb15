"""Self-attention over the 64 squares with a bias for each offset of ranks and files."""
import math

import torch
from torch import nn


def offsets():
    rank = torch.arange(64) // 8
    file = torch.arange(64) % 8
    return (rank[:, None] - rank[None, :] + 7) * 15 + (file[:, None] - file[None, :] + 7)


class BoardAttention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads, self.width = heads, channels // heads
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.bias = nn.Parameter(torch.zeros(15 * 15, heads))
        self.register_buffer("index", offsets(), persistent=False)

    def forward(self, x):
        batch, squares, channels = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.view(batch, squares, self.heads, self.width).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.width)
        scores = scores + self.bias[self.index].permute(2, 0, 1)
        h = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(batch, squares, channels)
        return x + self.proj(h)


class FeedForward(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.fc1 = nn.Linear(channels, hidden)
        self.fc2 = nn.Linear(hidden, channels)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))) ** 2)
