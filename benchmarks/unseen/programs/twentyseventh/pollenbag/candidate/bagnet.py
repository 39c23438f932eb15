"""Pollen bags with Paddle: ordinal grade of a day from a set of grains."""
import json
import os
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import DataLoader, Dataset
from paddle.nn import initializer as I

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bag_training import CentredRMS, restarts  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
SETTING = {
    "grains": 12,
    "width": 16,
    "heads": 4,
    "pool": 8,
    "lr": 4e-3,
    "floor": 0.05,
    "period": 16,
    "growth": 2,
    "alpha": 0.95,
    "eps": 1e-5,
    "momentum": 0.6,
    "decay": 1e-3,
    "clip": 0.5,
    "rise": (1.0, 1.5, 2.5),
    "mix": {"ordinal": 1.0, "agree": 0.3, "quiet": 0.2},
    "cuts": (-0.5, 0.2, 0.4),
}


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return json.load(f)


NAMES = read("names.json")
GRADES = len(NAMES["grades"])


# ------------------------------------------------------------------- model
def dense(n_in, n_out, bias=True, weight=None):
    weight = weight or I.Normal(0.0, n_in**-0.5)
    return nn.Linear(
        n_in, n_out,
        weight_attr=paddle.ParamAttr(initializer=weight),
        bias_attr=paddle.ParamAttr(initializer=I.Uniform(-0.05, 0.05)) if bias else False,
    )


def site_table(n, width):
    table = np.random.default_rng(paddle.randint(0, 2**31 - 1, [1]).item()).normal(0, 0.3, (n + 1, width))
    table[0] = 0
    return nn.Embedding(n + 1, width, padding_idx=0, weight_attr=paddle.ParamAttr(initializer=I.Assign(table.astype("float32"))))


def heads_first(x, heads):
    b, n, w = x.shape
    return x.reshape([b, n, heads, w // heads]).transpose([0, 2, 1, 3])


def attention(parts, x, mask, heads):
    q = heads_first(parts["query"](x), heads)
    k = heads_first(parts["key"](x), heads)
    v = heads_first(parts["value"](x), heads)
    score = paddle.matmul(q, k, transpose_y=True) * q.shape[-1] ** -0.5
    hidden = (1.0 - mask.astype("float32")) * -1e30
    weight = F.softmax(score + hidden.unsqueeze([1, 2]), axis=-1)
    return parts["out"](paddle.matmul(weight, v).transpose([0, 2, 1, 3]).flatten(2))


def pooling(parts, x, mask, log_count):
    gated = paddle.tanh(parts["tan"](x)) * F.sigmoid(parts["gate"](x))
    s = parts["score"](gated)[:, :, 0] + log_count
    s = paddle.where(mask, s, paddle.full_like(s, -1e30))
    weight = F.softmax(s, axis=1)
    return paddle.matmul(weight.unsqueeze(1), x).squeeze(1), weight


def thresholds(steps):
    gaps = paddle.cumsum(F.softplus(steps[1:]))
    return steps[:1] + paddle.concat([paddle.zeros([1]), gaps])


class Bagger(nn.Layer):
    def __init__(self, sites, width, heads, pool):
        super().__init__()
        self.heads = heads
        self.site = site_table(sites, width)
        self.embed = dense(6, width)
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.LayerDict(
            {
                "query": dense(width, width),
                "key": dense(width, width, bias=False),
                "value": dense(width, width),
                "out": dense(width, width, weight=I.Orthogonal(gain=0.7)),
            }
        )
        self.norm2 = nn.LayerNorm(width)
        self.pool = nn.LayerDict({"tan": dense(width, pool), "gate": dense(width, pool), "score": dense(pool, 1, bias=False)})
        self.level = dense(width, 1)
        self.grain = dense(width, 1)
        self.steps = self.create_parameter([GRADES - 1], default_initializer=I.Assign(np.array(SETTING["cuts"], "float32")))

    def forward(self, bag, mask, site):
        shape, log_count = bag[:, :, :-1], bag[:, :, -1]
        x = F.gelu(self.embed(shape), approximate=True)
        x = x + attention(self.attend, self.norm1(x), mask, self.heads)
        x = self.norm2(x)
        pooled, weight = pooling(self.pool, x, mask, log_count)
        logits = self.level(pooled + self.site(site)) - thresholds(self.steps)
        above = F.sigmoid(logits)
        edge = paddle.ones_like(above[:, :1])
        full = paddle.concat([edge, above, 0 * edge], axis=1)
        return {
            "logits": logits,
            "probs": full[:, :-1] - full[:, 1:],
            "attention": weight,
            "grains": self.grain(x).squeeze(-1) * mask.astype("float32"),
            "mask": mask,
        }


def build_model():
    return Bagger(len(NAMES["sites"]), *(SETTING[k] for k in ("width", "heads", "pool")))


# -------------------------------------------------------------------- data
def make_describer():
    rows = np.array([g["shape"] for b in read("bags.json")["train"] for g in b["grains"]])
    mean, std = (v.astype("float32") for v in (rows.mean(0), rows.std(0, ddof=1)))
    room = SETTING["grains"]
    lookup = {name: k for k, name in enumerate(NAMES["sites"], start=1)}

    def describe(raw):
        counts = np.array([g["count"] for g in raw["grains"]])
        first = np.argsort(-counts, kind="stable")[:room]
        shapes = np.array([raw["grains"][i]["shape"] for i in first], dtype="float32")
        bag = np.zeros((room, 7), "float32")
        bag[: len(first), :6] = (shapes - mean) / std
        bag[: len(first), 6] = np.log1p(counts[first]) / 4
        mask = np.arange(room) < len(first)
        return bag, mask, np.int64(lookup.get(raw["site"], 0))

    return describe


class Bags(Dataset):
    def __init__(self, split):
        super().__init__()
        self.bags = read("bags.json")[split]
        self.describe = make_describer()

    def __len__(self):
        return len(self.bags)

    def __getitem__(self, i):
        bag, mask, site = self.describe(self.bags[i])
        grade = self.bags[i]["grade"]
        label = {"grade": np.asarray(grade, "int64"), "clean": np.asarray(grade == 0, "float32")}
        return bag, mask, np.asarray(site), label


def build_dataset(split):
    return Bags(split)


def build_dataloader(split):
    data = build_dataset(split)
    if split != "train":
        return DataLoader(data, batch_size=9)
    n = len(data)
    order = np.argsort(np.arange(n) * 37 % 84, kind="stable").reshape(-1, 6)
    return DataLoader(data, batch_sampler=order.tolist())


# ---------------------------------------------------------- loss and metric
def ordinal_term(outputs, labels):
    target = F.sequence_mask(labels["grade"], maxlen=GRADES - 1, dtype="float32")
    z = outputs["logits"]
    rise = paddle.to_tensor(SETTING["rise"])
    each = rise * target * F.softplus(-z) + (1 - target) * F.softplus(z)
    return each.sum(axis=1).mean()


def agree_term(outputs, labels):
    mask = outputs["mask"]
    share = outputs["attention"].detach()
    log_p = F.log_softmax(paddle.where(mask, outputs["grains"], paddle.full([1], -1e4)), axis=1)
    return F.kl_div(log_p, share, reduction="batchmean")


def quiet_term(outputs, labels):
    mask, clean = outputs["mask"].astype("float32"), labels["clean"]
    mean = (F.sigmoid(outputs["grains"]) * mask).sum(axis=1) / mask.sum(axis=1)
    return (clean * mean).sum() / clean.sum().clip(min=1)


TERMS = {"ordinal": ordinal_term, "agree": agree_term, "quiet": quiet_term}


def loss(outputs, labels):
    parts = {k: term(outputs, labels) for k, term in TERMS.items()}
    return {"loss": sum(SETTING["mix"][k] * v for k, v in parts.items()), **parts}


def kappa(truth, guess):
    table = np.zeros((GRADES, GRADES))
    np.add.at(table, (truth, guess), 1)
    far = np.subtract.outer(np.arange(GRADES), np.arange(GRADES)) ** 2.0
    chance = np.outer(table.sum(1), table.sum(0)) / table.sum()
    den = (far * chance).sum()
    return float(1 - (far * table).sum() / den) if den > 0 else 0.0


def metric(outputs, labels):
    truth = labels["grade"].numpy()
    guess = (outputs["logits"].numpy() > 0).sum(axis=1)
    gap = np.cumsum(outputs["probs"].numpy().astype("float64") - np.eye(GRADES)[truth], axis=1)
    att = outputs["attention"].numpy().astype("float64")
    used = 1 / (att * att).sum(1) / outputs["mask"].numpy().sum(1)
    return {
        "accuracy": float((truth == guess).mean()),
        "kappa": kappa(truth, guess),
        "mae": float(np.abs(truth - guess).mean()),
        "rps": float((gap[:, :-1] ** 2).sum(1).mean() / (GRADES - 1)),
        "effective": float(used.mean()),
    }


# ---------------------------------------------------------------- training
def build_optimizer(model):
    s = SETTING
    return CentredRMS(
        restarts(s["lr"], s["floor"], s["period"], s["growth"]),
        parameters=model.parameters(),
        alpha=s["alpha"],
        eps=s["eps"],
        momentum=s["momentum"],
        decay=s["decay"],
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    model.train()
    out = model(*inputs)
    parts = loss(out, labels)
    parts["loss"].backward()
    for p in model.parameters():
        if p.grad is not None:
            p.grad.set_value(p.grad.clip(-SETTING["clip"], SETTING["clip"]))
    optimizer.step()
    optimizer.clear_grad()
    guess = (out["logits"] > 0).astype("int64").sum(axis=1)
    hit = (guess == labels["grade"]).astype("float32").mean()
    return {**{k: v.detach() for k, v in parts.items()}, "hit": hit}


# --------------------------------------------------------------- inference
def predict(path, model):
    with open(path, encoding="utf-8") as f:
        raw = json.load(f)
    bag, mask, site = make_describer()(raw)
    model.eval()
    with paddle.no_grad():
        out = model(*(paddle.to_tensor(v[None]) for v in (bag, mask, np.asarray(site))))
    out = {k: v.numpy()[0] for k, v in out.items()}
    att = out["attention"][mask]
    order = np.argsort(-att, kind="stable")
    enough = int(np.searchsorted(np.cumsum(att[order]), 0.5)) + 1
    return {
        "probs": out["probs"],
        "attention": att,
        "expected": [float(out["probs"] @ np.arange(GRADES))],
        "key_grains": order[:enough].tolist(),
        "total": [sum(g["count"] for g in raw["grains"])],
        "grade": NAMES["grades"][int((out["logits"] > 0).sum())],
    }
