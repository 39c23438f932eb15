"""Siamese keyword spotting on raw arrays: log-mel, depthwise-separable convolutions, contrastive loss."""
import math

import numpy as np
import torch
from torch.utils.data import DataLoader

from audio.data import FitLength, PairSet, PeakNormalise, PreEmphasis, ToFloat
from audio.evaluate import evaluate
from audio.model import KeywordEncoder, Siamese

ARGS = {
    "samples": 1600, "batch": 8, "epochs": 6, "warmup": 3, "lr": 0.05, "lr_min": 0.001, "momentum": 0.9,
    "wd": 5e-4, "margin": 1.2,
}


def transforms(split):
    return [ToFloat(), PreEmphasis(), FitLength(ARGS["samples"]), PeakNormalise()]


def chain(split):
    steps = transforms(split)

    def run(x):
        for s in steps:
            x = s(x)
        return x
    return run


def build_dataset(split):
    return PairSet(split, chain(split))


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=ARGS["batch"], shuffle=False)


def build_model():
    return Siamese(KeywordEncoder())


def loss(out, same):
    d = out["distance"]
    same = same.to(d.dtype)
    pull = same * d ** 2
    push = (1 - same) * torch.clamp(ARGS["margin"] - d, min=0) ** 2
    return 0.5 * (pull + push).mean()


def metric(out, same):
    return evaluate(out["distance"].numpy(), same.numpy())


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=ARGS["lr"], momentum=ARGS["momentum"], weight_decay=ARGS["wd"], nesterov=True)


class WarmupCosine:
    """linear for some steps, then half a cosine down to lr_min; by hand, per step"""

    def __init__(self, optimizer, total, warmup, lr_min):
        self.optimizer, self.total, self.warmup, self.lr_min = optimizer, total, warmup, lr_min
        self.base = [g["lr"] for g in optimizer.param_groups]
        self.count = 0
        self.apply()

    def rate(self, base):
        if self.count < self.warmup:
            return base * (self.count + 1) / self.warmup
        progress = (self.count - self.warmup) / max(1, self.total - self.warmup)
        return self.lr_min + 0.5 * (base - self.lr_min) * (1 + math.cos(math.pi * min(1.0, progress)))

    def apply(self):
        for g, base in zip(self.optimizer.param_groups, self.base):
            g["lr"] = self.rate(base)

    def step(self):
        self.count += 1
        self.apply()


def build_scheduler(optimizer):
    total = ARGS["epochs"] * len(build_dataloader("train"))
    return WarmupCosine(optimizer, total, ARGS["warmup"], ARGS["lr_min"])


@torch.no_grad()
def predict(path, model):
    """nearest word by the mean embedding of the enrolled recordings"""
    z = np.load("words.npz")
    prepare = chain("test")
    dtype = model.encoder.proj.weight.dtype

    def embed(waves):
        return model.encoder(torch.from_numpy(np.stack([prepare(w) for w in waves])).to(dtype))

    centres = torch.stack([embed(z["wave"][z["word"] == k][:4]).mean(0) for k in range(4)])
    centres = torch.nn.functional.normalize(centres, dim=-1)
    scores = -torch.cdist(embed([np.load(path)]), centres)[0]
    return {"scores": scores.numpy(), "word": str(z["names"][int(scores.argmax())])}
