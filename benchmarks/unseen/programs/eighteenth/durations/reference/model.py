"""Feature tokens, two rounds of gated attention, and two heads: log risk and hazard per interval."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from .table import CATEGORICAL, KNOTS, NUMERIC

INTERVALS = [1.0, 4.0, 7.5, 11.0, 15.0, 20.0]  # borders between the answers of the questionnaire


class NumericTokens(nn.Module):
    """One small linear map per column."""

    def __init__(self, columns, width, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(columns, width, dim))
        self.bias = nn.Parameter(torch.zeros(columns, dim))
        nn.init.uniform_(self.weight, -1 / math.sqrt(dim), 1 / math.sqrt(dim))

    def forward(self, x):
        return torch.einsum("bcw,cwd->bcd", x, self.weight) + self.bias


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), 10.0).log())

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2)  # cosine attention
        mixed = (scores * self.temperature.exp()).softmax(dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(b, n, d))


class GatedUnit(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, 2 * hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        value, gate = self.up(x).chunk(2, dim=-1)
        return self.down(value * F.gelu(gate))


class Round(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim, eps=1e-6)
        self.attention = Attention(dim, heads)
        self.feed = GatedUnit(dim, 2 * dim)
        self.scale1, self.scale2 = (nn.Parameter(torch.full((dim,), 0.3)) for _ in range(2))

    def forward(self, x):
        x = x + self.scale1 * self.attention(self.norm1(x))
        return x + self.scale2 * self.feed(self.norm2(x))


class DurationNet(nn.Module):
    def __init__(self, dim=24, heads=3, rounds=2):
        super().__init__()
        self.tokens = NumericTokens(len(NUMERIC), KNOTS + 2, dim)
        self.embeddings = nn.ModuleList(nn.Embedding(n + 1, dim, padding_idx=0) for n in CATEGORICAL.values())
        self.cls = nn.Parameter(torch.empty(1, 1, dim))
        self.rounds = nn.ModuleList(Round(dim, heads) for _ in range(rounds))
        self.norm = nn.LayerNorm(dim)
        self.risk = nn.Linear(dim, 1, bias=False)
        self.hazard = nn.Linear(dim, len(INTERVALS) + 1)
        nn.init.trunc_normal_(self.cls, std=0.1, a=-0.2, b=0.2)
        for table in self.embeddings:
            nn.init.normal_(table.weight, std=dim ** -0.5)
            with torch.no_grad():
                table.weight[0].zero_()
        nn.init.orthogonal_(self.hazard.weight, gain=0.5)
        nn.init.constant_(self.hazard.bias, -1.5)

    def forward(self, numeric, codes):
        words = [table(codes[:, i]) for i, table in enumerate(self.embeddings)]
        x = torch.cat([self.cls.expand(len(codes), -1, -1), self.tokens(numeric), torch.stack(words, dim=1)], dim=1)
        for step in self.rounds:
            x = step(x)
        pooled = self.norm(0.5 * (x[:, 0] + x[:, 1:].mean(dim=1)))
        return {"risk": self.risk(pooled).squeeze(1), "hazard": self.hazard(pooled)}
