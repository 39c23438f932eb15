"""Tiny DDPM noise predictor (Ho et al. 2020) with min-SNR loss weights."""
import copy
import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"


@dataclass(frozen=True)
class Config:
    size: int = 12
    width: int = 16
    mults: tuple = (1, 2)
    groups: int = 4
    temb: int = 32
    timesteps: int = 50
    lr: float = 2e-3
    decay: float = 0.05
    betas: tuple = (0.9, 0.99)
    batch: int = 6
    warmup: int = 10
    total: int = 112
    clip: float = 1.0
    ema: float = 0.95
    gamma: float = 5.0


CFG = Config()
conv3 = partial(nn.Conv2d, kernel_size=3, padding=1)
norm = partial(nn.GroupNorm, CFG.groups)


def cosine_alpha_bar(T, s=0.008):
    t = np.linspace(0, 1, T + 1, dtype=np.float64)
    f = np.cos((t + s) / (1 + s) * math.pi / 2) ** 2
    return np.clip(f[1:] / f[0], 1e-4, 0.9999).astype(np.float32)


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        half = dim // 2
        self.register_buffer("freqs", torch.exp(-math.log(10000.0) * torch.arange(half) / half), persistent=False)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        a = t.float()[:, None] * self.freqs[None]
        return self.mlp(torch.cat([a.sin(), a.cos()], dim=1))


class ResBlock(nn.Module):
    def __init__(self, cin, cout, temb):
        super().__init__()
        self.norm1, self.conv1 = norm(cin), conv3(cin, cout)
        self.emb = nn.Linear(temb, 2 * cout)
        self.norm2, self.conv2 = norm(cout), conv3(cout, cout)
        self.skip = nn.Conv2d(cin, cout, 1, bias=False) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(F.silu(e))[..., None, None].chunk(2, dim=1)
        h = self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))
        return h + self.skip(x)


class UNet(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        c0, c1 = [cfg.width * m for m in cfg.mults]
        self.time = TimeEmbedding(cfg.temb)
        self.stem = conv3(1, c0)
        self.down1 = ResBlock(c0, c0, cfg.temb)
        self.pool = nn.Conv2d(c0, c0, 3, stride=2, padding=1)
        self.mid = ResBlock(c0, c1, cfg.temb)
        self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), conv3(c1, c0))
        self.up1 = ResBlock(2 * c0, c0, cfg.temb)
        self.head = nn.Sequential(norm(c0), nn.SiLU(), conv3(c0, 1))
        nn.init.zeros_(self.head[-1].weight)
        nn.init.zeros_(self.head[-1].bias)
        self.register_buffer("alpha_bar", torch.from_numpy(cosine_alpha_bar(cfg.timesteps)))

    def forward(self, x, t):
        e = self.time(t)
        s = self.down1(self.stem(x), e)
        h = self.up(self.mid(self.pool(s), e))
        eps = self.head(self.up1(torch.cat([h, s], dim=1), e))
        ab = self.alpha_bar[t][:, None, None, None]
        x0 = (x - (1 - ab).sqrt() * eps) / ab.sqrt()
        return {"eps": eps, "x0": x0.clamp(-1, 1)}


class Blobs(Dataset):
    def __init__(self, split):
        self.images = np.load(DATA / "blobs.npz")[split]
        self.offset = {"train": 0, "val": 10_000}[split]
        self.ab = cosine_alpha_bar(CFG.timesteps)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        rng = np.random.RandomState(self.offset + i)
        t = int(rng.randint(CFG.timesteps))
        x0 = self.images[i].astype(np.float32) / 127.5 - 1.0
        eps = rng.standard_normal(x0.shape).astype(np.float32)
        ab = self.ab[t]
        x = np.sqrt(ab) * x0 + np.sqrt(1 - ab) * eps
        w = min(ab / (1 - ab), CFG.gamma) / CFG.gamma
        return (torch.from_numpy(x)[None], torch.tensor(t),
                {"eps": torch.from_numpy(eps)[None], "w": torch.tensor(w, dtype=torch.float32)})


def build_model():
    return UNet()


def build_dataset(split):
    return Blobs(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), CFG.batch, shuffle=split == "train", drop_last=split == "train")


def loss(outputs, labels):
    per = F.smooth_l1_loss(outputs["eps"], labels["eps"], reduction="none", beta=0.5).flatten(1).mean(1)
    return (per * (0.1 + labels["w"])).mean()


@torch.no_grad()
def metric(outputs, labels):
    mse = F.mse_loss(outputs["eps"], labels["eps"])
    return {"mse": mse.item(), "psnr": (10 * torch.log10(4 / mse)).item()}


def build_optimizer(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW([{"params": decay, "weight_decay": CFG.decay}, {"params": rest, "weight_decay": 0.0}],
                             lr=CFG.lr, betas=CFG.betas)


def build_scheduler(optimizer):
    def factor(step):
        if step < CFG.warmup:
            return 0.1 + 0.9 * step / CFG.warmup
        return 0.5 * (1 + math.cos(math.pi * (step - CFG.warmup) / (CFG.total - CFG.warmup)))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def ema_update(model):
    if "_ema" not in model.__dict__:
        model.__dict__["_ema"] = copy.deepcopy(model).requires_grad_(False)
    with torch.no_grad():
        for a, b in zip(model._ema.parameters(), model.parameters()):
            a.lerp_(b, 1 - CFG.ema)


def train_step(model, optimizer, batch):
    x, t, labels = batch
    optimizer.zero_grad(set_to_none=True)
    value = loss(model(x, t), labels)
    value.backward()
    gnorm = nn.utils.clip_grad_norm_(model.parameters(), CFG.clip)
    optimizer.step()
    ema_update(model)
    return {"loss": value.detach(), "grad_norm": gnorm}


@torch.no_grad()
def predict(path, model):
    """Deterministic DDIM, eight strides from the noise in the file."""
    model.eval()
    x = torch.tensor(json.loads(Path(path).read_text())["noise"]).view(-1, 1, CFG.size, CFG.size)
    steps = list(range(CFG.timesteps - 1, -1, -7))
    for i, t in enumerate(steps):
        out = model(x, torch.full((len(x),), t))
        ab = model.alpha_bar[steps[i + 1]] if i + 1 < len(steps) else torch.tensor(1.0)
        x = ab.sqrt() * out["x0"] + (1 - ab).sqrt() * out["eps"]
    return {"sample": x.numpy(), "steps": steps}
