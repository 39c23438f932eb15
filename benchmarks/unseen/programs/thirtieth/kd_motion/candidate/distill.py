"""Distilling the motion classifier, PaddlePaddle."""
import json
import math
import os

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
ACTIVITIES = ("still", "walk", "stairs", "run", "jump")
HP = dict(T=3.0, alpha=0.6, smooth=0.1, lr=0.08, min_lr=1e-4, warm=10, total=112,
          ema=0.95, clip=2.0, l2=5e-4)


class BatchNorm(nn.BatchNorm1D):
    """Keeps the unbiased variance in its running statistics (Paddle keeps the biased one)."""

    def __init__(self, ch, gamma=1.0):
        super().__init__(ch, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(gamma)))

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        axes = [0, 2]
        mu = x.mean(axis=axes)
        var = (x - mu.unsqueeze(-1)).square().mean(axis=axes)
        n = x.shape[0] * x.shape[2]
        with paddle.no_grad():
            self._mean.set_value(0.9 * self._mean + 0.1 * mu)
            self._variance.set_value(0.9 * self._variance + 0.1 * var * (n / (n - 1)))
        scale = self.weight / paddle.sqrt(var + 1e-5)
        return x * scale.unsqueeze(-1) + (self.bias - mu * scale).unsqueeze(-1)


def conv(cin, cout, k, stride=1, groups=1, bias=False):
    std = math.sqrt(2.0 / (cout * k))          # fan_out as PyTorch counts it, groups left aside
    return nn.Conv1D(cin, cout, k, stride=stride, padding=k // 2, groups=groups,
                     weight_attr=paddle.ParamAttr(initializer=nn.initializer.Normal(0.0, std)),
                     bias_attr=nn.initializer.Constant(0.0) if bias else False)


class Gate(nn.Layer):
    def __init__(self, ch):
        super().__init__()
        self.expand = conv(ch // 4, ch, 1, bias=True)
        self.reduce = conv(ch, ch // 4, 1, bias=True)
        self.pool = nn.AdaptiveAvgPool1D(1)

    def forward(self, x):
        return x * F.sigmoid(self.expand(F.swish(self.reduce(self.pool(x)))))


class MobileUnit(nn.Layer):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.shortcut = cin == cout and stride == 1
        self.path = nn.Sequential(
            ("dw", conv(cin, cin, 3, stride, groups=cin)), ("dw_bn", BatchNorm(cin)), ("act", nn.Silu()),
            ("gate", Gate(cin)),
            ("pw", conv(cin, cout, 1)), ("pw_bn", BatchNorm(cout, 0.0 if self.shortcut else 1.0)))

    def forward(self, x):
        return x + self.path(x) if self.shortcut else self.path(x)


def make_student():
    head = nn.Linear(16, len(ACTIVITIES), weight_attr=nn.initializer.Normal(0.0, 0.05))
    return nn.Sequential(conv(3, 8, 3), BatchNorm(8), nn.Silu(),
                         MobileUnit(8, 16, 2), MobileUnit(16, 16), MobileUnit(16, 16),
                         nn.AdaptiveAvgPool1D(1), nn.Flatten(), head)


def make_teacher(file):
    net = nn.Sequential(nn.Conv1D(3, 24, 5, padding=2), nn.GroupNorm(4, 24), nn.ReLU(),
                        nn.Conv1D(24, 32, 3, padding=2, dilation=2), nn.GroupNorm(4, 32), nn.ReLU(),
                        nn.AdaptiveAvgPool1D(1), nn.Flatten(), nn.Linear(32, len(ACTIVITIES)))
    saved = {k[len("net."):]: v for k, v in np.load(file).items()}
    net.set_state_dict({k: v.T if k == "8.weight" else v for k, v in saved.items()})
    return net


class KD(nn.Layer):
    def __init__(self):
        super().__init__()
        self.teacher = make_teacher(os.path.join(DATA, "teacher.npz"))
        self.student, self.shadow = make_student(), make_student()
        self.shadow.set_state_dict(self.student.state_dict())
        for frozen in (self.teacher, self.shadow):
            for p in frozen.parameters():
                p.stop_gradient = True

    def train(self):
        super().train()
        self.teacher.eval()
        self.shadow.eval()

    def forward(self, x):
        return {"teacher": self.teacher(x).detach(), "logits": self.student(x)}

    @paddle.no_grad()
    def average(self, m):
        live = self.student.state_dict()
        for k, v in self.shadow.state_dict().items():
            v.set_value(v * m + live[k] * (1.0 - m))


class ActivityData(paddle.io.Dataset):
    def __init__(self, mode):
        z = np.load(os.path.join(DATA, "windows.npz"))
        first = z["signal"][z["subject"] == 1]
        self.center, self.spread = first.mean(axis=(0, 2))[:, None], first.std(axis=(0, 2))[:, None]
        rows = z["subject"] == {"train": 1, "val": 2}[mode]
        self.signal = self.standardise(z["signal"][rows])
        self.activity = z["activity"][rows]

    def standardise(self, s):
        return ((s - self.center) / self.spread).astype("float32")

    def __getitem__(self, i):
        return self.signal[i], self.activity[i]

    def __len__(self):
        return self.signal.shape[0]


build_model, build_dataset = KD, ActivityData


def build_dataloader(split):
    ds = ActivityData(split)
    if split == "val":
        return paddle.io.DataLoader(ds, batch_size=16)
    share = np.unique(ds.activity, return_inverse=True, return_counts=True)
    weights = 1.0 / share[2][share[1]]
    pick = paddle.io.WeightedRandomSampler(weights, len(ds), replacement=True)
    return paddle.io.DataLoader(ds, batch_sampler=paddle.io.BatchSampler(sampler=pick, batch_size=8))


def loss(outputs, labels):
    z = outputs["logits"]
    target = F.label_smooth(F.one_hot(labels, len(ACTIVITIES)), epsilon=HP["smooth"])
    hard = F.cross_entropy(z, target, soft_label=True)
    log_q = F.log_softmax(outputs["teacher"] / HP["T"])
    gap = log_q - F.log_softmax(z / HP["T"])
    soft = HP["T"] ** 2 * (paddle.exp(log_q) * gap).sum(axis=-1).mean()
    return {"hard": hard, "soft": soft, "loss": paddle.lerp(hard, soft, HP["alpha"])}


def metric(outputs, labels):
    pred, teach, y = (t.numpy() for t in (outputs["logits"].argmax(-1), outputs["teacher"].argmax(-1), labels))
    table = np.zeros((len(ACTIVITIES),) * 2)
    np.add.at(table, (y, pred), 1)
    f1 = 2 * np.diag(table) / np.maximum(table.sum(0) + table.sum(1), 1)
    return {"agreement": float((pred == teach).mean()), "macro_f1": float(f1.mean())}


def build_optimizer(model):
    cosine = paddle.optimizer.lr.CosineAnnealingDecay(HP["lr"], HP["total"] - HP["warm"], eta_min=HP["min_lr"])
    rate = paddle.optimizer.lr.LinearWarmup(cosine, HP["warm"], 0.1 * HP["lr"], HP["lr"])
    for p in model.student.parameters():
        p.regularizer = paddle.regularizer.L2Decay(HP["l2"]) if p.ndim > 1 else None
    return paddle.optimizer.Momentum(rate, momentum=0.9, use_nesterov=True,
                                     parameters=[p for p in model.parameters() if not p.stop_gradient],
                                     grad_clip=nn.ClipGradByGlobalNorm(HP["clip"]))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    signal, activity = batch
    parts = loss(model(signal), activity)
    parts["loss"].backward()
    sq = sum(float(p.grad.square().sum()) for p in model.student.parameters() if p.grad is not None)
    optimizer.step()
    optimizer.clear_grad()
    model.average(HP["ema"])
    return dict({k: float(v) for k, v in parts.items()}, grad_norm=math.sqrt(sq))


def predict(path, model):
    model.eval()
    with open(path) as f:
        rec = json.load(f)
    x = ActivityData("train").standardise(np.array([rec[a] for a in "xyz"], "float32"))
    with paddle.no_grad():
        p = F.softmax(model.shadow(paddle.to_tensor(x[None])))
    p = p.numpy()[0]
    return {"activity": ACTIVITIES[p.argmax()], "probability": p}
