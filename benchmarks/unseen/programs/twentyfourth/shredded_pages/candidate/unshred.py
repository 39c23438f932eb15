"""Paddle port of the torn-page puzzle."""
import csv
import math
import os

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from PIL import Image

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
COUNT = 6
ROWS = 24
COLS = 8
PAGE = COUNT * COLS
MIX = (("place", 1.0), ("follow", 0.35), ("redraw", 0.6))
CYCLE = dict(peak=4e-3, start=10.0, finish=50.0, length=113, rise=0.25)

_table = {}


def register(kind):
    def deco(obj):
        _table.setdefault(kind, {})[obj.__name__] = obj
        return obj
    return deco


def fetch(kind, name):
    return _table[kind][name]


def glorot(gain=1.0):
    return paddle.ParamAttr(initializer=nn.initializer.XavierUniform(gain=gain))


def dense(n_in, n_out, gain=1.0, bias=True):
    zero = paddle.ParamAttr(initializer=nn.initializer.Constant(0.0)) if bias else False
    return nn.Linear(n_in, n_out, weight_attr=glorot(gain), bias_attr=zero)


def conv(n_in, n_out, kernel, bias=True, **kw):
    fan_out = n_out * kernel[0] * kernel[1]
    law = nn.initializer.Normal(0.0, math.sqrt(2.0 / fan_out))
    const = paddle.ParamAttr(initializer=nn.initializer.Constant(0.01)) if bias else False
    return nn.Conv2D(n_in, n_out, kernel, weight_attr=paddle.ParamAttr(initializer=law),
                     bias_attr=const, **kw)


@register("block")
class encoder(nn.Layer):
    def __init__(self, width, dim):
        super().__init__()
        self.conv1 = conv(1, width, (5, 3))
        self.norm1 = nn.GroupNorm(2, width, epsilon=1e-4)
        self.conv2 = conv(width, width * 2, (3, 3), bias=False, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(4, width * 2, epsilon=1e-4)
        self.proj = dense(width * 4, dim)

    def forward(self, x):
        x = F.pad(x, [1, 1, 2, 2], mode="replicate")
        for c, n in ((self.conv1, self.norm1), (self.conv2, self.norm2)):
            x = F.gelu(n(c(x)), approximate=True)
        rows, cols = 6, 2
        b, ch, h, w = x.shape
        cells = x.reshape([b, ch, rows, h // rows, cols, w // cols]).mean(axis=[3, 5])
        return self.proj(cells.max(axis=2).reshape([b, ch * cols]))


@register("block")
class edges(nn.Layer):
    def __init__(self, height, rank):
        super().__init__()
        self.left = dense(height, rank, bias=False)
        self.right = dense(height, rank, bias=False)
        self.gain = self.create_parameter([1], default_initializer=nn.initializer.Constant(0.5))

    @staticmethod
    def unit(v):
        return v / paddle.clip(paddle.norm(v, p=2, axis=-1, keepdim=True), min=1e-6)

    def forward(self, strips):
        first = self.unit(self.left(strips[:, :, :, 0]))
        last = self.unit(self.right(strips[:, :, :, COLS - 1]))
        scale = paddle.clip(paddle.abs(self.gain), min=0.05)
        affinity = paddle.matmul(last, first, transpose_y=True) / scale
        same = paddle.eye(strips.shape[1])
        return affinity * (1.0 - same) - 30.0 * same


@register("block")
class mixer(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, epsilon=1e-5)
        self.after = dense(dim, dim)
        self.before = dense(dim, dim)
        self.out = dense(dim * 2, dim, gain=0.5, bias=False)

    def forward(self, h, affinity):
        n = self.norm(h)
        nxt = paddle.einsum("bij,bjd->bid", F.softmax(affinity, axis=2), self.after(n))
        prv = paddle.einsum("bij,bid->bjd", F.softmax(affinity, axis=1), self.before(n))
        return h + self.out(F.silu(paddle.concat([nxt, prv], axis=2)))


class Unshredder(nn.Layer):
    def __init__(self, dim=20, width=6, rank=7, rounds=9):
        super().__init__()
        self.encoder = fetch("block", "encoder")(width, dim)
        self.edges = fetch("block", "edges")(ROWS, rank)
        self.mixers = nn.LayerList([fetch("block", "mixer")(dim) for _ in range(2)])
        spread = nn.initializer.Normal(mean=0.0, std=dim ** -0.5)
        self.slots = self.create_parameter([COUNT, dim], default_initializer=spread)
        self.tau = self.create_parameter([1], default_initializer=nn.initializer.Constant(0.7))
        self.rounds = rounds

    def forward(self, strips):
        b = strips.shape[0]
        h = self.encoder(strips.reshape([b * COUNT, 1, ROWS, COLS])).reshape([b, COUNT, -1])
        affinity = self.edges(strips)
        for layer in self.mixers:
            h = layer(h, affinity)
        log_p = paddle.matmul(h, self.slots, transpose_y=True) / F.softplus(self.tau)
        for step in range(2 * self.rounds):
            axis = 2 if step % 2 == 0 else 1
            log_p = log_p - paddle.logsumexp(log_p, axis=axis, keepdim=True)
        flat = strips.reshape([b, COUNT, ROWS * COLS])
        rebuilt = paddle.matmul(paddle.exp(log_p), flat, transpose_x=True)
        return {"log_p": log_p, "affinity": affinity,
                "rebuilt": rebuilt.reshape([b, COUNT, ROWS, COLS])}


def build_model():
    return Unshredder()


# ---------------------------------------------------------------- reading
def grey(path):
    with Image.open(path) as im:
        return np.array(im.convert("L")).astype("float32")


def whiten(page):
    page = page / 255.0
    mean = page.mean()
    sd = np.sqrt(np.square(page - mean).sum() / (page.size - 1))
    return ((page - mean) / (sd + 1e-3)).astype("float32")


def cut(page):
    return np.stack([page[:, k:k + COLS] for k in range(0, PAGE, COLS)])


class Pages(paddle.io.Dataset):
    def __init__(self, split):
        sheet = grey(os.path.join(ROOT, split + ".png"))
        self.items = []
        with open(os.path.join(ROOT, split + ".csv")) as f:
            for row in csv.DictReader(f):
                ink = float(row["ink"])
                if ink < 0.02:
                    continue
                per_row = sheet.shape[1] // PAGE
                cell = int(row["cell"])
                top, left = cell // per_row * ROWS, cell % per_row * PAGE
                order = np.asarray(row["order"].split("-"), dtype="int64")
                parts = cut(whiten(sheet[top:top + ROWS, left:left + PAGE]))
                self.items.append((parts, order, ink))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        parts, order, ink = self.items[i]
        return parts[order], {"slot": order, "ink": np.float32(ink), "page": parts}


def build_dataset(split):
    return Pages(split)


def build_dataloader(split):
    train = split == "train"
    return paddle.io.DataLoader(Pages(split), batch_size=5, shuffle=train, drop_last=train)


# --------------------------------------------------------------- objective
@register("term")
def place(out, labels):
    hot = F.one_hot(labels["slot"], COUNT)
    nll = -(hot * out["log_p"]).sum(axis=2).mean(axis=1)
    weight = 1.0 + 2.0 * labels["ink"]
    return paddle.dot(nll, weight) / weight.sum()


@register("term")
def follow(out, labels):
    slot = labels["slot"]
    wanted = slot.unsqueeze(2) + 1
    target = (slot.unsqueeze(1) == wanted).astype("float32")
    logp = F.log_softmax(out["affinity"], axis=2)
    return -(target * logp).sum() / target.sum()


@register("term")
def redraw(out, labels):
    gap = (out["rebuilt"] - labels["page"]).abs()
    delta = 0.8
    near = paddle.minimum(gap, paddle.full_like(gap, delta))
    return (0.5 * near ** 2 + delta * (gap - near)).mean()


def loss(outputs, labels):
    result = {}
    total = 0.0
    for name, weight in MIX:
        result[name] = fetch("term", name)(outputs, labels)
        total = total + weight * result[name]
    result["loss"] = total
    return result


def assign(log_p):
    tables = log_p.numpy().copy()
    slots = np.zeros(tables.shape[:2], dtype="int64")
    for table, row in zip(tables, slots):
        for _ in range(COUNT):
            i, j = np.unravel_index(np.argmax(table), table.shape)
            row[i] = j
            table[i, :] = -np.inf
            table[:, j] = -np.inf
    return slots


def metric(outputs, labels):
    guess = assign(outputs["log_p"].detach())
    slot = labels["slot"].numpy()
    upper = np.triu_indices(COUNT, k=1)
    g = np.sign(guess[:, :, None] - guess[:, None, :])[:, upper[0], upper[1]]
    s = np.sign(slot[:, :, None] - slot[:, None, :])[:, upper[0], upper[1]]
    hit = guess == slot
    return {"slot_acc": float(hit.mean()), "page_acc": float(hit.all(axis=1).mean()),
            "kendall": float((g * s).mean())}


# --------------------------------------------------------------- training
class OneCycle(paddle.optimizer.lr.LRScheduler):
    def __init__(self, peak, start, finish, length, rise):
        self.peak, self.low = peak, peak / start
        self.end = self.low / finish
        self.top = rise * length - 1
        self.bottom = length - 1
        super().__init__(self.low)

    def get_lr(self):
        n = self.last_epoch
        if n <= self.top:
            a, b, frac = self.low, self.peak, n / self.top
        else:
            a, b, frac = self.peak, self.end, (n - self.top) / (self.bottom - self.top)
        return b + (a - b) * (1 + math.cos(math.pi * frac)) / 2


def build_optimizer(model):
    heavy = [p for n, p in model.named_parameters() if p.ndim > 1 and n != "slots"]
    chosen = {id(p) for p in heavy}
    light = [p for p in model.parameters() if id(p) not in chosen]
    return paddle.optimizer.AdamW(
        learning_rate=OneCycle(**CYCLE), beta1=0.9, beta2=0.98, epsilon=1e-6,
        parameters=[{"params": heavy, "weight_decay": 0.2},
                    {"params": light, "weight_decay": 0.0}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def clip_(params, limit):
    grads = [p.grad.detach() for p in params if p.grad is not None]
    norm = paddle.sqrt(sum((g ** 2).sum() for g in grads))
    factor = min(1.0, limit / (float(norm) + 1e-6))
    for g in grads:
        g.scale_(factor)
    return float(norm)


def train_step(model, optimizer, batch):
    model.train()
    strips, labels = batch
    optimizer.clear_grad()
    parts = loss(model(strips), labels)
    parts["loss"].backward()
    norm = clip_(model.parameters(), 0.8)
    optimizer.step()
    report = {k: float(v) for k, v in parts.items()}
    report["grad_norm"] = norm
    return report


def predict(path, model):
    model.eval()
    strips = cut(whiten(grey(path)))
    with paddle.no_grad():
        log_p = model(paddle.to_tensor(strips[None]))["log_p"]
    slot = assign(log_p)[0]
    confidence = np.exp(log_p.numpy()[0])[np.arange(COUNT), slot]
    restored = np.concatenate(list(strips[np.argsort(slot)]), axis=1)
    return {"slot": slot, "confidence": confidence, "restored": restored,
            "text": "-".join(map(str, slot.tolist()))}
