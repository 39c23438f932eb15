"""Two branches, at half and at a quarter of the resolution, that exchange what they see."""
import torch
from torch import nn
from torch.nn import functional as F

from .registry import MODELS


class ConvNorm(nn.Sequential):
    def __init__(self, inputs, outputs, kernel, stride, norm, relu=True):
        layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs, **norm)]
        super().__init__(*layers, *([nn.ReLU(inplace=True)] if relu else []))


class Residual(nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.first = ConvNorm(width, width, 3, 1, norm)
        self.second = ConvNorm(width, width, 3, 1, norm, relu=False)

    def forward(self, x):
        return F.relu(x + self.second(self.first(x)))


class Exchange(nn.Module):
    """One block on each branch, then each takes what the other has, resampled."""

    def __init__(self, high, low, norm):
        super().__init__()
        self.high, self.low = Residual(high, norm), Residual(low, norm)
        self.up = ConvNorm(low, high, 1, 1, norm, relu=False)
        self.down = ConvNorm(high, low, 3, 2, norm, relu=False)

    def forward(self, high, low):
        high, low = self.high(high), self.low(low)
        raised = F.interpolate(self.up(low), scale_factor=2, mode="nearest")
        return F.relu(high + raised), F.relu(low + self.down(high))


def soft_argmax(maps, beta):
    """Expected place of each map's mass, in its own pixels, x before y."""
    b, k, h, w = maps.shape
    mass = torch.softmax(beta * maps.flatten(2), dim=-1).reshape(b, k, h, w)
    xs = torch.arange(w, dtype=maps.dtype, device=maps.device)
    ys = torch.arange(h, dtype=maps.dtype, device=maps.device)
    return torch.stack([(mass.sum(dim=2) * xs).sum(dim=-1), (mass.sum(dim=3) * ys).sum(dim=-1)], dim=-1)


@MODELS.register
class TwoResolutionNet(nn.Module):
    def __init__(self, stem, high, low, stages, joints, bn_momentum, bn_eps, residual_gain, beta, stride):
        super().__init__()
        norm = {"momentum": bn_momentum, "eps": bn_eps}
        self.beta, self.stride = beta, stride
        self.stem = ConvNorm(3, stem, 3, 2, norm)
        self.to_high = ConvNorm(stem, high, 3, 1, norm)
        self.to_low = ConvNorm(stem, low, 3, 2, norm)
        self.stages = nn.ModuleList([Exchange(high, low, norm) for _ in range(stages)])
        self.head = nn.Conv2d(high + low, joints, 1)
        self.reset(residual_gain)

    def reset(self, gain):
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        for module in self.modules():
            if isinstance(module, Residual):
                nn.init.constant_(module.second[1].weight, gain)
        nn.init.normal_(self.head.weight, std=0.05)
        nn.init.zeros_(self.head.bias)

    def forward(self, image):
        x = self.stem(image)
        high, low = self.to_high(x), self.to_low(x)
        for stage in self.stages:
            high, low = stage(high, low)
        low = F.interpolate(low, scale_factor=2, mode="bilinear", align_corners=False)
        maps = self.head(torch.cat([high, low], dim=1))
        places = soft_argmax(maps, self.beta)
        return {"heatmaps": maps, "joints": (places + 0.5) * self.stride - 0.5}
