"""Drug concentration curves from patient covariates: a hybrid compartment ODE (PyTorch)."""
import json
import math
import statistics
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

DATA = Path(__file__).resolve().parents[1] / "data"
HOURS = 24
SLOTS = 8
LIMIT = 0.5
POPULATION = {"ka": 1.0, "clearance": 5.0, "volume": 30.0, "k12": 0.15, "k21": 0.1}
OMEGA = [0.5, 0.3, 0.3, 0.2, 0.2]
PAD, MEASURED, BELOW = 0, 1, 2


# ---------------------------------------------------------------- data

def load_subjects():
    return json.loads((DATA / "subjects.json").read_text())


def make_covariates(subjects):
    usual = {}
    for sex in "fm":
        usual[sex] = statistics.median(
            s["creatinine"] for s in subjects
            if s["group"] == "train" and s["sex"] == sex and s["creatinine"] is not None)

    def covariates(s):
        creatinine = s["creatinine"]
        if creatinine is None:
            creatinine = usual[s["sex"]]
        return torch.tensor([
            math.log(s["weight"] / 70.0),
            (s["age"] - 45) / 20,
            math.log(creatinine / 0.9),
            1.0 if s["sex"] == "m" else -1.0,
        ], dtype=torch.float32)

    return covariates


covariates = make_covariates(load_subjects())


def dose_grid(doses):
    grid = torch.zeros(HOURS + 1)
    for hour, amount in doses:
        grid[int(hour)] += amount
    return grid


def encode(s):
    times, conc, kind = torch.zeros(SLOTS), torch.ones(SLOTS), torch.zeros(SLOTS, dtype=torch.int64)
    for i, (t, value) in enumerate(s["obs"]):
        times[i] = t
        if isinstance(value, str):
            kind[i], conc[i] = BELOW, float(value[1:])
        else:
            kind[i], conc[i] = MEASURED, value
    return covariates(s), dose_grid(s["doses"]), times, {"conc": conc, "kind": kind}


def build_dataset(split):
    return [encode(s) for s in load_subjects() if s["group"] == split]


class SeededBatches:
    """Order drawn anew for each epoch from (seed, epoch); an incomplete last batch is left out."""

    def __init__(self, n, size, seed):
        self.n, self.size, self.seed, self.epoch = n, size, seed, 0

    def __len__(self):
        return self.n // self.size

    def __iter__(self):
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.n)
        self.epoch += 1
        for k in range(len(self)):
            yield order[k * self.size:(k + 1) * self.size].tolist()


def build_dataloader(split):
    items = build_dataset(split)
    if split == "train":
        return DataLoader(items, batch_sampler=SeededBatches(len(items), 12, seed=3))
    return DataLoader(items, batch_size=12)


# ---------------------------------------------------------------- model

def make_rhs(theta, factor):
    ka, clearance, volume, k12, k21 = theta.exp().unbind(1)

    def rhs(state):
        gut, central, outer = state
        conc = central / volume
        gone = clearance * conc * factor(conc)
        return (
            -ka * gut,
            ka * gut - gone - k12 * central + k21 * outer,
            k12 * central - k21 * outer,
        )

    return rhs


def rk4(rhs, s, h):
    def shift(k, w):
        return tuple(a + w * b for a, b in zip(s, k))

    k1 = rhs(s)
    k2 = rhs(shift(k1, h / 2))
    k3 = rhs(shift(k2, h / 2))
    k4 = rhs(shift(k3, h))
    return tuple(a + h / 6 * (p + 2 * q + 2 * r + t) for a, p, q, r, t in zip(s, k1, k2, k3, k4))


def integrate(rhs, doses, volume):
    zero = torch.zeros_like(volume)
    state = (zero, zero, zero)
    curve = []
    for hour in range(HOURS + 1):
        state = (state[0] + doses[:, hour],) + state[1:]
        curve.append(state[1] / volume)
        if hour < HOURS:
            state = rk4(rhs, state, 1.0)
    return torch.stack(curve, 1)


def interpolate(curve, times):
    low = times.floor().long().clamp(max=HOURS - 1)
    part = times - low
    return torch.gather(curve, 1, low) * (1 - part) + torch.gather(curve, 1, low + 1) * part


class Hybrid(nn.Module):
    def __init__(self):
        super().__init__()
        self.population = nn.Parameter(torch.tensor(list(POPULATION.values())).log())
        self.covariate = nn.Sequential(
            nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5, bias=False))
        self.elimination = nn.Sequential(nn.Linear(1, 8), nn.Softplus(beta=2.0), nn.Linear(8, 1))
        for layer in (self.covariate[0], self.covariate[2]):
            nn.init.orthogonal_(layer.weight, gain=nn.init.calculate_gain("tanh"))
        nn.init.normal_(self.covariate[4].weight, std=0.05)
        nn.init.uniform_(self.elimination[0].weight, -1.0, 1.0)
        nn.init.trunc_normal_(self.elimination[2].weight, std=0.1, a=-0.2, b=0.2)
        nn.init.zeros_(self.elimination[2].bias)

    def forward(self, cov, doses, times):
        delta = self.covariate(cov)
        theta = self.population + delta
        size = cov[:, :1] * torch.tensor([0.0, 0.75, 1.0, 0.0, 0.0])
        theta = theta + size

        def factor(conc):
            return 2 * torch.sigmoid(self.elimination(torch.log1p(conc).unsqueeze(1))).squeeze(1)

        volume = theta[:, 2].exp()
        curve = integrate(make_rhs(theta, factor), doses, volume)
        return {"conc": interpolate(curve, times), "curve": curve, "theta": theta, "delta": delta}


def build_model():
    return Hybrid()


# ---------------------------------------------------------------- loss

def masked_mean(x, mask, dim=None):
    if dim is None:
        return (x * mask).sum() / mask.sum().clamp(min=1)
    return (x * mask).sum(dim) / mask.sum(dim).clamp(min=1)


def make_loss(dof=4.0, below=0.5, prior=0.1, omega=OMEGA):
    omega = torch.tensor(omega)

    def loss(outputs, labels):
        kind = labels["kind"]
        seen, under = (kind == MEASURED).float(), (kind == BELOW).float()
        r = labels["conc"].log() - torch.log(outputs["conc"] + 1e-3)
        scale = masked_mean(r ** 2, seen).sqrt().detach().clamp(0.1, 1.0)
        t = (dof + 1) / 2 * torch.log1p((r / scale) ** 2 / dof)
        fit = masked_mean(t, seen, dim=1).mean()
        cdf = torch.distributions.Normal(0.0, 1.0).cdf(r / scale)
        censored = masked_mean(-torch.log(cdf + 1e-3), under)
        shrink = 0.5 * ((outputs["delta"] / omega) ** 2).sum(1).mean()
        return {"loss": fit + below * censored + prior * shrink, "fit": fit, "censored": censored, "prior": shrink}

    return loss


loss = make_loss()


# ---------------------------------------------------------------- metric

def metric(outputs, labels):
    conc = outputs["conc"].detach().numpy().astype("float64")
    truth, kind = np.asarray(labels["conc"], dtype="float64"), np.asarray(labels["kind"])
    seen, under = kind == MEASURED, kind == BELOW
    r = np.log(truth[seen]) - np.log(np.maximum(conc[seen], 1e-3))
    areas = []
    times = np.arange(conc.shape[1])
    for mine, real, ok in zip(conc, truth, seen):
        if ok.sum() >= 3:
            a, b = np.trapezoid(mine[ok], times[ok]), np.trapezoid(real[ok], times[ok])
            areas.append(abs(a - b) / b)
    return {
        "rmse_log": float(np.sqrt(np.mean(r ** 2))),
        "fold_error": float(np.exp(np.abs(r).mean())),
        "within_twofold": float((np.abs(r) <= math.log(2)).mean()),
        "bias": float(np.median(r)),
        "spread": float(np.percentile(r, 90) - np.percentile(r, 10)),
        "below_recall": float((conc[under] < LIMIT).mean()) if under.any() else 1.0,
        "area_error": float(np.mean(areas)) if areas else 0.0,
    }


# ---------------------------------------------------------------- training

def build_optimizer(model):
    nets = [*model.covariate.parameters(), *model.elimination.parameters()]
    return torch.optim.RMSprop(
        [{"params": nets, "weight_decay": 1e-3}, {"params": [model.population], "lr": 8e-4}],
        lr=1.6e-3, alpha=0.9, eps=1e-4, momentum=0.6, centered=True,
    )


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[18, 36], gamma=0.3)


def halves(batch):
    *inputs, labels = batch
    for part in (slice(0, None, 2), slice(1, None, 2)):
        yield [x[part] for x in inputs], {k: v[part] for k, v in labels.items()}


def train_step(model, optimizer, batch):
    """Two half batches, one update."""
    model.train()
    optimizer.zero_grad()
    report = {"loss": 0.0, "fit": 0.0, "censored": 0.0, "prior": 0.0}
    for inputs, labels in halves(batch):
        parts = loss(model(*inputs), labels)
        (parts["loss"] / 2).backward()
        for key in report:
            report[key] += parts[key].item() / 2
    nn.utils.clip_grad_value_(model.parameters(), 0.25)
    optimizer.step()
    return report


# ---------------------------------------------------------------- inference

@torch.no_grad()
def predict(path, model):
    model.eval()
    case = json.loads(Path(path).read_text())
    ask = torch.tensor(case["ask"], dtype=torch.float32)
    out = model(covariates(case["subject"])[None], dose_grid(case["doses"])[None], ask[None])
    curve = out["curve"][0].numpy()
    ka, clearance, volume, k12, k21 = out["theta"][0].double().exp().tolist()
    k10 = clearance / volume
    total = k10 + k12 + k21
    slow = 0.5 * (total - math.sqrt(total ** 2 - 4 * k10 * k21))
    last = max(int(t) for t, _ in case["doses"])
    trough = float(curve[last:].min())
    return {
        "conc": out["conc"][0].numpy(),
        "curve": curve,
        "peak": np.array([curve.max(), curve.argmax()]),
        "exposure": np.array(np.trapezoid(curve) + curve[-1] / slow),
        "half_life": np.array(math.log(2) / slow),
        "advice": "raise" if trough < LIMIT else "lower" if curve.max() > 8 else "keep",
    }
