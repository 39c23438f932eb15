"""MLP-Mixer (Tolstikhin et al. 2021) with learned step-size weight quantisation
(LSQ, Esser et al. 2020): orientation of gratings. PyTorch."""
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

DATA = Path(__file__).resolve().parent.parent / "data"


@dataclass
class Settings:
    side: int = 12
    patch: int = 3
    dim: int = 16
    token_hidden: int = 24
    channel_hidden: int = 40
    depth: int = 3
    bits: int = 4
    dropout: float = 0.1
    activity: float = 1e-3
    lr: float = 0.05
    step_lr: float = 0.005
    decay: float = 1e-4
    total: int = 112
    power: float = 0.9


S = Settings()


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


def grad_scale(x, scale):
    return (x - x * scale).detach() + x * scale


class QuantLinear(nn.Linear):
    """Weights on 2**bits signed levels of a learned step."""

    def __init__(self, n_in, n_out, bits):
        super().__init__(n_in, n_out)
        self.qn, self.qp = -2 ** (bits - 1), 2 ** (bits - 1) - 1
        nn.init.trunc_normal_(self.weight, std=n_in ** -0.5, a=-2 * n_in ** -0.5, b=2 * n_in ** -0.5)
        nn.init.zeros_(self.bias)
        self.step = nn.Parameter(2 * self.weight.detach().abs().mean() / math.sqrt(self.qp))

    def quantised(self):
        s = grad_scale(self.step, 1.0 / math.sqrt(self.weight.numel() * self.qp))
        return RoundSTE.apply(torch.clamp(self.weight / s, self.qn, self.qp)) * s

    def forward(self, x):
        return F.linear(x, self.quantised(), self.bias)


class FeedForward(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(QuantLinear(dim, hidden, S.bits), nn.GELU(approximate="tanh"),
                         nn.Dropout(S.dropout), QuantLinear(hidden, dim, S.bits))


class MixerLayer(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.norm1 = nn.LayerNorm(S.dim)
        self.tokens = FeedForward(tokens, S.token_hidden)
        self.norm2 = nn.LayerNorm(S.dim)
        self.channels = FeedForward(S.dim, S.channel_hidden)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        tokens = (S.side // S.patch) ** 2
        self.patchify = nn.Conv2d(1, S.dim, S.patch, stride=S.patch)
        self.layers = nn.Sequential(*[MixerLayer(tokens) for _ in range(S.depth)])
        self.norm = nn.LayerNorm(S.dim)
        self.head = nn.Linear(S.dim, 2)
        nn.init.trunc_normal_(self.patchify.weight, std=0.2, a=-0.4, b=0.4)
        nn.init.zeros_(self.patchify.bias)
        nn.init.normal_(self.head.weight, std=0.1)
        nn.init.zeros_(self.head.bias)
        self._activity = []
        for layer in self.layers:                       # mean |GELU| of the channel part
            layer.channels[1].register_forward_hook(lambda m, i, o: self._activity.append(o.abs().mean()))

    def forward(self, image):
        self._activity.clear()
        x = self.patchify(image).flatten(2).transpose(1, 2)
        x = self.norm(self.layers(x)).mean(1)
        vec = F.normalize(self.head(x), dim=-1)
        return {"vec": vec, "activity": torch.stack(self._activity).sum()}


def build_model():
    return Mixer()


def build_dataset(split):
    z = np.load(DATA / "gratings.npz")
    x = torch.from_numpy(z[f"{split}_x"].astype(np.float32) / 255.0 - 0.5).unsqueeze(1)
    return TensorDataset(x, torch.from_numpy(z[f"{split}_deg"]))


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=8, shuffle=split == "train")


def loss(outputs, labels):
    """Orientation has period 180 degrees, so the target is the doubled angle."""
    a = torch.deg2rad(2 * labels)
    cos = (outputs["vec"] * torch.stack([a.cos(), a.sin()], -1)).sum(-1)
    fit = (1 - cos).mean()
    return {"loss": fit + S.activity * outputs["activity"], "fit": fit}


def orientation(vec):
    return torch.rad2deg(torch.atan2(vec[:, 1], vec[:, 0])) / 2 % 180


def metric(outputs, labels):
    d = (orientation(outputs["vec"]) - labels).abs() % 180
    d = torch.minimum(d, 180 - d)
    return {"mean_deg": d.mean().item(), "within_15": (d < 15).float().mean().item(), "worst_deg": d.max().item()}


def build_optimizer(model):
    groups = {"decay": [], "plain": [], "step": []}
    for name, p in model.named_parameters():
        key = "step" if name.endswith("step") else "decay" if p.ndim > 1 else "plain"
        groups[key].append(p)
    return torch.optim.SGD([
        {"params": groups["decay"], "weight_decay": S.decay},
        {"params": groups["plain"]},
        {"params": groups["step"], "lr": S.step_lr},
    ], lr=S.lr, momentum=0.9)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=S.total, power=S.power)


def train_step(model, optimizer, batch):
    model.train()
    image, degrees = batch
    parts = loss(model(image), degrees)
    optimizer.zero_grad()
    parts["loss"].backward()
    # adaptive clipping: no tensor moves by more than a tenth of its own norm
    for p in model.parameters():
        limit = 0.1 * p.detach().norm().clamp(min=1e-2)
        norm = p.grad.norm()
        if norm > limit:
            p.grad.mul_(limit / norm)
    optimizer.step()
    with torch.no_grad():
        for m in model.modules():
            if isinstance(m, QuantLinear):
                m.step.clamp_(min=1e-4)
    return {k: v.item() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    img = np.loadtxt(path, delimiter=",", dtype=np.float32) / 255.0 - 0.5
    vec = model(torch.from_numpy(img)[None, None])["vec"]
    return {"degrees": orientation(vec).tolist(), "vec": vec[0].numpy()}
