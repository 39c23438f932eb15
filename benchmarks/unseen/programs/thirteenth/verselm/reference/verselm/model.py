import math

import torch
from torch import nn
from torch.nn import functional as F

from .attention import LocalAttention
from .norm import RMSNorm
from .ssd import StateSpace
from .tokenizer import PAD

MIXERS = {"ssd": lambda cfg, _: StateSpace(cfg), "attention": LocalAttention}


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.out_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.out_proj(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, kind, cfg, max_len):
        super().__init__()
        self.norm1 = RMSNorm(cfg.dim, cfg.eps)
        self.mixer = MIXERS[kind](cfg, max_len)
        self.norm2 = RMSNorm(cfg.dim, cfg.eps)
        self.mlp = SwiGLU(cfg.dim, cfg.hidden)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(self, x, mask):
        x = x + self.dropout(self.mixer(self.norm1(x), mask))
        return x + self.dropout(self.mlp(self.norm2(x)))


class VerseLM(nn.Module):
    def __init__(self, cfg, vocabulary, max_len):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(vocabulary, cfg.dim)
        self.layers = nn.ModuleList(Layer(kind, cfg, max_len) for kind in cfg.layers)
        self.norm = RMSNorm(cfg.dim, cfg.eps)
        self.head = nn.Linear(cfg.dim, vocabulary)
        self.init_weights()
        self.head.weight = self.embed.weight

    def init_weights(self):
        for name, m in self.named_modules():
            if isinstance(m, nn.Linear):
                std = m.in_features**-0.5
                if name.endswith("out_proj"):
                    std /= math.sqrt(2 * len(self.layers))
                nn.init.normal_(m.weight, std=std)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.trunc_normal_(self.embed.weight, std=self.cfg.dim**-0.5, a=-0.4, b=0.4)

    def forward(self, tokens):
        mask = tokens != PAD
        x = self.embed(tokens) * math.sqrt(self.cfg.dim)
        for layer in self.layers:
            x = layer(x, mask)
        logits = self.head(self.norm(x))
        cap = self.cfg.soft_cap
        return {"logits": cap * torch.tanh(logits / cap)}
