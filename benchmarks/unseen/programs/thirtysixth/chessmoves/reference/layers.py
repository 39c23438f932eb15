import torch
from torch import nn
from torch.nn import functional as F


class ConvNorm(nn.Module):
    def __init__(self, inputs, outputs, kernel):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.05)

    def forward(self, x):
        return self.bn(self.conv(x))


class Squeeze(nn.Module):
    """Squeeze-and-excitation that gives a gate and a bias for each channel."""

    def __init__(self, channels, hidden):
        super().__init__()
        self.down = nn.Linear(channels, hidden)
        self.up = nn.Linear(hidden, 2 * channels)

    def forward(self, x):
        gate, bias = self.up(F.relu(self.down(x.mean(dim=(2, 3))))).chunk(2, dim=1)
        return torch.sigmoid(gate)[:, :, None, None] * x + bias[:, :, None, None]


class Residual(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.first = ConvNorm(channels, channels, 3)
        self.second = ConvNorm(channels, channels, 3)
        self.se = Squeeze(channels, hidden)

    def forward(self, x):
        h = F.mish(self.first(x))
        h = self.se(self.second(h))
        return F.mish(h + x)
