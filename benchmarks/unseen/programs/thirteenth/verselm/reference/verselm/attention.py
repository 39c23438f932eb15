import torch
from torch import nn


def rotary_table(length, dim, base):
    inverse = base ** (-torch.arange(0, dim, 2).double() / dim)
    angle = torch.outer(torch.arange(length).double(), inverse)
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class LocalAttention(nn.Module):
    """Causal attention to the last `window` tokens, part of each head rotated."""

    def __init__(self, cfg, max_len):
        super().__init__()
        self.heads, self.window, self.rotary_dim = cfg.heads, cfg.window, cfg.rotary_dim
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.out_proj = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.temperature = nn.Parameter(torch.zeros(cfg.heads))
        self.dropout = nn.Dropout(cfg.dropout)
        cos, sin = rotary_table(max_len, cfg.rotary_dim, cfg.rotary_base)
        self.register_buffer("cos", cos.float(), persistent=False)
        self.register_buffer("sin", sin.float(), persistent=False)

    def rotary(self, x):
        cos, sin = self.cos[: x.shape[-2]].to(x.dtype), self.sin[: x.shape[-2]].to(x.dtype)
        turn, rest = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        return torch.cat([turn * cos + rotate_half(turn) * sin, rest], -1)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.rotary(q), self.rotary(k)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * (d // self.heads) ** -0.5
        scores = scores * torch.exp(self.temperature)[:, None, None]
        i = torch.arange(t, device=x.device)
        distance = i[:, None] - i[None, :]
        allowed = (distance >= 0) & (distance < self.window)
        allowed = allowed & (mask[:, None, None, :] | (distance == 0))
        weights = self.dropout(scores.masked_fill(~allowed, float("-inf")).softmax(-1))
        y = torch.einsum("bhij,bhjd->bihd", weights, v).reshape(b, t, d)
        return self.out_proj(y)
