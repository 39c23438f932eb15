"""Income bands from a table with gaps, ported to PaddlePaddle."""
import csv
import json
import math
import os

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import BatchSampler, DataLoader, WeightedRandomSampler
from paddle.nn.initializer import Constant, Normal, TruncatedNormal, Uniform
from sklearn.metrics import roc_auc_score

NUM, CAT = ("age", "income", "debt", "hours"), ("job", "city")
CLASSES = {"low": 0, "mid": 1, "high": 2}
TABLE = os.path.join(os.path.dirname(__file__), "..", "data", "people.csv")
N_FIT = 150


def load_rows():
    with open(TABLE, newline="") as f:
        return list(csv.DictReader(f))


def numbers(rows):
    x = np.array([[float(r[c]) if r[c] not in ("", None) else np.nan for c in NUM] for r in rows])
    x[:, 1:3] = np.log1p(x[:, 1:3])
    return x


class Prep:
    def __init__(self, rows):
        x = numbers(rows)
        self.mu, self.sd = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
        self.vocab = [sorted({r[c] for r in rows} - {""}) for c in CAT]

    def transform(self, rows):
        x = ((numbers(rows) - self.mu) / self.sd).astype("float32")
        code = lambda v, levels: levels.index(v) + 1 if v in levels else 0
        k = [[code(r[c], levels) for c, levels in zip(CAT, self.vocab)] for r in rows]
        return x, np.array(k, dtype="int64")


class PeopleTable(paddle.io.Dataset):
    def __init__(self, rows, prep):
        self.x, self.k = prep.transform(rows)
        self.target = np.array([CLASSES[r["band"]] for r in rows], dtype="int64")

    def __getitem__(self, i):
        return self.x[i], self.k[i], self.target[i]

    def __len__(self):
        return self.target.shape[0]


def linear(i, o):
    r = i ** -0.5
    init = lambda: paddle.ParamAttr(initializer=Uniform(-r, r))
    return nn.Linear(i, o, weight_attr=init(), bias_attr=init())


class GegluResidual(nn.Layer):
    def __init__(self, d, p):
        super().__init__()
        self.ff = nn.LayerDict({"up": linear(d, 2 * d), "down": linear(d, d)})
        self.ln = nn.LayerNorm(d, epsilon=1e-5)
        self.p = p
        self.drop = nn.Dropout(p, mode="upscale_in_train")

    def forward(self, x):
        value, gate = paddle.split(self.ff["up"](self.ln(x)), 2, axis=-1)
        return self.drop(self.ff["down"](gate * F.gelu(value, approximate=True))) + x


class TableModel(nn.Layer):
    def __init__(self, d=24, waves=6, depth=2, p=0.15):
        super().__init__()
        n = len(NUM)
        trunc = lambda: paddle.ParamAttr(initializer=TruncatedNormal(0.0, 0.5, a=-1.0, b=1.0))
        self.job = nn.Embedding(6, 4, weight_attr=trunc())
        self.city = nn.Embedding(5, 3, weight_attr=trunc())
        self.trunk = nn.LayerList([linear(n * (waves + 1) + 7, d)] + [GegluResidual(d, p) for _ in range(depth)])
        self.exits = nn.LayerList([linear(d, len(CLASSES)) for _ in range(depth + 1)])
        self.mix = self.create_parameter([depth + 1], default_initializer=Constant(0.0))
        self.fill = self.create_parameter([n], default_initializer=Normal(0.0, 0.1))
        self.freq = self.create_parameter([n, waves], default_initializer=Uniform(-1.0, 1.0))

    def forward(self, x, k):
        known = paddle.logical_not(paddle.isnan(x))
        # nan_to_num first: 0 * NaN would poison the gradient
        keep = known.astype("float32")
        x = paddle.nan_to_num(x) * keep + self.fill * (1.0 - keep)
        wave = paddle.sin(3.0 * x.unsqueeze(2) * self.freq).reshape([x.shape[0], -1])
        h = paddle.concat([x, wave, self.job(k[:, 0]), self.city(k[:, 1])], axis=-1)
        logits = []
        for layer, leave in zip(self.trunk, self.exits):
            h = layer(h)
            logits.append(leave(h))
        mix = F.softmax(self.mix, axis=0)
        final = sum(mix[i] * z for i, z in enumerate(logits))
        return {"exits": paddle.stack(logits, axis=1), "final": final}


def build_model():
    return TableModel()


def build_dataset(split):
    rows = load_rows()
    prep = Prep(rows[:N_FIT])
    return PeopleTable(rows[:N_FIT] if split == "train" else rows[N_FIT:], prep)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        w = 1.0 / np.bincount(ds.target)[ds.target]
        picks = WeightedRandomSampler(w, num_samples=len(ds), replacement=True)
        return DataLoader(ds, batch_sampler=BatchSampler(sampler=picks, batch_size=12))
    return DataLoader(ds, batch_size=25)


def focal(logits, y, gamma=1.5):
    logp = (F.log_softmax(logits) * F.one_hot(y, logits.shape[-1])).sum(-1)
    return -(paddle.pow(1.0 - logp.exp(), gamma) * logp).mean()


def loss(outputs, labels):
    main = focal(outputs["final"], labels)
    extra = [focal(z, labels) for z in paddle.unbind(outputs["exits"], axis=1)]
    total = main + 0.1 * extra[0] + 0.2 * extra[1] + 0.3 * extra[2]
    return dict(main=main, loss=total)


def metric(outputs, labels):
    p, y = F.softmax(outputs["final"]).numpy(), labels.numpy()
    best = p.argmax(1)
    two_sided = 0 < (y == 0).sum() < len(y)
    present = np.unique(y)
    return {"accuracy": float(np.mean(best == y)),
            "balanced": float(np.mean([np.mean(best[y == c] == c) for c in present])),
            "auc_low": float(roc_auc_score(y == 0, p[:, 0])) if two_sided else math.nan,
            "brier": float(((p - np.eye(3)[y]) ** 2).sum(1).mean()),
            "agree": float((outputs["exits"].numpy().argmax(-1) == best[:, None]).mean())}


class Lion(paddle.optimizer.Optimizer):
    """Sign of the interpolated momentum; decoupled decay by parameter name."""

    def __init__(self, learning_rate, parameters, betas, decay, factor):
        super().__init__(learning_rate=learning_rate, parameters=parameters)
        self.betas, self.decay, self.factor = betas, decay, factor
        self.moment = {}

    @paddle.no_grad()
    def step(self):
        b1, b2 = self.betas
        for p in self._parameter_list:
            g = p.grad
            if p.stop_gradient or g is None:
                continue
            lr = self.get_lr() * self.factor.get(p.name, 1.0)
            m = self.moment.setdefault(p.name, paddle.zeros_like(p))
            update = paddle.sign(b1 * m + (1 - b1) * g)
            p.set_value(p * (1.0 - lr * self.decay.get(p.name, 0.0)) - lr * update)
            self.moment[p.name] = m * b2 + g * (1 - b2)


def build_optimizer(model):
    boosted, decay = {}, {}
    for name, p in model.named_parameters():
        if name.split(".")[0] in ("exits", "mix"):
            boosted[p.name] = 2.0
        elif len(p.shape) > 1:
            decay[p.name] = 0.1
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(5e-4, T_max=8 * 13)
    return Lion(schedule, model.parameters(), betas=(0.9, 0.99), decay=decay, factor=boosted)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    x, k, y = batch
    model.train()
    parts = loss(model(x, k), y)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"main": parts["main"].item(), "loss": parts["loss"].item()}


def predict(path, model):
    rows = json.load(open(path))
    x, k = Prep(load_rows()[:N_FIT]).transform(rows)
    model.eval()
    with paddle.no_grad():
        p = F.softmax(model(paddle.to_tensor(x), paddle.to_tensor(k))["final"]).numpy()
    names = list(CLASSES)
    return {"band": [names[i] for i in p.argmax(1)], "prob": p}
