"""When is the dough ready for the oven?  A discrete hazard over ten-minute steps.

Pools of yeast wake, eat and rise with the temperature; what they have done so far, the gas
above the dough and the recipe say how likely the baker is to bake in the next ten minutes.
"""
import csv
from functools import partial, reduce

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, POOLS, CHANNELS, KNOTS = 24, 6, 8, 5
FLOURS = ("wheat", "rye", "spelt", "semolina", "oat")
RECIPE = ("hydration", "salt", "yeast", "age_h")
OUTDOORS = 400.0


# ---- data -----------------------------------------------------------------------------------

def table(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(line for line in f if not line.startswith("#")))


def in_training(lot):
    return int(lot["lot"]) % 4 != 0


def recipe(lot):
    # the age of the starter counts by its logarithm
    return [float(lot[k]) if k != "age_h" else np.log(float(lot[k])) for k in RECIPE]


def scaler():
    known = np.array([recipe(lot) for lot in filter(in_training, table("data/lots.csv"))])
    mean, std = known.mean(0), known.std(0)
    return lambda row: (np.array(row) - mean) / std


def sensors(rows):
    """temperature, humidity, gas and whether gas was measured; a gap holds the last value"""

    def fill(done, row):
        seen = row["co2_ppm"] != ""
        gas = float(row["co2_ppm"]) if seen else (done[-1][2] if done else OUTDOORS)
        return done + [(float(row["temp_c"]), float(row["humidity"]), gas, float(seen))]

    x = np.array(reduce(fill, rows, []))
    x[:, 1] = (x[:, 1] - 75.0) / 10.0
    x[:, 2] = np.log(x[:, 2] / OUTDOORS)
    return x


def outcome(lot, rows):
    """step of baking, whether it was seen, and the volumes with -1 for those not read"""
    volumes = [float(r["volume"] or -1) for r in rows]
    return [float(int(lot["baked_at"]) // 10), float(lot["observed"])] + volumes


def build_dataset(split="train"):
    lots = [lot for lot in table("data/lots.csv") if in_training(lot) == (split == "train")]
    by_lot = {}
    for row in table("data/log.csv"):
        by_lot.setdefault(row["lot"], []).append(row)
    scale = scaler()
    series = np.stack([sensors(by_lot[lot["lot"]]) for lot in lots])
    statics = np.stack([scale(recipe(lot)) for lot in lots])
    flour = np.array([FLOURS.index(lot["flour"]) for lot in lots])
    target = np.array([outcome(lot, by_lot[lot["lot"]]) for lot in lots])
    return TensorDataset(torch.tensor(series, dtype=torch.float32), torch.tensor(statics, dtype=torch.float32),
                         torch.tensor(flour), torch.tensor(target, dtype=torch.float32))


def build_dataloader(split="train"):
    return DataLoader(build_dataset(split), batch_size=5, shuffle=False, drop_last=split == "train")


# ---- model ----------------------------------------------------------------------------------

def hats(steps=STEPS, knots=KNOTS):
    """Hat functions over the evening: between two knots the weight goes from one to the other."""
    place = torch.linspace(0, knots - 1, steps, dtype=torch.float64)
    return (1 - (place[:, None] - torch.arange(knots)).abs()).clamp(min=0).float()


class Dough(nn.Module):
    def __init__(self):
        super().__init__()
        self.best = nn.Parameter(torch.linspace(23.0, 35.0, POOLS))
        self.cold = nn.Parameter(torch.full((POOLS,), 6.0))
        self.hot = nn.Parameter(torch.full((POOLS,), 3.0))
        self.leak = nn.Parameter(torch.linspace(1.0, 3.0, POOLS))
        self.hunger = nn.Parameter(torch.empty(POOLS).uniform_(-3.0, -1.5))
        self.urge = nn.Parameter(torch.randn(POOLS) * 0.4 - 1.0)
        self.rise = nn.Parameter(torch.zeros(POOLS))
        self.knots = nn.Parameter(torch.linspace(-4.0, -1.0, KNOTS))
        self.flour = nn.Embedding(len(FLOURS), POOLS)
        self.wake = nn.Linear(len(RECIPE), POOLS)
        self.air = nn.Conv1d(2, CHANNELS, 5, groups=2)
        self.calm = nn.LayerNorm(CHANNELS)
        self.smell = nn.Linear(CHANNELS, 1, bias=False)
        self.plan = nn.Sequential(nn.Linear(len(RECIPE), 14), nn.Mish(), nn.Linear(14, 1))
        self.register_buffer("hats", hats())
        nn.init.normal_(self.flour.weight, std=0.15)
        nn.init.kaiming_normal_(self.air.weight, nonlinearity="relu")
        nn.init.zeros_(self.wake.bias)

    def forward(self, series, statics, flour):
        warmth, damp, gas, seen = series.unbind(dim=-1)
        vigour = torch.exp(self.flour(flour) + 0.2 * torch.tanh(self.wake(statics)))
        grown, active = scan(pool(self, vigour), response(self, warmth))
        urge = (F.softplus(self.urge) * torch.log1p(active)).sum(dim=-1)
        logits = urge + self.nose(gas * seen, damp) + self.plan(statics) + self.hats @ self.knots
        # the dough rises by what every pool has made until now
        volume = 1.0 + 0.3 * (grown.cumsum(dim=1) @ self.rise.softmax(dim=0))
        return logits, volume

    def nose(self, gas, damp):
        """Looks at this step and the four before it, never ahead."""
        air = F.pad(torch.stack([gas, damp], dim=1), (4, 0))
        felt = self.calm(self.air(air).transpose(1, 2))
        return self.smell(F.softsign(felt)).squeeze(-1)


def response(m, warmth):
    """Bell around the best temperature of a pool, wide to the cold side and steep to the hot one."""
    off = warmth.unsqueeze(-1) - m.best
    width = torch.where(off < 0, F.softplus(m.cold), F.softplus(m.hot))
    return torch.exp(-((off / width) ** 2))


def pool(m, vigour):
    """One step of all pools, as a closure over what stays the same through the evening."""
    keep, appetite = torch.sigmoid(m.leak), F.softplus(m.hunger)

    def step(state, warmth):
        active, food = state
        grown = vigour * warmth * food
        active = keep * active + grown
        food = food * torch.exp(-appetite * grown)
        return (active, food), (grown, active)

    return step, (torch.zeros_like(vigour), torch.ones_like(vigour))


def scan(stepper, xs):
    step, state = stepper
    outs = []
    for x in xs.unbind(dim=1):
        state, out = step(state, x)
        outs.append(out)
    return tuple(torch.stack(o, dim=1) for o in zip(*outs))


def build_model():
    return Dough()


# ---- loss and metric ------------------------------------------------------------------------

def at_risk(labels, steps):
    """[b, t] steps that the dough lived through, and the step of its baking if that was seen"""
    when, seen = labels[:, :1], labels[:, 1:2]
    lived = (steps < when).to(labels.dtype)
    baked = (steps == when).to(labels.dtype) * seen
    return lived, baked


def hazard_loss(logits, labels):
    lived, baked = at_risk(labels, torch.arange(STEPS))
    nll = lived * F.softplus(logits) + baked * F.softplus(-logits)
    return nll.sum() / (lived + baked).sum()


def expectile(volume, read, tau=0.7):
    known = read >= 0
    off = read - volume
    each = torch.where(off > 0, tau * off ** 2, (1 - tau) * off ** 2)
    return each[known].mean()


def loss(outputs, labels):
    logits, volume = outputs
    return hazard_loss(logits, labels) + 2.0 * expectile(volume, labels[:, 2:])


def survival(logits):
    return torch.cumprod(torch.sigmoid(-logits), dim=1)


def concordance(expected, when, seen):
    """Of two lots of which one was baked earlier, how often is it the one expected earlier?"""
    pairs = (when[:, None] < when[None, :]) & (seen[:, None] > 0)
    ahead = torch.sign(expected[None, :] - expected[:, None])
    return ((ahead + 1) / 2 * pairs).sum() / pairs.sum().clamp(min=1)


def metric(outputs, labels, horizon=12):
    stay = survival(outputs[0])
    when, seen = labels[:, 0], labels[:, 1]
    expected = stay.sum(dim=1)
    # lots that were lost to sight before the horizon say nothing of it
    known = (when > horizon) | (seen > 0)
    brier = (stay[:, horizon] - (when > horizon).to(stay.dtype)) ** 2
    return {"concordance": concordance(expected, when, seen),
            "brier": brier[known].mean(),
            "minutes_off": 10 * (expected - when).abs()[seen > 0].mean()}


# ---- training -------------------------------------------------------------------------------

def build_optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.04, initial_accumulator_value=0.05, eps=1e-8)


def build_scheduler(optimizer):
    sched = torch.optim.lr_scheduler
    warm = sched.LinearLR(optimizer, start_factor=0.25, total_iters=4)
    fall = sched.PolynomialLR(optimizer, total_iters=30, power=2.0)
    return sched.SequentialLR(optimizer, [warm, fall], milestones=[4])


def centre(module):
    """Gradients of linear and convolution weights, without their mean for each output."""
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Conv1d)):
            g = layer.weight.grad
            g.sub_(g.mean(dim=tuple(range(1, g.ndim)), keepdim=True))


def roughness(model):
    """Second differences of the knots."""
    return torch.diff(model.knots, n=2).square().sum()


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    optimizer.zero_grad()
    value = loss(model(*inputs), labels) + 0.1 * roughness(model)
    value.backward()
    centre(model)
    optimizer.step()
    with torch.no_grad():
        # no pool is at its best outside of what a kitchen can be
        model.best.clamp_(20.0, 34.9)
    return value.detach()


# ---- prediction -----------------------------------------------------------------------------

@torch.no_grad()
def predict(path, model):
    with open(path) as f:
        said = dict(word.split("=") for word in f.readline()[1:].split())
    make = partial(torch.tensor, dtype=model.best.dtype)
    x = make(sensors(table(path)))[None]
    z = make(scaler()(recipe(said)))[None]
    logits, volume = model(x, z, torch.tensor([FLOURS.index(said["flour"])]))
    stay = survival(logits)[0]
    below = (stay < 0.5).nonzero()
    return {"curve": stay.numpy(), "expected": 10 * float(stay.sum()),
            "half": 10 * int(below[0]) if len(below) else -1,
            "volume": float(volume[0, -1])}
