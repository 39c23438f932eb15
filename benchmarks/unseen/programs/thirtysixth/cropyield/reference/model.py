"""Weather tower, soil profile encoder, stage pooling and a Gaussian head."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .registry import ENCODERS, HEADS, POOLS


class GatedBlock(nn.Module):
    """Causal depthwise convolution, pointwise gate, group norm, residual."""

    def __init__(self, channels, kernel, dilation, groups):
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.depthwise = nn.Conv1d(channels, channels, kernel, dilation=dilation, groups=channels)
        self.pointwise = nn.Conv1d(channels, 2 * channels, 1)
        self.norm = nn.GroupNorm(groups, channels, eps=1e-4)

    def forward(self, x):
        h = F.pad(x, (self.left, 0))
        h = self.depthwise(h)
        h = F.glu(self.pointwise(h), dim=1)
        return x + self.norm(h)


@ENCODERS.register("gated_tcn")
class GatedTCN(nn.Module):
    def __init__(self, inputs, channels, kernel, dilations, groups):
        super().__init__()
        self.stem = nn.Conv1d(inputs, channels, 1)
        self.blocks = nn.ModuleList([GatedBlock(channels, kernel, d, groups) for d in dilations])

    def forward(self, weather):
        h = self.stem(weather.transpose(1, 2))
        skips = 0
        for block in self.blocks:
            h = block(h)
            skips = skips + h
        return F.silu(skips / math.sqrt(len(self.blocks))).transpose(1, 2)


@ENCODERS.register("profile")
class SoilProfile(nn.Module):
    """Each soil layer goes through one MLP; layers are averaged by thickness."""

    def __init__(self, inputs, hidden, channels, thickness):
        super().__init__()
        self.register_buffer("thickness", torch.tensor(thickness))
        self.fc1 = nn.Linear(inputs, hidden)
        self.fc2 = nn.Linear(hidden, channels)
        self.norm = nn.LayerNorm(channels)

    def forward(self, soil):
        h = self.fc2(F.gelu(self.fc1(soil)))
        h = (h * self.thickness[None, :, None]).sum(dim=1) / self.thickness.sum()
        return self.norm(h)


@POOLS.register("stage_attention")
class StageAttention(nn.Module):
    """Every crop has a query for each of its growth stages; weeks answer."""

    def __init__(self, crops, stages, channels):
        super().__init__()
        self.stages, self.channels = stages, channels
        self.queries = nn.Embedding(crops, stages * channels)
        self.key = nn.Linear(channels, channels, bias=False)
        self.log_width = nn.Parameter(torch.zeros(stages))

    def forward(self, weeks, crop):
        q = self.queries(crop).view(-1, self.stages, self.channels)
        scores = torch.matmul(q, self.key(weeks).transpose(1, 2)) / math.sqrt(self.channels)
        time = torch.linspace(0.0, 1.0, weeks.shape[1], dtype=weeks.dtype, device=weeks.device)
        centre = (torch.arange(self.stages, dtype=weeks.dtype, device=weeks.device) + 0.5) / self.stages
        prior = -((time[None, :] - centre[:, None]) ** 2) * torch.exp(self.log_width)[:, None] * 4.0
        attention = torch.softmax(scores + prior[None], dim=-1)
        return torch.matmul(attention, weeks), attention


@HEADS.register("gaussian")
class GaussianHead(nn.Module):
    def __init__(self, stages, channels, hidden, floor):
        super().__init__()
        self.floor = floor
        self.film = nn.Linear(channels, 2 * channels)
        self.fc = nn.Linear(stages * channels, hidden)
        self.out = nn.Linear(hidden, 2)

    def forward(self, stages, soil):
        gamma, beta = self.film(soil).chunk(2, dim=-1)
        h = stages * (1.0 + gamma[:, None]) + beta[:, None]
        h = F.silu(self.fc(h.flatten(1)))
        mean, raw = self.out(h).unbind(dim=-1)
        return mean, F.softplus(raw) + self.floor


class YieldNet(nn.Module):
    def __init__(self, weather, pool, soil, head):
        super().__init__()
        self.weather = ENCODERS.build(weather)
        self.pool = POOLS.build(pool)
        self.soil = ENCODERS.build(soil)
        self.head = HEADS.build(head)
        self.apply(self._init)

    @staticmethod
    def _init(module):
        if isinstance(module, nn.Conv1d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.5)

    def forward(self, weather, soil, crop):
        weeks = self.weather(weather)
        stages, attention = self.pool(weeks, crop)
        mean, scale = self.head(stages, self.soil(soil))
        return {"mean": mean, "scale": scale, "attention": attention}
