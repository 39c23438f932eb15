import math

import torch
from torch import nn


class RelativeAttention(nn.Module):
    """Self-attention with learned vectors for clipped distances, on keys and on values (Shaw)."""

    def __init__(self, width, heads, reach, dropout):
        super().__init__()
        self.heads, self.reach, self.size = heads, reach, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.key_rel = nn.Parameter(torch.randn(2 * reach + 1, self.size) * 0.05)
        self.val_rel = nn.Parameter(torch.randn(2 * reach + 1, self.size) * 0.05)
        self.drop = nn.Dropout(dropout)

    def distances(self, n, device):
        place = torch.arange(n, device=device)
        return (place[None, :] - place[:, None]).clamp(-self.reach, self.reach) + self.reach

    def forward(self, x, pad):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        index = self.distances(n, x.device)
        score = torch.einsum("bhid,bhjd->bhij", q, k) + torch.einsum("bhid,ijd->bhij", q, self.key_rel[index])
        score = score / math.sqrt(self.size)
        score = score.masked_fill(pad[:, None, None, :], torch.finfo(score.dtype).min)
        p = self.drop(score.softmax(dim=-1))
        y = torch.einsum("bhij,bhjd->bhid", p, v) + torch.einsum("bhij,ijd->bhid", p, self.val_rel[index])
        return self.out(y.transpose(1, 2).reshape(b, n, -1))
