"""Paddle port of the snowpack: whole weeks at once where days do not depend on each other, folds where they do."""
import csv
import json
from datetime import date
from itertools import groupby
from math import cos, log, pi, radians, sin

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.nn.initializer import Assign, Normal

LENGTH, HOP, BATCH = 21, 14, 10
SEEN, KEPT, BROAD = 5, 6, 12
KEPT_BACK = {"Grat", "Chalet Nord"}
BANDS = [-220.0, 0.0, 260.0]
TURN, SHARP, DEGREE, BASE, BEAM, FADE, CHILL, SETTLE, FIRST, DRIFT = range(10)
BOUNDS = np.array([
    [-1.5, 3.0, 0.9],       # where rain turns to snow
    [0.5, 4.0, 1.6],        # how sharply
    [0.5, 6.0, 2.6],        # melt by degree
    [-2.0, 1.5, -0.3],      # from which air
    [0.0, 12.0, 3.0],       # melt by sun
    [2.0, 20.0, 7.0],       # how fast snow darkens
    [0.02, 0.6, 0.2],       # cold of a night
    [0.002, 0.06, 0.015],   # settling
    [120.0, 420.0, 230.0],  # density at the start
    [0.0, 0.12, 0.03],      # what the wind takes
])
DARK, BRIGHT = 0.45, 0.88


def fold(step, state, *series):
    """Fold `step` over the second axis of all series; the marks of every day are stacked along it."""
    marks = []
    for today in zip(*(s.unbind(axis=1) for s in series)):
        state, mark = step(state, *today)
        marks.append(mark)
    if isinstance(marks[0], tuple):
        return [paddle.stack(m, axis=1) for m in zip(*marks)]
    return paddle.stack(marks, axis=1)


def between(raw):
    low, high, guess = BOUNDS.T
    prior = np.log((guess - low) / (high - guess))
    put = lambda x: paddle.to_tensor(x, dtype=raw.dtype)  # noqa: E731
    return put(low) + put(high - low) * F.sigmoid(raw + put(prior))


class Winter(paddle.nn.Layer):
    def __init__(self):
        super().__init__()

        def free(shape, start):
            if not isinstance(start, Normal):
                start = Assign(np.array(start, "float32"))
            return self.create_parameter(shape, default_initializer=start)

        count = len(BOUNDS) + len(BANDS)
        self.site_in = free([4, BROAD], Normal(0.0, 0.5))
        self.site_in_bias = free([BROAD], np.zeros(BROAD))
        self.site_out = free([BROAD, count], Normal(0.0, 0.25))
        self.site_out_bias = free([count], np.zeros(count))
        self.cooling = free([], 6.5)
        self.undercatch = free([2], [0.1, 0.05])
        self.recall = free([SEEN + KEPT, 2 * KEPT], Normal(0.0, (SEEN + KEPT) ** -0.5))
        self.recall_bias = free([2 * KEPT], np.repeat([-1.0, 0.0], KEPT))
        self.advice = free([KEPT, 2], Normal(0.0, 0.5))
        self.breadth = free([3], [1.0, 0.5, 0.3])
        self.freedom = free([], 1.5)
        self.register_buffer("heights", paddle.to_tensor(BANDS))

    def forward(self, site, sky, start):
        raw = paddle.tanh(site @ self.site_in + self.site_in_bias) @ self.site_out + self.site_out_bias
        constants = between(raw[:, :len(BOUNDS)])
        mix = F.softmax(raw[:, len(BOUNDS):], axis=-1)
        water, depth, extra = snowpack(self, constants, site, sky, start)
        depth = paddle.einsum("btk,bk->bt", depth, mix)
        water = paddle.einsum("btk,bk->bt", water, mix)
        weeks = paddle.arange(1, sky.shape[1] + 1).astype(depth.dtype) / sky.shape[1]
        a, b, c = self.breadth.unbind()
        wide = 0.5 + F.softplus(a + b * paddle.log1p(F.relu(depth)) + c * weeks + extra)
        tail = paddle.expand(2 + F.softplus(self.freedom), [site.shape[0]])
        return {"depth": depth, "water": water, "wide": wide, "tail": tail}


def snowpack(net, constants, site, sky, start):
    """Water, depth [window, day, band] and the remembered mark of every day."""
    own = lambda i: constants[:, i].reshape([-1, 1, 1])  # noqa: E731
    rows = site.shape[0]
    air, rain, wind, sun, season = (sky[:, :, k:k + 1] for k in range(5))
    facing, canopy = site[:, 1].reshape([-1, 1, 1]), site[:, 3].reshape([-1, 1, 1])
    band = air - net.cooling * net.heights / 1000        # [window, day, band]

    # what fell, and as what
    missed = F.softplus(net.undercatch)
    caught = paddle.exp(-(missed[0] * wind / 5 + missed[1] * sun))
    fell = rain / paddle.clip(caught, min=0.6)
    solid = F.sigmoid(own(SHARP) * (own(TURN) - band))
    snow, wet = fell * solid * (1 - 0.3 * canopy), fell * (1 - solid)

    # what the days before say of today
    seen = paddle.concat([band[:, :, 1:2] / 10, rain.log1p(), wind / 5, sun, season], axis=-1)
    told = seen @ net.recall[:SEEN] + net.recall_bias

    def remember(h, told):
        gate, new = (told + h @ net.recall[SEEN:]).split(2, axis=-1)
        g = F.sigmoid(gate)
        h = (1 - g) * h + g * new.tanh()
        return h, h

    memory = fold(remember, paddle.zeros([rows, KEPT], dtype=sky.dtype), told)
    push, extra = (memory @ net.advice).split(2, axis=-1)

    # the surface's age, and with it the heat of every day
    def darken(age, snow):
        age = (1 + age) * (-snow / 4).exp()
        return age, age

    age = fold(darken, paddle.full([rows, len(BANDS)], 3.0, dtype=sky.dtype), snow)
    dark = 1 - DARK - (BRIGHT - DARK) * paddle.exp(-age / own(FADE))
    beam = own(BEAM) * sun * dark * (1 + 0.4 * facing) * (1 - 0.7 * canopy) * (1.3 - season)
    heat = own(DEGREE) * F.softplus(band - own(BASE), beta=2) + beam
    heat = heat * paddle.exp(0.3 * push.tanh())
    frost = own(CHILL) * F.relu(own(BASE) - band)

    # the heights: snow comes light, the wind takes some, all of it settles
    gain = 100 * snow / (60 + 9 * F.softplus(band + 6))
    left = 1 - own(DRIFT) * F.relu(wind - 3) / 5
    settle = constants[:, SETTLE].unsqueeze(-1)

    def day(state, snow, wet, heat, frost, gain, left):
        water, depth, liquid, cold = state
        cold = paddle.clip(cold + frost, max=15.0)
        paid = paddle.minimum(cold, heat)
        whole = water + snow
        melt = paddle.minimum(whole, heat - paid)
        water = whole - melt
        liquid = paddle.minimum(liquid + wet + melt, 0.06 * water)
        depth = depth * left * paddle.exp(-settle * (1 + water / 250)) + gain
        depth = depth * ((water + 0.1) / (whole + 0.1))
        depth = paddle.maximum(depth, (water + liquid) / 5.5)
        return (water, depth, liquid, cold - paid), (water + liquid, depth)

    first = start.unsqueeze(-1) * (1 + 0.15 * paddle.tanh(net.heights / 200))
    none = paddle.zeros_like(first)
    water, depth = fold(day, (first * constants[:, FIRST:FIRST + 1] / 100, first, none, none),
                        snow, wet, heat, frost, gain, left)
    return water, depth, extra.squeeze(-1)


def build_model():
    return Winter()


# ---------------------------------------------------------------- data

def stations():
    with open("data/stations.csv", newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            slope, aspect = float(row["slope_deg"]) / 45, radians(float(row["aspect_deg"]))
            yield row["station"], np.array([float(row["elevation_m"]) / 1000 - 1.7, -slope * cos(aspect),
                                            slope * sin(aspect), float(row["canopy"])], dtype="float32")


def diary():
    """(station, winter, its days), each day as (date, sky, depth or None)."""
    def read(row):
        when = date.fromisoformat(row["date"])
        sky = [float(row[k]) for k in ("air_c", "rain_mm", "wind_ms", "sun")]
        sky.append(cos(2 * pi * (when.timetuple().tm_yday + 10) / 365.25))
        return when, sky, float(row["depth_cm"]) if row["depth_cm"] else None

    def winter(row):
        year, month = int(row["date"][:4]), int(row["date"][5:7])
        return row["station"], year + (1 if month >= 7 else 0)

    with open("data/days.csv", newline="", encoding="utf-8") as handle:
        for (station, year), rows in groupby(csv.DictReader(handle), key=winter):
            yield station, year, [read(r) for r in rows]


class Weeks(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        sites, self.items = dict(stations()), []
        for station, _, rows in diary():
            if (station in KEPT_BACK) == (split == "train"):
                continue
            for k in range(0, len(rows) - LENGTH, HOP):
                if rows[k][2] is not None:
                    self.items.append(self.cut(sites[station], rows[k][2], rows[k + 1:k + 1 + LENGTH]))

    @staticmethod
    def cut(site, start, rows):
        depth = np.array([np.nan if d is None else d for _, _, d in rows])
        labels = np.stack([np.nan_to_num(depth), ~np.isnan(depth)], axis=-1)
        return {"site": site, "sky": np.array([s for _, s, _ in rows], "float32"),
                "start": np.float32(start), "labels": labels.astype("float32")}

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)


def build_dataset(split):
    return Weeks(split)


def build_dataloader(split):
    return paddle.io.DataLoader(Weeks(split), batch_size=BATCH)


# ---------------------------------------------------------------- training

def loss(outputs, labels):
    depth, known = labels[:, :, 0], labels[:, :, 1]
    nu = outputs["tail"].unsqueeze(-1)
    z = (depth - outputs["depth"]) / outputs["wide"]
    dense = paddle.lgamma((nu + 1) / 2) - paddle.lgamma(nu / 2) - (paddle.log(nu) + log(pi)) / 2 \
        - outputs["wide"].log() - (nu + 1) / 2 * paddle.log1p(z.square() / nu)
    fit = -((dense * known).sum(axis=1) / paddle.clip(known.sum(axis=1), min=1.0)).mean()
    pairs = known[:, 1:] * known[:, :-1]
    turn = F.smooth_l1_loss(paddle.diff(outputs["depth"], axis=1), paddle.diff(depth, axis=1), reduction="none", delta=2.0)
    return fit + 0.2 * (turn / 2.0 * pairs).sum() / paddle.clip(pairs.sum(), min=1.0)


@paddle.no_grad()
def metric(outputs, labels):
    guess, truth, known = outputs["depth"], labels[..., 0], labels[..., 1]
    mean = (truth * known).sum() / known.sum()
    rest = (known * (truth - guess).square()).sum() / (known * (truth - mean).square()).sum()
    hidden = (1 - known) * 1e6
    peak = (guess - hidden).max(axis=1).clip(min=-1.0) - (truth - hidden).max(axis=1).clip(min=-1.0)
    return {"nse": float(1 - rest), "peak": float(paddle.median(peak.abs(), mode="min"))}


def build_optimizer(model):
    physics = [model.cooling, model.undercatch, model.freedom, model.breadth]
    known = {id(p) for p in physics}
    learned = [p for p in model.parameters() if id(p) not in known]
    warm = paddle.optimizer.lr.LinearWarmup(
        paddle.optimizer.lr.ExponentialDecay(6e-3, gamma=0.94), warmup_steps=6, start_lr=0.25 * 6e-3, end_lr=6e-3)
    return paddle.optimizer.NAdam(
        learning_rate=warm, beta1=0.85, beta2=0.99, momentum_decay=8e-3, weight_decay=2e-3,
        parameters=[{"params": learned}, {"params": physics, "weight_decay": 0.0}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    value = loss(model(batch["site"], batch["sky"], batch["start"]), batch["labels"])
    value.backward()
    paddle.nn.utils.clip_grad_value_(model.parameters(), 0.3)
    optimizer.step()
    optimizer.clear_grad()
    with paddle.no_grad():
        model.cooling.set_value(paddle.clip(model.cooling, 4.0, 9.0))
    return value


@paddle.no_grad()
def predict(path, model):
    with open(path, encoding="utf-8") as handle:
        wish = json.load(handle)
    first, last = date.fromisoformat(wish["first"]), date.fromisoformat(wish["last"])
    sky = [s for name, _, rows in diary() if name == wish["station"] for d, s, _ in rows if first <= d <= last]
    kind = model.site_in.dtype
    out = model(*(paddle.to_tensor(np.array([x]), dtype=kind)
                  for x in (dict(stations())[wish["station"]], sky, wish["depth_cm"])))
    depth, water, wide = (out[k][0] for k in ("depth", "water", "wide"))
    return {"depth": depth.numpy(), "low": F.relu(depth - 1.5 * wide).numpy(), "high": (depth + 1.5 * wide).numpy(),
            "thawed": float(water[0] - water[-1])}
