import json
import math
import os
import random

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
ARGS = json.loads("""{"hidden_dim": 8, "gamma": 4.0, "eps": 2.0, "negatives": 6, "temperature": 1.0,
 "regularisation": 1e-4, "lr": 0.1, "accumulator": 0.01, "steps": 14, "drops": [3, 6], "drop_rate": 0.2}""")

REGISTRY = {}


def register(name):
    def wrap(cls):
        REGISTRY[name] = cls
        return cls

    return wrap


class Graph:
    """Names to numbers and back, and all facts (for filtering)."""

    def __init__(self, folder):
        self.splits = {}
        for split in ("train", "val"):
            with open(os.path.join(folder, split + ".tsv")) as f:
                self.splits[split] = [row.rstrip("\n").split("\t") for row in f]
        rows = sum(self.splits.values(), [])
        self.entities = sorted(set(r[0] for r in rows).union(r[2] for r in rows))
        self.relations = sorted(set(r[1] for r in rows))
        self.eid = dict(zip(self.entities, range(len(self.entities))))
        self.rid = dict(zip(self.relations, range(len(self.relations))))
        self.facts = set(map(self.encode, rows))

    def encode(self, row):
        return self.eid[row[0]], self.rid[row[1]], self.eid[row[2]]


graph = Graph(FOLDER)


class TripleDataset(paddle.io.Dataset):
    def __init__(self, split):
        self.triples = np.array([graph.encode(r) for r in graph.splits[split]], dtype="int64")
        h, r, t = self.triples.T
        n = len(self.triples)
        freq = [(np.sum((h == h[i]) & (r == r[i])) + 4) + (np.sum((t == t[i]) & (r == r[i])) + 4) for i in range(n)]
        self.weight = (1.0 / np.sqrt(np.array(freq, dtype="float64"))).astype("float32")
        self.negatives = np.stack([self.corrupt(i) for i in range(n)])

    def corrupt(self, i):
        h, r, t = map(int, self.triples[i])
        gen, out = random.Random(1000 + i), []
        while True:
            e = gen.randrange(len(graph.entities))
            fact = (e, r, t) if i % 2 else (h, r, e)
            if fact in graph.facts:
                continue
            out.append(e)
            if len(out) == ARGS["negatives"]:
                return np.array(out, dtype="int64")

    def __len__(self):
        return len(self.triples)

    def __getitem__(self, i):
        label = {"weight": self.weight[i], "tail": self.triples[i, 2]}
        return self.triples[i], self.negatives[i], np.int64(i % 2), label


@register("rotate")
class Rotation(nn.Layer):
    """Corrupted heads are scored by turning the tail back: |r^-1 t - h| has the length of |h r - t|."""

    def __init__(self, n_entity, n_relation, dim, gamma, eps):
        super().__init__()
        self.bound = (gamma + eps) / dim
        self.gamma = gamma
        attr = nn.initializer.Uniform(-self.bound, self.bound)
        self.rel = nn.Embedding(n_relation, dim, weight_attr=attr)
        self.ent = nn.Embedding(n_entity, 2 * dim, weight_attr=attr)
        self.modulus = self.create_parameter([1], default_initializer=nn.initializer.Constant(self.bound / 2))
        self.modulus.stop_gradient = True

    def turn(self, x, rel):
        angle = self.rel(rel) * (math.pi / self.bound)
        spin = paddle.complex(paddle.cos(angle), paddle.sin(angle))
        re, im = paddle.split(x, 2, axis=-1)
        y = paddle.complex(re, im) * spin
        return paddle.real(y), paddle.imag(y)

    def distance(self, head, rel, tail):
        re, im = self.turn(head, rel)
        re_t, im_t = paddle.split(tail, 2, axis=-1)
        return paddle.sqrt((re - re_t) ** 2 + (im - im_t) ** 2 + 1e-9).sum(-1)

    def forward(self, triple, negatives, head_mode):
        h, r, t = triple.unsqueeze(-1).unbind(1)
        flag = head_mode.unsqueeze(-1)
        heads = paddle.where(flag == 1, negatives, h)
        tails = paddle.where(flag == 1, t, negatives)
        pos = self.gamma - self.distance(self.ent(h), r, self.ent(t))
        neg = self.gamma - self.distance(self.ent(heads), r, self.ent(tails))
        return pos[:, 0], neg, self.ent.weight

    def wrap_phases(self):
        w = self.rel.weight.detach()
        self.rel.weight.set_value(paddle.remainder(w + self.bound, paddle.full_like(w, 2 * self.bound)) - self.bound)


def build_model():
    return REGISTRY["rotate"](len(graph.entities), len(graph.relations), ARGS["hidden_dim"], ARGS["gamma"], ARGS["eps"])


def build_dataset(split):
    return TripleDataset(split)


def build_dataloader(split):
    data = TripleDataset(split)
    if split == "val":
        return paddle.io.DataLoader(data, batch_size=9)
    return paddle.io.DataLoader(data, batch_size=math.ceil(len(data) / ARGS["steps"]), shuffle=True)


def loss(outputs, labels):
    pos, neg, table = outputs
    share = labels["weight"] / labels["weight"].sum()
    hardness = F.softmax(ARGS["temperature"] * neg, axis=-1).detach()
    parts = {"positive": (share * F.softplus(-pos)).sum(),
             "negative": (share * (hardness * F.softplus(neg)).sum(-1)).sum()}
    penalty = ARGS["regularisation"] * paddle.sum(paddle.abs(table) ** 3)
    return {"loss": 0.5 * (parts["positive"] + parts["negative"]) + penalty, **parts}


def metric(outputs, labels):
    pos, neg = outputs[0].numpy(), outputs[1].numpy()
    rank = 1.0 + np.sum(neg > pos[:, None], axis=1)
    return {"hits@1": float(np.mean(rank == 1)), "margin": float(np.mean(pos - neg.mean(1))), "mrr": float(np.mean(1 / rank))}


def build_optimizer(model):
    rate = paddle.optimizer.lr.MultiStepDecay(ARGS["lr"], [k * ARGS["steps"] for k in ARGS["drops"]], gamma=ARGS["drop_rate"])
    return paddle.optimizer.Adagrad(rate, epsilon=1e-8, initial_accumulator_value=ARGS["accumulator"],
                                    parameters=[p for p in model.parameters() if not p.stop_gradient])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    optimizer.clear_grad()
    values = loss(model(*batch[:3]), batch[3])
    values["loss"].backward()
    optimizer.step()
    model.wrap_phases()
    return {k: float(v) for k, v in values.items()}


@paddle.no_grad()
def predict(path, model):
    model.eval()
    with open(path) as f:
        queries = json.load(f)
    heads = paddle.to_tensor([[graph.eid[q["head"]]] for q in queries])
    rels = paddle.to_tensor([[graph.rid[q["relation"]]] for q in queries])
    scores = (model.gamma - model.distance(model.ent(heads), rels, model.ent.weight.unsqueeze(0))).numpy()
    best = [" ".join(graph.entities[k] for k in np.argsort(-row)[:3]) for row in scores]
    return {"best": best, "scores": scores}
