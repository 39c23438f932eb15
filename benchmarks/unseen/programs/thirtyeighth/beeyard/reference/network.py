"""Counts bees: stem, dilated residual blocks, context, and two heads at half resolution."""
import torch
from torch import nn
from torch.nn import functional as F

from .blurpool import BlurPool
from .context import ContrastContext
from .wsconv import WSConv


class DilatedBlock(nn.Module):
    def __init__(self, channels, dilation, groups=4):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, channels)
        self.conv1 = WSConv(channels, channels, 3, dilation=dilation)
        self.norm2 = nn.GroupNorm(groups, channels)
        self.conv2 = WSConv(channels, channels, 3)
        self.share = nn.Parameter(torch.full((1,), 0.2))

    def forward(self, x):
        h = self.conv1(F.leaky_relu(self.norm1(x), 0.125))
        h = self.conv2(F.leaky_relu(self.norm2(h), 0.125))
        return x + self.share * h


class BeeCounter(nn.Module):
    def __init__(self, channels=16, dilations=(1, 2, 3)):
        super().__init__()
        self.stem1 = WSConv(3, channels // 2, 5)
        self.down1 = BlurPool(channels // 2)
        self.stem2 = WSConv(channels // 2, channels, 3)
        self.down2 = BlurPool(channels)
        self.blocks = nn.ModuleList(DilatedBlock(channels, dilation) for dilation in dilations)
        self.context = ContrastContext(channels)
        self.drop = nn.Dropout2d(0.1)
        self.density = nn.Conv2d(channels, 4, 3, padding=1)
        self.mask = nn.ConvTranspose2d(channels, 1, 4, stride=2, padding=1)
        nn.init.normal_(self.density.weight, std=0.01)
        nn.init.constant_(self.density.bias, -3.0)

    def forward(self, image):
        x = F.leaky_relu(self.stem1(image), 0.125)
        x = F.leaky_relu(self.stem2(self.down1(x)), 0.125)
        x = self.down2(x)
        for block in self.blocks:
            x = block(x)
        x = self.drop(self.context(x))
        density = F.softplus(F.pixel_shuffle(self.density(x), 2))
        return torch.cat([density, self.mask(x)], dim=1)
