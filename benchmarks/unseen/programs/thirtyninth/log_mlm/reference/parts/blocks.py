import torch
from torch import nn
from torch.nn import functional as F

from .attention import RelativeAttention


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.wide = nn.Linear(width, 2 * inner)
        self.back = nn.Linear(inner, width)

    def forward(self, x):
        value, gate = self.wide(x).chunk(2, dim=-1)
        return self.back(value * F.gelu(gate, approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads, reach, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = RelativeAttention(width, heads, reach, dropout)
        self.mlp = Gated(width, 2 * width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, pad):
        x = x + self.drop(self.attention(self.norm1(x), pad))
        return x + self.drop(self.mlp(self.norm2(x)))


class TiedHead(nn.Module):
    """Scores over the vocabulary with the embedding's own matrix."""

    def __init__(self, embedding):
        super().__init__()
        words, width = embedding.weight.shape
        self.transform = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.decoder = nn.Linear(width, words)
        self.decoder.weight = embedding.weight

    def forward(self, x):
        return self.decoder(self.norm(torch.tanh(self.transform(x))))
