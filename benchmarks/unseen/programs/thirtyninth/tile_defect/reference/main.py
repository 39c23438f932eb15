"""Surface defects of ceramic tiles: a small network written as a line of text.

Each word names a registered layer: `wconv:16,k3,g4,d2` is a weight-normalised
convolution with 16 channels, kernel 3, 4 groups, dilation 2.
"""
import csv
import os
import re

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.nn.utils import weight_norm
from torch.utils.data import DataLoader, Dataset

NET = "conv:12,k3,s2 gn:4 silu wconv:16,k3,g4,d2 in prelu res:gn wconv:16,k3,g2 up:8 cat wconv:20,k1 gn:5 silu pool:4 head"
DEFECTS = ["ok", "crack", "pinhole", "edge_chip", "stain"]
WEIGHTS = [0.6, 1.4, 1.2, 1.0, 0.9]
IGNORE = 255
SMOOTH = 0.1
LAYERS = {}


def register(name):
    def add(maker):
        LAYERS[name] = maker
        return maker
    return add


def options(text):
    """'16,k3,g4' -> (16, {'k': 3, 'g': 4}); 'gn' -> ('gn', {})"""
    parts = text.split(",") if text else []
    keys = dict((p[0], int(p[1:])) for p in parts[1:])
    first = parts[0] if parts else None
    return (int(first) if first and re.fullmatch(r"\d+", first) else first), keys


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(2, channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.gain = nn.Parameter(torch.full((1, channels, 1, 1), 0.2))

    def forward(self, x, _):
        return x + self.gain * self.conv(F.silu(self.norm(x)))


class Plain(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, _):
        return self.layer(x)


class Up(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x, _):
        return F.interpolate(x, size=(self.size, self.size), mode="bilinear", align_corners=False)


class CatStem(nn.Module):
    """Append the stem's features, brought to this size by adaptive pooling."""

    def forward(self, x, stem):
        return torch.cat([x, F.adaptive_avg_pool2d(stem, x.shape[-2:])], dim=1)


def conv_of(c, n, o):
    k, d = o.get("k", 3), o.get("d", 1)
    return nn.Conv2d(c, n, k, stride=o.get("s", 1), padding=d * (k // 2), dilation=d, groups=o.get("g", 1))


@register("conv")
def make_conv(c, n, o):
    return Plain(conv_of(c, n, o)), n


@register("wconv")
def make_wconv(c, n, o):
    return Plain(weight_norm(conv_of(c, n, o))), n


LAYERS["gn"] = lambda c, n, o: (Plain(nn.GroupNorm(n, c)), c)
LAYERS["in"] = lambda c, n, o: (Plain(nn.InstanceNorm2d(c, affine=True)), c)
LAYERS["silu"] = lambda c, n, o: (Plain(nn.SiLU()), c)
LAYERS["prelu"] = lambda c, n, o: (Plain(nn.PReLU(c)), c)
LAYERS["res"] = lambda c, n, o: (Residual(c), c)
LAYERS["up"] = lambda c, n, o: (Up(n), c)
LAYERS["cat"] = lambda c, n, o: (CatStem(), c + 12)
LAYERS["pool"] = lambda c, n, o: (Plain(nn.Sequential(nn.AdaptiveAvgPool2d(n), nn.Flatten())), c * n * n)
LAYERS["head"] = lambda c, n, o: (Plain(nn.Linear(c, len(DEFECTS))), len(DEFECTS))


class TileNet(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.steps = nn.ModuleList()
        channels = 3
        for word in spec.split():
            name, _, rest = word.partition(":")
            n, opts = options(rest)
            layer, channels = LAYERS[name](channels, n, opts)
            self.steps.append(layer)

    def forward(self, x):
        stem = None
        for i, step in enumerate(self.steps):
            x = step(x, stem)
            if i == 2:
                stem = x
        return x


def build_model():
    return TileNet(NET)


def loss(outputs, labels):
    weight = torch.tensor(WEIGHTS, dtype=outputs.dtype, device=outputs.device)
    return F.cross_entropy(outputs, labels, weight=weight, ignore_index=IGNORE, label_smoothing=SMOOTH)


def metric(outputs, labels):
    guess, true = outputs.detach().cpu().numpy().argmax(1), labels.cpu().numpy()
    guess, true = guess[true != IGNORE], true[true != IGNORE]
    f1 = []
    for c in range(len(DEFECTS)):
        hit = np.sum((guess == c) & (true == c))
        if np.sum(true == c) + np.sum(guess == c):
            f1.append(2 * hit / (np.sum(guess == c) + np.sum(true == c)))
    return {"accuracy": float(np.mean(guess == true)), "macro_f1": float(np.mean(f1))}


def read_png(path):
    image = Image.open(path).convert("RGB").crop((2, 2, 26, 26))
    return np.asarray(image, dtype=np.float32) / 255.0


class Tiles(Dataset):
    def __init__(self, split):
        with open("data/labels.csv", newline="") as handle:
            self.rows = [r for r in csv.DictReader(handle) if r["split"] == split]
        self.train = split == "train"

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        x = read_png(os.path.join("data", "png", row["file"]))
        if self.train:
            rng = np.random.RandomState(31 * i + 7)
            x = np.rot90(x, rng.randint(4))
            if rng.rand() < 0.5:
                x = x[:, ::-1]
            x = np.clip((x - 0.5) * rng.uniform(0.8, 1.2) + 0.5, 0, 1)
        x = (x.transpose(2, 0, 1) - 0.65) / 0.12
        y = DEFECTS.index(row["defect"]) if row["defect"] in DEFECTS else IGNORE
        return torch.from_numpy(x.astype(np.float32)), y


def build_dataset(split):
    return Tiles(split)


def build_dataloader(split):
    return DataLoader(Tiles(split), batch_size=4, shuffle=False)


def build_optimizer(model):
    decay = [p for n, p in model.named_parameters() if n.endswith(("weight_v", "layer.weight")) and p.ndim > 1]
    chosen = {id(p) for p in decay}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return torch.optim.SGD([{"params": decay, "weight_decay": 5e-3}, {"params": rest}],
                           lr=0.006, momentum=0.9, nesterov=True)


def build_scheduler(optimizer):
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=6)
    poly = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=34, power=0.9)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, poly], milestones=[6])


def train_step(model, optimizer, batch):
    images, labels = batch
    optimizer.zero_grad(set_to_none=True)
    value = loss(model(images), labels)
    value.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.125)
    optimizer.step()
    return value.item()


def predict(path, model):
    x = torch.from_numpy(((read_png(path).transpose(2, 0, 1) - 0.65) / 0.12).astype(np.float32))
    with torch.no_grad():
        p = model(x[None].to(next(model.parameters()).dtype)).softmax(1)[0]
    best = int(p.argmax())
    return {"defect": DEFECTS[best], "probability": float(p[best]), "all": p.cpu().numpy()}
