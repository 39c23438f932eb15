import math

from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def split(self, x):
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x, memory, mask):
        """mask is true where x may look at memory; it broadcasts to [batch, heads, x, memory]."""
        q, k, v = self.split(self.query(x)), self.split(self.key(memory)), self.split(self.value(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~mask, -1e9)
        mixed = self.dropout(scores.softmax(dim=-1)) @ v
        return self.output(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Sequential):
    def __init__(self, width, inner, dropout):
        super().__init__(nn.Linear(width, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, width))


class Sublayer(nn.Module):
    """Residual connection, then layer normalisation."""

    def __init__(self, width, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, update):
        return self.norm(x + self.dropout(update))
