import torch
from torch import nn

from .registry import BLOCKS, POOLS


class Squeeze(nn.Module):
    """Channel gate from the mean and the maximum over the voltage axis."""

    def __init__(self, channels, ratio):
        super().__init__()
        self.down = nn.Linear(2 * channels, channels // ratio)
        self.up = nn.Linear(channels // ratio, channels)

    def forward(self, x):
        stats = torch.cat([x.mean(dim=2), x.amax(dim=2)], dim=1)
        gate = torch.sigmoid(self.up(torch.relu(self.down(stats))))
        return x * gate.unsqueeze(2)


@BLOCKS.register()
class GatedDilated(nn.Module):
    def __init__(self, channels, dilation, squeeze):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.conv = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation, padding_mode="replicate")
        self.mix = nn.Conv1d(channels, channels, 1)
        self.squeeze = Squeeze(channels, squeeze)
        self.scale = nn.Parameter(torch.full((channels,), 0.3))

    def forward(self, x):
        a, b = self.conv(self.norm(x)).chunk(2, dim=1)
        y = self.squeeze(self.mix(torch.tanh(a) * torch.sigmoid(b)))
        return x + self.scale.view(1, -1, 1) * y


@BLOCKS.register()
class Reduce(nn.Module):
    """Halves the voltage axis: strided convolution beside an average pool."""

    def __init__(self, in_channels, channels, groups):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, channels, 4, stride=2, padding=1)
        self.skip = nn.Conv1d(in_channels, channels, 1, bias=False)
        self.norm = nn.GroupNorm(groups, channels)
        self.pool = nn.AvgPool1d(3, stride=2, padding=1, count_include_pad=False)
        self.act = nn.GELU(approximate="tanh")

    def forward(self, x):
        return self.act(self.norm(self.conv(x)) + self.skip(self.pool(x)))


class EnvFiLM(nn.Module):
    """Scale and shift of the channels from irradiance, temperature, age and diodes."""

    def __init__(self, features, hidden, channels):
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.out = nn.Linear(hidden, 2 * channels)

    def forward(self, x, env):
        scale, shift = self.out(nn.functional.silu(self.hidden(env))).chunk(2, dim=-1)
        return x * (1 + scale.unsqueeze(-1)) + shift.unsqueeze(-1)


@POOLS.register()
class KneePool(nn.Module):
    """Attention over the voltage axis, drawn to the point of greatest power; weighted mean and deviation."""

    def __init__(self, channels, heads, sharpness):
        super().__init__()
        self.heads = heads
        self.sharpness = sharpness
        self.key = nn.Conv1d(channels, channels, 1)
        self.query = nn.Parameter(torch.zeros(heads, channels // heads))
        self.slope = nn.Parameter(torch.linspace(0.5, 2.0, heads))

    def knee(self, power):
        """Soft position, from 0 to 1, of the maximum of the power."""
        place = torch.linspace(0, 1, power.shape[1], dtype=power.dtype, device=power.device)
        weight = torch.softmax(self.sharpness * power, dim=1)
        return place, (weight * place).sum(1, keepdim=True)

    def forward(self, x, power):
        n, c, length = x.shape
        keys = self.key(x).view(n, self.heads, c // self.heads, length)
        score = torch.einsum("nhcl,hc->nhl", keys, self.query) / (c // self.heads) ** 0.5
        place, centre = self.knee(power)
        score = score - self.slope.view(1, -1, 1) * (place - centre).abs().unsqueeze(1)
        weight = score.softmax(dim=-1).unsqueeze(2)
        value = x.view(n, self.heads, c // self.heads, length)
        mean = (weight * value).sum(-1)
        var = (weight * (value - mean.unsqueeze(-1)) ** 2).sum(-1)
        std = torch.sqrt(var.clamp(min=1e-4))
        return torch.cat([mean.flatten(1), std.flatten(1)], dim=1), centre.squeeze(1)
