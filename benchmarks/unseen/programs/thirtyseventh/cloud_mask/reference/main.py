"""Clouds in small satellite pictures."""
import os

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from .blocks import Pair, Rise

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
MEAN = np.array([0.48, 0.5, 0.52], dtype=np.float32)
STD = np.array([0.2, 0.21, 0.22], dtype=np.float32)


class CloudNet(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.first = Pair(3, width, 2)
        self.second = Pair(width, 2 * width, 3)
        self.rise = Rise(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.second(F.max_pool2d(a, 3, stride=2, padding=1, ceil_mode=False))
        c = F.interpolate(F.avg_pool2d(b, 2, ceil_mode=True, count_include_pad=False), scale_factor=2, mode="nearest")
        b = b + c[:, :, : b.shape[2], : b.shape[3]]
        return self.out(self.rise(b, a)).squeeze(1)


def load(path):
    return np.asarray(Image.open(path).convert("RGB"), dtype=np.float32) / 255.0


class Scenes(Dataset):
    def __init__(self, split):
        self.split = split
        self.names = sorted(n for n in os.listdir(DATA) if n.startswith(split + "_") and not n.endswith("_mask.png"))

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        path = os.path.join(DATA, self.names[i])
        x = load(path)
        y = (np.asarray(Image.open(path[:-4] + "_mask.png")) > 127).astype(np.float32)
        if self.split == "train":
            rng = np.random.RandomState(17 * i + 5)
            turns = rng.randint(4)
            x, y = np.rot90(x, turns), np.rot90(y, turns)
            top, left = rng.randint(0, 5, size=2)
            x, y = x[top:top + 30, left:left + 30], y[top:top + 30, left:left + 30]
            x = np.clip(x * np.float32(rng.uniform(0.8, 1.2)), 0, 1)
        else:
            x, y = x[2:32, 2:32], y[2:32, 2:32]
        x = ((x - MEAN) / STD).transpose(2, 0, 1)
        return np.ascontiguousarray(x), np.ascontiguousarray(y)


def build_model():
    return CloudNet()


def build_dataset(split):
    return Scenes(split)


def build_dataloader(split):
    return DataLoader(Scenes(split), batch_size=4)


def loss(outputs, labels):
    p = outputs.sigmoid()
    both = (p * labels).sum((1, 2))
    dice = 1 - (2 * both + 1) / (p.sum((1, 2)) + labels.sum((1, 2)) + 1)
    bce = F.binary_cross_entropy_with_logits(outputs, labels, reduction="none")
    pt = torch.exp(-bce)
    return 0.5 * dice.mean() + ((1 - pt) ** 2 * bce).mean()


def metric(outputs, labels):
    m, y = outputs.detach().numpy() > 0, labels.numpy() > 0.5
    iou = [(a & b).sum() / max((a | b).sum(), 1) for a, b in zip(m, y)]
    return {"iou": float(np.mean(iou)), "cover": float(m.mean() - y.mean())}


def build_optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1, eps=1e-8)


def build_scheduler(optimizer):
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=5)
    steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[10, 22], gamma=0.3)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, steps], milestones=[5])


def train_step(model, optimizer, batch):
    x, y = batch
    optimizer.zero_grad()
    value = loss(model(x), y)
    value.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    optimizer.step()
    return value.detach()


def predict(path, model):
    x = (load(path) - MEAN) / STD
    with torch.no_grad():
        out = model(torch.from_numpy(x.transpose(2, 0, 1)[None].copy()))
    return out[0].sigmoid().numpy()
