import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Hyper:
    dim = 36
    layers = 3
    heads = 4
    kv_heads = 2
    head_dim = 12
    rotary = 8            # of each head's numbers
    theta = 500.0
    hidden = 56
    eps = 1e-6
    window = 9
    attn_cap = 8.0
    logit_cap = 15.0
    drop = 0.1
    std = 0.08


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


def rotate(x, angles):
    """Neighbouring numbers are a pair, the rest of the head is left alone. x: [B, H, T, D], angles: [B, T, R / 2]."""
    n = 2 * angles.shape[-1]
    turn, rest = x[..., :n], x[..., n:]
    a, b = turn[..., 0::2], turn[..., 1::2]
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    return torch.cat([turned, rest], -1)


class Attention(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.h = h
        self.wq = nn.Linear(h.dim, h.heads * h.head_dim, bias=False)
        self.wkv = nn.Linear(h.dim, 2 * h.kv_heads * h.head_dim, bias=False)
        self.wo = nn.Linear(h.heads * h.head_dim, h.dim, bias=False)
        self.qnorm = RMSNorm(h.head_dim, h.eps)
        self.knorm = RMSNorm(h.head_dim, h.eps)

    def forward(self, x, angles, mask):
        h, (B, T, _) = self.h, x.shape
        q = self.wq(x).view(B, T, h.heads, h.head_dim).transpose(1, 2)
        k, v = self.wkv(x).view(B, T, 2, h.kv_heads, h.head_dim).permute(2, 0, 3, 1, 4)
        q, k = rotate(self.qnorm(q), angles), rotate(self.knorm(k), angles)
        q = q.reshape(B, h.kv_heads, h.heads // h.kv_heads, T, h.head_dim)
        scores = torch.einsum("bgrtd,bgsd->bgrts", q, k) / math.sqrt(h.head_dim)
        scores = h.attn_cap * torch.tanh(scores / h.attn_cap)
        scores = scores.masked_fill(~mask[:, None, None], float("-inf"))
        out = torch.einsum("bgrts,bgsd->bgrtd", scores.softmax(-1), v)
        return self.wo(out.reshape(B, h.heads, T, h.head_dim).transpose(1, 2).reshape(B, T, -1))


class SwiGLU(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.w13 = nn.Linear(h.dim, 2 * h.hidden, bias=False)
        self.w2 = nn.Linear(h.hidden, h.dim, bias=False)

    def forward(self, x):
        gate, up = self.w13(x).chunk(2, -1)
        return self.w2(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.norm1 = RMSNorm(h.dim, h.eps)
        self.attn = Attention(h)
        self.norm2 = RMSNorm(h.dim, h.eps)
        self.mlp = SwiGLU(h)
        self.drop = nn.Dropout(h.drop)

    def forward(self, x, angles, mask):
        x = x + self.drop(self.attn(self.norm1(x), angles, mask))
        return x + self.drop(self.mlp(self.norm2(x)))


class Reckoner(nn.Module):
    def __init__(self, vocab, h=Hyper):
        super().__init__()
        self.h = h
        self.embed = nn.Embedding(vocab, h.dim)
        self.blocks = nn.ModuleList(Block(h) for _ in range(h.layers))
        self.norm = RMSNorm(h.dim, h.eps)
        power = torch.arange(0, h.rotary, 2, dtype=torch.float64) / h.rotary
        self.register_buffer("freqs", (h.theta ** -power).to(torch.get_default_dtype()), persistent=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                std = h.std / math.sqrt(2 * h.layers) if name.endswith(("wo.weight", "w2.weight")) else h.std
                nn.init.normal_(p, std=std)

    def forward(self, tokens, segments, positions):
        h, T = self.h, tokens.shape[1]
        i = torch.arange(T, device=tokens.device)
        back = i[:, None] - i[None]
        mask = (back >= 0) & (back < h.window) & (segments[:, :, None] == segments[:, None])
        angles = positions[..., None] * self.freqs
        x = self.embed(tokens) * math.sqrt(h.dim)
        for block in self.blocks:
            x = block(x, angles, mask)
        logits = F.linear(self.norm(x), self.embed.weight)
        return h.logit_cap * torch.tanh(logits / h.logit_cap)
