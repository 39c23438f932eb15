import json
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))


class Config:
    vocab, dim, layers, heads, kv_heads, ffn, max_len = 40, 32, 2, 4, 2, 48, 32
    eps, base, dropout = 1e-5, 10000.0, 0.1


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


def precompute_freqs(dim, end, base):
    inv = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    freqs = torch.outer(torch.arange(end).float(), inv)
    emb = torch.cat((freqs, freqs), dim=-1)
    return emb.cos(), emb.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h, self.kv, self.d = c.heads, c.kv_heads, c.dim // c.heads
        self.wq = nn.Linear(c.dim, self.h * self.d, bias=False)
        self.wk = nn.Linear(c.dim, self.kv * self.d, bias=False)
        self.wv = nn.Linear(c.dim, self.kv * self.d, bias=False)
        self.wo = nn.Linear(self.h * self.d, c.dim, bias=False)
        self.p = c.dropout

    def forward(self, x, cos, sin, mask, cache=None):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.wk(x).view(b, t, self.kv, self.d).transpose(1, 2)
        v = self.wv(x).view(b, t, self.kv, self.d).transpose(1, 2)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
            cache["k"], cache["v"] = k, v
        k = k.repeat_interleave(self.h // self.kv, dim=1)
        v = v.repeat_interleave(self.h // self.kv, dim=1)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(self.d)
        if mask is not None:
            att = att.masked_fill(mask, float("-inf"))
        att = att.softmax(-1)
        return self.wo((att @ v).transpose(1, 2).reshape(b, t, -1))


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w1 = nn.Linear(c.dim, c.ffn, bias=False)
        self.w2 = nn.Linear(c.ffn, c.dim, bias=False)
        self.w3 = nn.Linear(c.dim, c.ffn, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention_norm, self.ffn_norm = RMSNorm(c.dim, c.eps), RMSNorm(c.dim, c.eps)
        self.attention, self.feed_forward = Attention(c), FeedForward(c)
        self.drop = nn.Dropout(c.dropout)

    def forward(self, x, *args):
        x = x + self.drop(self.attention(self.attention_norm(x), *args))
        return x + self.drop(self.feed_forward(self.ffn_norm(x)))


class GPT(nn.Module):
    def __init__(self, c=Config):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.dim)
        self.layers = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = RMSNorm(c.dim, c.eps)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)
        self.head.weight = self.tok.weight
        cos, sin = precompute_freqs(c.dim // c.heads, c.max_len, c.base)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        nn.init.normal_(self.tok.weight, std=0.1)

    def forward(self, idx, caches=None, start=0):
        t = idx.size(1)
        x = self.tok(idx)
        cos, sin = self.cos[start:start + t], self.sin[start:start + t]
        mask = None
        if t > 1:
            mask = torch.ones(t, start + t, dtype=torch.bool, device=idx.device).triu(start + 1)
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, mask, None if caches is None else caches[i])
        return self.head(self.norm(x)).float()

    @torch.no_grad()
    def generate(self, idx, n):
        caches, start, cur = [{} for _ in self.layers], 0, idx
        for _ in range(n):
            logits = self(cur, caches, start)
            start += cur.size(1)
            cur = logits[:, -1].argmax(-1, keepdim=True)
            idx = torch.cat([idx, cur], 1)
        return idx, logits[:, -1]


def build_model():
    return GPT()


def labels():
    y = np.random.default_rng(1).integers(1, 40, (3, 12))
    y[0, 9:] = -100
    y[2, :3] = -100
    return y


def loss(outputs, labels):
    return F.cross_entropy(outputs.reshape(-1, outputs.size(-1)), labels.reshape(-1), ignore_index=-100)


def metric(outputs, labels):
    keep = labels != -100
    nll = F.cross_entropy(outputs.transpose(1, 2), labels, ignore_index=-100)
    top5 = (outputs.topk(5, -1).indices == labels.unsqueeze(-1)).any(-1)
    return {"perplexity": nll.exp().item(), "top5": top5[keep].float().mean().item()}


def build_optimizer(model):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)


def build_scheduler(optimizer):
    warmup, total, low = 2, 10, 0.1

    def ratio(it):
        if it < warmup:
            return (it + 1) / (warmup + 1)
        frac = (it - warmup) / (total - warmup)
        return low + 0.5 * (1 - low) * (1 + math.cos(math.pi * frac))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, ratio)


class Chunks(torch.utils.data.Dataset):
    def __init__(self, split, block=12):
        with open(os.path.join(HERE, "prompts", "corpus.txt")) as f:
            text = f.read()
        chars = sorted(set(text))
        stoi = {c: i + 1 for i, c in enumerate(chars)}
        ids = torch.tensor([stoi[c] for c in text])
        cut = int(0.8 * len(ids))
        self.ids, self.block = (ids[:cut] if split == "train" else ids[cut:]), block

    def __len__(self):
        return (len(self.ids) - 1) // self.block

    def __getitem__(self, i):
        s = i * self.block
        return self.ids[s:s + self.block], self.ids[s + 1:s + 1 + self.block]


def build_dataset(split):
    return Chunks(split)


def predict(path, model):
    with open(path) as f:
        req = json.load(f)
    model.eval()
    ids, last = model.generate(torch.tensor([req["ids"]]), req["max_new_tokens"])
    return {"ids": ids, "last": last}
