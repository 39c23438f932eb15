import torch
import torch.nn.functional as F
from torch import nn

from .interaction import NeighbourAttention, TrackEncoder
from .scenes import FUTURE


class SpringForecaster(nn.Module):
    def __init__(self, dim=40, layers=2, modes=4, min_scale=0.02):
        super().__init__()
        self.modes, self.min_scale = modes, min_scale
        self.encoder = TrackEncoder(dim)
        self.layers = nn.ModuleList(NeighbourAttention(dim) for _ in range(layers))
        self.mode = nn.Parameter(torch.empty(modes, dim))
        nn.init.trunc_normal_(self.mode, std=0.5)
        self.trunk = nn.Linear(dim, 2 * dim)
        self.head = nn.Linear(2 * dim, FUTURE * 4)
        self.score = nn.Linear(2 * dim, 1)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, past, seen, kind):
        h, vel = self.encoder(past, seen, kind)
        pos, present = past[..., -1, :], seen[..., -1]
        for layer in self.layers:
            h = layer(h, pos, vel, present)
        x = F.elu(self.trunk(h.unsqueeze(2) + self.mode))  # b n k
        step, raw = self.head(x).unflatten(-1, (FUTURE, 4)).chunk(2, -1)
        mean = pos[:, :, None, None] + torch.cumsum(step + vel[:, :, None, None], 3)
        return {"mean": mean, "scale": F.softplus(raw) + self.min_scale, "logit": self.score(x).squeeze(-1)}
