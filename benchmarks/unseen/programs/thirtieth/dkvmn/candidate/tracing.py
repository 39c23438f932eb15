"""Key-value memory knowledge tracing in PaddlePaddle.

The settings live in a dictionary with dotted keys, layers are made by a tiny
registry, and the recurrence over time is written on a functional memory.
"""
import csv
import itertools
import json
import operator
import os

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "data")
SETTINGS = {
    "data.skills": 15, "data.window": 16, "data.shortest": 5, "data.batch": 8,
    "mem.slots": 6, "mem.key": 10, "mem.value": 14, "mem.std": 0.1, "mem.l1": 1e-3,
    "head.width": 12, "head.dropout": 0.15,
    "opt.lr": 8e-3, "opt.l2": 1e-5, "opt.clip": 1.0, "opt.every": 28, "opt.gamma": 0.6667,
}
S = SETTINGS.__getitem__
LAYERS = {}


def register(kind):
    def wrap(fn):
        LAYERS[kind] = fn
        return fn
    return wrap


@register("embed")
def embed(rows, dim):
    # torch's kaiming_normal_ takes the embedding width as fan-in
    layer = nn.Embedding(rows, dim, padding_idx=0,
                         weight_attr=nn.initializer.Normal(0.0, (2.0 / dim) ** 0.5))
    table = layer.weight.numpy()
    table[0] = 0.0
    layer.weight.set_value(table)
    return layer


@register("glorot")
def glorot(cin, cout):
    return nn.Linear(cin, cout, weight_attr=nn.initializer.XavierNormal())


@register("he")
def he(cin, cout):
    return nn.Linear(cin, cout, weight_attr=nn.initializer.KaimingNormal(fan_in=cin))


class Tracer(nn.Layer):
    def __init__(self):
        super().__init__()
        std = nn.initializer.Normal(std=S("mem.std"))
        k, v = S("mem.key"), S("mem.value")
        self.head = nn.Sequential(LAYERS["he"](v + k, S("head.width")), nn.Tanh(),
                                  nn.Dropout(S("head.dropout")), LAYERS["he"](S("head.width"), 1))
        self.value0 = self.create_parameter([1, S("mem.slots"), v], default_initializer=std)
        self.keys = self.create_parameter([k, S("mem.slots")], default_initializer=std)
        self.forget_gate, self.update_gate = LAYERS["glorot"](v, v), LAYERS["glorot"](v, v)
        self.skill_table = LAYERS["embed"](S("data.skills") + 1, k)
        self.answer_table = LAYERS["embed"](2 * S("data.skills") + 1, v)

    def attention(self, q):
        return F.softmax(paddle.matmul(q, self.keys), axis=-1)

    def forward(self, skill, answered):
        q, v = self.skill_table(skill), self.answer_table(answered)
        # everything that does not depend on the state is computed for all steps at once
        w = self.attention(q)
        live = (skill > 0).astype(q.dtype)
        keep = F.sigmoid(self.forget_gate(v)) * live.unsqueeze(-1)
        add = F.tanh(self.update_gate(v)) * live.unsqueeze(-1)
        state = self.value0.expand([skill.shape[0], -1, -1])
        reads = []
        for wt, et, at in zip(*(paddle.unbind(z, axis=1) for z in (w, keep, add))):
            reads.append(paddle.einsum("bs,bsv->bv", wt, state))
            outer_e = paddle.einsum("bs,bv->bsv", wt, et)
            state = state - state * outer_e + paddle.einsum("bs,bv->bsv", wt, at)
        h = paddle.concat([paddle.stack(reads, axis=1), q], axis=-1)
        return {"state": state, "logit": self.head(h)[..., 0]}


class AnswerLog(paddle.io.Dataset):
    def __init__(self, mode):
        with open(os.path.join(FOLDER, "log.csv")) as f:
            rows = [r for r in csv.DictReader(f) if r["part"] == mode]
        self.samples = []
        for _, group in itertools.groupby(rows, key=operator.itemgetter("student")):
            both = np.array([(r["skill"], r["correct"]) for r in group], dtype="int64")
            for start in range(0, len(both), S("data.window")):
                self._push(both[start:start + S("data.window")])

    def _push(self, piece):
        n = len(piece)
        if n < S("data.shortest"):
            return
        full = np.zeros((3, S("data.window")), "int64")
        full[0, :n] = piece[:, 0]
        full[1, :n] = piece[:, 0] + S("data.skills") * piece[:, 1]
        full[2, :n], full[2, n:] = piece[:, 1], -1
        self.samples.append((full[0], full[1], full[2].astype("float32")))

    def __getitem__(self, i):
        return self.samples[i]

    def __len__(self):
        return len(self.samples)


build_model = Tracer
build_dataset = AnswerLog


def build_dataloader(split):
    return paddle.io.DataLoader(build_dataset(split), shuffle=split == "train", batch_size=S("data.batch"))


def loss(outputs, labels):
    known = (labels > -0.5).astype("float32")
    each = F.binary_cross_entropy_with_logits(outputs["logit"], F.relu(labels), weight=known, reduction="sum")
    bce = each / known.sum()
    return {"bce": bce, "loss": bce + S("mem.l1") * outputs["state"].abs().mean()}


def metric(outputs, labels):
    y = labels.numpy().ravel()
    z = outputs["logit"].numpy().ravel()[y >= 0]
    y = y[y >= 0].astype(bool)
    n1, n0 = int(y.sum()), int((~y).sum())
    # Mann-Whitney with mid-ranks
    _, inverse, count = np.unique(z, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2.0)[inverse]
    area = (rank[y].sum() - n1 * (n1 + 1) / 2.0) / (n1 * n0) if n1 and n0 else 0.5
    return {"accuracy": float(np.mean((z > 0) == y)), "auc": float(area)}


def build_optimizer(model):
    rate = paddle.optimizer.lr.StepDecay(S("opt.lr"), step_size=S("opt.every"), gamma=S("opt.gamma"))
    return paddle.optimizer.Adam(
        rate, epsilon=1e-6, parameters=model.parameters(),
        weight_decay=paddle.regularizer.L2Decay(S("opt.l2")),
        grad_clip=nn.ClipGradByGlobalNorm(S("opt.clip")))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    *inputs, correct = batch
    parts = loss(model(*inputs), correct)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {k: parts[k].item() for k in parts}


@paddle.no_grad()
def predict(path, model):
    model.eval()
    with open(path) as f:
        rec = {k: np.asarray(v, "int64")[None] for k, v in json.load(f).items()}
    out = model(paddle.to_tensor(rec["skills"]),
                paddle.to_tensor(rec["skills"] + S("data.skills") * rec["correct"]))
    q = model.skill_table.weight[1:]
    r = paddle.matmul(model.attention(q), out["state"].squeeze(0))
    mastery = F.sigmoid(model.head(paddle.concat([r, q], axis=1)))
    return {"mastery": mastery.flatten().numpy(), "probability": F.sigmoid(out["logit"])[0].numpy()}
