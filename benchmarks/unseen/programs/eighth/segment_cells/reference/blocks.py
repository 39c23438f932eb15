import math

import torch
from torch import nn
from torch.nn import functional as F


def fan_out_(conv, slope):
    """Kaiming's normal law with the fan of the outputs, as for leaky rectifiers."""
    nn.init.kaiming_normal_(conv.weight, a=slope, mode="fan_out", nonlinearity="leaky_relu")
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
    return conv


class ConvNormAct(nn.Module):
    def __init__(self, cin, cout, norm, act, kernel=3, stride=1, dilation=1):
        super().__init__()
        padding = dilation * (kernel - 1) // 2
        self.conv = fan_out_(nn.Conv2d(cin, cout, kernel, stride, padding, dilation, bias=False), act["slope"])
        self.norm = nn.GroupNorm(norm["groups"], cout, eps=norm["eps"])
        self.act = nn.LeakyReLU(act["slope"])

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Residual(nn.Module):
    def __init__(self, cin, cout, norm, act, dilation=1):
        super().__init__()
        self.first = ConvNormAct(cin, cout, norm, act)
        self.second = ConvNormAct(cout, cout, norm, act, dilation=dilation)
        self.short = fan_out_(nn.Conv2d(cin, cout, 1), 1.0) if cin != cout else nn.Identity()

    def forward(self, x):
        return (self.second(self.first(x)) + self.short(x)) / math.sqrt(2.0)


def resize(x, like):
    """To the height and width of another map, corners on corners."""
    if x.shape[-2:] == like.shape[-2:]:
        return x
    return F.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=True)


class AttentionGate(nn.Module):
    """Oktay et al. 2018: the coarser map says which places of the finer one are let through."""

    def __init__(self, skip, gate, inner):
        super().__init__()
        self.theta = fan_out_(nn.Conv2d(skip, inner, 2, stride=2, bias=False), 0.0)
        self.phi = fan_out_(nn.Conv2d(gate, inner, 1), 0.0)
        self.psi = nn.Conv2d(inner, 1, 1)
        nn.init.xavier_uniform_(self.psi.weight)
        nn.init.constant_(self.psi.bias, 1.0)
        self.out = nn.Sequential(fan_out_(nn.Conv2d(skip, skip, 1, bias=False), 1.0), nn.BatchNorm2d(skip, momentum=0.05))

    def forward(self, skip, gate):
        theta = self.theta(skip)
        mixed = F.relu(theta + resize(self.phi(gate), theta))
        alpha = torch.sigmoid(self.psi(mixed))
        return self.out(skip * resize(alpha, skip)), alpha


class Up(nn.Module):
    def __init__(self, deep, skip, out, ratio, norm, act):
        super().__init__()
        self.gate = AttentionGate(skip, deep, max(1, int(skip * ratio)))
        self.merge = Residual(deep + skip, out, norm, act)

    def forward(self, x, skip):
        kept, alpha = self.gate(skip, x)
        return self.merge(torch.cat([kept, resize(x, skip)], dim=1)), alpha
