import math

import torch
from torch import nn


class GaussianBasis(nn.Module):
    def __init__(self, num, cutoff):
        super().__init__()
        centers = torch.linspace(0.0, cutoff, num)
        self.register_buffer("centers", centers, persistent=False)
        self.gamma = 0.5 / (cutoff / (num - 1)) ** 2

    def forward(self, dist):
        return torch.exp(-self.gamma * (dist[:, None] - self.centers) ** 2)


class CosineCutoff(nn.Module):
    def __init__(self, cutoff):
        super().__init__()
        self.cutoff = cutoff

    def forward(self, dist):
        envelope = 0.5 * (torch.cos(math.pi * dist / self.cutoff) + 1.0)
        return envelope * (dist < self.cutoff)
