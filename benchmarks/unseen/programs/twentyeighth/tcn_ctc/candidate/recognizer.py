import configparser
import json
import os
import sys
from itertools import groupby

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from wn_layers import ResidualTCNBlock  # noqa: E402

cp = configparser.ConfigParser()
cp.read(os.path.join(HERE, "config.ini"))
CHARS = cp["data"]["alphabet"]
blank_id = len(CHARS)


class PenRecognizer(nn.Layer):
    def __init__(self, stats):
        super().__init__()
        m = cp["model"]
        widths = [m.getint("features")] + [int(c) for c in m["channels"].split()]
        bound = widths[-1] ** -0.5
        uni = nn.initializer.Uniform(-bound, bound)
        self.classifier = nn.Linear(widths[-1], blank_id + 1, weight_attr=uni, bias_attr=uni)
        b = self.classifier.bias.numpy()
        b[blank_id] = 1.0
        self.classifier.bias.set_value(b)
        for i in range(len(widths) - 1):
            self.add_sublayer(f"tcn{i}", ResidualTCNBlock(widths[i], widths[i + 1], m.getint("kernel"), 1 << i))
        self.depth = len(widths) - 1
        self.register_buffer("feat_mean", paddle.to_tensor(stats[0].astype("float32")))
        self.register_buffer("feat_std", paddle.to_tensor(stats[1].astype("float32")))

    def forward(self, x, lengths):
        h = paddle.transpose((x - self.feat_mean) / self.feat_std, [0, 2, 1])
        for i in range(self.depth):
            h = getattr(self, f"tcn{i}")(h)
        logits = self.classifier(paddle.transpose(h, [0, 2, 1]))
        mask = F.sequence_mask(lengths, maxlen=x.shape[1], dtype="float32").unsqueeze(-1)
        return {"logp": F.log_softmax(logits, axis=-1) * mask, "lengths": lengths}


class PenDataset(paddle.io.Dataset):
    def __init__(self, split):
        with open(os.path.join(HERE, os.pardir, "data", split + ".jsonl")) as f:
            self.items = [json.loads(line) for line in f]
        self.width = max(len(it["x"]) for it in self.items)
        self.lookup = {c: k for k, c in enumerate(CHARS)}

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        x, text = np.array(self.items[i]["x"], "float32"), self.items[i]["y"]
        codes = [self.lookup[c] for c in text]
        y = np.array(codes + [-1] * (cp.getint("data", "max_label") - len(codes)), "int64")
        padded = np.pad(x, [(0, self.width - len(x)), (0, 0)])
        return padded, np.int64(len(x)), {"target": y, "length": np.int64(len(codes))}


def build_model():
    allx = np.vstack([it["x"] for it in PenDataset("train").items])
    return PenRecognizer((allx.mean(axis=0), np.sqrt(allx.var(axis=0, ddof=1))))


def build_dataset(split):
    return PenDataset(split)


def build_dataloader(split):
    ds = build_dataset(split)
    sampler = paddle.io.BatchSampler(ds, shuffle=split == "train", batch_size=cp.getint("train", "batch_size"))
    return paddle.io.DataLoader(ds, batch_sampler=sampler, num_workers=0)


def loss(outputs, labels):
    logp, n = outputs["logp"], outputs["lengths"]
    # warpctc takes scores and normalises itself: log-softmax of log-probabilities is the identity
    nll = F.ctc_loss(paddle.transpose(logp, [1, 0, 2]), paddle.clip(labels["target"], min=0).astype("int32"),
                     n, labels["length"], blank=blank_id, reduction="none")
    ctc = (nll.flatten() / paddle.clip(labels["length"], min=1).astype(nll.dtype)).mean()
    h = -paddle.sum(paddle.exp(logp) * logp, axis=-1)       # padded frames hold zeros and add nothing
    ent = h.sum() / n.sum().astype("float32")
    return {"loss": ctc - 0.02 * ent, "ctc": ctc, "entropy": ent}


def greedy(ids):
    return [int(k) for k, _ in groupby(ids) if k != blank_id]


def levenshtein(a, b):
    d = np.zeros((len(a) + 1, len(b) + 1), int)
    d[:, 0], d[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i in range(len(a)):
        for j in range(len(b)):
            d[i + 1, j + 1] = min(d[i, j + 1] + 1, d[i + 1, j] + 1, d[i, j] + (a[i] != b[j]))
    return int(d[-1, -1])


class ErrorRate:
    def __init__(self):
        self.dist, self.chars, self.hits, self.n = 0, 0, 0, 0

    def update(self, hyp, ref):
        d = levenshtein(hyp, ref)
        self.dist += d
        self.chars += len(ref)
        self.hits += d == 0
        self.n += 1

    def accumulate(self):
        return {"cer": self.dist / self.chars, "exact": self.hits / self.n}


def metric(outputs, labels):
    m = ErrorRate()
    ids = outputs["logp"].numpy().argmax(axis=2)
    for row, n, y, k in zip(ids, outputs["lengths"].numpy(), labels["target"].numpy(), labels["length"].numpy()):
        m.update(greedy(row[:n]), y[:k].tolist())
    return m.accumulate()


def build_optimizer(model):
    t = cp["train"]
    gains, rest = [], []
    for n, p in model.named_parameters():
        (gains if n.rsplit(".", 1)[-1] == "g" else rest).append(p)
    sched = paddle.optimizer.lr.MultiStepDecay(t.getfloat("lr"), [int(s) for s in t["steps"].split()],
                                               gamma=t.getfloat("gamma"))
    groups = [{"params": gains, "learning_rate": 0.5, "weight_decay": 0.0},
              {"params": rest, "weight_decay": t.getfloat("l2")}]
    return paddle.optimizer.Adam(sched, parameters=groups)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    x, lengths, labels = batch
    n, k = x.shape[0], cp.getint("train", "micro")
    size, seen, start = -(-n // k), 0.0, 0
    while start < n:
        s = slice(start, min(start + size, n))
        out = model(x[s], lengths[s])
        l = loss(out, {key: v[s] for key, v in labels.items()})["loss"] * ((s.stop - s.start) / n)
        l.backward()
        seen += float(l)
        start = s.stop
    clip_grads(model, cp.getfloat("train", "clip"))
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": seen}


@paddle.no_grad()
def clip_grads(model, limit):
    # the clip inside the optimizer works one parameter group at a time, so do it over all here
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = float(paddle.sqrt(paddle.add_n([paddle.sum(g * g) for g in grads])))
    if norm + 1e-6 > limit:
        for g in grads:
            g.scale_(limit / (norm + 1e-6))


def predict(path, model):
    model.eval()
    with open(path) as f, paddle.no_grad():
        x = paddle.to_tensor(json.load(f)["x"], dtype="float32").unsqueeze(0)
        logp = model(x, paddle.to_tensor([x.shape[1]], dtype="int64"))["logp"].numpy()[0]
    best = logp.max(axis=1)
    return {"text": "".join(CHARS[k] for k in greedy(logp.argmax(axis=1))), "score": best,
            "perplexity": [float(np.exp(-best.mean()))]}
