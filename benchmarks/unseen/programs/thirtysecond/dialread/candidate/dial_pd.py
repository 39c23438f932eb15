"""Gauge reader, Paddle edition.  The parts live in dial_parts (layers) and dial_data (files)."""
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

import dial_data
from dial_data import GAUGES, GaugeTiles, TilePasses
from dial_parts import PARTS


class ReaderHeads(nn.Layer):
    """Three small heads under the names the trunk's outputs have."""

    def __init__(self, pooled, full):
        super().__init__()
        self.direction = PARTS.make("head/direction", full)
        self.kind = PARTS.make("head/kind", pooled, len(GAUGES))
        self.span = PARTS.make("head/span", full)


class GaugeReader(nn.Layer):
    WIDTHS = (12, 16, 16, 24)
    STRIDES = (2, 1, 2)

    def __init__(self):
        super().__init__()
        self.stem = PARTS.make("stem", 4, self.WIDTHS[0])
        self.blocks = nn.LayerList([
            PARTS.make("sep", a, b, s) for a, b, s in zip(self.WIDTHS, self.WIDTHS[1:], self.STRIDES)])
        self.gem = PARTS.make("gem", 3.0)
        last = self.WIDTHS[-1]
        self.where = PARTS.make("softargmax", 2.0)
        self.heads = ReaderHeads(last, 3 * last)
        self.temper = self.create_parameter(
            [3], default_initializer=nn.initializer.Assign(np.array([0.0, 0.5, -0.5], "float32")))

    def forward(self, image):
        x = self.stem(PARTS.call("coords", image))
        for block in self.blocks:
            x = block(x)
        pooled = self.gem(x)
        full = paddle.concat([pooled, self.where(x)], axis=1)
        return dict(direction=self.heads.direction(full), kind=self.heads.kind(pooled),
                    span=self.heads.span(full), temper=self.temper)


def build_model():
    return GaugeReader()


def build_dataset(split):
    return GaugeTiles(split)


def build_dataloader(split):
    tiles = build_dataset(split)
    if split == "train":
        return paddle.io.DataLoader(tiles, batch_sampler=TilePasses(len(tiles), 12))
    return paddle.io.DataLoader(tiles, batch_size=12, shuffle=False)


# ------------------------------------------------------------------ criterion
CLASS_WEIGHT = (0.7, 1.1, 1.6)
SMOOTHING = 0.1


def _pointing(outputs, labels):
    target = paddle.stack([paddle.cos(labels["angle"]), paddle.sin(labels["angle"])], axis=1)
    miss = 1 - (outputs["direction"] * target).sum(axis=1)
    return paddle.mean(miss * (labels["span"] + 0.5))


def _sorting(outputs, labels):
    weight = paddle.to_tensor(CLASS_WEIGHT, dtype="float32")
    logp = F.log_softmax(outputs["kind"], axis=-1)
    onehot = F.one_hot(labels["kind"], len(GAUGES))
    mixed = onehot * (1 - SMOOTHING) + SMOOTHING / len(GAUGES)
    total = -(logp * mixed * weight).sum()
    return total / (onehot * weight).sum()


def _spanning(outputs, labels):
    d = paddle.abs(outputs["span"] - labels["span"])
    beta = 0.2
    return paddle.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta).mean()


CRITERIA = (("direction", _pointing), ("kind", _sorting), ("span", _spanning))


def loss(outputs, labels):
    values = [fn(outputs, labels) for _, fn in CRITERIA]
    s = outputs["temper"]
    total = (paddle.stack(values) * paddle.exp(-s) + 0.5 * s).sum()
    result = {"loss": total}
    result.update({name: v for (name, _), v in zip(CRITERIA, values)})
    return result


def metric(outputs, labels):
    out = {k: v.detach().numpy() for k, v in outputs.items()}
    lab = {k: v.numpy() for k, v in labels.items()}
    est = np.arctan2(out["direction"][:, 1], out["direction"][:, 0])
    turn = est - lab["angle"]
    err = np.degrees(np.arctan2(np.sin(turn), np.cos(turn)))
    guess = out["kind"].argmax(1)
    scores = []
    for c in range(len(GAUGES)):
        said, true = guess == c, lab["kind"] == c
        if said.sum() + true.sum() == 0:
            continue
        scores.append(2.0 * (said & true).sum() / (said.sum() + true.sum()))
    size = np.abs(err)
    return {"angle_mae": float(size.mean()),
            "angle_median": float(np.median(size)),
            "angle_spread": float(err.std(ddof=1)),
            "within_45": float((size <= 45).mean()),
            "kind_acc": float((guess == lab["kind"]).mean()),
            "kind_f1": float(np.mean(scores)),
            "span_rmse": float(np.sqrt(((out["span"] - lab["span"]) ** 2).mean()))}


# ------------------------------------------------------------------ training
PEAK = 0.05
WARM = 6


def build_optimizer(model):
    buckets = {"trunk": [], "head": [], "flat": []}
    for name, p in model.named_parameters():
        where = "flat" if len(p.shape) == 1 else "head" if name.split(".")[0] == "heads" else "trunk"
        buckets[where].append(p)
    warm = paddle.optimizer.lr.LinearWarmup(
        paddle.optimizer.lr.MultiStepDecay(PEAK, milestones=[18, 36], gamma=0.3),
        warmup_steps=WARM, start_lr=0.2 * PEAK, end_lr=PEAK)
    return paddle.optimizer.Momentum(
        learning_rate=warm, momentum=0.9, use_nesterov=True,
        parameters=[{"params": buckets["trunk"], "weight_decay": 5e-3},
                    {"params": buckets["head"], "weight_decay": 1e-3, "learning_rate": 2.0},
                    {"params": buckets["flat"], "weight_decay": 0.0}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def _clip(params, limit):
    """One norm over all the groups."""
    owners = [p for p in params if p.grad is not None]
    norm = float(paddle.sqrt(sum((p.grad * p.grad).sum() for p in owners)))
    scale = limit / (norm + 1e-6)
    if scale < 1:
        for p in owners:
            p.grad = p.grad * scale
    return norm


def train_step(model, optimizer, batch, pieces=2):
    model.train()
    image, labels = batch
    n = image.shape[0]
    optimizer.clear_grad()
    log = {}
    size = 12 // pieces
    lo = 0
    while lo < n:
        hi = min(lo + size, n)
        terms = loss(model(image[lo:hi]), {k: v[lo:hi] for k, v in labels.items()})
        share = (hi - lo) / n
        (terms["loss"] * share).backward()
        for k, v in terms.items():
            log[k] = log.get(k, 0.0) + float(v) * share
        lo = hi
    log["norm"] = _clip(model.parameters(), 1.0)
    optimizer.step()
    return log


# ------------------------------------------------------------------ inference
def predict(path, model):
    model.eval()
    tile = dial_data.standardise(dial_data.load_grey(path))
    views = [np.rot90(tile, k) for k in range(4)]
    with paddle.no_grad():
        out = model(paddle.to_tensor(np.stack(views)[:, None].astype("float32")))
    d = out["direction"].numpy()
    back = np.arctan2(d[:, 1], d[:, 0]) - np.arange(4, dtype="float32") * np.float32(math.pi / 2)
    c, s = np.cos(back).mean(), np.sin(back).mean()
    degrees = math.degrees(math.atan2(s, c))
    prob = F.softmax(out["kind"], axis=-1).mean(axis=0).numpy()
    sweep = (225.0 - degrees) % 360.0
    return {"degrees": np.array([degrees], "float32"),
            "agreement": np.array([math.hypot(c, s)], "float32"),
            "turns": np.degrees(back),
            "prob": prob,
            "kind": GAUGES[int(prob.argmax())],
            "span": np.array([float(out["span"].mean())], "float32"),
            "fraction": np.array([min(sweep / 270.0, 1.0)], "float32")}
