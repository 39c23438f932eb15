"""A vision transformer with packed attention, layer scale and a resized position embedding, trained by AdamW; PyTorch."""

import numpy as np
import torch
from given import images
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, CLASSES = 48, 4, 7


class DropPath(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        keep = 1 - self.rate
        mask = (torch.rand(x.shape[0], 1, 1, dtype=x.dtype) < keep).to(x.dtype)
        return x / keep * mask


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.scale = (WIDTH // HEADS) ** -0.5

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * self.scale
        weights = scores.softmax(-1)
        x = weights @ v
        x = x.transpose(1, 2).reshape(batch, length, WIDTH)
        return self.proj(x)


class Block(nn.Module):
    def __init__(self, drop_path):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attention = Attention()
        self.gamma1 = nn.Parameter(torch.full((WIDTH,), 0.5))
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.fc1 = nn.Linear(WIDTH, 2 * WIDTH)
        self.fc2 = nn.Linear(2 * WIDTH, WIDTH)
        self.gamma2 = nn.Parameter(torch.full((WIDTH,), 0.5))
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        y = self.attention(self.norm1(x))
        x = x + self.drop_path(self.gamma1 * y)
        y = self.fc1(self.norm2(x))
        y = F.gelu(y)
        y = self.fc2(y)
        return x + self.drop_path(self.gamma2 * y)


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 8, stride=8)
        self.cls = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.5)
        self.position = nn.Parameter(torch.randn(1, 17, WIDTH) * 0.5)
        self.blocks = nn.ModuleList([Block(0.1) for _ in range(3)])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)

    def positions(self, side):
        first, grid = self.position[:, :1], self.position[:, 1:]
        grid = grid.reshape(1, 4, 4, WIDTH).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, size=(side, side), mode="bicubic", align_corners=False)
        grid = grid.permute(0, 2, 3, 1).reshape(1, side * side, WIDTH)
        return torch.cat([first, grid], 1)

    def forward(self, x):
        x = self.patch(x)
        side = x.shape[-1]
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1)
        x = x + self.positions(side)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x[:, 0])


def build_model():
    torch.manual_seed(3)
    model = ViT()
    for name, parameter in model.named_parameters():
        if "norm" in name or "gamma" in name or name.endswith("bias"):
            parameter.data += 0.2 * torch.randn_like(parameter)
        elif parameter.ndim == 2:
            parameter.data *= 1.7
    return model


def inputs():
    return images(3, 48, seed=2)


def labels():
    return np.array([6, 0, 3], "int64")


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)


def build_optimizer(model):
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.2, end_factor=1.0, total_iters=5)
