"""Light curve classifier, PaddlePaddle."""
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

DATA = Path(__file__).resolve().parent.parent / "data"


@dataclass
class Settings:
    width: int = 12
    groups: int = 3
    bins: int = 7
    hidden: int = 20
    n_classes: int = 3
    batch_size: int = 8
    lr: float = 3e-3
    head_factor: float = 5.0
    weight_decay: float = 0.05
    warm: int = 6
    last: int = 36
    low: float = 0.05
    eps: float = 0.1

    @property
    def dilations(self):
        return [2 ** i for i in range(4)]

    @property
    def balance(self):
        return [0.6, 1.0, 1.7]


S = Settings()


class NormedConv(nn.Layer):
    """Dilated convolution; each kernel is a direction times a length (weight normalisation)."""

    def __init__(self, s, dilation):
        super().__init__()
        plain = nn.Conv1D(s.width, s.width, 3, groups=s.groups)
        self.weight_v = self.create_parameter(plain.weight.shape)
        self.weight_v.set_value(plain.weight)
        self.weight_g = self.create_parameter([s.width])
        self.weight_g.set_value(self.length(self.weight_v))
        self.bias = self.create_parameter([s.width], is_bias=True)
        self._how = {"padding": dilation, "dilation": dilation, "groups": s.groups}

    @staticmethod
    def length(v):
        return paddle.sqrt(paddle.sum(v * v, axis=[1, 2]))

    def forward(self, x):
        scale = self.weight_g / self.length(self.weight_v)
        return F.conv1d(x, self.weight_v * scale.reshape([-1, 1, 1]), self.bias, **self._how)


class DilatedBlock(nn.Layer):
    def __init__(self, s, dilation):
        super().__init__()
        self.conv = NormedConv(s, dilation)
        self.norm = nn.GroupNorm(s.groups, s.width)
        self.mix = nn.Conv1D(s.width, s.width, 1)

    def forward(self, x):
        return x + self.mix(F.gelu(self.norm(self.conv(x))))


class DipNet(nn.Layer):
    def __init__(self, s):
        super().__init__()
        self.stem = nn.Conv1D(2, s.width, 5, stride=2, padding=2, padding_mode="replicate")
        self.blocks = nn.LayerList([DilatedBlock(s, d) for d in s.dilations])
        self.pool_avg = nn.AdaptiveAvgPool1D(s.bins)
        self.pool_max = nn.AdaptiveMaxPool1D(s.bins)
        self.hidden = nn.Linear(2 * s.width * s.bins, s.hidden)
        self.norm = nn.LayerNorm(s.hidden, epsilon=1e-6)
        self.head = nn.Linear(s.hidden, s.n_classes)

    def forward(self, x):
        h = self.stem(x)
        for b in self.blocks:
            h = b(h)
        h = paddle.concat((self.pool_avg(h), self.pool_max(h)), axis=1)
        h = self.norm(self.hidden(paddle.flatten(h, start_axis=1)))
        return self.head(F.leaky_relu(h, negative_slope=0.01))


class LightCurves(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        table = np.loadtxt(DATA / f"{split}.csv", delimiter=",", skiprows=1, ndmin=2)
        self.y = table[:, 0].astype("int64")
        self.x = table[:, 1:].astype("float32")
        self.augment = split == "train"

    def __getitem__(self, index):
        curve = self.x[index]
        if self.augment:
            dice = np.random.RandomState(1000 + index)
            curve = np.roll(curve, dice.randint(-5, 6))
            if dice.rand() < 0.5:
                curve = curve[::-1]
        curve = (curve - np.median(curve)) / (curve.std() + np.float32(1e-6))
        out = np.zeros((2, curve.size), dtype="float32")
        out[0] = curve
        out[1, 1:] = curve[1:] - curve[:-1]
        return out, self.y[index]

    def __len__(self):
        return self.y.shape[0]


def build_model():
    return DipNet(S)


def build_dataset(split):
    return LightCurves(split)


def build_dataloader(split):
    return paddle.io.DataLoader(LightCurves(split), batch_size=S.batch_size, shuffle=False,
                                drop_last=(split == "train"))


def loss(outputs, labels):
    # smoothing together with class weights: every class counts with its own weight,
    # the sum is divided by the weights of the true classes
    w = paddle.to_tensor(S.balance, dtype=outputs.dtype)
    logp = F.log_softmax(outputs, axis=-1)
    truth = F.one_hot(labels, S.n_classes).astype(outputs.dtype)
    soft = truth * (1 - S.eps) + S.eps / S.n_classes
    return -(soft * logp * w).sum() / (truth * w).sum()


def metric(outputs, labels):
    pred = np.argmax(outputs.numpy(), axis=-1)
    true = labels.numpy()
    table = np.zeros((S.n_classes, S.n_classes), dtype="int64")
    np.add.at(table, (true, pred), 1)
    support = table.sum(0) + table.sum(1)
    f1 = np.where(support > 0, 2.0 * np.diag(table) / np.maximum(support, 1), 0.0)
    return {"macro_f1": float(f1.mean()), "accuracy": float(np.trace(table) / table.sum())}


def _factor(step):
    if step < S.warm:
        return (step + 1) / S.warm
    part = min(1.0, (step - S.warm) / (S.last - S.warm))
    return S.low + (1 - S.low) * 0.5 * (1 + math.cos(math.pi * part))


def build_optimizer(model):
    groups = {"decay": [], "free": [], "head": []}
    for name, p in model.named_parameters():
        if name.startswith("head."):
            groups["head"].append(p)
        elif p.ndim == 1:  # also the lengths of the weight normalisation, which are vectors here
            groups["free"].append(p)
        else:
            groups["decay"].append(p)
    schedule = paddle.optimizer.lr.LambdaDecay(learning_rate=S.lr, lr_lambda=_factor)
    return paddle.optimizer.AdamW(
        learning_rate=schedule, beta1=0.9, beta2=0.98, epsilon=1e-8, weight_decay=S.weight_decay,
        parameters=[
            {"params": groups["decay"], "weight_decay": S.weight_decay},
            {"params": groups["free"], "weight_decay": 0.0},
            {"params": groups["head"], "learning_rate": S.head_factor, "weight_decay": S.weight_decay},
        ])
