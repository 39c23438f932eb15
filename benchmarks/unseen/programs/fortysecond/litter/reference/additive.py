"""One small network for each weather reading, and their sum."""
import math

import torch
from torch import nn


class AdditiveWeather(nn.Module):
    """Neural additive model with exp-centred units, after Agarwal et al."""

    def __init__(self, readings, hidden, kinds, drop=0.1):
        super().__init__()
        self.slope = nn.Parameter(torch.empty(readings, hidden))
        self.centre = nn.Parameter(torch.empty(readings, hidden))
        self.mix = nn.Parameter(torch.empty(readings, hidden, kinds))
        self.drop = nn.Dropout(drop)
        nn.init.normal_(self.slope, 0.3, 0.2)
        nn.init.uniform_(self.centre, -1.5, 1.5)
        bound = 1 / math.sqrt(hidden)
        nn.init.uniform_(self.mix, -bound, bound)

    def forward(self, weather):
        x = weather.unsqueeze(-1)
        h = (x - self.centre) * torch.exp(self.slope)
        h = torch.clamp(h, 0.0, 2.0)
        parts = torch.einsum("bfh,fhk->bfk", h, self.mix)
        return self.drop(parts)
