"""Neural ODE forecaster with fixed RK4 steps (Chen et al. 2018), energy penalty (Finlay et al. 2020), AdaBelief, EMA."""
import copy
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
PAST, FUTURE, DT, LATENT, WIDTH = 6, 9, 0.25, 5, 20


class Trajectories(Dataset):
    def __init__(self, split):
        self.x = torch.from_numpy(np.load(DATA / f"{split}.npy"))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        times = DT * torch.arange(1, FUTURE + 1, dtype=torch.float32)
        return self.x[i, :PAST], times, self.x[i, PAST:]


class VectorField(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = weight_norm(self._linear(LATENT + 2, WIDTH))
        self.mid = weight_norm(self._linear(WIDTH, WIDTH))
        self.out = weight_norm(self._linear(WIDTH, LATENT))
        self.nfe = 0

    @staticmethod
    def _linear(i, o):
        layer = nn.Linear(i, o)
        nn.init.normal_(layer.weight, 0.0, 0.3)
        nn.init.uniform_(layer.bias, -0.05, 0.05)
        return layer

    def forward(self, t, z):
        self.nfe += 1
        clock = torch.stack([torch.sin(t), torch.cos(t)], dim=-1)
        h = torch.tanh(self.inp(torch.cat([z, clock], dim=-1)))
        h = h + F.softplus(self.mid(h)) - 0.5
        return self.out(h)


def rk4(f, t, z, dt):
    h = dt.unsqueeze(-1)
    k1 = f(t, z)
    k2 = f(t + dt / 2, z + h / 2 * k1)
    k3 = f(t + dt / 2, z + h / 2 * k2)
    k4 = f(t + dt, z + h * k3)
    return z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), k1


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(PAST * 2, WIDTH), nn.GELU(approximate="tanh"), nn.Linear(WIDTH, LATENT))
        self.field = VectorField()
        self.readout = nn.Linear(LATENT, 2)
        for m in (self.encoder[1], self.encoder[3], self.readout):
            nn.init.trunc_normal_(m.weight, std=0.2, a=-0.4, b=0.4)
            nn.init.zeros_(m.bias)

    def forward(self, past, times):
        z, t = self.encoder(past), torch.zeros_like(times[:, 0])
        states, energy = [], 0.0
        for k in range(times.size(1)):
            z, speed = rk4(self.field, t, z, times[:, k] - t)
            t = times[:, k]
            energy = energy + speed.pow(2).mean(-1)
            states.append(z)
        # residual to the last seen point
        return past[:, -1:] + self.readout(torch.stack(states, 1)), energy / times.size(1)


class WithEMA(nn.Module):
    """The trained net and its running average, which answers in eval mode."""

    def __init__(self, decay=0.9):
        super().__init__()
        self.net = Forecaster()
        self.average = copy.deepcopy(self.net).requires_grad_(False)
        self.decay = decay

    def forward(self, past, times):
        return self.net(past, times)

    @torch.no_grad()
    def update_average(self):
        for a, p in zip(self.average.parameters(), self.net.parameters()):
            a.lerp_(p, 1 - self.decay)


class AdaBelief(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["step"], s["m"], s["s"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["step"] += 1
                p.mul_(1 - group["lr"] * group["weight_decay"])
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                s["s"].mul_(b2).add_((p.grad - s["m"]).square(), alpha=1 - b2).add_(group["eps"])
                m = s["m"] / (1 - b1 ** s["step"])
                v = s["s"] / (1 - b2 ** s["step"])
                p.add_(m / (v.sqrt() + group["eps"]), alpha=-group["lr"])


def build_model():
    return WithEMA()


def build_dataset(split):
    return Trajectories(split)


def build_dataloader(split):
    return DataLoader(Trajectories(split), batch_size=7, shuffle=split == "train")


def loss(outputs, labels):
    traj, energy = outputs
    discount = 0.95 ** torch.arange(labels.size(1), dtype=torch.float32).view(1, -1, 1)
    fit = (F.smooth_l1_loss(traj, labels, beta=0.5, reduction="none") * discount).mean()
    return {"loss": fit + 0.01 * energy.mean(), "fit": fit}


def metric(outputs, labels):
    err = (outputs[0] - labels).detach()
    return {"rmse": err.pow(2).mean().sqrt().item(), "final_mae": err[:, -1].abs().mean().item(), "energy": outputs[1].mean().item()}


def build_optimizer(model):
    return AdaBelief(model.net.parameters(), lr=1e-2, weight_decay=1e-3)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=120, pct_start=0.25, div_factor=10.0, final_div_factor=100.0, cycle_momentum=False)


def train_step(model, optimizer, batch):
    model.train()
    past, times, future = batch
    out = loss(model(past, times), future)
    optimizer.zero_grad()
    out["loss"].backward()
    nn.utils.clip_grad_norm_(model.net.parameters(), 1.0)
    optimizer.step()
    model.update_average()
    return {k: v.item() for k, v in out.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    q = json.loads(Path(path).read_text())
    past = torch.tensor(q["series"])
    times = torch.arange(1, int(q["until"] / DT) + 1) * DT
    traj, energy = model.average(past, times.expand(len(past), -1))
    return {"trajectory": traj.numpy(), "energy": energy.tolist()}
