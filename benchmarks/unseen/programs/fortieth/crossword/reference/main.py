"""Crossword fill: from a clue and a half-filled pattern to the letters of the empty slots."""

import json
from pathlib import Path

import torch

from . import blocks, model as _model  # noqa: F401  (they fill the registries)
from .data import Clues, loader, puzzle
from .registry import LOSSES, MODELS, OPTIMIZERS, SCHEDULES
from .training import VOWELS  # noqa: F401

CFG = json.loads((Path(__file__).parent / "config.json").read_text())
DATA = CFG["data"]


def build_model():
    return MODELS.build(CFG["model"], buckets=DATA["buckets"], clue_len=DATA["clue_len"], slots=DATA["slots"])


def build_dataset(split):
    return Clues(DATA, split)


def build_dataloader(split):
    return loader(DATA, split)


def loss(outputs, labels):
    return LOSSES.build(CFG["loss"])(outputs, labels)


def metric(outputs, labels):
    target, logp = labels["letters"], outputs["letters"].log_softmax(-1)
    ask = target >= 0
    right = (logp.argmax(-1) == target) & ask
    told = logp.gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    top5 = (logp.topk(5, dim=-1).indices == target.unsqueeze(-1)).any(-1) & ask
    words = (right.sum(1) == ask.sum(1)).to(logp.dtype)
    return {"slots": right.sum() / ask.sum(), "top5": top5.sum() / ask.sum(), "words": words.mean(),
            "logp": (told * ask).sum() / ask.sum(),
            "hard_mae": (outputs["hard"] - labels["hard"]).abs().mean()}


def build_optimizer(model):
    return OPTIMIZERS.build(CFG["optimizer"], model=model)


def build_scheduler(optimizer):
    return SCHEDULES.build(CFG["schedule"], optimizer=optimizer)


def train_step(model, optimizer, batch):
    model.train()
    optimizer.zero_grad()
    outputs = model(batch["clue"], batch["pattern"], batch["flags"])
    value = loss(outputs, batch["labels"])
    value.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CFG["optimizer"]["clip"])
    optimizer.step()
    return value.detach()


@torch.no_grad()
def predict(path, model):
    """The three words of the list that fit each pattern best, with the mean log-probability of their new letters."""
    rows, batch = puzzle(path, DATA)
    batch["flags"] = batch["flags"].to(next(model.parameters()).dtype)
    out = model(**batch)
    logp = out["letters"].log_softmax(-1)
    words = open(DATA["words"]).read().split()
    names, scores = [], []
    for i, row in enumerate(rows):
        pattern = row["pattern"]
        fits = [w for w in words if len(w) == len(pattern) and all(p in ("?", c) for p, c in zip(pattern, w))]
        free = [j for j, p in enumerate(pattern) if p == "?"]
        ranked = sorted(((sum(float(logp[i, j, ord(w[j]) - 65]) for j in free) / len(free), w) for w in fits), reverse=True)[:3]
        names.append([w for _, w in ranked])
        scores.append([s for s, _ in ranked])
    return {"words": names, "scores": scores, "hard": out["hard"].tolist()}
