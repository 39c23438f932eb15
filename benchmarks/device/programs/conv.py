"""Digits as pictures: convolutions, batch norm, resizing, dropout; SGD with a schedule."""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, groups=4)

    def forward(self, x):
        return F.gelu(x + self.second(F.relu(self.norm(self.first(x)))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 32, 3, padding=1)
        self.blocks = nn.Sequential(Residual(32), nn.MaxPool2d(2), Residual(32))
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        x = self.blocks(F.silu(self.stem(x)))
        pooled = torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1)
        return self.head(self.drop(pooled))


def build_model():
    return Net()


def build_dataset(split):
    digits = load_digits()
    chosen = slice(0, 96) if split == "train" else slice(96, 144)
    pictures = torch.from_numpy((digits.images[chosen, None] / 16.0).astype("float32"))
    return TensorDataset(pictures, torch.from_numpy(digits.target[chosen].astype("int64")))


def build_dataloader(split):
    return DataLoader(build_dataset(split), 12)


def loss(outputs, labels):
    return F.cross_entropy(outputs, labels, label_smoothing=0.1)


def metric(outputs, labels):
    return {"accuracy": float((outputs.argmax(1) == labels).float().mean())}


def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)


def predict(path, model):
    picture = torch.from_numpy(np.loadtxt(path, dtype="float32")[None, None])
    picture = picture.to(next(model.parameters()).device)
    return {"scores": F.softmax(model(picture), 1).detach().cpu().numpy()}
