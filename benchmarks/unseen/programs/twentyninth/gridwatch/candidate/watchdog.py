"""Locate the faulted line of a small transmission grid from bus readings (PaddlePaddle)."""
import json
import math
import os
import sys

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import grid_io as gio  # noqa: E402

NET = gio.read_grid()
BUSES, LINES = len(NET["names"]), len(NET["pairs"])
EVENTS = gio.read_events(BUSES)
SCALER = gio.Scaler([g for s, _, _, g in EVENTS if s == "train"])


class Plan:
    width = 24
    layers = (("edge-attention", dict(heads=3, slope=0.2)), ("edge-attention", dict(heads=4, slope=0.1)))
    terms = (("location", 1.0), ("severity", 0.6), ("early_exit", 0.25))
    calm_weight = 0.4
    smoothing = 0.06
    knee = 0.15
    temperature = 2.0
    batch = 12
    rate, head_ratio = 3e-3, 2.0
    decay, head_decay = 0.05, 0.01
    warmup, total, floor = 9, 48, 0.05
    max_norm = 1.0


class Layer(nn.Layer):
    known = {}

    def __init_subclass__(cls, tag=None, **kw):
        super().__init_subclass__(**kw)
        if tag:
            Layer.known[tag] = cls


def dense(i, o, law, bias=0.0):
    return nn.Linear(i, o, weight_attr=paddle.ParamAttr(initializer=law),
                     bias_attr=False if bias is None else paddle.ParamAttr(initializer=I.Constant(bias)))


def head(i, o, bias=0.0):
    edge = 1.0 / math.sqrt(i)
    return dense(i, o, I.Uniform(-edge, edge), bias)


class DenseEdgeAttention(Layer, tag="edge-attention"):
    """Attention of every bus over its neighbours and itself, on a full N x N table."""

    def __init__(self, width, heads, slope):
        super().__init__()
        self.heads, self.slope, self.size = heads, slope, width // heads
        self.query = dense(width, width, I.XavierNormal())
        self.key = dense(width, width, I.XavierNormal(), None)
        self.value = dense(width, width, I.XavierNormal())
        self.edge = dense(2, width, I.XavierNormal(), None)
        self.att = self.create_parameter(
            [heads, self.size], default_initializer=I.Normal(0.0, 1.0 / math.sqrt(self.size)))
        self.out = dense(width, width, I.XavierNormal())
        self.norm = nn.LayerNorm(width, epsilon=1e-6)

    def forward(self, h, table, closed):
        n = h.shape[1]
        parts = [-1, n, self.heads, self.size]
        q = self.query(h).reshape(parts)
        k = self.key(h).reshape(parts)
        v = self.value(h).reshape(parts)
        e = self.edge(table).reshape([1, n, n, self.heads, self.size])
        mix = F.leaky_relu(q.unsqueeze(2) + k.unsqueeze(1) + e, negative_slope=self.slope)
        score = paddle.einsum("bijhd,hd->bhij", mix, self.att)
        weight = F.softmax(score + closed, axis=-1)
        moved = paddle.einsum("bhij,bjhd->bihd", weight, v).flatten(2)
        return self.norm(h + F.elu(self.out(moved)))


class GridNet(Layer):
    def __init__(self):
        super().__init__()
        w = Plan.width
        self.kind = nn.Embedding(3, 6, weight_attr=paddle.ParamAttr(initializer=I.Normal(0.0, 0.5)))
        self.lift = dense(len(gio.FIELDS) + 7, w, I.XavierNormal())
        self.blocks = nn.LayerList([Layer.known[t](width=w, **kw) for t, kw in Plan.layers])
        self.early_line = head(2 * w + 2, 1)
        self.early_calm = head(w, 1, bias=-0.5)
        self.head_line = nn.Sequential(head(2 * w + 2, w), nn.ELU(), head(w, 1))
        self.head_calm = head(w, 1, bias=-0.5)
        self.head_severity = head(2 * w, 1)

        table = np.zeros((BUSES, BUSES, 2), "float32")
        closed = np.full((BUSES, BUSES), -1e9, "float32")
        np.fill_diagonal(closed, 0.0)
        incidence = np.zeros((2, LINES, BUSES), "float32")
        for k, (a, b) in enumerate(NET["pairs"]):
            table[a, b] = table[b, a] = NET["table"][k]
            closed[a, b] = closed[b, a] = 0.0
            incidence[0, k, a], incidence[0, k, b] = 1.0, 1.0
            incidence[1, k, a], incidence[1, k, b] = 1.0, -1.0
        self.table = paddle.to_tensor(table)
        self.closed = paddle.to_tensor(closed)
        self.plus, self.minus = paddle.to_tensor(incidence[0]), paddle.to_tensor(incidence[1])
        self.lines = paddle.to_tensor(NET["table"])
        self.kinds = paddle.to_tensor(NET["kinds"])

    def couple(self, h):
        fixed = self.lines.unsqueeze(0).tile([h.shape[0], 1, 1])
        return paddle.concat([self.plus @ h, (self.minus @ h).abs(), fixed], axis=-1)

    def forward(self, x):
        own = self.kind(self.kinds).unsqueeze(0).tile([x.shape[0], 1, 1])
        h = F.tanh(self.lift(paddle.concat([x, own], axis=-1)))
        h = first = self.blocks[0](h, self.table, self.closed)
        for block in self.blocks[1:]:
            h = block(h, self.table, self.closed)
        mean = h.mean(axis=1)
        calm = self.early_calm(first.mean(axis=1))
        return {
            "logits": paddle.concat([self.head_line(self.couple(h))[..., 0], self.head_calm(mean)], axis=1),
            "early": paddle.concat([self.early_line(self.couple(first))[..., 0], calm], axis=1),
            "severity": F.softplus(self.head_severity(paddle.concat([mean, h.max(axis=1)], axis=-1)))[:, 0],
        }


class Objective:
    def __init__(self):
        scale = np.ones(LINES + 1, "float32")
        scale[LINES] = Plan.calm_weight
        self.scale = paddle.to_tensor(scale)

    def location(self, out, labels):
        logp = F.log_softmax(out["logits"], axis=-1)
        hot = F.one_hot(labels["line"], LINES + 1)
        soft = hot * (1 - Plan.smoothing) + Plan.smoothing / (LINES + 1)
        mass = (hot * self.scale).sum()
        return -(soft * self.scale * logp).sum() / mass

    def severity(self, out, labels):
        real = (labels["line"] != LINES).astype("float32")
        each = F.smooth_l1_loss(out["severity"], labels["severity"], reduction="none", delta=Plan.knee) / Plan.knee
        return (each * real).sum() / paddle.clip(real.sum(), min=1.0)

    def early_exit(self, out, labels):
        t = Plan.temperature
        aim = F.log_softmax(out["logits"].detach() / t, axis=-1)
        got = F.log_softmax(out["early"] / t, axis=-1)
        return t ** 2 * (aim.exp() * (aim - got)).sum(axis=-1).mean()

    def __call__(self, out, labels):
        parts, total = {}, 0.0
        for name, weight in Plan.terms:
            parts[name] = getattr(self, name)(out, labels)
            total = total + weight * parts[name]
        return {**parts, "loss": total}


loss = Objective()


class Score:
    far = gio.shortest(BUSES, NET["pairs"])

    def __init__(self, logits, line, severity, truth):
        self.logits, self.line = logits, line
        self.guess = logits.argmax(1)
        self.real = line != LINES
        self.gap = np.abs(severity - truth)

    def top1(self):
        return np.mean(self.guess == self.line)

    def top3(self):
        mine = np.take_along_axis(self.logits, self.line[:, None], axis=1)
        return np.mean((self.logits > mine).sum(1) < 3)

    def balanced(self):
        good = np.bincount(self.line, weights=self.guess == self.line, minlength=LINES + 1)
        seen = np.bincount(self.line, minlength=LINES + 1)
        return (good[seen > 0] / seen[seen > 0]).mean()

    def hops(self):
        total = count = 0
        for row, t in zip(self.logits[self.real], self.line[self.real]):
            g = int(row[:LINES].argmax())
            total += self.far[np.ix_(NET["pairs"][g], NET["pairs"][t])].min() + int(g != t)
            count += 1
        return total / max(count, 1)

    def severity_mae(self):
        return self.gap[self.real].sum() / max(self.real.sum(), 1)


def metric(outputs, labels):
    score = Score(*(np.asarray(t) for t in
                    (outputs["logits"], labels["line"], outputs["severity"], labels["severity"])))
    return {k: float(getattr(score, k)()) for k in ("top1", "top3", "balanced", "hops", "severity_mae")}


class Events(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        self.items = [e[1:] for e in EVENTS if e[0] == split]

    def __getitem__(self, index):
        fault, severity, grid = self.items[index]
        line = NET["labels"].index(fault) if fault != gio.CALM else LINES
        return SCALER(grid), {"line": np.int64(line), "severity": np.float32(severity)}

    def __len__(self):
        return len(self.items)


def build_model():
    return GridNet()


def build_dataset(split):
    return Events(split)


def build_dataloader(split):
    return paddle.io.DataLoader(Events(split), batch_size=Plan.batch, shuffle=split == "train", drop_last=False)


class WarmCosine(paddle.optimizer.lr.LRScheduler):
    def __init__(self, base, warmup, total, floor):
        self.warmup, self.total, self.floor = warmup, total, floor
        super().__init__(learning_rate=base)

    def get_lr(self):
        t = self.last_epoch
        if t < self.warmup:
            return self.base_lr * (t + 1) / (self.warmup + 1)
        wave = math.cos(math.pi * min(t - self.warmup, self.total - self.warmup) / (self.total - self.warmup))
        return self.base_lr * (self.floor + (1.0 - self.floor) * (1.0 + wave) / 2.0)


def build_optimizer(model):
    body, plain, heads = [], [], []
    for name, p in model.named_parameters():
        if name.split(".")[0].startswith("head_"):
            heads.append(p)
        elif len(p.shape) > 1 and not name.startswith("kind.") and not name.endswith(".att"):
            body.append(p)
        else:
            plain.append(p)
    groups = [
        {"params": body, "weight_decay": Plan.decay},
        {"params": plain, "weight_decay": 0.0},
        {"params": heads, "weight_decay": Plan.head_decay, "learning_rate": Plan.head_ratio},
    ]
    return paddle.optimizer.AdamW(learning_rate=Plan.rate, parameters=groups, beta1=0.9, beta2=0.98, epsilon=1e-7)


def build_scheduler(optimizer):
    plan = WarmCosine(Plan.rate, Plan.warmup, Plan.total, Plan.floor)
    optimizer.set_lr_scheduler(plan)
    return plan


def train_step(model, optimizer, batch):
    model.train()
    x, labels = batch
    parts = loss(model(x), labels)
    parts["loss"].backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = math.sqrt(sum(float((g ** 2).sum()) for g in grads))
    if norm > Plan.max_norm:
        with paddle.no_grad():
            for g in grads:
                g.scale_(Plan.max_norm / (norm + 1e-6))
    optimizer.step()
    optimizer.clear_grad()
    report = {k: float(v) for k, v in parts.items()}
    report["grad_norm"] = norm
    return report


def predict(path, model):
    model.eval()
    with open(path) as fh:
        readings = json.load(fh)["readings"]
    columns = []
    for channel in ("voltage", "angle", "power"):
        got = readings[channel]
        columns.append([np.nan if got.get(b) is None else got[b] for b in NET["names"]])
    grid = np.array(columns, dtype="float64").T
    with paddle.no_grad():
        out = model(paddle.to_tensor(SCALER(grid)).unsqueeze(0))
    p = F.softmax(out["logits"], axis=-1).numpy()[0]
    fault = 1 - p[LINES]
    ranked = sorted(range(LINES), key=lambda i: -p[i])
    reach = np.cumsum(p[ranked] / fault)
    keep = int(np.searchsorted(reach, 0.5)) + 1
    suspects = [NET["labels"][i] for i in ranked[:keep]]
    state = "ALARM" if fault > 0.9 else "calm"
    return {
        "probabilities": p,
        "suspects": suspects,
        "severity": np.asarray(out["severity"].numpy()[0] * fault),
        "message": f"{state} {suspects[0]}",
    }
