"""Sparse mixture-of-experts decoder: RoPE, grouped queries, top-2 routing, stochastic depth."""
import math
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = SimpleNamespace(vocab=30, d=16, heads=4, kv=2, layers=2, experts=4, k=2, ff=24, base=5000.0, drop_path=0.2)


def rotate(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.hd = cfg.d // cfg.heads
        self.wq = nn.Linear(cfg.d, cfg.heads * self.hd, bias=False)
        self.wk = nn.Linear(cfg.d, cfg.kv * self.hd, bias=False)
        self.wv = nn.Linear(cfg.d, cfg.kv * self.hd, bias=False)
        self.wo = nn.Linear(cfg.heads * self.hd, cfg.d, bias=False)

    def forward(self, x, cos, sin):
        B, L, _ = x.shape
        q = self.wq(x).view(B, L, cfg.heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, L, cfg.kv, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, L, cfg.kv, self.hd).transpose(1, 2)
        q, k = rotate(q, cos[:L], sin[:L]), rotate(k, cos[:L], sin[:L])
        k = k.repeat_interleave(cfg.heads // cfg.kv, 1)
        v = v.repeat_interleave(cfg.heads // cfg.kv, 1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(o.transpose(1, 2).reshape(B, L, -1))


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(cfg.d, cfg.ff, bias=False)
        self.w3 = nn.Linear(cfg.d, cfg.ff, bias=False)
        self.w2 = nn.Linear(cfg.ff, cfg.d, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(cfg.d, cfg.experts, bias=False)
        self.experts = nn.ModuleList([Expert() for _ in range(cfg.experts)])

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, cfg.d)
        logits = self.gate(x)
        p = logits.softmax(-1)
        w, idx = torch.topk(p, cfg.k, -1)
        w = w / w.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(idx == e)
            if len(row) == 0:
                continue
            y.index_add_(0, row, w[row, slot, None] * expert(x[row]))
        frac = F.one_hot(idx, cfg.experts).to(p.dtype).sum(1).mean(0) / cfg.k
        aux = cfg.experts * (frac * p.mean(0)).sum()
        z = torch.logsumexp(logits, -1).pow(2).mean()
        return y.view(shape), aux, z


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.drop_prob = p

    def forward(self, x):
        if not self.training or self.drop_prob == 0:
            return x
        keep = 1 - self.drop_prob
        mask = x.new_empty(x.shape[0], 1, 1).bernoulli_(keep)
        return x * mask / keep


class Block(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.d, eps=1e-6)
        self.attn = Attention()
        self.ln2 = nn.LayerNorm(cfg.d, eps=1e-6)
        self.moe = MoE()
        self.gamma = nn.Parameter(0.1 * torch.ones(cfg.d))
        self.dp = DropPath(p)

    def forward(self, x, cos, sin):
        x = x + self.dp(self.attn(self.ln1(x), cos, sin))
        y, aux, z = self.moe(self.ln2(x))
        return x + self.dp(self.gamma * y), aux, z


class Decoder(nn.Module):
    def __init__(self, max_len=32):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.d)
        self.blocks = nn.ModuleList([Block(cfg.drop_path * i / (cfg.layers - 1)) for i in range(cfg.layers)])
        self.norm = nn.LayerNorm(cfg.d, eps=1e-6)
        self.head = nn.Linear(cfg.d, cfg.vocab)
        hd = cfg.d // cfg.heads
        f = cfg.base ** (-torch.arange(0, hd, 2).float() / hd)
        a = torch.outer(torch.arange(max_len).float(), f)
        self.register_buffer("cos", a.cos(), persistent=False)
        self.register_buffer("sin", a.sin(), persistent=False)

    def forward(self, ids):
        x = self.emb(ids) * math.sqrt(cfg.d)
        aux = z = 0.0
        for b in self.blocks:
            x, a, c = b(x, self.cos, self.sin)
            aux, z = aux + a, z + c
        return {"logits": self.head(self.norm(x)), "aux": aux / cfg.layers, "z": z / cfg.layers}


def build_model():
    return Decoder()


def loss(out, y):
    ce = F.cross_entropy(out["logits"].transpose(1, 2), y)
    return {"loss": ce + 0.02 * out["aux"] + 1e-3 * out["z"], "ce": ce}


def metric(out, y):
    """weighted F1 over three classes of tokens"""
    p = out["logits"].argmax(-1).flatten() // 12
    y = y.flatten() // 12
    total = 0.0
    for c in y.unique():
        tp = ((p == c) & (y == c)).sum().item()
        n = (y == c).sum().item()
        f1 = 2 * tp / (n + (p == c).sum().item())
        total += f1 * n
    return {"weighted_f1": total / len(y), "acc": (p == y).double().mean().item()}


def build_optimizer(model):
    g = {"decay": [], "none": [], "gate": []}
    for n, p in model.named_parameters():
        if "gate" in n:
            g["gate"].append(p)
        elif p.ndim == 1 or "emb" in n:
            g["none"].append(p)
        else:
            g["decay"].append(p)
    return torch.optim.AdamW([
        {"params": g["decay"], "weight_decay": 0.1},
        {"params": g["none"], "weight_decay": 0.0},
        {"params": g["gate"], "weight_decay": 0.0, "lr": 2e-4},
    ], lr=1e-3, betas=(0.9, 0.95), eps=1e-8)


def build_scheduler(opt):
    return torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=[2e-3, 2e-3, 4e-4], total_steps=16, pct_start=0.25, cycle_momentum=False)
