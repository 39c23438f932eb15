"""FT-Transformer (Gorishniy et al. 2021)."""
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F


class Tokeniser(nn.Module):
    """A token for each number, for each category, and one that collects."""

    def __init__(self, numbers, bins, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(numbers, dim))
        self.table = nn.Embedding(sum(bins), dim)
        self.bias = nn.Parameter(torch.empty(numbers + len(bins), dim))
        self.collect = nn.Parameter(torch.empty(dim))
        for p in self.parameters():
            nn.init.uniform_(p, -(dim**-0.5), dim**-0.5)

    def forward(self, numbers, codes):
        tokens = torch.cat([numbers.unsqueeze(-1) * self.weight, self.table(codes)], dim=1) + self.bias
        first = self.collect.expand(len(tokens), 1, -1)
        return torch.cat([first, tokens], dim=1)


class Heads(nn.Module):
    """Attention whose matrices are kept head by head."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        depth = dim // heads
        self.query = nn.Parameter(torch.randn(heads, dim, depth) * dim**-0.5)
        self.key = nn.Parameter(torch.randn(heads, dim, depth) * dim**-0.5)
        self.value = nn.Parameter(torch.randn(heads, dim, depth) * dim**-0.5)
        self.value_bias = nn.Parameter(torch.zeros(heads, 1, depth))
        self.out = nn.Parameter(torch.randn(heads, depth, dim) * dim**-0.5 / math.sqrt(2))
        self.out_bias = nn.Parameter(torch.zeros(dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, rows=None):
        """`rows`: how many tokens ask, all if left out."""
        asking = x if rows is None else x[:, :rows]
        q = torch.einsum("btd,hdk->bhtk", asking, self.query)
        k = torch.einsum("bsd,hdk->bhsk", x, self.key)
        v = torch.einsum("bsd,hdk->bhsk", x, self.value) + self.value_bias
        weights = self.dropout(torch.softmax(torch.einsum("bhtk,bhsk->bhts", q, k) * q.shape[-1] ** -0.5, dim=-1))
        mixed = torch.einsum("bhts,bhsk->bhtk", weights, v)
        return torch.einsum("bhtk,hkd->btd", mixed, self.out) + self.out_bias


class Block(nn.Module):
    def __init__(self, c, first):
        super().__init__()
        self.before = nn.Identity() if first else nn.LayerNorm(c.dim, eps=c.eps)
        self.heads = Heads(c.dim, c.heads, c.dropout)
        self.norm = nn.LayerNorm(c.dim, eps=c.eps)
        self.up = nn.Linear(c.dim, 2 * c.hidden)
        self.down = nn.Linear(c.hidden, c.dim)
        self.dropout = nn.Dropout(c.dropout)
        self.scale = nn.Parameter(torch.full((c.dim,), c.scale))

    def forward(self, x, rows=None):
        y = self.heads(self.before(x), rows)
        x = (x if rows is None else x[:, :rows]) + self.dropout(y)
        value, gate = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.scale * self.down(self.dropout(value * F.relu(gate)))


class Network(nn.Module):
    def __init__(self, c, numbers, bins):
        super().__init__()
        self.tokeniser = Tokeniser(numbers, bins, c.dim)
        self.blocks = nn.ModuleList(Block(c, first=i == 0) for i in range(c.blocks))
        self.norm = nn.LayerNorm(c.dim, eps=c.eps)
        self.head = nn.Linear(c.dim, 1)

    def forward(self, numbers, codes):
        x = self.tokeniser(numbers, codes)
        for i, block in enumerate(self.blocks):
            x = block(x, rows=1 if i == len(self.blocks) - 1 else None)
        state = self.norm(x[:, 0])
        return self.head(F.relu(state))[:, 0], state


class Averaged(nn.Module):
    """A network and the moving average of its parameters, which evaluates."""

    def __init__(self, network):
        super().__init__()
        self.online = network
        self.average = copy.deepcopy(network).requires_grad_(False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def train(self, mode=True):
        super().train(mode)
        self.average.eval()
        return self

    def forward(self, numbers, codes):
        logits, state = self.online(numbers, codes)
        with torch.no_grad():
            smooth, _ = self.average(numbers, codes)
        return {"logits": logits, "state": state, "average": smooth}

    @torch.no_grad()
    def follow(self, decay, warmup):
        self.updates += 1
        n = int(self.updates)
        decay = min(decay, (1 + n) / (warmup + n))
        for kept, new in zip(self.average.parameters(), self.online.parameters()):
            kept.mul_(decay).add_(new, alpha=1 - decay)
        return decay
