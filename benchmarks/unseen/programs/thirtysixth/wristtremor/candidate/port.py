"""Wrist tremor scores with PaddlePaddle: one file, closures all the way."""
import csv
import json
import os
from collections import defaultdict

import numpy as np
import paddle
from paddle import nn
from paddle.io import DataLoader, Dataset
from paddle.nn import functional as F
from paddle.nn.initializer import Assign, Constant, Normal

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data")
HELD_OUT = ("S09", "S10", "S11")
FS = 64
N_TAPS = 65
N_BANDS = 8
WINDOW = 256
GRADES = 4


# -- the network -------------------------------------------------------------


def sinc_filters():
    half = N_TAPS // 2
    steps = np.arange(-half, half + 1)
    taper = np.hamming(N_TAPS)

    def ideal(edge, n):
        # sin(2 pi f n / fs) / (pi n), whose middle is 2 f / fs
        safe = paddle.where(n == 0, paddle.ones_like(n), n)
        side = paddle.sin(2 * np.pi / FS * edge * n) / (np.pi * safe)
        return paddle.where(n == 0, 2 * edge / FS + paddle.zeros_like(n), side)

    def make(low, width):
        n = paddle.to_tensor(steps, dtype=low.dtype)
        f1 = 0.5 + paddle.abs(low)
        f2 = paddle.clip(f1 + 1.0 + paddle.abs(width), max=FS / 2)
        taps = ideal(f2.unsqueeze(-1), n) - ideal(f1.unsqueeze(-1), n)
        return taps * paddle.to_tensor(taper, dtype=low.dtype), (f1 + f2) / 2

    return make


def energy_of(filters, frame=16, hop=8):
    def energy(x, low, width):
        taps, centre = filters(low, width)
        b, axes, n = x.shape
        x = F.pad(x, [N_TAPS // 2, N_TAPS // 2], mode="reflect", data_format="NCL")
        out = F.conv1d(x, taps.unsqueeze(1).tile([axes, 1, 1]), groups=axes)
        power = paddle.square(out).reshape([b, axes, N_BANDS, n]).sum(axis=1)
        return F.avg_pool1d(power, frame, stride=hop), centre

    return energy


def normalised(eps=1e-2):
    def run(energy, s, alpha, delta, root):
        s = F.sigmoid(s)
        alpha, delta, root = [paddle.exp(v).unsqueeze(-1) for v in (alpha, delta, root)]
        state = energy[:, :, 0]
        states = [state]
        for k in range(1, energy.shape[2]):
            state = state + s * (energy[:, :, k] - state)
            states.append(state)
        gain = paddle.exp(-alpha * paddle.log(eps + paddle.stack(states, axis=2)))
        return paddle.pow(energy * gain + delta, root) - paddle.pow(delta, root)

    return run


def attention_pool(h, tanh_w, tanh_b, gate_w, gate_b, pick_w):
    gated = F.tanh(F.linear(h, tanh_w, tanh_b)) * F.sigmoid(F.linear(h, gate_w, gate_b))
    share = F.softmax(paddle.matmul(gated, pick_w)[..., 0], axis=1)
    w = share.unsqueeze(-1)
    mean = (w * h).sum(axis=1)
    variance = (w * paddle.square(h - mean.unsqueeze(1))).sum(axis=1)
    return mean, paddle.sqrt(variance + 1e-4), share


class Tremor(nn.Layer):
    """Only keeps parameters; what is done with them is in the closures."""

    def __init__(self, width=16, lifted=24, gates=12, hidden=20):
        super().__init__()
        self.energy = energy_of(sinc_filters())
        self.normalise = normalised()

        def weight(shape, fan_in):
            return self.create_parameter(shape, default_initializer=Normal(0.0, (2.0 / fan_in) ** 0.5))

        def fixed(n, value):
            return self.create_parameter([n], default_initializer=Constant(value))

        grid = np.linspace(1.0, 11.5, N_BANDS).astype("float32")
        self.low = self.create_parameter([N_BANDS], default_initializer=Assign(grid))
        self.width = fixed(N_BANDS, 1.0)
        self.smooth = fixed(N_BANDS, -1.5)
        self.alpha = fixed(N_BANDS, -0.25)
        self.delta = fixed(N_BANDS, 0.5)
        self.root = fixed(N_BANDS, -0.7)
        self.mix_w, self.mix_b = weight([width, N_BANDS, 3], 3 * N_BANDS), fixed(width, 0.0)
        self.norm_g, self.norm_b = fixed(width, 1.0), fixed(width, 0.0)
        self.lift_w, self.lift_b = weight([width, lifted], width), fixed(lifted, 0.0)
        self.tanh_w, self.tanh_b = weight([lifted, gates], lifted), fixed(gates, 0.0)
        self.gate_w, self.gate_b = weight([lifted, gates], lifted), fixed(gates, 0.0)
        self.pick_w = weight([gates, 1], gates)
        self.hidden_w, self.hidden_b = weight([2 * lifted + 2, hidden], 2 * lifted + 2), fixed(hidden, 0.0)
        self.score_w = weight([hidden, 1], hidden)
        self.threshold = fixed(1, -1.0)
        self.gaps = fixed(GRADES - 1, 0.5)

    def steps(self):
        higher = paddle.cumsum(F.softplus(self.gaps), axis=0)
        return self.threshold + paddle.concat([paddle.zeros([1], dtype=higher.dtype), higher])

    def forward(self, x, who):
        energy, centre = self.energy(x, self.low, self.width)
        h = self.normalise(energy, self.smooth, self.alpha, self.delta, self.root)
        h = F.conv1d(h, self.mix_w, self.mix_b, padding="SAME").transpose([0, 2, 1])
        h = F.layer_norm(h, h.shape[-1:], self.norm_g, self.norm_b, epsilon=1e-5)
        h = F.elu(F.linear(F.gelu(h, approximate=True), self.lift_w, self.lift_b))
        mean, spread, share = attention_pool(h, self.tanh_w, self.tanh_b, self.gate_w, self.gate_b, self.pick_w)
        h = F.gelu(F.linear(paddle.concat([mean, spread, who], axis=1), self.hidden_w, self.hidden_b))
        return {"logits": paddle.matmul(h, self.score_w) - self.steps(), "attention": share, "centre": centre}


def build_model():
    return Tremor()


# -- signals and tables ------------------------------------------------------


def notes():
    with open(os.path.join(HERE, "windows.csv"), newline="") as f:
        return [dict(r, age=float(r["age"]), score=int(r["score"])) for r in csv.DictReader(f)]


def detrend(n=33):
    kernel = np.full(n, 1.0 / n)

    def apply(signal):
        padded = np.pad(signal, ((0, 0), (n // 2, n // 2)), mode="reflect")
        trend = np.stack([np.convolve(axis, kernel, mode="valid") for axis in padded])
        return signal - trend

    return apply


remove_gravity = detrend()


def prepare(signal, wrist):
    signal = np.array(signal, dtype="float64")
    if wrist == "left":
        signal[1] = -signal[1]
    return remove_gravity(signal)


def deviation(signal):
    middle = np.median(signal, axis=1)[:, None]
    return np.median(abs(signal - middle), axis=1)[:, None] * 1.4826 + 0.001


def about(age, medication):
    return np.array([(age - 65) / 10, medication == "on"], dtype="float32")


class Recordings(Dataset):
    def __init__(self, split):
        rows = notes()
        raw = np.load(os.path.join(HERE, "windows.npy"))
        signals = [prepare(s, row["wrist"]) for s, row in zip(raw, rows)]
        mine = defaultdict(list)
        for row, s in zip(rows, signals):
            mine[row["subject"]].append(s)
        unit = {subject: deviation(np.hstack(parts)) for subject, parts in mine.items()}
        self.samples = [
            (
                np.clip(s / unit[row["subject"]], -6, 6).astype("float32"),
                about(row["age"], row["medication"]),
                np.int64(row["score"]),
            )
            for row, s in zip(rows, signals)
            if (row["subject"] in HELD_OUT) is (split == "val")
        ]

    def __getitem__(self, i):
        return self.samples[i]

    def __len__(self):
        return len(self.samples)


build_dataset = Recordings


def build_dataloader(split):
    return DataLoader(Recordings(split), batch_size=9, shuffle=False, drop_last=False)


# -- loss, measures, updates -------------------------------------------------


def ordinal_loss(price=0.02):
    grades = np.array([row["score"] for row in notes() if row["subject"] not in HELD_OUT])
    above = (grades[:, None] > np.arange(GRADES)).sum(axis=0)
    weight = np.sqrt(np.maximum(above, grades.size - above))
    weight = weight / weight.max()

    def loss(outputs, labels):
        logits, share = outputs["logits"], outputs["attention"]
        target = (labels.unsqueeze(1) > paddle.arange(GRADES)).astype(logits.dtype)
        bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        coral = paddle.matmul(bce, paddle.to_tensor(weight, dtype=logits.dtype)).mean()
        entropy = paddle.sum(share * paddle.log(share + 1e-8), axis=1).mean()
        return coral - price * entropy

    return loss


loss = ordinal_loss()


def metric(outputs, labels):
    logits = outputs["logits"].numpy().astype("float64")
    truth = labels.numpy().astype("int64")
    guess = (logits > 0).sum(axis=1)
    off = np.abs(guess - truth)
    seen = np.zeros((GRADES + 1, GRADES + 1))
    np.add.at(seen, (truth, guess), 1)
    by_chance = np.outer(seen.sum(axis=1), seen.sum(axis=0)) / seen.sum()
    cost = np.subtract.outer(np.arange(GRADES + 1), np.arange(GRADES + 1)) ** 2
    soft = (1 / (1 + np.exp(-logits))).sum(axis=1)
    return {
        "error": off.mean(),
        "within_one": (off <= 1).mean(),
        "kappa": 1 - (cost * seen).sum() / max((cost * by_chance).sum(), 1e-12),
        "soft_error": np.abs(soft - truth).mean(),
    }


def groups(model):
    edges = [model.low, model.width]
    return edges, [p for p in model.parameters() if all(p is not e for e in edges)]


def build_optimizer(model):
    edges, others = groups(model)
    rate = paddle.optimizer.lr.CyclicLR(
        base_learning_rate=0.005, max_learning_rate=0.03, step_size_up=5, step_size_down=9, mode="triangular2"
    )
    return paddle.optimizer.Adagrad(
        learning_rate=rate,
        epsilon=1e-8,
        initial_accumulator_value=0.01,
        parameters=[{"params": others}, {"params": edges, "learning_rate": 3.0}],
    )


def train_step(model, optimizer, batch):
    x, who, labels = batch
    edges, others = groups(model)
    optimizer.clear_grad()
    value = loss(model(x, who), labels)
    value.backward()
    for part, limit in ((edges, 0.05), (others, 1.0)):
        nn.utils.clip_grad_norm_(part, limit)
    optimizer.step()
    with paddle.no_grad():
        for edge, least, most in ((model.low, 0.5, 11.25), (model.width, 0.25, 0.96875)):
            edge.set_value(paddle.clip(edge, least, most))
    return {"loss": value.detach()}


# -- prediction --------------------------------------------------------------


def predict(path, model):
    with open(path) as f:
        record = json.load(f)
    signal = prepare(np.transpose(record["samples"]), record["wrist"])
    signal = np.clip(signal / deviation(signal), -6, 6)
    pieces = np.lib.stride_tricks.sliding_window_view(signal, WINDOW, axis=1)[:, :: WINDOW // 4].swapaxes(0, 1)
    dtype = model.low.dtype
    who = np.tile(about(record["age"], record["medication"]), (len(pieces), 1))
    with paddle.no_grad():
        logits = model(paddle.to_tensor(pieces.copy()).astype(dtype), paddle.to_tensor(who).astype(dtype))["logits"]
    scores = np.sort(F.sigmoid(logits).sum(axis=1).numpy())
    trim = len(scores) // 5
    kept = scores[trim : len(scores) - trim]
    return np.array([kept.mean(), scores.max(), np.mean(scores > 2.0)])
