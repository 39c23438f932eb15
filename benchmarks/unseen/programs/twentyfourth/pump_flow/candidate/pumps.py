"""The pump telemetry flow in Paddle."""
import collections
import csv
import json
import math
from pathlib import Path

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, TruncatedNormal, Uniform

FOLDER = Path(__file__).resolve().parents[1] / "data"
NAMES = ["flow", "head", "current", "vibration", "temp", "noise"]
VALVE_ID = {"butterfly": 0, "gate": 1, "globe": 2, "none": 3}
N = len(NAMES)
LAYERS = 4
LIMIT = 1.6

PATTERN = paddle.to_tensor([[1, 0, 1, 0, 1, 0],
                            [0, 1, 0, 1, 0, 1],
                            [1, 1, 1, 0, 0, 0],
                            [0, 0, 0, 1, 1, 1]], dtype="float32")


def flat_linear(n_in, n_out, slope=None):
    """slope given: He law of a leaky ReLU; otherwise the near-zero head of a coupling."""
    if slope is None:
        return nn.Linear(n_in, n_out, weight_attr=Uniform(-0.08, 0.08), bias_attr=Constant(0.0))
    he = math.sqrt(6.0 / ((1 + slope ** 2) * n_in))
    edge = n_in ** -0.5
    return nn.Linear(n_in, n_out, weight_attr=Uniform(-he, he), bias_attr=Uniform(-edge, edge))


def vector(value):
    return nn.Embedding(1, N, weight_attr=Constant(value))


class Pumps(nn.Layer):
    def __init__(self, hidden=18, ctx=10):
        super().__init__()
        parts = collections.OrderedDict()
        parts["valve"] = nn.Embedding(len(VALVE_ID), 3, weight_attr=TruncatedNormal(0.0, 0.3, a=-0.6, b=0.6))
        parts["ctx"] = flat_linear(5 + 3, ctx, slope=0.1)
        for k in range(LAYERS):
            parts["a%d" % k] = flat_linear(N + ctx, hidden, slope=0.1)
            parts["b%d" % k] = flat_linear(hidden, 2 * N)
            parts["rescale%d" % k] = vector(0.0)
        parts["tail"] = vector(1.5)
        self.net = nn.LayerDict(parts)

    def context(self, cond, valve):
        joined = paddle.concat([cond, self.net["valve"](valve)], axis=-1)
        return paddle.tanh(self.net["ctx"](joined))

    def shift_scale(self, k, x, ctx):
        mask = PATTERN[k % 4]
        first = self.net["a%d" % k]
        # the weight is split by hand: masked sensors and context enter separately
        h = paddle.matmul(x * mask, first.weight[:N]) + paddle.matmul(ctx, first.weight[N:])
        h = F.leaky_relu(h + first.bias, negative_slope=0.1)
        both = self.net["b%d" % k](h)
        s = LIMIT * paddle.tanh(both[:, :N] / LIMIT)
        s = s * paddle.exp(self.net["rescale%d" % k].weight[0])
        free = 1.0 - mask
        return s * free, both[:, N:] * free

    def forward(self, x, cond, valve):
        ctx = self.context(cond, valve)
        dets = []
        for k in range(LAYERS):
            s, t = self.shift_scale(k, x, ctx)
            x = x * paddle.exp(s) + t
            x = paddle.concat([x[:, -1:], x[:, :-1]], axis=1)
            dets.append(s.sum(axis=1))
        scales = paddle.stack(dets, axis=1)
        logdet = scales.sum(axis=1)
        nu = paddle.exp(self.net["tail"].weight) + 2.0
        half = 0.5 * (nu + 1.0)
        const = paddle.lgamma(half) - paddle.lgamma(0.5 * nu) - 0.5 * paddle.log(math.pi * nu)
        base = const - half * paddle.log1p(paddle.square(x) / nu)
        return dict(z=x, logdet=logdet, logp=base.sum(axis=1) + logdet, scales=scales)

    def invert(self, z, cond, valve):
        ctx = self.context(cond, valve)
        for k in range(LAYERS - 1, -1, -1):
            z = paddle.concat([z[:, 1:], z[:, :1]], axis=1)
            s, t = self.shift_scale(k, z, ctx)
            z = (z - t) / paddle.exp(s)
        return z


def build_model():
    return Pumps()


# ------------------------------------------------------------------------ data
def table(split):
    with open(FOLDER / f"{split}.csv", newline="") as f:
        return [dict(r) for r in csv.DictReader(f)]


def measure(row):
    out = np.array([float(row[n]) for n in NAMES])
    out[NAMES.index("vibration")] = np.log(out[NAMES.index("vibration")] + 1e-3)
    return out


_cache = {}


def centre_and_scale():
    if not _cache:
        good = np.stack([measure(r) for r in table("train") if int(r["fault"]) == 0])
        q1, q2, q3 = np.percentile(good, [25, 50, 75], axis=0)
        _cache["stat"] = q2, (q3 - q1) / 1.349
    return _cache["stat"]


def featurise(row):
    mid, scale = centre_and_scale()
    x = np.clip((measure(row) - mid) / scale, -6.0, 6.0)
    turns = np.array([float(row["hour"]) / 24.0, (float(row["day"]) - 1.0) / 365.25]) * 2.0 * math.pi
    waves = np.stack([np.sin(turns), np.cos(turns)], axis=1).reshape(-1)
    cond = np.append(waves, float(row["speed"]) / 100.0)
    return x.astype("float32"), cond.astype("float32"), np.int64(VALVE_ID[row["valve"]])


class Telemetry(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        rows = [r for r in table(split) if r["status"] != "maintenance"]
        if split == "train":
            rows.sort(key=lambda r: int(r["day"]) * 24 + float(r["hour"]))
        self.features = [featurise(r) for r in rows]
        self.fault = [np.int64(r["fault"]) for r in rows]
        self.trust = [np.float32({"suspect": 0.5}.get(r["status"], 1.0)) for r in rows]

    def __len__(self):
        return len(self.features)

    def __getitem__(self, i):
        return self.features[i] + ({"fault": self.fault[i], "trust": self.trust[i]},)


def build_dataset(split):
    return Telemetry(split)


def build_dataloader(split):
    size = {"train": 16, "val": 25}[split]
    return paddle.io.DataLoader(Telemetry(split), batch_size=size, shuffle=split == "train")


# ------------------------------------------------------------------- objective
def lower_median(v):
    return paddle.sort(v)[(v.shape[0] - 1) // 2]


def loss(outputs, labels):
    logp = outputs["logp"]
    fixed = logp.detach()
    keep = F.sigmoid((fixed - lower_median(fixed) + 1.5) / 0.8) * labels["trust"]
    keep = keep * (1.0 - 0.75 * labels["fault"].astype("float32"))
    nll = -paddle.dot(keep, logp) / keep.sum()
    volume = (outputs["scales"] ** 2).mean()
    z = outputs["z"]
    mean = z.mean(axis=0)
    spread = paddle.var(z, axis=0, unbiased=False)
    moment = (mean * mean).sum() + (spread - 1.0).abs().mean()
    total = nll / N + 0.02 * volume + 0.05 * moment
    return dict(loss=total, nll=nll, volume=volume, moment=moment)


def metric(outputs, labels):
    score = -outputs["logp"].detach().numpy().astype("float64")
    y = labels["fault"].numpy()
    ranks = np.array([(score < s).sum() + 0.5 * ((score == s).sum() + 1) for s in score])
    n1 = int(y.sum())
    n0 = len(y) - n1
    auroc = (ranks[y == 1].sum() - n1 * (n1 + 1) / 2) / max(n1 * n0, 1)
    ranked = y[np.argsort(-score, kind="stable")]
    found, ap = 0, 0.0
    for place, label in enumerate(ranked, start=1):
        if label:
            found += 1
            ap += found / place
    top = max(n1, 1)
    return {"bits_per_dim": float(score[y == 0].mean() / N / math.log(2)), "auroc": float(auroc),
            "r_precision": float(ranked[:top].mean()), "ap": float(ap / top),
            "q95": float(np.percentile(score[y == 0], 95))}


# -------------------------------------------------------------------- training
class WarmRestarts(paddle.optimizer.lr.LRScheduler):
    def __init__(self, base, warm=10, period=34, shrink=0.7):
        self.warm, self.period, self.shrink = warm, period, shrink
        super().__init__(base)

    def get_lr(self):
        n = self.last_epoch
        if n < self.warm:
            return self.base_lr * (n + 1) / self.warm
        cycle = (n - self.warm) // self.period
        at = (n - self.warm) % self.period
        wave = 0.5 + 0.5 * math.cos(math.pi * at / self.period)
        return self.base_lr * self.shrink ** cycle * (0.05 + 0.95 * wave)


class CentredRMS:
    """RMSprop as PyTorch does it (epsilon outside of the root), with momentum."""

    def __init__(self, learning_rate, groups, alpha, eps, momentum):
        self._learning_rate = learning_rate
        self._groups = groups
        self._parameter_list = [p for g in groups for p in g["params"]]
        self.alpha, self.eps, self.momentum = alpha, eps, momentum
        self.memory = [{k: paddle.zeros_like(p) for k in ("square", "mean", "velocity")}
                       for p in self._parameter_list]

    def get_lr(self):
        return self._learning_rate()

    def clear_grad(self, set_to_zero=False):
        for p in self._parameter_list:
            p.clear_gradient(set_to_zero)

    @paddle.no_grad()
    def step(self):
        memory = iter(self.memory)
        for group in self._groups:
            rate = self.get_lr() * group["learning_rate"]
            for p in group["params"]:
                m = next(memory)
                if p.grad is None:
                    continue
                g = p.grad + group["weight_decay"] * p
                m["square"] = self.alpha * m["square"] + (1 - self.alpha) * g * g
                m["mean"] = self.alpha * m["mean"] + (1 - self.alpha) * g
                root = paddle.sqrt(m["square"] - m["mean"] * m["mean"])
                m["velocity"] = self.momentum * m["velocity"] + g / (root + self.eps)
                p.set_value(p - rate * m["velocity"])

    def state_dict(self):
        flat = {f"{i}.{k}": v for i, m in enumerate(self.memory) for k, v in m.items()}
        return {**flat, "LR_Scheduler": self._learning_rate.state_dict()}

    def set_state_dict(self, state):
        for i, m in enumerate(self.memory):
            for k in m:
                m[k] = paddle.to_tensor(state[f"{i}.{k}"]).clone()
        self._learning_rate.set_state_dict(state["LR_Scheduler"])


def build_optimizer(model):
    slow, fast, context = [], [], []
    for name, p in model.named_parameters():
        if "rescale" in name or "tail" in name:
            slow.append(p)
        elif ".ctx." in name:
            context.append(p)
        else:
            fast.append(p)
    groups = [{"params": context, "learning_rate": 1.0, "weight_decay": 1e-3},
              {"params": fast, "learning_rate": 1.0, "weight_decay": 0.0},
              {"params": slow, "learning_rate": 0.25, "weight_decay": 0.0}]
    return CentredRMS(WarmRestarts(2e-3), groups, alpha=0.95, eps=1e-7, momentum=0.6)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    x, cond, valve, labels = batch
    optimizer.clear_grad()
    out = model(x, cond, valve)
    parts = loss(out, labels)
    parts["loss"].backward()
    for p in model.parameters():
        if p.grad is not None:
            p.grad = paddle.clip(p.grad.detach(), -0.05, 0.05)
    optimizer.step()
    report = {k: float(v) for k, v in parts.items()}
    report["logp"] = float(out["logp"].mean())
    return report


def predict(path, model):
    model.eval()
    log = json.loads(Path(path).read_text())
    rows = []
    for reading in log["readings"]:
        row = dict(log["common"])
        row.update(reading)
        rows.append(row)
    x, cond, valve = [paddle.to_tensor(np.stack(c)) for c in zip(*[featurise(r) for r in rows])]
    with paddle.no_grad():
        out = model(x, cond, valve)
        radius = paddle.sqrt((out["z"] ** 2).sum(axis=1, keepdim=True))
        edge = N ** 0.5
        inside = paddle.where(radius > edge, out["z"] * (edge / radius), out["z"])
        repaired = model.invert(inside, cond, valve)
    mid, scale = centre_and_scale()
    values = repaired.numpy().astype("float64") * scale + mid
    values[:, 3] = np.exp(values[:, 3]) - 1e-3
    change = np.abs(repaired.numpy() - x.numpy()).argmax(axis=1)
    odd = radius.numpy()[:, 0] > edge
    return {"score": -out["logp"].numpy() / N, "repaired": values,
            "sensor": " ".join(NAMES[i] if flag else "-" for i, flag in zip(change, odd)),
            "odd": odd.astype("int32")}
