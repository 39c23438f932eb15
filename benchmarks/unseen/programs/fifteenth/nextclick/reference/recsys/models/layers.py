import math

import torch
from torch import nn


class DistanceBias(nn.Module):
    """A learned bias per head for how many clicks ago the key was."""

    def __init__(self, heads, max_distance):
        super().__init__()
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.zeros(heads, max_distance + 1))

    def forward(self, length):
        pos = torch.arange(length, device=self.table.device)
        dist = (pos[:, None] - pos[None, :]).clamp(0, self.max_distance)
        return self.table[:, dist]


class CausalAttention(nn.Module):
    def __init__(self, dim, heads, max_distance, dropout):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.bias = DistanceBias(heads, max_distance)
        self.drop = nn.Dropout(dropout)

    def split(self, x):
        b, n, _ = x.shape
        return x.view(b, n, self.heads, self.head_dim).transpose(1, 2)

    def forward(self, q_in, kv_in, valid):
        b, n, d = q_in.shape
        q = self.split(self.query(q_in))
        k = self.split(self.key(kv_in))
        v = self.split(self.value(kv_in))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores + self.bias(n).unsqueeze(0)
        causal = torch.ones(n, n, dtype=torch.bool, device=q_in.device).tril()
        allowed = causal[None, None] & valid[:, None, None, :]
        scores = scores.masked_fill(~allowed, -1e9)
        weights = self.drop(scores.softmax(dim=-1))
        mixed = (weights @ v).transpose(1, 2).reshape(b, n, d)
        return self.out(mixed)


class PointWiseFeedForward(nn.Module):
    def __init__(self, dim, hidden, dropout):
        super().__init__()
        self.inner = nn.Linear(dim, hidden)
        self.outer = nn.Linear(hidden, dim)
        self.act = nn.GELU(approximate="tanh")
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.drop(self.outer(self.drop(self.act(self.inner(x)))))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn_norm = nn.LayerNorm(cfg.dim, eps=cfg.norm_eps)
        self.attn = CausalAttention(cfg.dim, cfg.heads, cfg.max_distance, cfg.dropout)
        self.ffn_norm = nn.LayerNorm(cfg.dim, eps=cfg.norm_eps)
        self.ffn = PointWiseFeedForward(cfg.dim, cfg.hidden, cfg.dropout)

    def forward(self, x, valid):
        q = self.attn_norm(x)
        x = q + self.attn(q, x, valid)
        x = self.ffn_norm(x)
        x = x + self.ffn(x)
        return x * valid.unsqueeze(-1)
