"""R-GCN encoder on complex embeddings, scored by rotation plus a share of ComplEx."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class BasisConv(nn.Module):
    """Relational graph convolution (Schlichtkrull et al.) whose matrices share a few bases."""

    def __init__(self, dim, n_rel, n_bases, dropout):
        super().__init__()
        self.bases = nn.Parameter(torch.empty(n_bases, dim, dim))
        self.coef = nn.Parameter(torch.empty(n_rel, n_bases))
        self.root = nn.Linear(dim, dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(dim))
        self.drop = nn.Dropout(dropout)
        gain = nn.init.calculate_gain("relu")
        for b in self.bases.data:
            nn.init.xavier_uniform_(b, gain=gain)
        nn.init.xavier_normal_(self.coef)

    def forward(self, x, src, rel, dst, norm):
        projected = torch.einsum("nd,bde->nbe", x, self.bases)
        message = (projected[src] * self.coef[rel].unsqueeze(-1)).sum(1) * norm.unsqueeze(-1)
        total = torch.zeros_like(x).index_add_(0, dst, self.drop(message))
        return total + self.root(x) + self.bias


class ComplexGraphModel(nn.Module):
    def __init__(self, graph, dim=24, n_bases=4, gamma=6.0, eps=2.0, dropout=0.1):
        super().__init__()
        self.dim, self.gamma, self.range = dim, gamma, (gamma + eps) / dim
        self.entity = nn.Parameter(torch.empty(graph.n_ent, 2 * dim))
        self.phase = nn.Parameter(torch.empty(2 * graph.n_rel, dim))
        self.scale = nn.Parameter(torch.ones(2 * graph.n_rel, dim))
        nn.init.uniform_(self.entity, -self.range, self.range)
        nn.init.uniform_(self.phase, -self.range, self.range)
        self.conv1 = BasisConv(2 * dim, 2 * graph.n_rel, n_bases, dropout)
        self.conv2 = BasisConv(2 * dim, 2 * graph.n_rel, n_bases, dropout)
        self.norm = nn.GroupNorm(2, 2 * dim, eps=1e-3)        # real and imaginary half by themselves
        self.mix = nn.Parameter(torch.full((1,), -1.0))
        for name, value in zip(("src", "edge_rel", "dst", "edge_norm"), graph.edges()):
            self.register_buffer(name, torch.as_tensor(value))

    def encode(self):
        edges = (self.src, self.edge_rel, self.dst, self.edge_norm)
        x = F.leaky_relu(self.norm(self.conv1(self.entity, *edges)))
        return self.entity + 0.3 * torch.tanh(self.conv2(x, *edges))

    def forward(self, head, rel, tails):
        z = self.encode()
        hr, hi = z[head].chunk(2, dim=-1)
        tr, ti = z[tails].chunk(2, dim=-1)
        angle = self.phase[rel] * (math.pi / self.range)
        rr, ri = torch.cos(angle), torch.sin(angle)
        ur, ui = (hr * rr - hi * ri).unsqueeze(1), (hr * ri + hi * rr).unsqueeze(1)
        distance = torch.sqrt((ur - tr) ** 2 + (ui - ti) ** 2 + 1e-9).sum(-1)
        scale = self.scale[rel].unsqueeze(1)
        product = (scale * (ur * tr + ui * ti)).sum(-1)
        return self.gamma - distance + torch.sigmoid(self.mix) * product
