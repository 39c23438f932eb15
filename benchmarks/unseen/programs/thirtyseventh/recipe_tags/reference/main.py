"""Tags of a recipe (vegan, spicy, ...) from ingredients and their grams; a mixture of experts built by names."""
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
REGISTRY = {}


def register(name):
    def keep(thing):
        REGISTRY[name] = thing
        return thing
    return keep


def make(name, *args, **kwargs):
    return REGISTRY[name](*args, **kwargs)


SPEC = {
    "words": 40, "dim": 16, "longest": 9, "tags": 6,
    "encoder": "bag", "body": "experts", "head": "tags", "data": "recipes",
    "experts": ["expert/gelu", "expert/tanh", "expert/silu", "expert/gelu"], "top": 2,
    "balance": 0.05, "lr": 0.05, "steps": 40, "clip": 0.25,
}


@register("bag")
class Bag(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.table = nn.EmbeddingBag(words, dim, mode="sum", padding_idx=0)
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids, share):
        return self.norm(self.table(ids, per_sample_weights=share))


class Expert(nn.Module):
    def __init__(self, dim, act):
        super().__init__()
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)
        self.act = act

    def forward(self, x):
        return self.down(self.act(self.up(x)))


REGISTRY["expert/gelu"] = lambda dim: Expert(dim, nn.GELU(approximate="tanh"))
REGISTRY["expert/tanh"] = lambda dim: Expert(dim, nn.Tanh())
REGISTRY["expert/silu"] = lambda dim: Expert(dim, nn.SiLU())


@register("experts")
class Experts(nn.Module):
    def __init__(self, dim, names, top):
        super().__init__()
        self.gate = nn.Linear(dim, len(names), bias=False)
        self.experts = nn.ModuleList([make(n, dim) for n in names])
        self.top = top

    def forward(self, x):
        scores = self.gate(x)
        best, which = scores.topk(self.top, dim=-1)
        share = best.softmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            row, slot = torch.where(which == i)
            if row.numel():
                out = out.index_add(0, row, share[row, slot].unsqueeze(1) * expert(x[row]))
        used = F.one_hot(which[:, 0], len(self.experts)).to(x.dtype).mean(0)
        balance = len(self.experts) * (used * scores.softmax(-1).mean(0)).sum()
        return x + out, balance


@register("tags")
class Tags(nn.Module):
    def __init__(self, dim, tags):
        super().__init__()
        self.line = nn.Linear(dim, tags)

    def forward(self, x):
        return self.line(F.normalize(x, dim=-1) * 4.0)


class Tagger(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.encoder = make(spec["encoder"], spec["words"], spec["dim"])
        self.body = make(spec["body"], spec["dim"], spec["experts"], spec["top"])
        self.head = make(spec["head"], spec["dim"], spec["tags"])

    def forward(self, ids, share):
        x, balance = self.body(self.encoder(ids, share))
        return self.head(x), balance


@register("recipes")
class Recipes(Dataset):
    def __init__(self, split):
        with open(os.path.join(ROOT, "data", split + ".csv")) as f:
            self.lines = [line.strip().split(";") for line in f if line.strip()]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        things, tags = self.lines[i]
        ids = np.zeros(SPEC["longest"], dtype=np.int64)
        grams = np.zeros(SPEC["longest"], dtype=np.float32)
        for j, thing in enumerate(things.split("|")):
            a, b = thing.split(":")
            ids[j], grams[j] = int(a), np.log1p(float(b))
        target = np.zeros(SPEC["tags"], dtype=np.float32)
        target[[int(t) for t in tags.split()]] = 1
        return ids, grams / grams.sum(), target


def build_model():
    return Tagger(SPEC)


def build_dataset(split):
    return make(SPEC["data"], split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=8, shuffle=False)


def loss(outputs, labels):
    logits, balance = outputs
    positive = torch.full((SPEC["tags"],), 2.5, dtype=logits.dtype)
    return F.binary_cross_entropy_with_logits(logits, labels, pos_weight=positive) + SPEC["balance"] * balance


def metric(outputs, labels):
    logits, truth = outputs[0].detach().numpy(), labels.numpy()
    order = np.argsort(-logits, axis=1, kind="stable")
    sorted_truth = np.take_along_axis(truth, order, axis=1)
    precision = np.cumsum(sorted_truth, axis=1) / np.arange(1, truth.shape[1] + 1)
    average = (precision * sorted_truth).sum(1) / np.maximum(sorted_truth.sum(1), 1)
    return {"map": float(average.mean()), "first": float(sorted_truth[:, 0].mean())}


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=SPEC["lr"], momentum=0.9, nesterov=True, weight_decay=1e-3)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=SPEC["steps"], power=1.5)


def train_step(model, optimizer, batch):
    ids, share, labels = batch
    optimizer.zero_grad()
    value = loss(model(ids, share), labels)
    value.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), SPEC["clip"])
    optimizer.step()
    return {"loss": value.detach(), "norm": norm}
