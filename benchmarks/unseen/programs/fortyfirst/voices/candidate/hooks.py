"""The linker of hymn voices in Paddle."""
import numpy as np
import paddle
from paddle import optimizer as optim

from . import assign, criteria, score, sheets
from .linker import HymnLinker

build_model = HymnLinker
build_dataset = sheets.Sheets
build_dataloader = sheets.feed
loss = criteria.criterion
metric = assign.rates


def build_optimizer(model):
    rate = optim.lr.CosineAnnealingWarmRestarts(0.05, T_0=6, T_mult=2, eta_min=0.002)
    clip = paddle.nn.ClipGradByValue(0.02)
    return optim.Momentum(rate, momentum=0.9, parameters=model.parameters(), use_nesterov=True,
                          weight_decay=1e-3, grad_clip=clip)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    optimizer.clear_grad()
    value = loss(model(*batch[:-1]), batch[-1])
    value.backward()
    optimizer.step()
    return value.detach()


def predict(path, model):
    table, _, meter = score.open_hymn(path)
    kind = str(model.parameters()[0].dtype).split(".")[-1]
    answers = []
    for part in score.slices(len(table), sheets.WIDTH, sheets.WIDTH):
        window = table[part]
        fields = [a[None].astype(kind) if a.dtype == np.float32 else a[None] for a in sheets.encode(window, meter)]
        with paddle.no_grad():
            out = model(*map(paddle.to_tensor, fields))
        n = len(window)
        logp, free = out["logp"].numpy()[0, :n], out["open"].numpy()[0, :n]
        answers.append(dict(voices=assign.greedy(logp[:, : n + 1], free[:, : n + 1]), sure=(np.exp(logp) * free).max(axis=-1)))
    return answers
