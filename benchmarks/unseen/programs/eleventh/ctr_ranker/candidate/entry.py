# -*- coding: utf-8 -*-
import json
from pathlib import Path

import paddle
from paddle.optimizer import lr

from columns import ClickFrame, make_loader
from criteria import RankerLoss
from ranker import ClickRanker
from scores import evaluate

SETTINGS = json.loads((Path(__file__).resolve().parent / "settings.json").read_text())


def build_model():
    return ClickRanker(buckets=SETTINGS["data"]["buckets"], **SETTINGS["model"])


def build_dataset(split):
    return ClickFrame(SETTINGS["data"], split)


def build_dataloader(split):
    return make_loader(SETTINGS["data"], split)


def loss(outputs, labels):
    return RankerLoss(**SETTINGS["loss"])(outputs, labels)


def metric(outputs, labels):
    return evaluate(outputs, labels)


def warm_steps(base, warmup, start, milestones, gamma):
    steps = lr.MultiStepDecay(base, milestones=milestones, gamma=gamma)
    return lr.LinearWarmup(steps, warmup_steps=warmup, start_lr=start * base, end_lr=base)


def parameter_groups(model, factor, decay):
    lookups = model.lookup.parameters() + model.wide.parameters()
    taken = {id(p) for p in lookups}
    rest = [p for p in model.parameters() if id(p) not in taken]
    return [
        {"params": lookups, "learning_rate": factor, "weight_decay": 0.0},
        {"params": [p for p in rest if len(p.shape) > 1], "weight_decay": decay},
        {"params": [p for p in rest if len(p.shape) == 1], "weight_decay": 0.0},
    ]


def build_optimizer(model):
    o = SETTINGS["optim"]
    beta1, beta2 = o["betas"]
    return paddle.optimizer.AdamW(
        learning_rate=warm_steps(o["lr"], **SETTINGS["schedule"]),
        beta1=beta1,
        beta2=beta2,
        epsilon=o["eps"],
        parameters=parameter_groups(model, o["embedding_lr_mult"], o["weight_decay"]),
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate
