import math

import torch
from torch import nn

from .layers import FourierBlock


def grid_features(points, frequencies, like):
    """sin and cos of the position: 2 * frequencies x points."""
    x = torch.arange(points, device=like.device, dtype=like.dtype) / points
    waves = [f(2 * math.pi * k * x) for k in range(1, frequencies + 1) for f in (torch.sin, torch.cos)]
    return torch.stack(waves)


class FNO1d(nn.Module):
    """The normalised field of one step later."""

    def __init__(self, m):
        super().__init__()
        self.frequencies = m.frequencies
        self.lift = nn.Conv1d(2 + 2 * m.frequencies, m.width, 1)
        self.blocks = nn.ModuleList([FourierBlock(m.width, m.modes, i == m.layers - 1) for i in range(m.layers)])
        self.project = nn.Sequential(nn.Conv1d(m.width, m.hidden, 1), nn.GELU(), nn.Conv1d(m.hidden, 1, 1))

    def forward(self, field, viscosity):
        grid = grid_features(field.shape[-1], self.frequencies, field).expand(len(field), -1, -1)
        constant = viscosity[:, None, None].expand(-1, 1, field.shape[-1])
        x = self.lift(torch.cat([field[:, None], grid, constant], 1))
        for block in self.blocks:
            x = block(x, viscosity)
        return field + self.project(x)[:, 0]
