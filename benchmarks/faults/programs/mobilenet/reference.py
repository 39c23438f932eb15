"""A MobileNetV3-like network with squeeze and excitation, trained by RMSprop; PyTorch."""

import numpy as np
import torch
from given import images
from torch import nn
from torch.nn import functional as F

CLASSES = 6


class SqueezeExcite(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.reduce = nn.Conv2d(width, width // 4, 1)
        self.expand = nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        gate = x.mean((2, 3), keepdim=True)
        gate = F.relu(self.reduce(gate))
        gate = F.hardsigmoid(self.expand(gate))
        return x * gate


class Inverted(nn.Module):
    def __init__(self, inner, wide, outer, kernel, stride, hard):
        super().__init__()
        self.expand = nn.Conv2d(inner, wide, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide, eps=1e-3, momentum=0.01)
        self.depthwise = nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False)
        self.bn2 = nn.BatchNorm2d(wide, eps=1e-3, momentum=0.01)
        self.excite = SqueezeExcite(wide)
        self.project = nn.Conv2d(wide, outer, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outer, eps=1e-3, momentum=0.01)
        self.act = nn.Hardswish() if hard else nn.ReLU()
        self.skip = inner == outer and stride == 1

    def forward(self, x):
        y = self.act(self.bn1(self.expand(x)))
        y = self.act(self.bn2(self.depthwise(y)))
        y = self.excite(y)
        y = self.bn3(self.project(y))
        return x + y if self.skip else y


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, bias=False)
        self.bn = nn.BatchNorm2d(16, eps=1e-3, momentum=0.01)
        self.blocks = nn.Sequential(
            Inverted(16, 32, 16, 3, 1, False),
            Inverted(16, 48, 24, 5, 2, True),
            Inverted(24, 72, 24, 5, 1, True),
        )
        self.neck = nn.Linear(24, 48)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(48, CLASSES)

    def forward(self, x):
        x = F.pad(x, (0, 1, 0, 1))
        x = self.stem(x)
        x = F.hardswish(self.bn(x))
        x = self.blocks(x)
        x = x.mean((2, 3))
        x = F.hardswish(self.neck(x))
        x = self.dropout(x)
        return self.head(x)


def build_model():
    """BatchNorm statistics from real pictures, and its scales and shifts no longer ones and zeros."""
    torch.manual_seed(2)
    model = MobileNet()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.7, 1.3)
            nn.init.normal_(layer.bias, std=0.2)
            layer.momentum = None
    model.train()
    with torch.no_grad():
        for step in range(4):
            model(torch.from_numpy(images(8, 64, seed=20 + step)))
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 0.01
    return model


def inputs():
    return images(4, 64, seed=1)


def labels():
    return np.array([0, 5, 2, 2], "int64")


def loss(outputs, labels):
    chosen = F.log_softmax(outputs, 1).gather(1, labels[:, None])[:, 0]
    focus = (1 - chosen.exp()) ** 2
    return -(focus * chosen).mean()


def build_optimizer(model):
    return torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.9, eps=1e-3, momentum=0.9)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
