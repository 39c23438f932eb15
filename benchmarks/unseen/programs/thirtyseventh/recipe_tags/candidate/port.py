"""Recipe tagger for Paddle. Parts are looked up by a string, as in the original."""
from functools import partial
from pathlib import Path

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

DATA = Path(__file__).resolve().parents[1] / "data"
PARTS = {}
ACTIVATIONS = {"gelu": partial(F.gelu, approximate=True), "tanh": F.tanh, "silu": F.silu}


def part(cls):
    PARTS[cls.__name__.lower()] = cls
    return cls


CONF = dict(vocab=40, width=16, slots=9, n_tags=6, experts="gelu tanh silu gelu", k=2,
            aux=0.05, lr=0.05, steps=40, max_norm=0.25)


@part
class Bag(nn.Layer):
    """Weighted sum of embeddings; slot 0 is padding and adds nothing."""

    def __init__(self, conf):
        super().__init__()
        self.table = nn.Embedding(conf["vocab"], conf["width"], padding_idx=0,
                                  weight_attr=nn.initializer.Normal(0.0, 1.0))
        self.norm = nn.LayerNorm(conf["width"])

    def forward(self, ids, share):
        vectors = self.table(ids)
        share = share * (ids != 0).astype(share.dtype)
        return self.norm(paddle.einsum("bl,bld->bd", share, vectors))


class FeedForward(nn.Layer):
    def __init__(self, width, act):
        super().__init__()
        self.up = nn.Linear(width, width * 2)
        self.down = nn.Linear(width * 2, width)
        self._act = ACTIVATIONS[act]

    def forward(self, x):
        return self.down(self._act(self.up(x)))


@part
class Mixture(nn.Layer):
    def __init__(self, conf):
        super().__init__()
        names = conf["experts"].split()
        self.n, self.k = len(names), conf["k"]
        self.gate = nn.Linear(conf["width"], self.n, bias_attr=False)
        self.experts = nn.LayerList([FeedForward(conf["width"], a) for a in names])

    def forward(self, x):
        logits = self.gate(x)
        top, index = paddle.topk(logits, self.k, axis=-1)
        hot = F.one_hot(index, self.n).astype(x.dtype)                  # [B, k, n]
        share = (F.softmax(top, axis=-1).unsqueeze(-1) * hot).sum(1)    # [B, n]
        every = paddle.stack([e(x) for e in self.experts], axis=1)      # [B, n, D]
        mixed = (share.unsqueeze(-1) * every).sum(1)
        load = hot[:, 0].mean(0)
        aux = self.n * (load * F.softmax(logits, axis=-1).mean(0)).sum()
        return x + mixed, aux


@part
class Cosine(nn.Layer):
    def __init__(self, conf):
        super().__init__()
        self.line = nn.Linear(conf["width"], conf["n_tags"])

    def forward(self, x):
        return self.line(4.0 * F.normalize(x, axis=-1))


class RecipeTagger(nn.Layer):
    def __init__(self, conf, encoder="bag", body="mixture", head="cosine"):
        super().__init__()
        self.encoder = PARTS[encoder](conf)
        self.body = PARTS[body](conf)
        self.head = PARTS[head](conf)

    def forward(self, ids, share):
        h, aux = self.body(self.encoder(ids, share))
        return self.head(h), aux


class RecipeSet(paddle.io.Dataset):
    def __init__(self, split):
        text = (DATA / f"{split}.csv").read_text()
        self.rows = [self.parse(line) for line in text.splitlines() if line]

    @staticmethod
    def parse(line):
        left, right = line.split(";")
        pairs = np.array([p.split(":") for p in left.split("|")], dtype="int64")
        n = len(pairs)
        ids = np.pad(pairs[:, 0], (0, CONF["slots"] - n))
        grams = np.zeros(CONF["slots"], "float32")
        grams[:n] = np.log1p(pairs[:, 1].astype("float64"))
        tags = np.isin(np.arange(CONF["n_tags"]), [int(t) for t in right.split()])
        return ids, grams / grams.sum(), tags.astype("float32")

    def __getitem__(self, i):
        return self.rows[i]

    def __len__(self):
        return len(self.rows)


def build_model():
    return RecipeTagger(CONF)


def build_dataset(split):
    return RecipeSet(split)


def build_dataloader(split):
    return paddle.io.DataLoader(RecipeSet(split), batch_size=8)


def loss(outputs, labels):
    logits, aux = outputs
    bce = F.binary_cross_entropy_with_logits(
        logits, labels, pos_weight=paddle.full([CONF["n_tags"]], 2.5, dtype=logits.dtype))
    return bce + CONF["aux"] * aux


def metric(outputs, labels):
    scores, truth = outputs[0].numpy(), labels.numpy()
    aps, first = [], []
    for s, t in zip(scores, truth):
        ranked = t[np.argsort(-s, kind="stable")]
        hits = np.flatnonzero(ranked)
        aps.append(np.mean((np.arange(len(hits)) + 1) / (hits + 1)) if len(hits) else 0.0)
        first.append(ranked[0])
    return {"map": float(np.mean(aps)), "first": float(np.mean(first))}


def build_optimizer(model):
    decay = paddle.optimizer.lr.PolynomialDecay(CONF["lr"], decay_steps=CONF["steps"], end_lr=0.0, power=1.5)
    return paddle.optimizer.Momentum(decay, momentum=0.9, use_nesterov=True, weight_decay=1e-3,
                                     parameters=model.parameters())


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    value = loss(model(*inputs), labels)
    optimizer.clear_grad()
    value.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), CONF["max_norm"])
    optimizer.step()
    return {"loss": value.detach(), "norm": norm}
