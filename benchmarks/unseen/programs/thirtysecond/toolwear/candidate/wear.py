"""Wear grading in PaddlePaddle: network, training step and reading of whole cuts."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from wear_config import cfg
from wear_data import GradeDealer, Scaler, VibrationWindows
from wear_optim import CentredRMS, cycle
from wear_score import loss, metric  # noqa: F401  (part of the interface)


def attr(law):
    return paddle.ParamAttr(initializer=law)


def conv(cin, cout, k, bias=True, **kw):
    bound = np.sqrt(6.0 / (cin // kw.get("groups", 1) * k))
    return nn.Conv1D(cin, cout, k, weight_attr=attr(I.Uniform(-bound, bound)),
                     bias_attr=attr(I.Constant(0.0)) if bias else False, **kw)


def linear(cin, cout, bias=True):
    return nn.Linear(cin, cout, weight_attr=attr(I.Orthogonal(gain=0.9)),
                     bias_attr=attr(I.Constant(0.01)) if bias else False)


def start_lstm(lstm, hidden):
    """Input weights by Xavier, recurrent ones orthogonal gate by gate, forget gates open (once)."""
    for name, p in lstm.named_parameters():
        name = name.split(".")[-1]
        if name.startswith("weight_ih"):
            edge = (6.0 / (p.shape[0] + p.shape[1])) ** 0.5
            p.set_value(paddle.uniform(p.shape, min=-edge, max=edge))
        elif name.startswith("weight_hh"):
            gates = []
            for _ in range(4):
                q, r = np.linalg.qr(paddle.randn([hidden, hidden]).numpy())
                gates.append(q * np.sign(np.diag(r)))
            p.set_value(np.concatenate(gates).astype("float32"))
        else:
            value = np.zeros(p.shape, "float32")
            if name.startswith("bias_hh"):
                value.reshape(4, hidden)[1] = cfg.network.forget_bias
            p.set_value(value)


class WearGrader(nn.Layer):
    def __init__(self):
        super().__init__()
        n = cfg.network
        limits = len(cfg.limits.um)
        self.register_buffer("centre", paddle.zeros([n.neck]))
        self.base = self.create_parameter([1], default_initializer=I.Constant(-1.0))
        self.gaps = self.create_parameter([limits - 1], default_initializer=I.Constant(0.5))
        self.stem = conv(3, n.stem, 7, stride=2, padding=3)
        self.norm0 = nn.LayerNorm(n.stem)
        self.mix = conv(n.stem, n.wide, 5, padding=2 * n.dilation, dilation=n.dilation, groups=n.groups)
        self.norm1 = nn.LayerNorm(n.wide)
        self.short = conv(n.stem, n.wide, 1, bias=False)
        self.material = nn.Embedding(len(cfg.data.materials), n.context, weight_attr=attr(I.Uniform(-0.2, 0.2)))
        self.cut = linear(2, n.context)
        self.film = linear(n.context, 2 * n.wide)
        self.lstm = nn.LSTM(n.wide, n.hidden, direction="bidirect")
        self.look = linear(2 * n.hidden, 1, bias=False)
        self.neck = linear(6 * n.hidden, n.neck)
        self.grade = linear(n.neck, 1, bias=False)
        self.wear = linear(n.neck, 1)
        start_lstm(self.lstm, n.hidden)

    def _normed(self, norm, x):
        return norm(x.transpose([0, 2, 1])).transpose([0, 2, 1])

    def _encode(self, signal, cutting, material):
        x = F.gelu(self._normed(self.norm0, self.stem(signal)), approximate=True)
        film = self.film(F.tanh(self.material(material) + self.cut(cutting)))
        gain, shift = film[:, :cfg.network.wide], film[:, cfg.network.wide:]
        y = self._normed(self.norm1, self.mix(x))
        y = F.gelu(y * (1 + gain.unsqueeze(2)) + shift.unsqueeze(2), approximate=True)
        return F.max_pool1d(y + self.short(x), kernel_size=2)

    def _summary(self, y):
        seq, (last, _) = self.lstm(y.transpose([0, 2, 1]))
        att = F.softmax(self.look(F.tanh(seq)), axis=1).transpose([0, 2, 1])
        mean = paddle.matmul(att, seq).squeeze(1)
        power = paddle.matmul(att, seq * seq).squeeze(1)
        std = paddle.sqrt(paddle.clip(power - mean * mean, min=1e-5))
        both = last.transpose([1, 0, 2]).flatten(1)
        return paddle.concat([both, mean, std], axis=1)

    def forward(self, signal, cutting, material):
        neck = self.neck(self._summary(self._encode(signal, cutting, material)))
        z = neck - self.centre
        score = self.grade(z)
        steps = paddle.concat([self.base, F.softplus(self.gaps)])
        return {"above": score - paddle.cumsum(steps), "score": score.squeeze(1),
                "wear": self.wear(z).squeeze(1), "neck": neck}


def build_model():
    return WearGrader()


def build_dataset(split):
    return VibrationWindows(split)


def build_dataloader(split):
    windows = build_dataset(split)
    if split == "train":
        return paddle.io.DataLoader(windows, batch_sampler=GradeDealer(windows.grade))
    return paddle.io.DataLoader(windows, batch_size=cfg.data.batch)


def build_optimizer(model):
    d = cfg.descent
    return CentredRMS(cycle(d.rate), model.parameters(), d.memory, d.tiny, d.momentum, d.decay)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def limit_norm(params, most):
    params = [p for p in params if p.grad is not None]
    norm = paddle.linalg.norm(paddle.stack([paddle.linalg.norm(p.grad.flatten()) for p in params]))
    scale = paddle.clip(most / (norm + 1e-6), max=1.0)
    for p in params:
        p.grad = p.grad * scale
    return norm


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    out = model(*inputs)
    parts = loss(out, labels)
    parts["loss"].backward()
    norm = limit_norm(model.parameters(), cfg.descent.norm)
    optimizer.step()
    optimizer.clear_grad()
    with paddle.no_grad():
        keep = cfg.descent.centre
        model.centre.set_value(keep * model.centre + (1 - keep) * out["neck"].mean(axis=0))
    return {**{k: v.detach() for k, v in parts.items()}, "norm": norm}


def read_cut(path):
    with open(path) as f:
        head = dict(item.split("=") for item in f.readline().lstrip("# ").split())
        signal = np.loadtxt(f, delimiter=",", skiprows=1).T
    return float(head["speed"]), float(head["feed"]), head["material"], signal


def window_starts(length):
    size, hop = cfg.cutting.window, cfg.cutting.hop
    starts = np.arange(0, length - size + 1, hop).tolist()
    return sorted(set(starts) | {length - size})


def predict(path, model):
    speed, feed, material, signal = read_cut(path)
    scaler = Scaler()
    starts = window_starts(signal.shape[1])
    x = np.stack([scaler.signal(signal[:, s:s + cfg.cutting.window]) for s in starts])
    cut = np.tile(scaler.cutting(speed, feed), (len(starts), 1))
    kind = np.full(len(starts), cfg.data.materials.index(material), "int64")
    model.eval()
    with paddle.no_grad():
        out = model(*map(paddle.to_tensor, (x, cut, kind)))
    above = F.sigmoid(out["above"]).numpy()
    typical = np.median(above, axis=0)
    edges = np.concatenate([[1.0], typical, [0.0]])
    g = int((typical > 0.5).sum())
    advice = "go on"
    if g == cfg.limits.worn - 1:
        advice = "watch"
    elif g >= cfg.limits.worn:
        advice = "replace"
    return {"starts": starts, "above": above, "typical": typical, "probs": edges[:-1] - edges[1:], "grade": [g],
            "wear_um": [float(np.median(out["wear"].numpy() * 100))], "advice": advice}
