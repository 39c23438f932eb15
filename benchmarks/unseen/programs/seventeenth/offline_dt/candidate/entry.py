import io

import numpy as np
import paddle
import pandas as pd
from paddle.io import BatchSampler, DataLoader

from seqpolicy import lamb, learn
from seqpolicy.buffer import RankedBatches, ReplayWindows, Window, standardiser
from seqpolicy.net import SequencePolicy
from seqpolicy.opts import ACTION_COLUMNS, STATE_COLUMNS, opts


def build_model():
    return SequencePolicy(len(STATE_COLUMNS), len(ACTION_COLUMNS))


def build_dataset(split):
    return ReplayWindows(split)


def build_dataloader(split):
    data = ReplayWindows(split)
    if split != "train":
        return DataLoader(data, batch_size=opts.batch, shuffle=False)
    return DataLoader(data, batch_sampler=BatchSampler(sampler=RankedBatches(data), batch_size=opts.batch))


def loss(outputs, labels):
    return learn.criterion(outputs, labels)


def metric(outputs, labels):
    return learn.report(outputs, labels)


def build_optimizer(model):
    return lamb.Lamb(model, lamb.rates())


def build_scheduler(optimizer):
    return optimizer._learning_rate


@paddle.no_grad()
def predict(path, model):
    with open(path) as f:
        head, body = f.readline(), f.read()
    wanted = float(head.split(":", 1)[1]) / opts.scale
    frame = pd.read_csv(io.StringIO(body))
    mean, std = standardiser()
    s = (frame[STATE_COLUMNS].to_numpy("float64") - mean) / std
    dtype = model.to_return.weight.dtype
    g, chosen = np.zeros(len(s)), np.zeros((len(s), len(ACTION_COLUMNS)))
    for t in range(len(s)):
        g[t] = wanted if t == 0 else (g[t - 1] - frame["reward"][t - 1] / opts.scale) / opts.gamma
        lo = max(0, t - opts.K + 1)
        w = Window(t + 1 - lo)
        floats = [
            w.fill(s[lo : t + 1], dtype="float64"),
            w.fill(chosen[lo : t + 1], opts.empty_action, "float64"),
            w.fill(g[lo : t + 1, None], dtype="float64"),
        ]
        x = [paddle.to_tensor(block[None]).astype(dtype) for block in floats]
        times = paddle.to_tensor(w.fill(range(lo, t + 1), 0, "int64")[None])
        mask = paddle.to_tensor(w.valid()[None]).astype(dtype)
        chosen[t] = model(*x, times, mask)["actions"][0, -1].numpy()
    return {"actions": chosen, "returns": g}
