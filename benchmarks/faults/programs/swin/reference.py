"""Attention in shifted windows with relative positions, patch merging and shuffled channels; PyTorch, written with functions."""

import numpy as np
import torch
from given import images
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, WINDOW, CLASSES = 32, 4, 4, 5


def to_windows(x):
    batch, height, width, channels = x.shape
    x = x.view(batch, height // WINDOW, WINDOW, width // WINDOW, WINDOW, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW * WINDOW, channels)


def from_windows(x, height, width):
    x = x.view(-1, height // WINDOW, width // WINDOW, WINDOW, WINDOW, x.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, height, width, x.shape[-1])


def relative_index():
    rows, columns = torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")
    places = torch.stack([rows.flatten(), columns.flatten()])
    apart = places[:, :, None] - places[:, None, :] + WINDOW - 1
    return apart[0] * (2 * WINDOW - 1) + apart[1]


def shifted_mask(height, width, shift):
    regions = torch.zeros(1, height, width, 1)
    stretches = (slice(0, -WINDOW), slice(-WINDOW, -shift), slice(-shift, None))
    for number in range(9):
        regions[:, stretches[number // 3], stretches[number % 3]] = number
    regions = to_windows(regions)[..., 0]
    return (regions[:, None, :] != regions[:, :, None]) * -100.0


class WindowAttention(nn.Module):
    def __init__(self, width, side, shift):
        super().__init__()
        self.shift, self.side = shift, side
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * WINDOW - 1) ** 2, HEADS))
        self.register_buffer("index", relative_index(), persistent=False)
        self.register_buffer("mask", shifted_mask(side, side, shift) if shift else None, persistent=False)

    def forward(self, x):
        kept = x
        x = self.norm(x)
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = to_windows(x)
        count, length, width = x.shape
        q, k, v = self.qkv(x).view(count, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        scores = (q * (width // HEADS) ** -0.5) @ k.mT
        scores = scores + self.table[self.index.flatten()].view(length, length, HEADS).permute(2, 0, 1)
        if self.mask is not None:
            scores = scores.view(-1, len(self.mask), HEADS, length, length) + self.mask[:, None].to(scores.dtype)
            scores = scores.view(-1, HEADS, length, length)
        x = (scores.softmax(-1) @ v).transpose(1, 2).reshape(count, length, width)
        x = from_windows(self.proj(x), self.side, self.side)
        if self.shift:
            x = torch.roll(x, (self.shift, self.shift), (1, 2))
        return kept + x


class Mixer(nn.Module):
    """Grouped convolutions with channels shuffled between them, excited by what was squeezed."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(4, width, eps=1e-4)
        self.expand = nn.Conv2d(width, 2 * width, 1, groups=2)
        self.depth = nn.Conv2d(2 * width, 2 * width, 3, padding=2, dilation=2, groups=2 * width)
        self.squeeze = nn.Conv2d(2 * width, width // 4, 1)
        self.excite = nn.Conv2d(width // 4, 2 * width, 1)
        self.shrink = nn.Conv2d(2 * width, width, 1, groups=2)

    def forward(self, x):
        y = self.expand(self.norm(x))
        batch, channels, height, width = y.shape
        y = y.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)
        y = F.silu(self.depth(y))
        gate = self.excite(F.relu(self.squeeze(y.mean((2, 3), keepdim=True))))
        y = self.shrink(y * F.hardsigmoid(gate))
        return x + y


class Merge(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.reduce = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduce(self.norm(x))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.one, self.two = WindowAttention(WIDTH, 16, 0), WindowAttention(WIDTH, 16, 2)
        self.mixer = Mixer(WIDTH)
        self.merge = Merge(WIDTH)
        self.three = WindowAttention(2 * WIDTH, 8, 2)
        self.head = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 3, 1)
        x = self.two(self.one(x))
        x = self.mixer(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        x = self.three(self.merge(x))
        best = x.flatten(1, 2).topk(9, dim=1).values
        return self.head(best.mean(1))


def build_model():
    torch.manual_seed(11)
    model = Swin()
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            parameter.data += 0.2 * torch.randn_like(parameter)
        elif parameter.ndim == 2:
            parameter.data *= 1.5
    return model


def inputs():
    return images(2, 64, seed=5)


def labels():
    return np.array([4, 1], "int64")


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)
