import torch
import torch.nn.functional as F
from torch import nn


class Memory(nn.Module):
    """What lay there before, fading with the days that have passed."""

    def __init__(self, kinds):
        super().__init__()
        self.fading = nn.Parameter(torch.full((kinds,), -1.0))
        self.weight = nn.Parameter(torch.full((kinds,), 0.5))
        self.absence = nn.Parameter(torch.zeros(kinds))

    def forward(self, past, gap, seen):
        rate = F.softplus(self.fading)
        trust = torch.exp(-rate * gap.unsqueeze(-1) / 30.0) * seen
        total = trust.sum(dim=1)
        level = (trust * past).sum(dim=1) / (total + 0.05)
        return self.weight * level + self.absence * torch.exp(-total)
