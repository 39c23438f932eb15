"""A decoder as Llama's: normalised by root mean square, rotary positions, gated feed-forward."""

import os

import torch
from torch import nn

SIZES = {"WIDTH": 64, "HEADS": 4, "INNER": 160, "LAYERS": 8, "WORDS": 100}
WIDTH, HEADS, INNER, LAYERS, WORDS = (int(os.environ.get(name, usual)) for name, usual in SIZES.items())


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def rotate(x, base):
    length, width = x.shape[-2], x.shape[-1]
    speeds = base ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
    angles = torch.outer(torch.arange(length, dtype=x.dtype), speeds)
    angles = torch.cat([angles, angles], -1)
    half = torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1)
    return x * angles.cos() + half * angles.sin()


class Attention(nn.Module):
    def __init__(self, width, heads, base=10000.0):
        super().__init__()
        self.heads, self.base = heads, base
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (f(x).reshape(batch, length, self.heads, -1).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        q = rotate(q, self.base)
        k = rotate(k, self.base)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        mask = torch.tril(torch.ones(length, length, dtype=torch.bool))
        scores = scores.masked_fill(~mask, -1e9)
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.input_layernorm, self.self_attn = Norm(width), Attention(width, heads)
        self.post_attention_layernorm, self.mlp = Norm(width), Gated(width, inner)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block(WIDTH, HEADS, INNER) for _ in range(LAYERS))
        self.norm = Norm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def build_model():
    return Decoder()
