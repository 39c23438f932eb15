"""Anisotropic 3-D U-Net with deep supervision."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from .registry import register


class ConvUnit(nn.Module):
    def __init__(self, cin, cout, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv3d(cin, cout, kernel, stride, [k // 2 for k in kernel])
        self.norm = nn.InstanceNorm3d(cout, eps=1e-5, affine=True)
        self.act = nn.LeakyReLU(0.01, inplace=True)

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Stage(nn.Sequential):
    def __init__(self, cin, cout, kernel, stride=1):
        super().__init__(ConvUnit(cin, cout, kernel, stride), ConvUnit(cout, cout, kernel))


class SpatialChannelGate(nn.Module):
    """Concurrent spatial and channel excitation; the larger one wins."""

    def __init__(self, channels):
        super().__init__()
        self.squeeze = nn.Linear(channels, channels // 2)
        self.excite = nn.Linear(channels // 2, channels)
        self.spatial = nn.Conv3d(channels, 1, 1)

    def forward(self, x):
        c = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean(dim=(2, 3, 4))))))
        s = torch.sigmoid(self.spatial(x))
        return torch.maximum(x * c[:, :, None, None, None], x * s)


class UpFold(nn.Module):
    """Learned upsampling at the coarsest step."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.up = nn.ConvTranspose3d(cin, cout, stride, stride, bias=False)

    def forward(self, x, like):
        return self.up(x)


class UpLinear(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.mix = nn.Conv3d(cin, cout, 1)

    def forward(self, x, like):
        return self.mix(F.interpolate(x, size=like.shape[2:], mode="trilinear", align_corners=False))


class Decoder(nn.Module):
    def __init__(self, up, skip, kernel):
        super().__init__()
        self.up = up
        self.norm = nn.GroupNorm(4, 2 * skip)
        self.gate = SpatialChannelGate(2 * skip)
        self.stage = Stage(2 * skip, skip, kernel)

    def forward(self, x, skip):
        x = torch.cat([self.up(x, skip), skip], dim=1)
        return self.stage(self.gate(self.norm(x)))


@register
class AnisoUNet(nn.Module):
    def __init__(self, in_channels, classes, features, kernels, strides):
        super().__init__()
        f0, f1, f2 = features
        self.enc0 = Stage(in_channels, f0, kernels[0])
        self.enc1 = Stage(f0, f1, kernels[1], strides[0])
        self.enc2 = Stage(f1, f2, kernels[2], strides[1])
        self.dec1 = Decoder(UpFold(f2, f1, strides[1]), f1, kernels[1])
        self.dec0 = Decoder(UpLinear(f1, f0), f0, kernels[0])
        self.heads = nn.ModuleList([nn.Conv3d(f0, classes, 1), nn.Conv3d(f1, classes, 1)])
        self.apply(self._initialise)
        prior = 0.25
        for head in self.heads:
            nn.init.normal_(head.weight, std=0.15)
            with torch.no_grad():
                head.bias[1:] = -math.log((1 - prior) / prior) / 2

    @staticmethod
    def _initialise(module):
        if isinstance(module, (nn.Conv3d, nn.ConvTranspose3d)):
            nn.init.kaiming_normal_(module.weight, a=0.01)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, image):
        x0 = self.enc0(image)
        x1 = self.enc1(x0)
        y1 = self.dec1(self.enc2(x1), x1)
        y0 = self.dec0(y1, x0)
        return self.heads[0](y0), self.heads[1](y1)
