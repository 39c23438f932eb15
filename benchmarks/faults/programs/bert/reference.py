"""A BERT-like encoder with a padding mask, tied output embedding and a masked-word loss, trained by Adam; PyTorch."""

import numpy as np
import torch
from given import tokens
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, HEADS, PAD = 200, 48, 4, 1


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(WORDS, WIDTH, padding_idx=PAD)
        self.position = nn.Embedding(40, WIDTH)
        self.kind = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids, kinds):
        real = (ids != PAD).long()
        positions = torch.cumsum(real, 1) * real + PAD
        x = self.word(ids)
        x = x + self.position(positions)
        x = x + self.kind(kinds)
        x = self.norm(x)
        return self.dropout(x)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x, bias):
        q = self.split(self.query(x))
        k = self.split(self.key(x))
        v = self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        scores = scores + bias
        weights = torch.softmax(scores, -1)
        weights = self.dropout(weights)
        x = (weights @ v).transpose(1, 2)
        x = x.reshape(x.shape[0], x.shape[1], WIDTH)
        return self.output(x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-12)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x, bias):
        x = self.norm1(x + self.attention(x, bias))
        y = F.gelu(self.up(x), approximate="tanh")
        y = self.down(y)
        return self.norm2(x + y)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.layers = nn.ModuleList([Layer() for _ in range(2)])
        self.transform = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.bias = nn.Parameter(torch.randn(WORDS) * 0.1)
        self.pooler = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids, kinds, mask):
        bias = (1.0 - mask[:, None, None, :]) * -1e4
        x = self.embeddings(ids, kinds)
        for layer in self.layers:
            x = layer(x, bias)
        y = self.norm(F.gelu(self.transform(x)))
        logits = y @ self.embeddings.word.weight.T + self.bias
        pooled = torch.tanh(self.pooler(x[:, 0]))
        return {"logits": logits, "pooled": pooled}


def build_model():
    torch.manual_seed(4)
    model = Bert()
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            parameter.data += 0.2 * torch.randn_like(parameter)
        elif "word" in name or "position" in name or "kind" in name:
            parameter.data *= 0.3
        else:
            parameter.data *= 1.8
    return model


def inputs():
    ids = tokens(4, 20, WORDS)
    ids[1, 14:], ids[3, 9:] = PAD, PAD
    kinds = np.zeros((4, 20), "int64")
    kinds[:, 8:] = 1
    return {"ids": ids, "kinds": kinds, "mask": (ids != PAD).astype("float32")}


def labels():
    """Every fifth word is to be guessed; -100 marks the others."""
    ids = tokens(4, 20, WORDS)
    wanted = np.full_like(ids, -100)
    wanted[:, ::5] = ids[:, ::5]
    wanted[3, 9:] = -100
    return wanted


def loss(outputs, labels):
    logits = outputs["logits"].reshape(-1, WORDS)
    guessed = F.cross_entropy(logits, labels.reshape(-1), ignore_index=-100)
    return guessed + 0.1 * outputs["pooled"].square().mean()


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
