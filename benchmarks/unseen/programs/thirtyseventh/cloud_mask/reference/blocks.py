"""Blocks that wrap blocks."""
import torch
from torch import nn
from torch.nn import functional as F


class Limited(nn.Module):
    """A convolution whose kernel is divided by (an estimate of) its largest singular value."""

    def __init__(self, inside, outside, kernel, groups=1):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outside, inside // groups, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(outside))
        nn.init.kaiming_normal_(self.weight)
        self.register_buffer("u", F.normalize(torch.randn(outside), dim=0))
        self.groups, self.padding = groups, kernel // 2

    def sigma(self):
        flat = self.weight.flatten(1)
        u = self.u
        with torch.no_grad():
            for _ in range(2):
                v = F.normalize(flat.t() @ u, dim=0, eps=1e-12)
                u = F.normalize(flat @ v, dim=0, eps=1e-12)
            if self.training:
                self.u.copy_(u)
            u, v = u.clone(), v.clone()
        return torch.dot(u, flat @ v)

    def forward(self, x):
        return F.conv2d(x, self.weight / self.sigma(), self.bias, padding=self.padding, groups=self.groups)


class Step(nn.Module):
    def __init__(self, inside, outside, groups=1):
        super().__init__()
        self.conv = Limited(inside, outside, 3, groups)
        self.norm = nn.InstanceNorm2d(outside, affine=True)
        self.act = nn.PReLU(outside)

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Pair(nn.Module):
    def __init__(self, inside, outside, groups):
        super().__init__()
        self.steps = nn.Sequential(Step(inside, outside), Step(outside, outside, groups))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.Linear(outside * 6, outside))

    def forward(self, x):
        x = self.steps(x)
        return x * torch.sigmoid(self.gate(x))[:, :, None, None]


class Rise(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.up = nn.ConvTranspose2d(inside, outside, 3, stride=2, padding=1, output_padding=1)
        self.pair = Pair(outside * 2, outside, 1)

    def forward(self, x, beside):
        x = self.up(x)
        if x.shape[2:] != beside.shape[2:]:
            x = F.interpolate(x, size=beside.shape[2:], mode="bilinear", align_corners=False)
        return self.pair(torch.cat([x, beside], 1))
