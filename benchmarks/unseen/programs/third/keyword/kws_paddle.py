"""Keyword spotting with a Siamese encoder -- PaddlePaddle, in one file."""
import dataclasses
import math
from functools import partial

import numpy as np
import paddle
from paddle import nn
from paddle.io import DataLoader, Dataset
from paddle.nn import functional as F


@dataclasses.dataclass(frozen=True)
class MelConfig:
    rate: int = 8000
    n_fft: int = 256
    window: int = 200
    hop: int = 80
    bands: int = 24
    low: float = 60.0
    high: float = 3800.0
    range_db: float = 60.0


@dataclasses.dataclass(frozen=True)
class Recipe:
    samples: int = 1600
    emphasis: float = 0.97
    batch: int = 8
    epochs: int = 6
    warmup: int = 3
    peak_lr: float = 0.05
    final_lr: float = 0.001
    momentum: float = 0.9
    decay: float = 5e-4
    margin: float = 1.2
    mel: MelConfig = MelConfig()


R = Recipe()


# --------------------------------------------------------------------------- waves

def as_float(x):
    return x.astype("float32") / 2 ** 15


def emphasise(x, c=R.emphasis):
    y = x.copy()
    y[1:] -= np.float32(c) * x[:-1]
    return y


def fit(x, n=R.samples):
    if len(x) >= n:
        begin = (len(x) - n) // 2
        return x[begin:begin + n]
    missing = n - len(x)
    return np.concatenate([np.zeros(missing // 2, x.dtype), x, np.zeros(missing - missing // 2, x.dtype)])


def peak(x):
    return x / (np.max(np.abs(x)) + 1e-6)


def transforms(split):
    return [as_float, emphasise, fit, peak]


def prepare(x):
    for f in transforms(None):
        x = f(x)
    return x.astype("float32")


class WordPairs(Dataset):
    def __init__(self, part):
        store = np.load("words.npz")
        self.waves, self.words = store["wave"], store["word"]
        table = np.genfromtxt("pairs.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
        table = table[table["part"] == part]
        self.index = np.stack([table["first"], table["second"]], axis=1)

    def __len__(self):
        return len(self.index)

    def __getitem__(self, k):
        first, second = self.index[k]
        same = self.words[first] == self.words[second]
        return prepare(self.waves[first]), prepare(self.waves[second]), np.float32(same)


build_dataset = WordPairs


def build_dataloader(split):
    return DataLoader(WordPairs(split), batch_size=R.batch)


# --------------------------------------------------------------------------- front end

def filter_bank(c):
    mel = lambda f: 2595.0 * np.log10(1.0 + f / 700.0)
    points = 700.0 * (10.0 ** (np.linspace(mel(c.low), mel(c.high), c.bands + 2) / 2595.0) - 1.0)
    f = np.arange(c.n_fft // 2 + 1) * c.rate / c.n_fft
    width = np.diff(points)
    slope = points[:, None] - f
    rising = -slope[:-2] / width[:-1, None]
    falling = slope[2:] / width[1:, None]
    return np.clip(np.minimum(rising, falling), 0, None) * (2.0 / (points[2:] - points[:-2]))[:, None]


def fourier_basis(c):
    """windowed cosines and sines; the window sits in the middle of n_fft samples"""
    n = np.arange(c.window)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * n / c.window)
    start = (c.n_fft - c.window) // 2
    full = np.zeros(c.n_fft)
    full[start:start + c.window] = window
    angle = 2 * np.pi * np.outer(np.arange(c.n_fft), np.arange(c.n_fft // 2 + 1)) / c.n_fft
    return full[:, None] * np.cos(angle), full[:, None] * np.sin(angle)


class FrontEnd(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.tables = {**dict(zip(("cos", "sin"), fourier_basis(c))), "bank": filter_bank(c).T}

    def table(self, name, like):
        return paddle.to_tensor(self.tables[name], dtype=like.dtype)

    def forward(self, wave):
        c = self.c
        half = c.n_fft // 2
        wave = F.pad(wave.unsqueeze(1), [half, half], mode="reflect", data_format="NCL").squeeze(1)
        count = 1 + (wave.shape[1] - c.n_fft) // c.hop
        frames = paddle.stack([wave[:, i * c.hop:i * c.hop + c.n_fft] for i in range(count)], axis=1)
        power = sum(paddle.square(frames @ self.table(part, wave)) for part in ("cos", "sin"))
        mel = paddle.clip(power @ self.table("bank", wave), min=1e-10)
        db = 10.0 * paddle.log10(mel)
        ceiling = db.max(axis=[1, 2], keepdim=True)
        db = paddle.maximum(db, ceiling - c.range_db)
        db = (db - db.mean(axis=1, keepdim=True)) / (db.std(axis=1, keepdim=True) + 1e-3)
        return db.transpose([0, 2, 1])


# --------------------------------------------------------------------------- network

class ConvNorm(nn.Layer):
    """convolution without bias, batch norm, and an activation by name"""

    ACT = {"relu": F.relu, "relu6": F.relu6, "hardswish": F.hardswish, None: lambda x: x}

    def __init__(self, cin, cout, kernel, stride=1, padding=0, groups=1, act="relu"):
        super().__init__()
        self.conv = nn.Conv2D(cin, cout, kernel, stride, padding, groups=groups, bias_attr=False)
        self.bn = nn.BatchNorm2D(cout)
        self.act = self.ACT[act]

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class Separable(nn.Layer):
    def __init__(self, cin, cout):
        super().__init__()
        self.depth = ConvNorm(cin, cin, 3, padding=1, groups=cin, act="relu6")
        self.point = ConvNorm(cin, cout, 1, act=None)
        self.residual = cin == cout

    def forward(self, x):
        y = self.point(self.depth(x))
        return F.hardswish(x + y if self.residual else y)


class Encoder(nn.Layer):
    def __init__(self, widths=(12, 16, 24), hidden=12, dim=16, reduction=4):
        super().__init__()
        w0, w1, w2 = widths
        self.front = FrontEnd(R.mel)
        self.trunk = nn.Sequential(
            ConvNorm(1, w0, (5, 3), stride=(2, 1), padding=(2, 1)),
            Separable(w0, w1),
            Separable(w1, w1),
            nn.AvgPool2D(3, stride=2, padding=1, exclusive=False),
            Separable(w1, w2),
        )
        self.gate_in = nn.Conv2D(w2, w2 // reduction, 1)
        self.gate_out = nn.Conv2D(w2 // reduction, w2, 1)
        self.score = nn.Sequential(nn.Linear(w2, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.embed = nn.Linear(2 * w2, dim)

    def pool(self, x):
        w = F.softmax(self.score(x), axis=1)
        mean = paddle.einsum("bto,btc->bc", w, x)
        second = paddle.einsum("bto,btc->bc", w, x * x)
        spread = paddle.sqrt(paddle.clip(second - mean * mean, min=1e-5))
        return paddle.concat([mean, spread], axis=1)

    def forward(self, wave):
        x = self.trunk(self.front(wave).unsqueeze(1))
        gate = F.sigmoid(self.gate_out(F.relu(self.gate_in(F.adaptive_avg_pool2d(x, 1)))))
        x = (x * gate).mean(axis=2)
        return F.normalize(self.embed(self.pool(x.transpose([0, 2, 1]))), axis=-1)


class TwoTowers(nn.Layer):
    def __init__(self):
        super().__init__()
        self.tower = Encoder()

    def forward(self, a, b):
        both = [self.tower(x) for x in (a, b)]
        gap = both[0] - both[1] + 1e-6
        return {"za": both[0], "zb": both[1], "distance": paddle.linalg.norm(gap, p=2, axis=1)}


def build_model():
    return TwoTowers()


# --------------------------------------------------------------------------- training

def contrastive(distance, same, margin):
    apart = F.relu(margin - distance)
    return paddle.where(same > 0.5, distance ** 2, apart ** 2).mean() / 2


def loss(out, same):
    return contrastive(out["distance"], same, R.margin)


def metric(out, same):
    d = out["distance"].numpy().astype("float64")
    y = same.numpy() > 0.5
    order = np.argsort(d, kind="stable")
    hits, alarms = np.cumsum(y[order]), np.cumsum(~y[order])
    miss, alarm = 1 - hits / y.sum(), alarms / (~y).sum()
    best = np.argmin(np.abs(miss - alarm))
    below = np.searchsorted(np.sort(d[y]), d[~y])
    return {"auc": below.mean() / y.sum(), "eer": (miss[best] + alarm[best]) / 2, "mean_gap": d[~y].mean() - d[y].mean()}


def warm_cosine(step, total, warmup, floor):
    """factor of the peak rate"""
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))


def build_optimizer(model):
    total = R.epochs * len(build_dataloader("train"))
    factor = partial(warm_cosine, total=total, warmup=R.warmup, floor=R.final_lr / R.peak_lr)
    rate = paddle.optimizer.lr.LambdaDecay(R.peak_lr, factor)
    return paddle.optimizer.Momentum(rate, momentum=R.momentum, parameters=model.parameters(), use_nesterov=True,
                                     weight_decay=R.decay)


def build_scheduler(optimizer):
    return optimizer._learning_rate


@paddle.no_grad()
def predict(path, model):
    store = np.load("words.npz")
    tower = model.tower
    encode = lambda waves: tower(paddle.to_tensor(np.stack([prepare(w) for w in waves])).astype(tower.embed.weight.dtype))
    prototypes = []
    for k in range(len(store["names"])):
        enrolled = store["wave"][store["word"] == k]
        prototypes.append(encode(enrolled[:4]).mean(axis=0))
    prototypes = F.normalize(paddle.stack(prototypes), axis=-1)
    query = encode([np.load(path)])
    scores = -paddle.linalg.norm(prototypes - query, axis=1).numpy()
    return {"scores": scores, "word": str(store["names"][scores.argmax()])}
