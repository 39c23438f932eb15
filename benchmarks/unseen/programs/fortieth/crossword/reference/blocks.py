import math

import torch
import torch.nn.functional as F
from torch import nn

from .registry import BLOCKS


@BLOCKS.register
class GatedConv(nn.Module):
    """LayerNorm, a dilated convolution over the words, a gated linear unit; added with a learned scale."""

    def __init__(self, dim, kernel, dilation, scale, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, 2 * dim, kernel, padding=dilation * (kernel - 1) // 2, dilation=dilation)
        self.scale = nn.Parameter(torch.full((dim,), float(scale)))
        self.drop = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.conv.weight)
        nn.init.zeros_(self.conv.bias)

    def forward(self, x, mask):
        h = self.norm(x) * mask.unsqueeze(-1)
        h = F.glu(self.conv(h.transpose(1, 2)), dim=1).transpose(1, 2)
        return (x + self.scale * self.drop(h)) * mask.unsqueeze(-1)


@BLOCKS.register
class DecayAttention(nn.Module):
    """Self-attention over the slots; each head loses interest with the distance, at its own pace."""

    def __init__(self, dim, heads, hidden, scale, dropout):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.decay = nn.Parameter(torch.linspace(-2.0, 1.0, heads))
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.drop = nn.Dropout(dropout)
        for layer in (self.qkv, self.proj, self.up, self.down):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def attend(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.heads, d // self.heads).transpose(1, 2) for t in (q, k, v))
        score = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        place = torch.arange(n, device=x.device)
        far = (place[:, None] - place[None, :]).abs().to(x.dtype)
        score = score - F.softplus(self.decay)[:, None, None] * far
        score = score.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        out = self.drop(score.softmax(-1)) @ v
        return self.proj(out.transpose(1, 2).reshape(b, n, d))

    def forward(self, x, mask):
        x = x + self.attend(self.norm1(x), mask)
        return x + self.down(self.drop(F.gelu(self.up(self.norm2(x)))))


@BLOCKS.register
class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.hidden = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, 1, bias=False)
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)
        nn.init.normal_(self.query.weight, std=0.2)

    def forward(self, x, mask):
        score = self.query(torch.tanh(self.hidden(x))).squeeze(-1)
        score = score.masked_fill(mask == 0, float("-inf"))
        return (score.softmax(-1).unsqueeze(-1) * x).sum(1)


@BLOCKS.register
class Film(nn.Module):
    """What the clue says about the letters: a factor and a shift for each feature."""

    def __init__(self, dim, extra):
        super().__init__()
        self.linear = nn.Linear(dim + extra, 2 * dim)
        nn.init.normal_(self.linear.weight, std=0.05)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x, clue):
        gain, shift = self.linear(clue).chunk(2, dim=-1)
        return x * (1 + torch.tanh(gain)).unsqueeze(1) + shift.unsqueeze(1)
