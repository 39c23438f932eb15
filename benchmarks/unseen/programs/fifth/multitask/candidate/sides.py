import numpy as np
import paddle
from paddle.io import Dataset

import settings
from criteria import Weighted
from networks import Tasks
from updates import JointUpdate, PolynomialPlan

OPTIONS = settings.read()


def build_model():
    return Tasks(OPTIONS)


def build_loss():
    return Weighted(**OPTIONS["losses"])


def build_optimizer(model):
    return JointUpdate(model, OPTIONS)


def build_scheduler(optimizer):
    t = OPTIONS["training"]
    return PolynomialPlan(optimizer, t["warmup"], t["updates"], t["power"], t["floor"])


class Reading(Dataset):
    def __init__(self, count, length, vocabulary, centre, scale):
        super().__init__()
        self.count, self.length, self.vocabulary = count, length, vocabulary
        self.centre, self.scale = np.asarray(centre), np.asarray(scale)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = np.random.RandomState(300 + index)
        size = rng.randint(4, 18)
        words = rng.randint(1, self.vocabulary, size).tolist()
        if size > self.length:
            words = words[:self.length - 3] + words[-3:]
        words = words + [0] * (self.length - len(words))
        clicks, share, minutes = rng.poisson(3), rng.rand(), rng.exponential(10)
        numeric = (np.array([clicks, share, minutes]) - self.centre) / self.scale
        return {"tokens": np.array(words, dtype="int64"), "dense": numeric.astype("float32"), "dwell": float(np.float32(np.log1p(minutes)))}


def build_dataset():
    return Reading(**OPTIONS["data"])


def inputs():
    r = np.random.RandomState(71)
    tokens = r.randint(1, 40, (10, 12))
    tokens[np.arange(12)[None] >= r.randint(3, 13, 10)[:, None]] = 0
    return {"tokens": tokens.astype("int64"), "dense": r.randn(10, 3).astype("float32")}


def labels():
    r = np.random.RandomState(72)
    tags = (r.rand(10, 5) < 0.4).astype("float32")
    tags[r.rand(10, 5) < 0.2] = -1
    click = (r.rand(10) < 0.4).astype("float32")
    return {"click": click, "tags": tags, "dwell": np.log1p(r.exponential(3, 10)).astype("float32")}


def rank_auc(score, y):
    values, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    upper = np.cumsum(counts)
    rank = (upper - (counts - 1) / 2.0)[inverse]
    p = int((y == 1).sum())
    q = len(y) - p
    return float((rank[y == 1].sum() - p * (p + 1) / 2.0) / (p * q))


def average_precision(score, y):
    known = y != -1
    order = np.argsort(-score[known], kind="stable")
    hits = np.flatnonzero(y[known][order] == 1)
    if hits.size == 0:
        return None
    return float(np.mean(np.arange(1, hits.size + 1) / (hits + 1)))


def metric(outputs, labels):
    click, tags, dwell = (outputs[k].numpy() for k in ("click", "tags", "dwell"))
    said, true = click >= 0.0, labels["click"] == 1
    both = float((said & true).sum())
    each = [average_precision(tags[:, c], labels["tags"][:, c]) for c in range(tags.shape[1])]
    minutes = np.expm1(labels["dwell"].astype("float64"))
    return {"auc": rank_auc(click, labels["click"]), "f1": 2.0 * both / max(1.0, float(said.sum() + true.sum())),
            "map": float(np.mean([a for a in each if a is not None])), "mae_minutes": float(np.abs(np.expm1(dwell) - minutes).mean())}


# what paralign calls

_objective, _measured = build_loss(), metric


def loss(outputs, labels):
    return _objective(outputs, labels)


def metric(outputs, labels):
    return _measured(outputs, {name: value.numpy() for name, value in labels.items()})
