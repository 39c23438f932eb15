"""Bridge bidding with PaddlePaddle."""
import json

import numpy as np
import paddle
import paddle.nn.functional as F

from .lib import judge, practice
from .lib.bidder import BidNet
from .lib.deal import position
from .lib.feed import TableSet, loader
from .lib.vocab import NAMES

loss = judge.loss
metric = judge.scores
train_step = practice.step


def build_model():
    return BidNet()


def build_dataset(split):
    return TableSet(split)


def build_dataloader(split):
    return loader(split)


def build_optimizer(model):
    return practice.adam(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def predict(path, model):
    with open(path) as f:
        sample = position(json.load(f))
    kind = model.fuse.weight.dtype
    feed = {}
    for key, value in sample.items():
        value = paddle.to_tensor(value[None])
        feed[key] = value.astype(kind) if value.is_floating_point() else value
    with paddle.no_grad():
        out = model(**feed)
    prob = np.where(sample["legal"], np.exp(out["logp"][0].numpy()), 0.0)
    best = np.argsort(-prob, kind="stable")[:3]
    return {"calls": [NAMES[i] for i in best], "prob": prob[best], "tricks": F.sigmoid(out["tricks"]).sum().item()}
