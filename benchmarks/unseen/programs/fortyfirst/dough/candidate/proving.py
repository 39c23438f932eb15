"""Proving of bread dough with Paddle: the chance, every ten minutes, that the dough goes to the oven now.

One file: reading the logs, the net (pools of yeast run as closures over the recipe), the survival
loss, concordance, and a step of training.
"""
import csv
import math
from collections import defaultdict

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import DataLoader, Dataset
from paddle.nn import initializer as I

N_STEPS = 24
N_POOLS = 6
N_KNOTS = 5
KINDS = {name: k for k, name in enumerate(["wheat", "rye", "spelt", "semolina", "oat"])}


# ------------------------------------------------------------------------------------------- net

def uniform(fan_in):
    r = 1.0 / math.sqrt(fan_in)
    return I.Uniform(-r, r)


def full(n_in, n_out, bias=True):
    if bias is True:
        bias = uniform(n_in)
    return nn.Linear(n_in, n_out, weight_attr=uniform(n_in), bias_attr=bias)


def tents(steps, knots):
    grid = np.linspace(0, knots - 1, steps)
    return np.stack([np.interp(grid, np.arange(knots), row) for row in np.eye(knots)], axis=1)


def warm_response(best, cold, hot):
    """temperature -> how well each pool works at it"""
    cold, hot = F.softplus(cold), F.softplus(hot)

    def at(temperature):
        d = temperature[..., None] - best
        z = paddle.where(d < 0, d / cold, d / hot)
        return paddle.exp(-z * z)

    return at


def yeast(vigour, leak, hunger):
    """A generator-like closure: call it with the response of a step, get growth and activity."""
    stays, eats = F.sigmoid(leak), F.softplus(hunger)
    activity, food = paddle.zeros_like(vigour), paddle.ones_like(vigour)

    def live(response):
        nonlocal activity, food
        growth = vigour * response * food
        activity = activity * stays + growth
        food = food * paddle.exp(-eats * growth)
        return growth, activity

    return live


class ProvingNet(nn.Layer):
    def __init__(self):
        super().__init__()

        def vector(values):
            return self.create_parameter([len(values)], default_initializer=I.Assign(np.asarray(values, dtype="float32")))

        def drawn(how):
            return self.create_parameter([N_POOLS], default_initializer=how)

        self.best = vector(np.linspace(23, 35, N_POOLS))
        self.cold = vector(np.full(N_POOLS, 6.0))
        self.hot = vector(np.full(N_POOLS, 3.0))
        self.leak = vector(np.linspace(1, 3, N_POOLS))
        self.hunger = drawn(I.Uniform(-3.0, -1.5))
        self.urge = drawn(I.Normal(-1.0, 0.4))
        self.rise = drawn(I.Constant(0.0))
        self.knots = vector(np.linspace(-4, -1, N_KNOTS))
        self.flour = nn.Embedding(len(KINDS), N_POOLS, weight_attr=I.Normal(0.0, 0.15))
        self.wake = full(4, N_POOLS, bias=I.Constant(0.0))
        self.air = nn.Conv1D(2, 8, 5, groups=2, weight_attr=I.KaimingNormal(), bias_attr=uniform(5))
        self.calm = nn.LayerNorm(8)
        self.smell = full(8, 1, bias=False)
        self.plan_in, self.plan_out = full(4, 14), full(14, 1)
        self.register_buffer("tents", paddle.to_tensor(tents(N_STEPS, N_KNOTS).astype("float32")))

    def forward(self, series, statics, flour):
        temperature, humidity, gas, measured = [series[:, :, k] for k in range(4)]
        vigour = paddle.exp(self.flour(flour) + 0.2 * F.tanh(self.wake(statics)))
        response = warm_response(self.best, self.cold, self.hot)(temperature)
        live = yeast(vigour, self.leak, self.hunger)
        growth, activity = zip(*(live(response[:, t]) for t in range(response.shape[1])))
        growth, activity = paddle.stack(growth, axis=1), paddle.stack(activity, axis=1)

        logits = paddle.matmul(paddle.log1p(activity), F.softplus(self.urge))
        logits = logits + self.sniff(gas * measured, humidity)
        logits = logits + self.plan_out(F.mish(self.plan_in(statics)))
        logits = logits + paddle.mv(self.tents, self.knots)
        part = F.softmax(self.rise, axis=0)
        volume = 1 + 0.3 * paddle.cumsum((growth * part).sum(axis=-1), axis=1)
        return logits, volume

    def sniff(self, gas, humidity):
        two = paddle.stack([gas, humidity], axis=1)
        two = F.pad(two, [4, 0], data_format="NCL")
        felt = self.calm(self.air(two).transpose([0, 2, 1]))
        return paddle.squeeze(self.smell(F.softsign(felt)), axis=-1)


build_model = ProvingNet


# ------------------------------------------------------------------------------------------ logs

def rows_of(path):
    with open(path) as f:
        return list(csv.DictReader(l for l in f if l[0] != "#"))


def is_val(lot):
    return int(lot["lot"]) % 4 == 0


def four(lot):
    """hydration, salt, yeast, log age"""
    return [float(lot["hydration"]), float(lot["salt"]), float(lot["yeast"]), math.log(float(lot["age_h"]))]


def make_standard():
    x = np.array([four(lot) for lot in rows_of("data/lots.csv") if not is_val(lot)])
    centre, width = x.mean(axis=0), x.std(axis=0)
    return lambda lot: (np.array(four(lot)) - centre) / width


def read_series(rows):
    out, held = np.zeros((len(rows), 4)), 400.0
    for k, row in enumerate(rows):
        measured = bool(row["co2_ppm"])
        held = float(row["co2_ppm"]) if measured else held
        out[k] = float(row["temp_c"]), (float(row["humidity"]) - 75) / 10, np.log(held / 400.0), measured
    return out


class Lots(Dataset):
    def __init__(self, split="train"):
        super().__init__()
        self.lots = [lot for lot in rows_of("data/lots.csv") if is_val(lot) != (split == "train")]
        self.logs = defaultdict(list)
        for row in rows_of("data/log.csv"):
            self.logs[row["lot"]].append(row)
        self.standard = make_standard()

    def __len__(self):
        return len(self.lots)

    def __getitem__(self, k):
        lot = self.lots[k]
        log = self.logs[lot["lot"]]
        volumes = [float(r["volume"]) if r["volume"] else -1.0 for r in log]
        label = [int(lot["baked_at"]) // 10, int(lot["observed"]), *volumes]
        return (read_series(log).astype("float32"), self.standard(lot).astype("float32"),
                np.int64(KINDS[lot["flour"]]), np.array(label, dtype="float32"))


build_dataset = Lots


def build_dataloader(split="train"):
    return DataLoader(Lots(split), batch_size=5, shuffle=False, drop_last=split == "train")


# -------------------------------------------------------------------------------- loss and metric

def alive(logits):
    """the chance not to have been baked up to and in each step"""
    return paddle.exp(-paddle.cumsum(F.softplus(logits), axis=1))


def survival_loss(logits, when, seen):
    t = paddle.arange(logits.shape[1]).astype(logits.dtype)[None, :]
    before = (t < when[:, None]).astype(logits.dtype)
    at = (t == when[:, None]).astype(logits.dtype) * seen[:, None]
    # log(1 - h) = -softplus(x), log h = x - softplus(x)
    total = ((before + at) * F.softplus(logits) - at * logits).sum()
    return total / (before.sum() + at.sum())


def volume_loss(volume, read, tau=0.7):
    known = (read >= 0).astype(volume.dtype)
    under = F.relu(read - volume)
    over = F.relu(volume - read)
    each = tau * under * under + (1 - tau) * over * over
    return (each * known).sum() / known.sum()


def loss(outputs, labels):
    logits, volume = outputs
    return survival_loss(logits, labels[:, 0], labels[:, 1]) + 2.0 * volume_loss(volume, labels[:, 2:])


def metric(outputs, labels, horizon=12):
    stay = alive(outputs[0])
    dtype = stay.dtype
    when, seen = labels[:, 0], labels[:, 1].astype("bool")
    mean_step = stay.sum(axis=1)

    usable = paddle.logical_and(when[:, None] < when[None, :], seen[:, None]).astype(dtype)
    gap = mean_step[None, :] - mean_step[:, None]
    agree = (gap > 0).astype(dtype) + 0.5 * (gap == 0).astype(dtype)

    later = when > horizon
    clear = paddle.logical_or(later, seen).astype(dtype)
    wrong = paddle.square(stay[:, horizon] - later.astype(dtype))

    seen = seen.astype(dtype)
    return dict(
        concordance=(usable * agree).sum() / usable.sum().clip(min=1),
        brier=(wrong * clear).sum() / clear.sum(),
        minutes_off=10 * (paddle.abs(mean_step - when) * seen).sum() / seen.sum(),
    )


# -------------------------------------------------------------------------------------- training

def build_optimizer(model):
    fall = paddle.optimizer.lr.PolynomialDecay(0.04, decay_steps=30, end_lr=0.0, power=2.0)
    rate = paddle.optimizer.lr.LinearWarmup(fall, warmup_steps=4, start_lr=0.01, end_lr=0.04)
    return paddle.optimizer.Adagrad(rate, epsilon=1e-8, parameters=model.parameters(), initial_accumulator_value=0.05)


def build_scheduler(optimizer):
    return optimizer._learning_rate


@paddle.no_grad()
def centre_gradients(model):
    """Weights of Linear lie as [in, out], those of the convolution as [out, in, taps]."""
    over = {nn.Linear: [0], nn.Conv1D: [1, 2]}
    for layer in model.sublayers():
        axes = over.get(type(layer))
        if axes:
            g = layer.weight.grad
            g.set_value(g - g.mean(axis=axes, keepdim=True))


def train_step(model, optimizer, batch):
    series, statics, flour, labels = batch
    k = model.knots
    bends = k[2:] - 2 * k[1:-1] + k[:-2]
    value = loss(model(series, statics, flour), labels) + 0.1 * (bends * bends).sum()
    value.backward()
    centre_gradients(model)
    optimizer.step()
    optimizer.clear_grad()
    with paddle.no_grad():
        model.best.set_value(model.best.clip(20.0, 34.9))
    return value.detach()


# ------------------------------------------------------------------------------------ prediction

def predict(path, model):
    head = open(path).readline().lstrip("# ").split()
    lot = dict(pair.split("=", 1) for pair in head)
    kind = model.best.dtype
    with paddle.no_grad():
        logits, volume = model(
            paddle.to_tensor(read_series(rows_of(path))[None]).astype(kind),
            paddle.to_tensor(make_standard()(lot)[None]).astype(kind),
            paddle.to_tensor([KINDS[lot["flour"]]]),
        )
        curve = alive(logits).numpy()[0]
    low = np.flatnonzero(curve < 0.5)
    return dict(curve=curve, expected=10 * float(curve.sum()), half=10 * int(low[0]) if low.size else -1,
                volume=volume[0, -1].item())
