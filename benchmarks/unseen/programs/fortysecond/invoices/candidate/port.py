"""Finds seller, number, date, tax and total on an invoice."""
import json
from functools import partial

import paddle
from paddle import nn

from . import blocks, corpus, objective, pointer, solver  # noqa: F401
from .catalogue import SETTINGS, pick

NET, TRAINING = SETTINGS["net"], SETTINGS["training"]


class Reader(nn.Layer):
    def __init__(self):
        super().__init__()
        kinds = {k: pick(k, NET[k]) for k in ("embedder", "encoder", "head")}
        self.embedder = kinds["embedder"](NET["dim"])
        self.encoder = kinds["encoder"](NET["dim"], **NET[NET["encoder"]])
        self.head = kinds["head"](NET["dim"], **NET[NET["head"]])

    def forward(self, grams, looks, boxes, present):
        words = self.embedder(grams, looks, boxes)
        words = self.encoder(words, boxes, present)
        return self.head(words, present)


def build_model():
    return Reader()


build_dataset = corpus.Pages
build_dataloader = corpus.feed
loss = pick("criterion", TRAINING["criterion"])
metric = objective.figures


def build_optimizer(model):
    schedule = partial(pick("schedule", TRAINING["schedule"]), **TRAINING["schedule_options"])
    return pick("solver", TRAINING["solver"])(model, schedule, **TRAINING["solver_options"])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    optimizer.clear_grad()
    truth = batch["labels"]
    scores = model(batch["grams"], batch["looks"], batch["boxes"], batch["present"])
    cost = loss(scores, truth)
    cost.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=TRAINING["clip"])
    optimizer.step()
    return cost.detach()


def predict(path, model):
    with open(path) as f:
        page = json.load(f)
    kind = model.head.field.weight.dtype
    arrays = {k: paddle.to_tensor(v[None]) for k, v in corpus.page_arrays(page).items()}
    for name in ("looks", "present"):
        arrays[name] = arrays[name].astype(kind)
    with paddle.no_grad():
        scores = model(**arrays)[0].numpy()
    found = {}
    for field, table in zip(SETTINGS["fields"], scores):
        best = int(table.argmax())
        start, stop = best // table.shape[1], best % table.shape[1]
        words = " ".join(w for w, *_ in page["words"][start:stop + 1])
        found[field] = {"text": words, "score": table[start, stop], "there": bool(table[start, stop] > 0)}
    return found
