"""Guess masked words of server logs."""
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from .parts.blocks import Block, TiedHead
from .parts.text import MASK, PAD, SKIP, MaskedLog, read, vocabulary

WIDTH, HEADS, REACH, DEPTH, DROPOUT = 16, 4, 3, 2, 0.1
LR, WARMUP, STEPS, MICRO, CLIP = 3e-3, 4, 40, 3, 1.0


class LogModel(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embed = nn.Embedding(words, WIDTH, padding_idx=PAD)
        self.drop = nn.Dropout(DROPOUT)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS, REACH, DROPOUT) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = TiedHead(self.embed)
        self.apply(self.initialise)

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.08)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        pad = tokens == PAD
        x = self.drop(self.embed(tokens) * math.sqrt(WIDTH))
        for block in self.blocks:
            x = block(x, pad)
        return self.head(self.norm(x))


def build_model():
    return LogModel(len(vocabulary()))


def loss(outputs, labels, reduction="mean"):
    return F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), ignore_index=SKIP,
                           label_smoothing=0.1, reduction=reduction)


def metric(outputs, labels):
    scores, true = outputs.detach().cpu().numpy(), labels.cpu().numpy()
    scores, true = scores[true != SKIP], true[true != SKIP]
    rank = (scores > scores[np.arange(len(true)), true][:, None]).sum(1) + 1
    return {"hit1": float((rank == 1).mean()), "hit5": float((rank <= 5).mean()), "mrr": float((1 / rank).mean())}


def build_dataset(split):
    return MaskedLog(f"data/{split}.log")


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=6)


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=LR, betas=(0.9, 0.99), eps=1e-7)


def build_scheduler(optimizer):
    def factor(step):
        if step < WARMUP:
            return (step + 1) / WARMUP
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - WARMUP) / (STEPS - WARMUP))))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    """One update from micro-batches, divided by the masked words of the whole batch."""
    optimizer.zero_grad()
    words = (batch["labels"] != SKIP).sum()
    total = 0.0
    for tokens, labels in zip(batch["tokens"].split(MICRO), batch["labels"].split(MICRO)):
        part = loss(model(tokens), labels, reduction="sum") / words
        part.backward()
        total = total + part.detach()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return total


def predict(path, model):
    """Log-likelihood of each line, every word masked in turn."""
    out = []
    for line in read(path, vocabulary()):
        tokens = torch.tensor(line).repeat(len(line), 1)
        place = torch.arange(len(line))
        tokens[place, place] = MASK
        with torch.no_grad():
            logp = model(tokens).log_softmax(-1)[place, place, torch.tensor(line)]
        out.append(float(logp.sum()))
    return np.array(out)
