"""A small translator: a GRU written as functions, a decoder that looks at it through a causal mask, routed experts; PyTorch."""

import math

import numpy as np
import torch
from given import tokens
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, WORDS, LENGTH = 32, 4, 120, 12


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Recurrence(nn.Module):
    """A gated recurrence; the reset gate before the product, as in the first paper."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(2 * WIDTH, 2 * WIDTH)
        self.new = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], WIDTH)
        found = []
        for step in x.unbind(1):
            z, r = torch.sigmoid(self.gates(torch.cat([step, h], -1))).chunk(2, -1)
            new = torch.tanh(self.new(torch.cat([step, r * h], -1)))
            h = (1 - z) * h + z * new
            found.append(h)
        return torch.stack(found, 1)


def attention(q, k, v, mask=None):
    q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (q, k, v))
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v).transpose(1, 2).flatten(2)


class Experts(nn.Module):
    """Each word goes to the two of four experts that the router likes best."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4, bias=False)
        self.inner = nn.Parameter(torch.randn(4, WIDTH, 2 * WIDTH) * 0.3)
        self.outer = nn.Parameter(torch.randn(4, 2 * WIDTH, WIDTH) * 0.2)

    def forward(self, x):
        logits = self.router(x)
        best, which = logits.topk(2, -1)
        weights = best.softmax(-1)
        full = torch.zeros_like(logits).scatter(-1, which, weights)
        y = torch.einsum("btc,ech->bteh", x, self.inner)
        y = torch.einsum("bteh,ehc->btec", F.gelu(y, approximate="tanh"), self.outer)
        return (y * full.unsqueeze(-1)).sum(2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = RMSNorm(WIDTH), RMSNorm(WIDTH), RMSNorm(WIDTH)
        self.q, self.kv, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.cross_q, self.cross_kv, self.cross_o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.experts = Experts()

    def forward(self, x, memory, causal, padding):
        y = self.norm1(x)
        x = x + self.o(attention(self.q(y), *self.kv(y).chunk(2, -1), causal))
        y = self.norm2(x)
        x = x + self.cross_o(attention(self.cross_q(y), *self.cross_kv(memory).chunk(2, -1), padding))
        return x + self.experts(self.norm3(x))


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.recurrence = Recurrence()
        self.layers = nn.ModuleList([Layer() for _ in range(2)])
        self.norm = RMSNorm(WIDTH)
        place = torch.arange(2 * LENGTH).unsqueeze(1)
        rate = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
        table = torch.zeros(2 * LENGTH, WIDTH)
        table[:, 0::2], table[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table, persistent=False)

    def forward(self, source, target):
        memory = self.recurrence(self.embed(source) * math.sqrt(WIDTH))
        padding = (source == 0)[:, None, None, :]
        valid = (target != 0).long()
        places = torch.cumsum(valid, 1) * valid
        x = self.embed(target) * math.sqrt(WIDTH) + self.table[places]
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        for layer in self.layers:
            x = layer(x, memory, causal, padding)
        x = self.norm(x)
        logits = F.linear(x, self.embed.weight)
        last = valid.sum(1) - 1
        return {"logits": logits, "last": x.gather(1, last[:, None, None].expand(-1, 1, WIDTH)).squeeze(1)}


def build_model():
    torch.manual_seed(5)
    model = Translator()
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            parameter.data += 0.2 * torch.randn_like(parameter)
        elif name == "embed.weight":
            parameter.data *= 0.3
        elif parameter.ndim == 2:
            parameter.data *= 1.6
    return model


def sentences(seed):
    found = tokens(3, LENGTH, WORDS, seed=seed)
    found[1, 9:], found[2, 5:] = 0, 0
    return found


def inputs():
    return {"source": sentences(3), "target": sentences(4)[:, : LENGTH - 2]}


def labels():
    return np.ascontiguousarray(sentences(4)[:, 2:])


def loss(outputs, labels):
    each = F.cross_entropy(outputs["logits"].flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=0.1)
    return each + 0.01 * outputs["last"].pow(2).sum(-1).mean()
