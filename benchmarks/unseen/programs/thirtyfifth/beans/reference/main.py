"""Cup grades of coffee lots from a few learned near-infrared bands; everything in one module (PyTorch)."""
import csv

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

GRADES, BANDS = 5, 24
PROCESSES = ["washed", "natural", "honey"]


def gumbel(shape, dtype, device):
    u = torch.rand(shape, dtype=dtype, device=device)
    return -torch.log(-torch.log(u + 1e-10) + 1e-10)


class BeanDataset(Dataset):
    def __init__(self, split):
        with open("data/beans.csv") as f:
            rows = list(csv.reader(f))[1:]
        spectra = np.array([[float(v) if v else np.nan for v in r[2:-1]] for r in rows], dtype=np.float64)
        train = np.array([i % 3 != 2 for i in range(len(rows))])
        column_mean = np.nanmean(spectra[train], axis=0)
        spectra = np.where(np.isnan(spectra), column_mean, spectra)
        spectra = (spectra - spectra.mean(1, keepdims=True)) / spectra.std(1, ddof=1, keepdims=True)
        keep = train if split == "train" else ~train
        self.spectra = spectra[keep].astype(np.float32)
        self.process = [PROCESSES.index(r[1]) for r, k in zip(rows, keep) if k]
        self.grade = [int(r[-1]) for r, k in zip(rows, keep) if k]
        self.split = split

    def __len__(self):
        return len(self.grade)

    def __getitem__(self, i):
        x = self.spectra[i]
        if self.split == "train":
            rng = np.random.RandomState(70 + i)
            x = np.roll(x, rng.randint(-1, 2)) + rng.normal(0, 0.02, BANDS).astype(np.float32)
            x = x + np.float32(rng.uniform(-0.1, 0.1)) * np.linspace(-1, 1, BANDS, dtype=np.float32)
        return {"spectrum": x, "process": self.process[i], "labels": self.grade[i]}


class GradeModule(nn.Module):
    """Model, loss and optimizer in one place, as in Lightning."""

    def __init__(self, picks=6, hidden=20, lr=1e-2, tau=2.0, tau_min=0.5, tau_rate=0.9, repeat_weight=0.05):
        super().__init__()
        self.lr, self.tau_min, self.tau_rate, self.repeat_weight = lr, tau_min, tau_rate, repeat_weight
        self.selector = nn.Parameter(0.1 * torch.randn(picks, BANDS))
        self.process = nn.Embedding(len(PROCESSES), 4, max_norm=None)
        self.pair = nn.Bilinear(picks, 4, hidden)
        self.gain = nn.Parameter(torch.ones(hidden))
        self.mid = nn.Linear(hidden, hidden)
        self.slope = nn.PReLU(hidden, init=0.1)
        self.score = nn.Linear(hidden, 1, bias=False)
        nn.init.normal_(self.score.weight, std=0.5)
        self.first = nn.Parameter(torch.tensor(-1.0))
        self.gaps = nn.Parameter(torch.zeros(GRADES - 2))
        self.register_buffer("tau", torch.tensor(tau))
        self.register_buffer("cost", torch.tensor([1.0, 1.25, 1.25, 1.5]), persistent=False)

    def select(self, spectrum):
        logits = self.selector
        if self.training:
            logits = logits + gumbel(logits.shape, logits.dtype, logits.device)
        weight = F.softmax(logits / self.tau, dim=-1)
        return spectrum @ weight.t(), weight

    def thresholds(self):
        return torch.cat([self.first[None], self.first + torch.cumsum(F.softplus(self.gaps), 0)])

    def forward(self, spectrum, process):
        picked, weight = self.select(spectrum)
        h = self.pair(picked, self.process(process))
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain
        h = h + self.slope(self.mid(h))
        return {"cumulative": self.score(h) - self.thresholds(), "weight": weight}

    def compute_loss(self, outputs, grade):
        z = outputs["cumulative"]
        level = torch.arange(GRADES - 1, device=z.device)
        target = (grade[:, None] > level).to(z.dtype) * 0.9 + 0.05
        ordinal = F.binary_cross_entropy_with_logits(z, target, weight=self.cost.to(z), reduction="none").sum(1).mean()
        repeats = F.relu(outputs["weight"].sum(0) - 0.25).sum()
        return ordinal + self.repeat_weight * repeats

    def training_step(self, batch):
        value = self.compute_loss(self(batch["spectrum"], batch["process"]), batch["labels"])
        return {"loss": value, "tau": self.tau.clone()}

    def on_train_batch_end(self):
        self.tau.copy_(torch.clamp(self.tau * self.tau_rate, min=self.tau_min))

    def configure_optimizers(self):
        chosen = {id(self.selector)}
        others = [p for p in self.parameters() if id(p) not in chosen]
        optimizer = torch.optim.Adagrad([{"params": others}, {"params": [self.selector], "lr": 3 * self.lr}],
                                        lr=self.lr, eps=1e-8, initial_accumulator_value=0.0)
        return optimizer

    def configure_schedule(self, optimizer):
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[g["lr"] for g in optimizer.param_groups],
                                                   total_steps=64, pct_start=0.25, div_factor=10,
                                                   final_div_factor=100, cycle_momentum=False)


TASK = {}


def build_model():
    TASK["module"] = GradeModule()
    return TASK["module"]


def loss(outputs, labels):
    return TASK["module"].compute_loss(outputs, labels)


def metric(outputs, labels):
    z, y = outputs["cumulative"].detach().cpu().numpy(), labels.cpu().numpy()
    guess = (z > 0).sum(1)
    seen = np.zeros((GRADES, GRADES))
    np.add.at(seen, (y, guess), 1)
    weight = (np.arange(GRADES)[:, None] - np.arange(GRADES)[None]) ** 2 / (GRADES - 1) ** 2
    chance = np.outer(seen.sum(1), seen.sum(0)) / seen.sum()
    expected = (weight * chance).sum()
    kappa = 1 - (weight * seen).sum() / expected if expected > 0 else 1.0
    return {"kappa": float(kappa), "mae": float(np.abs(guess - y).mean())}


def build_dataset(split):
    return BeanDataset(split)


def build_dataloader(split):
    return DataLoader(BeanDataset(split), batch_size=8)


def build_optimizer(model):
    return model.configure_optimizers()


def build_scheduler(optimizer):
    return TASK["module"].configure_schedule(optimizer)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    result = model.training_step(batch)
    result["loss"].backward()
    nn.utils.clip_grad_norm_([model.selector], 0.02)            # only the selector is clipped
    optimizer.step()
    model.on_train_batch_end()
    return result


def predict(path, model):
    with open(path) as f:
        rows = list(csv.reader(f))
    x = np.array([[float(v) if v else np.nan for v in r[2:]] for r in rows])
    x = np.where(np.isnan(x), np.nanmean(x, 1, keepdims=True), x)
    x = (x - x.mean(1, keepdims=True)) / x.std(1, ddof=1, keepdims=True)
    with torch.no_grad():
        out = model(torch.from_numpy(x).to(model.gain.dtype), torch.tensor([PROCESSES.index(r[1]) for r in rows]))
    above = torch.sigmoid(out["cumulative"])
    return {"lots": [r[0] for r in rows], "grade": (above > 0.5).sum(1).numpy(),
            "expected": above.sum(1).numpy(), "bands": out["weight"].argmax(1).numpy()}
