import torch
import torch.nn as nn
import torch.nn.functional as F

from .layers import BLOCKS


class QuantileForecaster(nn.Module):
    """Patches through an encoder, the raw window through causal convolutions, a polynomial trend on top."""

    def __init__(self, config):
        super().__init__()
        cfg, data = config.model, config.data
        self.horizon, self.channels = data.horizon, cfg.channels
        self.levels = len(config.loss.quantiles)
        self.revin = BLOCKS["revin"](cfg.channels)
        self.embed = BLOCKS["patch"](cfg, data.context)
        self.encoder = nn.ModuleList(BLOCKS["encoder"](cfg) for _ in range(cfg.depth))
        widths = [1] + [cfg.tcn_width] * len(cfg.dilations)
        self.tcn = nn.ModuleList(BLOCKS["tcn"](a, b, d) for a, b, d in zip(widths, widths[1:], cfg.dilations))
        self.head = nn.Linear(self.embed.count * cfg.width, data.horizon * self.levels)
        self.marks = nn.Linear(2, self.levels, bias=False)
        self.trend = nn.Linear(2 * cfg.tcn_width, cfg.trend_degree + 1)
        time = torch.arange(1, data.horizon + 1) / data.horizon
        self.register_buffer("basis", torch.stack([time**i for i in range(cfg.trend_degree + 1)]))

    def forward(self, past, ahead):
        batch = past.shape[0]
        x, stats = self.revin.normalise(past)

        tokens, scores = self.embed(x), None
        for layer in self.encoder:
            tokens, scores = layer(tokens, scores)
        raw = self.head(tokens.flatten(1)).view(batch, self.channels, self.horizon, self.levels)

        series = x.transpose(1, 2).reshape(batch * self.channels, 1, -1)
        for block in self.tcn:
            series = block(series)
        summary = torch.cat([series[..., -1], series.amax(-1)], -1)
        trend = (self.trend(summary) @ self.basis).view(batch, self.channels, self.horizon)

        raw = raw + self.marks(ahead).unsqueeze(1)
        middle = raw[..., 1] + trend
        low = middle - F.softplus(raw[..., 0])
        high = middle + F.softplus(raw[..., 2])
        out = torch.stack([low, middle, high], -1).permute(0, 2, 1, 3)
        return self.revin.restore(out, stats)
