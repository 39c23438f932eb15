"""Entry points of the Paddle port."""
import json
from math import cos, pi

import numpy as np
import paddle

from . import desk, scoring
from .factory import TRAINING as T
from .hazard import ComesBack


def build_model():
    return ComesBack()


def build_dataset(split):
    return desk.LentBooks(split)


def build_dataloader(split):
    return desk.batches(split)


def loss(outputs, labels):
    return scoring.objective(outputs, labels)


def metric(outputs, labels):
    return scoring.figures(outputs, labels)


def pace(step):
    warm, total, floor = T.getint("warm"), T.getint("total"), T.getfloat("floor")
    if step < warm:
        return (step + 1) / warm
    done = min(1.0, (step - warm) / (total - warm))
    return floor + (1 - floor) * (1 + cos(pi * done)) / 2


def is_free(name, p):
    """Tables, offsets, gains and the lead are not decayed."""
    return p.ndim < 2 or "offset" in name or "rows" in name


def build_optimizer(model):
    named = list(model.named_parameters())
    curves = [p for n, p in named if n.startswith("curves.")]
    rest = [(n, p) for n, p in named if not n.startswith("curves.")]
    groups = [
        {"params": [p for n, p in rest if not is_free(n, p)]},
        {"params": [p for n, p in rest if is_free(n, p)], "weight_decay": 0.0},
        {"params": curves, "learning_rate": T.getfloat("head_factor")},
    ]
    rate = paddle.optimizer.lr.LambdaDecay(T.getfloat("rate"), lr_lambda=pace)
    return paddle.optimizer.AdamW(
        learning_rate=rate, parameters=groups, weight_decay=T.getfloat("decay"),
        beta1=T.getfloat("beta1"), beta2=T.getfloat("beta2"), epsilon=T.getfloat("epsilon"))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    facts = {k: v for k, v in batch.items() if k != "labels"}
    value = loss(model(**facts), batch["labels"])["loss"]
    value.backward()
    paddle.nn.utils.clip_grad_norm_(model.parameters(), T.getfloat("clip"))
    optimizer.step()
    optimizer.clear_grad()
    return value


@paddle.no_grad()
def predict(path, model):
    with open(path) as handle:
        loan = json.load(handle)
    kind = model.lead.dtype
    facts = {k: paddle.to_tensor(v[None]) for k, v in desk.open_desk().describe(loan).items()}
    facts = {k: v.astype(kind) if v.is_floating_point() else v for k, v in facts.items()}
    by = scoring.gone_by(model(**facts))[0].numpy()
    over = np.flatnonzero(by.sum(axis=1) >= 0.5)
    return {"by_week": by, "half": int(over[0]) + 1 if over.size else 0}
