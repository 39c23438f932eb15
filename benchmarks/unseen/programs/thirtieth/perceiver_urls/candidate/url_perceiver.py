"""Perceiver over URL bytes, PaddlePaddle, with projections kept apart and an AdaBelief of its own."""
import os
from types import SimpleNamespace

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, Normal, TruncatedNormal, XavierUniform

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
NAMES = ("academic", "normal", "phishing")
cfg = SimpleNamespace(length=40, bands=4, top=20.0, byte=15, slots=5, width=24, heads=4, passes=3,
                      lr=8e-3, decay=0.02, warm=12, gamma=1.5, drop=0.1, batch=10)
cfg.features = cfg.byte + 2 * cfg.bands + 1


class Attention(nn.Layer):
    """softmax(q k / sqrt(d)) v with separate projections; `allowed` is True where one may look."""

    def __init__(self, width, source, heads, drop=0.0):
        super().__init__()
        self.heads, self.drop = heads, drop
        make = lambda n: nn.Linear(n, width, Normal(0.0, n ** -0.5), bias_attr=False)
        self.q, self.k, self.v = make(width), make(source), make(source)
        self.out = nn.Linear(width, width, XavierUniform(), bias_attr=False)

    def split(self, t):
        return t.reshape([t.shape[0], t.shape[1], self.heads, -1]).transpose([0, 2, 1, 3])

    def forward(self, x, source, allowed=None):
        q, k, v = self.split(self.q(x)), self.split(self.k(source)), self.split(self.v(source))
        score = paddle.matmul(q * q.shape[-1] ** -0.5, k, transpose_y=True)
        if allowed is not None:
            score = score + (1.0 - allowed.astype(score.dtype)[:, None, None]) * -1e9
        mix = F.dropout(F.softmax(score), self.drop, training=self.training)
        return self.out(paddle.matmul(mix, v).transpose([0, 2, 1, 3]).flatten(2))


class Residual(nn.Layer):
    """Pre-norm around any layer; further arguments go through."""

    def __init__(self, fn, source=None):
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(cfg.width)
        self.norm_source = nn.LayerNorm(source) if source else None

    def forward(self, z, source=None, allowed=None):
        h = self.norm(z)
        if isinstance(self.fn, Attention):
            return z + self.fn(h, self.norm_source(source) if self.norm_source else h, allowed)
        return z + self.fn(h)


class GatedGelu(nn.Layer):
    def __init__(self, n):
        super().__init__()
        self.down = nn.Linear(2 * n, n, XavierUniform(), Constant(0.0))
        self.up = nn.Linear(n, 4 * n, XavierUniform(), Constant(0.0))

    def forward(self, x):
        value, gate = paddle.split(self.up(x), 2, axis=-1)
        return self.down(F.gelu(gate) * value)


class Pass(nn.Layer):
    def __init__(self):
        super().__init__()
        w = cfg.width
        self.look = Residual(Attention(w, cfg.features, 1), source=cfg.features)
        self.look_mlp = Residual(GatedGelu(w))
        self.think = Residual(Attention(w, w, cfg.heads, cfg.drop))
        self.think_mlp = Residual(GatedGelu(w))

    def forward(self, z, x, allowed):
        z = self.look_mlp(self.look(z, x, allowed))
        return self.think_mlp(self.think(z))


class UrlPerceiver(nn.Layer):
    def __init__(self):
        super().__init__()
        self.classifier = nn.Linear(cfg.width, len(NAMES), XavierUniform(), Constant(0.0))
        self.norm = nn.LayerNorm(cfg.width)
        self.opening, self.again = Pass(), Pass()
        self.slots = self.create_parameter(
            [1, cfg.slots, cfg.width], default_initializer=TruncatedNormal(std=0.02, a=-0.04, b=0.04))
        self.embedding = nn.Embedding(128, cfg.byte, padding_idx=0, weight_attr=Normal(0.0, 0.3))

    @property
    def position(self):
        where = np.linspace(-1, 1, cfg.length)[:, None]
        angle = np.pi * where * np.linspace(1, cfg.top / 2, cfg.bands)
        return paddle.to_tensor(np.hstack([np.sin(angle), np.cos(angle), where]).astype("float32"))

    def forward(self, tokens):
        b = tokens.shape[0]
        x = paddle.concat([self.embedding(tokens), self.position.unsqueeze(0).tile([b, 1, 1])], axis=2)
        z, allowed = self.slots.tile([b, 1, 1]), tokens != 0
        z = self.opening(z, x, allowed)
        for _ in range(cfg.passes - 1):
            z = self.again(z, x, allowed)
        return self.classifier(self.norm(z).mean(axis=1))


class AdaBelief(paddle.optimizer.Optimizer):
    """Adam whose second moment measures how far the gradient is from its own mean."""

    def __init__(self, learning_rate, parameters, decay, beta1=0.9, beta2=0.99):
        super().__init__(learning_rate, parameters)
        self.decay, self.b1, self.b2 = decay, beta1, beta2
        self.moments, self.t = {}, 0

    @paddle.no_grad()
    def step(self):
        self.t += 1
        lr, c1, c2 = self.get_lr(), 1 - self.b1 ** self.t, 1 - self.b2 ** self.t
        for p in self._parameter_list:
            g = p.grad
            if g is None:
                continue
            m, s = self.moments.get(p.name) or (paddle.zeros_like(p), paddle.zeros_like(p))
            m = self.b1 * m + (1 - self.b1) * g
            s = self.b2 * s + (1 - self.b2) * (g - m).square() + 1e-10
            self.moments[p.name] = (m, s)
            shrink = 1.0 - lr * self.decay if len(p.shape) > 1 else 1.0
            p.set_value(p * shrink - (lr / c1) * m / (paddle.sqrt(s / c2) + 1e-5))


class UrlData(paddle.io.Dataset):
    def __init__(self, mode):
        with open(os.path.join(DATA, "urls.tsv")) as f:
            table = [line.rstrip("\n").split("\t") for line in f]
        table = [row for row in table if row[0] == mode]
        self.tokens = np.stack([self.tokenise(row[2]) for row in table])
        self.target = np.array([NAMES.index(row[1]) for row in table])

    @staticmethod
    def tokenise(text):
        raw = np.frombuffer(text.lower().encode(), dtype="uint8")[:cfg.length].astype("int64")
        return np.pad(raw, (0, cfg.length - len(raw)))

    def __getitem__(self, i):
        return self.tokens[i], self.target[i]

    def __len__(self):
        return len(self.target)


build_model = UrlPerceiver
build_dataset = UrlData


def build_dataloader(split):
    return paddle.io.DataLoader(UrlData(split), batch_size=cfg.batch, shuffle=split == "train")


_counts = np.bincount(UrlData("train").target)
BALANCE = paddle.to_tensor((_counts.sum() / (len(NAMES) * _counts)).astype("float32"))


def loss(outputs, labels):
    ce = F.cross_entropy(outputs, labels, reduction="none").flatten()
    w = paddle.gather(BALANCE, labels)
    focal = paddle.pow(1.0 - paddle.exp(-ce), cfg.gamma)
    return {"loss": paddle.sum(w * focal * ce) / paddle.sum(w)}


def metric(outputs, labels):
    p, y = F.softmax(outputs).numpy(), labels.numpy()
    sure, hit = p.max(axis=1), (p.argmax(axis=1) == y).astype("float64")
    bin_of = np.clip(np.ceil(sure * 5).astype(int) - 1, 0, 4)
    ece = sum(abs((hit - sure)[bin_of == k].sum()) for k in range(5)) / len(y)
    return {"ece": float(ece), "balanced_accuracy": float(np.mean([hit[y == c].mean() for c in np.unique(y)]))}


def build_optimizer(model):
    # Noam: with width * scale = 1 the peak, cfg.lr, comes at step `warm`
    noam = paddle.optimizer.lr.NoamDecay(d_model=1, warmup_steps=cfg.warm, last_epoch=0,
                                         learning_rate=cfg.lr * cfg.warm ** 0.5)
    return AdaBelief(noam, model.parameters(), cfg.decay)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    tokens, labels = batch
    value = loss(model(tokens), labels)["loss"]
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": value.item()}


def predict(path, model):
    model.eval()
    with open(path) as f, paddle.no_grad():
        p = F.softmax(model(paddle.to_tensor(UrlData.tokenise(f.read().strip())[None])))
    p = p.numpy()[0]
    return {"label": NAMES[int(np.argmax(p))], "probability": p}
