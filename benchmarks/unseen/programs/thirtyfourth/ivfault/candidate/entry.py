import functools
import json

import paddle
import paddle.nn.functional as F

from . import criterion as _criterion, network, parts, teacher  # noqa: F401
from .plugin import make, settings
from .sweeps import SweepSet, batches, describe, surroundings

SET = settings()
LABELS = SET["labels"]


def build_model():
    return make("net", SET["net"], labels=len(LABELS))


def build_dataset(split):
    return SweepSet(SET["sweeps"], split)


def build_dataloader(split):
    return batches(SET["sweeps"], split)


def build_optimizer(model):
    return teacher.optimizer(model, SET["training"])


def build_scheduler(optimizer):
    return optimizer._learning_rate


@functools.lru_cache(maxsize=None)
def _measure():
    return make("criterion", SET["criterion"], build_dataset("train").seen(len(LABELS)))


def loss(outputs, labels):
    return _measure()(outputs, labels)


def metric(outputs, labels):
    wanted = labels["fault"].numpy().astype(int)
    guess = outputs["fault"].argmax(axis=-1).numpy()
    scores = []
    for c in set(wanted.tolist()) | set(guess.tolist()):
        hit = float(((guess == c) & (wanted == c)).sum())
        scores.append(2.0 * hit / float((guess == c).sum() + (wanted == c).sum()))
    away = abs(outputs["severity"].numpy() - labels["severity"].numpy())[wanted > 0]
    return {"macro_f1": sum(scores) / len(scores), "severity_mae": float(away.mean()) if len(away) else 0.0}


def train_step(model, optimizer, batch):
    return teacher.step(model, optimizer, _measure(), batch, SET["training"]["max_norm"])


@paddle.no_grad()
def predict(path, model):
    with open(path) as f:
        sweep = json.load(f)
    kind = model.trunk.weight.dtype
    curve = describe(sweep["volt"], sweep["amp"], SET["sweeps"]["grid"])
    env = surroundings(sweep, SET["sweeps"]["divide"])
    out = model(paddle.to_tensor(curve[None], dtype=kind), paddle.to_tensor(env[None], dtype=kind))
    prob = F.softmax(out["fault"], axis=-1)[0].numpy()
    return {"class": LABELS[int(prob.argmax())], "prob": prob, "severity": out["severity"].item()}
