"""Snow depth by the day: a little snowpack of three height bands whose constants a network reads off the site.

Everything is a closure over the site's constants; the only state is a tuple that one day hands to the next.
"""
import csv
import datetime as dt
import json
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

DAYS, STRIDE, BATCH, HIDDEN, WIDTH = 21, 14, 10, 6, 12
HELD = ("Grat", "Chalet Nord")
OFFSETS = (-220.0, 0.0, 260.0)                        # metres of the bands about the station
# what the site decides: lowest, highest, first guess
RANGES = {
    "turn": (-1.5, 3.0, 0.9), "sharp": (0.5, 4.0, 1.6), "degree": (0.5, 6.0, 2.6), "base": (-2.0, 1.5, -0.3),
    "beam": (0.0, 12.0, 3.0), "fade": (2.0, 20.0, 7.0), "chill": (0.02, 0.6, 0.2), "settle": (0.002, 0.06, 0.015),
    "first": (120.0, 420.0, 230.0), "drift": (0.0, 0.12, 0.03),
}
NAMES = list(RANGES)
LOW, HIGH, GUESS = (np.array([RANGES[n][i] for n in NAMES]) for i in range(3))
ALBEDO = (0.45, 0.88)


def bounded(raw):
    low, high = (torch.as_tensor(x, dtype=raw.dtype, device=raw.device) for x in (LOW, HIGH))
    start = torch.as_tensor(np.log((GUESS - LOW) / (HIGH - GUESS)), dtype=raw.dtype, device=raw.device)
    values = low + (high - low) * torch.sigmoid(raw + start)
    return {n: values[:, i:i + 1] for i, n in enumerate(NAMES)}


class Snowpack(nn.Module):
    def __init__(self):
        super().__init__()
        n, k = len(NAMES), len(OFFSETS)

        def normal(*shape, std):
            return nn.Parameter(torch.randn(*shape) * std)

        self.w1, self.b1 = normal(4, WIDTH, std=0.5), nn.Parameter(torch.zeros(WIDTH))
        self.w2, self.b2 = normal(WIDTH, n + k, std=0.25), nn.Parameter(torch.zeros(n + k))
        self.lapse = nn.Parameter(torch.tensor(6.5))
        self.catch = nn.Parameter(torch.tensor([0.1, 0.05]))
        self.memory = normal(5 + HIDDEN, 2 * HIDDEN, std=1 / math.sqrt(5 + HIDDEN))
        self.memory_bias = nn.Parameter(torch.cat([torch.full((HIDDEN,), -1.0), torch.zeros(HIDDEN)]))
        self.nudge = normal(HIDDEN, 2, std=0.5)
        self.spread = nn.Parameter(torch.tensor([1.0, 0.5, 0.3]))
        self.tail = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("offsets", torch.tensor(OFFSETS))

    def forward(self, site, sky, start):
        raw = torch.tanh(site @ self.w1 + self.b1) @ self.w2 + self.b2
        c = bounded(raw[:, :len(NAMES)])
        share = torch.softmax(raw[:, len(NAMES):], dim=1)
        day = self.day_of(c, site)
        depth = start[:, None] * (1 + 0.15 * torch.tanh(self.offsets / 200))
        water = depth * c["first"] / 100                # mm of water from cm of snow
        zero = torch.zeros_like(depth)
        state = (water, depth, zero, zero, zero + 3.0, site.new_zeros(len(site), HIDDEN))
        depths, waters, marks = [], [], []
        for t in range(sky.shape[1]):
            state, extra = day(state, sky[:, t])
            depths.append((share * state[1]).sum(1))
            waters.append((share * (state[0] + state[2])).sum(1))
            marks.append(extra)
        depth, water, extra = (torch.stack(x, dim=1) for x in (depths, waters, marks))
        level = torch.log1p(F.relu(depth))
        age = torch.arange(1, sky.shape[1] + 1, dtype=depth.dtype) / sky.shape[1]
        wide = F.softplus(self.spread[0] + self.spread[1] * level + self.spread[2] * age + extra) + 0.5
        return {"depth": depth, "water": water, "wide": wide, "tail": 2 + F.softplus(self.tail).expand(len(site))}

    def day_of(self, c, site):
        """One day on the site with the constants `c`: a function of the state and the sky."""
        canopy = site[:, 3:4]
        low, high = ALBEDO
        tilt = 1 + 0.4 * site[:, 1:2]                   # southern slopes see more sun

        def recall(h, sky, air):
            seen = torch.stack([air[:, 1] / 10, torch.log1p(sky[:, 1]), sky[:, 2] / 5, sky[:, 3], sky[:, 4]], dim=1)
            gate, new = (torch.cat([seen, h], dim=1) @ self.memory + self.memory_bias).chunk(2, dim=1)
            return torch.lerp(h, torch.tanh(new), torch.sigmoid(gate))

        def fallen(sky, air):
            solid = torch.sigmoid(c["sharp"] * (c["turn"] - air))
            lost = torch.exp(-F.softplus(self.catch) @ torch.stack([sky[:, 2] / 5, sky[:, 3]]))[:, None]
            rain = sky[:, 1:2] / lost.clamp(min=0.6)    # what a gauge misses in the wind
            return rain * solid * (1 - 0.3 * canopy), rain * (1 - solid)

        def day(state, sky):
            water, depth, liquid, cold, age, h = state
            air = sky[:, :1] - self.lapse * self.offsets / 1000
            h = recall(h, sky, air)
            push, extra = (h @ self.nudge).unbind(dim=1)
            snow, rain = fallen(sky, air)
            # new snow makes the surface young
            age = (age + 1) * torch.exp(-snow / 4)
            albedo = low + (high - low) * torch.exp(-age / c["fade"])
            sun = c["beam"] * sky[:, 3:4] * (1 - albedo) * tilt * (1 - 0.7 * canopy) * (1.3 - sky[:, 4:5])
            heat = (c["degree"] * F.softplus(air - c["base"], beta=2) + sun) * torch.exp(0.3 * torch.tanh(push))[:, None]
            # heat first pays for the cold of the nights before
            cold = (cold + c["chill"] * F.relu(c["base"] - air)).clamp(max=15.0)
            paid = torch.minimum(cold, heat)
            cold = cold - paid
            before = water + snow
            melt = torch.minimum(before, heat - paid)
            water = before - melt
            room = 0.06 * water
            wet = liquid + rain + melt
            liquid = torch.minimum(wet, room)
            # fresh snow is lighter in the cold; all of it settles, and what melts takes its height along
            fresh = 60 + 9 * F.softplus(air + 6)
            blown = 1 - c["drift"] * F.relu(sky[:, 2:3] - 3) / 5
            depth = depth * torch.exp(-c["settle"] * (1 + water / 250)) * blown + 100 * snow / fresh
            depth = depth * (water + 0.1) / (before + 0.1)
            depth = torch.maximum(depth, 100 * (water + liquid) / 550)
            return (water, depth, liquid, cold, age, h), extra

        return day


def windows():
    """All three-week windows that begin with a measured depth, in the order of station and time."""
    sites = {}
    with open("data/stations.csv", newline="", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            lean, face = float(r["slope_deg"]) / 45, math.radians(float(r["aspect_deg"]))
            sites[r["station"]] = np.array([float(r["elevation_m"]) / 1000 - 1.7, -lean * math.cos(face),
                                            lean * math.sin(face), float(r["canopy"])], "float32")
    days = {}
    with open("data/days.csv", newline="", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            date = dt.date.fromisoformat(r["date"])
            season = math.cos(2 * math.pi * (date.timetuple().tm_yday + 10) / 365.25)
            sky = [float(r[k]) for k in ("air_c", "rain_mm", "wind_ms", "sun")] + [season]
            days.setdefault((r["station"], date.year + (date.month > 6)), []).append((date, sky, r["depth_cm"]))
    return sites, days


def item(site, rows, first):
    """The depth is that of the evening: day 0 gives the start, the window are the days after it."""
    part = rows[first + 1:first + 1 + DAYS]
    depth = np.array([[float(d or 0), d != ""] for _, _, d in part], "float32")
    return {"site": site, "sky": np.array([s for _, s, _ in part], "float32"),
            "start": np.float32(rows[first][2]), "labels": depth}


def build_dataset(split):
    sites, days = windows()
    found = []
    for (station, _), rows in days.items():
        if (station in HELD) != (split == "train"):
            found += [item(sites[station], rows, k) for k in range(0, len(rows) - DAYS, STRIDE) if rows[k][2] != ""]
    return found


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=BATCH, shuffle=False, drop_last=False)


def build_model():
    return Snowpack()


def student(miss, wide, tail):
    """Minus the log density of a Student t of its own tail."""
    return (torch.lgamma(tail / 2) - torch.lgamma((tail + 1) / 2) + 0.5 * torch.log(math.pi * tail) + torch.log(wide)
            + (tail + 1) / 2 * torch.log1p((miss / wide) ** 2 / tail))


def loss(outputs, labels):
    depth, known = labels.unbind(dim=-1)
    each = student(depth - outputs["depth"], outputs["wide"], outputs["tail"][:, None])
    per_window = (each * known).sum(1) / known.sum(1).clamp(min=1)
    # how the depth goes from day to day, where both days were measured
    both = known[:, 1:] * known[:, :-1]
    turns = F.smooth_l1_loss(outputs["depth"].diff(dim=1), depth.diff(dim=1), reduction="none", beta=2.0)
    shape = (turns * both).sum() / both.sum().clamp(min=1)
    return per_window.mean() + 0.2 * shape


@torch.no_grad()
def metric(outputs, labels):
    """Nash-Sutcliffe efficiency over the batch, and how far the windows' peaks are off."""
    depth, known = labels[..., 0], labels[..., 1] > 0
    truth, guess = depth[known], outputs["depth"][known]
    nse = 1 - ((truth - guess) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    low = torch.full_like(depth, -1.0)
    peak = torch.where(known, outputs["depth"], low).amax(1) - torch.where(known, depth, low).amax(1)
    return {"nse": float(nse), "peak": float(peak.abs().median())}


def build_optimizer(model):
    physics = [model.lapse, model.catch, model.tail, model.spread]
    others = [p for p in model.parameters() if all(p is not q for q in physics)]
    return torch.optim.NAdam([{"params": others}, {"params": physics, "weight_decay": 0.0}],
                             lr=6e-3, betas=(0.85, 0.99), weight_decay=2e-3, momentum_decay=8e-3)


def build_scheduler(optimizer):
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=6)
    fall = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.94)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], milestones=[6])


def train_step(model, optimizer, batch):
    facts = {k: v for k, v in batch.items() if k != "labels"}
    optimizer.zero_grad()
    value = loss(model(**facts), batch["labels"])
    value.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.3)
    optimizer.step()
    with torch.no_grad():                              # air cools by 4 to 9 degrees a kilometre
        model.lapse.clamp_(4.0, 9.0)
    return value


@torch.no_grad()
def predict(path, model):
    """A scenario: the weather of some weeks on another depth than was measured."""
    with open(path, encoding="utf-8") as f:
        wish = json.load(f)
    sites, days = windows()
    first, last = (dt.date.fromisoformat(wish[k]) for k in ("first", "last"))
    rows = [s for (name, _), rows in days.items() if name == wish["station"] for d, s, _ in rows if first <= d <= last]
    like = next(model.parameters())
    site, sky, start = (torch.as_tensor(np.asarray(x)[None], dtype=like.dtype)
                        for x in (sites[wish["station"]], rows, float(wish["depth_cm"])))
    out = model(site, sky, start)
    reach = 1.5 * out["wide"][0]
    return {"depth": out["depth"][0].numpy(), "low": (out["depth"][0] - reach).clamp(min=0).numpy(),
            "high": (out["depth"][0] + reach).numpy(), "thawed": float(out["water"][0, 0] - out["water"][0, -1])}
