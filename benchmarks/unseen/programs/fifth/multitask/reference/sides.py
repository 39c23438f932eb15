import json
import os

import numpy as np
import torch

import mtl
from mtl.losses import TaskSum
from mtl.metrics import auc, f1, mean_ap
from mtl.modules import MultiTask
from mtl.optim import Duo
from mtl.registry import SCHEDULES

CFG = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.json")))


def build_model():
    return MultiTask(CFG)


def build_loss():
    return TaskSum(CFG["loss"])


def build_optimizer(model):
    return Duo(model, CFG["optim"])


def build_scheduler(optimizer):
    return SCHEDULES.build(CFG["sched"], optimizer)


class Articles(torch.utils.data.Dataset):
    def __init__(self, n, max_len, vocab, dense_mean, dense_std):
        self.n, self.max_len, self.vocab = n, max_len, vocab
        self.mean, self.std = np.array(dense_mean), np.array(dense_std)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        r = np.random.RandomState(300 + i)
        ids = r.randint(1, self.vocab, r.randint(4, 18))
        if len(ids) > self.max_len:                     # long texts: keep the head and the last three tokens
            ids = np.concatenate([ids[:self.max_len - 3], ids[-3:]])
        tokens = np.zeros(self.max_len, np.int64)
        tokens[:len(ids)] = ids
        raw = np.array([r.poisson(3), r.rand(), r.exponential(10)])
        return {"tokens": torch.from_numpy(tokens), "dense": torch.tensor((raw - self.mean) / self.std, dtype=torch.float32),
                "dwell": float(np.float32(np.log1p(raw[2])))}


def build_dataset():
    return Articles(**CFG["data"])


def inputs():
    r = np.random.RandomState(71)
    tokens = r.randint(1, 40, (10, 12))
    tokens[np.arange(12)[None] >= r.randint(3, 13, 10)[:, None]] = 0
    return {"tokens": tokens.astype(np.int64), "dense": r.randn(10, 3).astype(np.float32)}


def labels():
    r = np.random.RandomState(72)
    tags = (r.rand(10, 5) < 0.4).astype(np.float32)
    tags[r.rand(10, 5) < 0.2] = -1
    return {"click": (r.rand(10) < 0.4).astype(np.float32), "tags": tags, "dwell": np.log1p(r.exponential(3, 10)).astype(np.float32)}


def metric(outputs, labels):
    o = {k: v.numpy() for k, v in outputs.items()}
    return {"auc": auc(o["click"], labels["click"]), "f1": f1(o["click"], labels["click"]), "map": mean_ap(o["tags"], labels["tags"]),
            "mae_minutes": float(np.mean(np.abs(np.expm1(o["dwell"]) - np.expm1(labels["dwell"].astype(np.float64)))))}


# what paralign calls

_objective, _measured = build_loss(), metric


def loss(outputs, labels):
    return _objective(outputs, labels)


def metric(outputs, labels):
    return _measured(outputs, {name: value.numpy() for name, value in labels.items()})
