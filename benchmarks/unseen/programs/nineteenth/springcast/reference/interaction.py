import math

import torch
import torch.nn.functional as F
from torch import nn


class TrackEncoder(nn.Module):
    """A GRU over the steps; where an agent is unseen its state waits."""

    def __init__(self, dim, kinds=3):
        super().__init__()
        self.kind = nn.Embedding(kinds, 8)
        self.embed = nn.Linear(2 + 1 + 8, dim)
        self.cell = nn.GRUCell(dim, dim)
        for gate in self.cell.weight_hh.data.chunk(3):
            nn.init.orthogonal_(gate)

    def forward(self, past, seen, kind):
        both = (seen[..., 1:] & seen[..., :-1]).unsqueeze(-1)
        move = F.pad((past[..., 1:, :] - past[..., :-1, :]) * both, (0, 0, 1, 0))
        flag = seen.unsqueeze(-1).to(past.dtype)
        kind = self.kind(kind).unsqueeze(2).expand(-1, -1, past.shape[2], -1)
        x = F.leaky_relu(self.embed(torch.cat([move, flag, kind], -1)), 0.1)
        b, n, t, d = x.shape
        x, flag = x.reshape(b * n, t, d), flag.reshape(b * n, t, 1)
        h = x.new_zeros(b * n, d)
        for k in range(t):
            h = flag[:, k] * self.cell(x[:, k], h) + (1 - flag[:, k]) * h
        return h.view(b, n, d), move[..., -1, :]


class NeighbourAttention(nn.Module):
    """Multi-head attention over near agents; keys and values know the relative position and velocity.

    The softmax has one more, silent, entry, so that an agent may attend to nobody.
    """

    def __init__(self, dim, heads=4, radius=2.0, rbf=8):
        super().__init__()
        self.heads, self.radius = heads, radius
        self.register_buffer("centres", torch.arange(rbf) * (radius / rbf))
        self.edge = nn.Sequential(nn.Linear(4 + rbf, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, pos, vel, present):
        b, n, d = h.shape
        rel = pos.unsqueeze(1) - pos.unsqueeze(2)  # [b, i, j] = p_j - p_i
        dist = rel.norm(dim=-1)
        rbf = torch.exp(-((dist.unsqueeze(-1) - self.centres) ** 2) / 0.5)
        edge = self.edge(torch.cat([rel, vel.unsqueeze(1) - vel.unsqueeze(2), rbf], -1))
        near = present.unsqueeze(1) & (dist < self.radius) & ~torch.eye(n, dtype=torch.bool, device=h.device)
        q = self.q(h).view(b, n, 1, self.heads, -1)
        k, v = self.kv(h.unsqueeze(1) + edge).view(b, n, n, self.heads, -1).chunk(2, -1)
        score = (q * k).sum(-1) / math.sqrt(d // self.heads)
        score = score.masked_fill(~near.unsqueeze(-1), float("-inf"))
        score = torch.cat([score, score.new_zeros(b, n, 1, self.heads)], 2)
        a = torch.softmax(score, 2)[:, :, :n]
        return self.norm(h + self.out((a.unsqueeze(-1) * v).sum(2).reshape(b, n, d)))
