import math

import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)
        for lin in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(lin.weight, gain=1 / math.sqrt(2))
            if lin.bias is not None:
                nn.init.zeros_(lin.bias)

    def split(self, x):
        b, n, d = x.shape
        return x.view(b, n, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x, context):
        q, k, v = self.split(self.query(x)), self.split(self.key(context)), self.split(self.value(context))
        att = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        att = self.drop(att.softmax(dim=-1))
        y = (att @ v).transpose(1, 2).flatten(2)
        return self.out(y)


class GatedFFN(nn.Module):
    def __init__(self, dim, hidden, dropout):
        super().__init__()
        self.inner = nn.Linear(dim, 2 * hidden)
        self.outer = nn.Linear(hidden, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        a, gate = self.inner(x).chunk(2, dim=-1)
        return self.outer(self.drop(a * F.gelu(gate)))


class Block(nn.Module):
    """Pre-norm; the first block leaves the tokens as they are, the last one only updates the first token."""

    def __init__(self, dim, heads, hidden, dropout, first=False, last=False):
        super().__init__()
        self.last = last
        self.norm1 = nn.Identity() if first else nn.LayerNorm(dim)
        self.attention = SelfAttention(dim, heads, dropout)
        self.norm2 = nn.LayerNorm(dim)
        self.ffn = GatedFFN(dim, hidden, dropout)

    def forward(self, x):
        h = self.norm1(x)
        if self.last:
            x, q = x[:, :1], h[:, :1]
        else:
            q = h
        x = x + self.attention(q, h)
        return x + self.ffn(self.norm2(x))
