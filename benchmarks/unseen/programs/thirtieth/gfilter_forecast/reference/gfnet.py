"""Global Fourier filters (Rao et al. 2021) for load forecasting, with reversible
instance normalisation. PyTorch."""
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parent.parent / "data"
CHANNELS, HISTORY, HORIZON, DIM, DEPTH = 4, 32, 8, 16, 3
NORM = partial(nn.LayerNorm, eps=1e-6)
BETA, ACCUM, WARM, TOTAL = 0.5, 2, 10, 120


def trunc_normal_(w, std):
    return nn.init.trunc_normal_(w, std=std, a=-2 * std, b=2 * std)


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0.0:
            return x
        keep = 1 - self.p
        mask = torch.rand(x.size(0), 1, 1, device=x.device) < keep
        return x * mask / keep


class GlobalFilter(nn.Module):
    def __init__(self, length, dim):
        super().__init__()
        self.length = length
        self.complex_weight = nn.Parameter(torch.randn(length // 2 + 1, dim, 2) * 0.02)

    def forward(self, x):
        z = torch.fft.rfft(x, dim=1, norm="ortho")
        z = z * torch.view_as_complex(self.complex_weight)
        return torch.fft.irfft(z, n=self.length, dim=1, norm="ortho")


class Mlp(nn.Module):
    def __init__(self, dim, ratio):
        super().__init__()
        self.fc1 = nn.Linear(dim, dim * ratio)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(dim * ratio, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, drop):
        super().__init__()
        self.norm1, self.norm2 = NORM(dim), NORM(dim)
        self.filter = GlobalFilter(HISTORY, dim)
        self.mlp = Mlp(dim, 2)
        self.drop_path = DropPath(drop)
        self.gamma = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x):
        return x + self.drop_path(self.gamma * self.mlp(self.norm2(self.filter(self.norm1(x)))))


class GFNet(nn.Module):
    def __init__(self, use_checkpoint=True):
        super().__init__()
        self.affine_weight = nn.Parameter(torch.ones(CHANNELS))
        self.affine_bias = nn.Parameter(torch.zeros(CHANNELS))
        self.embed = nn.Linear(CHANNELS, DIM)
        self.pos_embed = nn.Parameter(torch.zeros(1, HISTORY, DIM))
        rates = torch.linspace(0, 0.2, DEPTH).tolist()
        self.blocks = nn.ModuleList([Block(DIM, r) for r in rates])
        self.norm = NORM(DIM)
        self.time_head = nn.Linear(HISTORY, HORIZON)
        self.channel_head = nn.Linear(DIM, CHANNELS)
        self.use_checkpoint = use_checkpoint
        trunc_normal_(self.pos_embed, 0.02)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, nn.Linear):
            trunc_normal_(m.weight, 0.05)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        h = (x - mean) / std * self.affine_weight + self.affine_bias
        h = self.embed(h) + self.pos_embed
        for blk in self.blocks:
            if self.use_checkpoint and self.training:
                h = checkpoint(blk, h, use_reentrant=False)
            else:
                h = blk(h)
        h = self.norm(h)
        y = self.channel_head(self.time_head(h.transpose(1, 2)).transpose(1, 2))
        y = (y - self.affine_bias) / (self.affine_weight + 1e-8)
        return y * std + mean


class Load(Dataset):
    def __init__(self, split):
        table = np.loadtxt(ROOT / "load.csv", delimiter=",", skiprows=1, dtype=np.float32)
        cut = 400
        self.table = table[:cut] if split == "train" else table[cut - HISTORY:]
        self.stride = 3 if split == "train" else HORIZON

    def __len__(self):
        return (len(self.table) - HISTORY - HORIZON) // self.stride + 1

    def __getitem__(self, i):
        s = i * self.stride
        return (torch.from_numpy(self.table[s:s + HISTORY].copy()),
                torch.from_numpy(self.table[s + HISTORY:s + HISTORY + HORIZON].copy()))


def build_model():
    return GFNet()


def build_dataset(split):
    return Load(split)


def build_dataloader(split):
    train = split == "train"
    return DataLoader(Load(split), batch_size=8, shuffle=train, drop_last=train)


def loss(outputs, labels):
    return {"loss": F.smooth_l1_loss(outputs, labels, beta=BETA)}


def metric(outputs, labels):
    err = outputs - labels
    return {"mae": err.abs().mean().item(), "rmse": err.pow(2).mean().sqrt().item(),
            "mase_last": (err[:, -1].abs().mean() / labels.diff(dim=1).abs().mean()).item()}


def build_optimizer(model):
    decay, rest = [], []
    for name, p in model.named_parameters():
        skip = p.ndim <= 1 or name.endswith("pos_embed") or "complex" in name
        (rest if skip else decay).append(p)
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
                             lr=4e-3, betas=(0.9, 0.98), eps=1e-6)


def build_scheduler(optimizer):
    def rate(step):
        if step < WARM:
            return max(step, 1) / WARM
        return max(0.01, 0.5 * (1 + math.cos(math.pi * (step - WARM) / (TOTAL - WARM))))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def train_step(model, optimizer, batch):
    """Gradients are gathered over ACCUM equal parts of the batch."""
    model.train()
    x, y = batch
    optimizer.zero_grad()
    total = 0.0
    for xs, ys in zip(x.chunk(ACCUM), y.chunk(ACCUM)):
        value = loss(model(xs), ys)["loss"] / ACCUM
        value.backward()
        total += value.item()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return {"loss": total, "grad_norm": norm.item(), "lr": optimizer.param_groups[0]["lr"]}


@torch.no_grad()
def predict(path, model):
    model.eval()
    x = torch.tensor(json.loads(Path(path).read_text())["history"])[None]
    y = model(x)[0]
    return {"forecast": y.numpy(), "peak_hour": y.sum(1).argmax().item(), "spread": y.std(0).tolist()}
