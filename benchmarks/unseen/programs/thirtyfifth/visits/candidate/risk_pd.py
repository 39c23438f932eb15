"""Paddle script: risk of readmission from visit histories."""
import csv
import itertools
import json
import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset
from paddle.nn import initializer as I

LEVELS = ("low", "mid", "high")
VOCAB = 30
D_CODE, D_GAP, D_H = 12, 4, 10
EPS = 0.1
COST = (1.0, 1.5, 0.8)
LR = 6e-3
LR_WARM = 8
LR_FLOOR = 0.15
BATCH_SIZE = 6


def uniform_linear(n_in, n_out, bias=None):
    r = 1 / math.sqrt(n_in)
    return nn.Linear(n_in, n_out, weight_attr=I.Uniform(-r, r), bias_attr=I.Uniform(-r, r) if bias is None else bias)


class Histories(Dataset):
    def __init__(self, split):
        with open("data/visits.csv", newline="") as fh:
            rows = [r for r in csv.DictReader(fh) if r["split"] == split]
        self.people = [list(g) for _, g in itertools.groupby(rows, key=lambda r: r["patient"])]
        if split == "train":
            perm = np.random.RandomState(17).permutation(len(self.people))
            self.people = [self.people[k] for k in perm]

    def __len__(self):
        return len(self.people)

    def __getitem__(self, k):
        rows = self.people[k]
        lists = [[int(c) for c in filter(None, r["codes"].split(";"))] for r in rows]
        codes = np.zeros([len(rows), max([1] + [len(x) for x in lists])], "int64")
        for line, x in zip(codes, lists):
            line[:len(x)] = x
        gaps = np.asarray([math.log1p(float(r["gap_days"])) for r in rows]).astype("float32")
        return codes, gaps, LEVELS.index(rows[0]["risk"])


def pad_batch(items):
    t = 1 + max(c.shape[0] for c, _, _ in items)
    w = max(c.shape[1] for c, _, _ in items)
    codes = np.stack([np.pad(c, [(0, t - c.shape[0]), (0, w - c.shape[1])]) for c, _, _ in items])
    gaps = np.stack([np.pad(g, (0, t - g.size)) for _, g, _ in items])
    return {"codes": codes, "gaps": gaps,
            "lengths": np.asarray([g.size for _, g, _ in items], "int64"),
            "labels": np.asarray([y for _, _, y in items], "int64")}


def build_dataset(split):
    return Histories(split)


def build_dataloader(split):
    return DataLoader(Histories(split), batch_size=BATCH_SIZE, shuffle=False, collate_fn=pad_batch)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.code_emb = nn.Embedding(VOCAB, D_CODE, padding_idx=0, weight_attr=I.Normal(0.0, 1.0))
        self.gap_fc = uniform_linear(1, D_GAP)
        self.ln = nn.LayerNorm(D_CODE + D_GAP)
        self.gru = nn.GRU(D_CODE + D_GAP, D_H, num_layers=2, direction="bidirect",
                          weight_hh_attr=I.XavierUniform(fan_in=D_H, fan_out=3 * D_H))
        self.att_fc = uniform_linear(2 * D_H, D_H)
        self.att_out = uniform_linear(D_H, 1, bias=False)
        self.dropout = nn.Dropout(p=0.2)
        r = 1 / math.sqrt(4 * D_H)
        self.cls = nn.Linear(4 * D_H, len(LEVELS), weight_attr=I.Uniform(-r, r))

    def bag_mean(self, codes):
        present = (codes != 0).astype(self.cls.weight.dtype)
        total = paddle.sum(self.code_emb(codes) * present.unsqueeze(-1), axis=2)
        return total / paddle.clip(present.sum(axis=2, keepdim=True), min=1.0)

    def forward(self, codes, gaps, lengths):
        feats = paddle.concat([self.bag_mean(codes), F.tanh(self.gap_fc(gaps[:, :, None]))], axis=2)
        seq, state = self.gru(self.ln(feats), sequence_length=lengths)
        valid = paddle.arange(codes.shape[1], dtype="int64").unsqueeze(0) < lengths.unsqueeze(1)
        e = self.att_out(F.tanh(self.att_fc(seq)))[:, :, 0]
        e = paddle.where(valid, e, paddle.full_like(e, -1e9))
        ctx = paddle.matmul(F.softmax(e, axis=-1).unsqueeze(1), seq).squeeze(1)
        z = paddle.concat([ctx, state[2], state[3]], axis=1)
        return self.cls(self.dropout(z))


def build_model():
    return Net()


def loss(outputs, labels):
    # weighted, smoothed cross entropy, divided by the sum of the weights of the true classes
    cost = paddle.to_tensor(COST, dtype=outputs.dtype)
    logp = F.log_softmax(outputs, axis=-1)
    hot = F.one_hot(labels, len(LEVELS)).astype(outputs.dtype)
    target = (1.0 - EPS) * hot + EPS / len(LEVELS)
    return -(target * cost * logp).sum() / (hot * cost).sum()


def binary_auc(score, is_pos):
    pairs = [(a, b) for a in score[is_pos] for b in score[~is_pos]]
    if not pairs:
        return 0.5
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def expected_calibration_error(prob, y, bins=5):
    conf = prob.max(axis=1)
    right = (prob.argmax(axis=1) == y).astype("float64")
    bucket = np.clip((conf * bins).astype("int64"), 0, bins - 1)
    ece = 0.0
    for b in np.unique(bucket):
        m = bucket == b
        ece += m.mean() * abs(conf[m].mean() - right[m].mean())
    return ece


def metric(outputs, labels):
    logits = outputs.numpy().astype("float64")
    prob = np.exp(logits - logits.max(axis=1, keepdims=True))
    prob = prob / prob.sum(axis=1, keepdims=True)
    y = labels.numpy()
    aucs = [binary_auc(prob[:, k], y == k) for k in range(len(LEVELS))]
    return {"auc": float(sum(aucs) / len(aucs)), "ece": float(expected_calibration_error(prob, y))}


def inverse_sqrt(step):
    return (step + 1) / LR_WARM if step < LR_WARM else max(LR_FLOOR, (LR_WARM / (step + 1)) ** 0.5)


def build_optimizer(model):
    emb = model.code_emb.weight
    others = [p for p in model.parameters() if p is not emb]
    return paddle.optimizer.AdamW(
        learning_rate=paddle.optimizer.lr.LambdaDecay(LR, inverse_sqrt),
        parameters=[{"params": [emb], "learning_rate": 2.0, "weight_decay": 0.0},
                    {"params": others, "weight_decay": 0.02}])


def train_step(model, optimizer, batch):
    shown = 0.0
    for first in (0, 1):
        half = {k: v[first::2] for k, v in batch.items()}
        out = model(half["codes"], half["gaps"], half["lengths"])
        value = loss(out, half["labels"]) / 2
        value.backward()
        shown = shown + value.detach()
    norm = paddle.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": shown, "norm": norm}


def predict(path, model):
    history = json.load(open(path))
    w = max(len(h["codes"]) for h in history)
    codes = np.asarray([[h["codes"] + [0] * (w - len(h["codes"])) for h in history]], "int64")
    gaps = np.log1p(np.asarray([[h["gap"] for h in history]], "float64"))
    with paddle.no_grad():
        logits = model(paddle.to_tensor(codes), paddle.to_tensor(gaps).astype(model.cls.weight.dtype),
                       paddle.to_tensor([len(history)], dtype="int64"))
        prob = F.softmax(logits, axis=-1).numpy()[0]
    return {"risk": LEVELS[int(np.argmax(prob))], "probabilities": prob}
