import math

import torch
import torch.nn.functional as F
from torch import nn

from .config import CFG
from .data import PAD, TREE, VOCAB


class GatedBlock(nn.Module):
    def __init__(self, dim, kernel, dilation, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.conv = nn.Conv1d(dim, 2 * dim, kernel, padding=dilation * (kernel - 1) // 2, dilation=dilation)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, keep):
        h = self.norm(x) * keep
        h = F.glu(self.conv(h.transpose(1, 2)), dim=1).transpose(1, 2)
        return x + self.drop(h)


class LabelAttention(nn.Module):
    """One query per label over the words of the note."""

    def __init__(self, dim, labels):
        super().__init__()
        self.key = nn.Linear(dim, dim)
        self.query = nn.Parameter(torch.empty(labels, dim))
        nn.init.xavier_uniform_(self.query)

    def forward(self, x, mask):
        score = torch.tanh(self.key(x)) @ self.query.t()  # B T L
        score = score.masked_fill(~mask.unsqueeze(-1), -1e4)
        return torch.softmax(score, dim=1).transpose(1, 2) @ x


class TreeMixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, dim, bias=False)
        self.down = nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.register_buffer("child_mean", torch.from_numpy(TREE.child_mean()), persistent=False)
        self.parent = list(TREE.parent)

    def forward(self, v):
        children = self.child_mean @ v
        padded = F.pad(v, (0, 0, 0, 1))  # a row of zeros for the roots: index -1
        parents = padded[:, self.parent]
        return self.norm(v + F.gelu(self.up(children) + self.down(parents), approximate="tanh"))


class HierarchicalTagger(nn.Module):
    def __init__(self, cfg=CFG.model, prior=None):
        super().__init__()
        d = cfg.dim
        self.embed = nn.Embedding(len(VOCAB), d, padding_idx=PAD)
        nn.init.normal_(self.embed.weight, std=0.5)
        with torch.no_grad():
            self.embed.weight[PAD].zero_()
        self.blocks = nn.ModuleList(GatedBlock(d, cfg.kernel, r, cfg.dropout) for r in cfg.dilations)
        self.pool = LabelAttention(d, len(TREE))
        self.tree = TreeMixer(d)
        self.out = nn.Parameter(torch.empty(len(TREE), d))
        nn.init.normal_(self.out, std=1 / math.sqrt(d))
        p = torch.as_tensor(prior, dtype=torch.float64).clamp(0.01, 0.99)
        self.bias = nn.Parameter(torch.log(p / (1 - p)).float())

    def forward(self, tokens):
        mask = tokens != PAD
        keep = mask.unsqueeze(-1).to(self.embed.weight.dtype)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, keep)
        v = self.tree(self.pool(x, mask))
        return (v * self.out).sum(-1) + self.bias
