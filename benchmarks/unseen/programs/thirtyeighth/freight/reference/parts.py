"""The parts of the matcher."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .registry import ENCODERS, MIXERS, MODELS, SCORERS, TRANSPORTS

EARTH_KM = 6371.0


def haversine(trucks, loads):
    """Kilometres that each truck drives empty to each load's origin: [batch, trucks, loads]."""
    lat_a, lon_a = trucks[..., 0].unsqueeze(2), trucks[..., 1].unsqueeze(2)
    lat_b, lon_b = loads[..., 0].unsqueeze(1), loads[..., 1].unsqueeze(1)
    half = torch.sin((lat_b - lat_a) / 2) ** 2
    half = half + torch.cos(lat_a) * torch.cos(lat_b) * torch.sin((lon_b - lon_a) / 2) ** 2
    return 2 * EARTH_KM * torch.asin(torch.sqrt(half.clamp(1e-12, 1.0)))


@ENCODERS.register("mlp_encoder")
class MLPEncoder(nn.Module):
    def __init__(self, features, kinds, kind_width, width, hidden, dropout):
        super().__init__()
        self.kind = nn.Embedding(kinds, kind_width)
        self.fc1 = nn.Linear(features + kind_width, hidden)
        self.fc2 = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.drop = nn.Dropout(dropout)

    def forward(self, numbers, kinds):
        x = torch.cat([numbers, self.kind(kinds)], dim=-1)
        return self.norm(self.fc2(self.drop(F.gelu(self.fc1(x)))))


class CrossAttention(nn.Module):
    """Queries of one side look at the other side; far ones count less, by a slope for each head."""

    def __init__(self, width, heads, km_scale):
        super().__init__()
        self.heads = heads
        self.km_scale = km_scale
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.slope = nn.Parameter(torch.linspace(-2.0, 1.0, heads))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, mine, other, km, other_mask):
        q, k, v = self.split(self.query(mine)), self.split(self.key(other)), self.split(self.value(other))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores - F.softplus(self.slope).view(1, -1, 1, 1) * (km / self.km_scale).unsqueeze(1)
        scores = scores.masked_fill(~other_mask[:, None, None, :], -1e9)
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class CrossBlock(nn.Module):
    """Both sides exchange at once (from the same state), then each has its own feed-forward layer."""

    def __init__(self, width, heads, expand, km_scale):
        super().__init__()
        self.norm_truck = nn.LayerNorm(width, eps=1e-6)
        self.norm_load = nn.LayerNorm(width, eps=1e-6)
        self.truck_attention = CrossAttention(width, heads, km_scale)
        self.load_attention = CrossAttention(width, heads, km_scale)
        self.truck_ff = self.feed_forward(width, expand)
        self.load_ff = self.feed_forward(width, expand)

    @staticmethod
    def feed_forward(width, expand):
        return nn.Sequential(
            nn.LayerNorm(width, eps=1e-6), nn.Linear(width, expand * width), nn.SiLU(), nn.Linear(expand * width, width)
        )

    def forward(self, trucks, loads, km, truck_mask, load_mask):
        t, l = self.norm_truck(trucks), self.norm_load(loads)
        trucks = trucks + self.truck_attention(t, l, km, load_mask)
        loads = loads + self.load_attention(l, t, km.transpose(1, 2), truck_mask)
        return trucks + self.truck_ff(trucks), loads + self.load_ff(loads)


@MIXERS.register("cross_mixer")
class CrossMixer(nn.Module):
    def __init__(self, width, heads, depth, expand, km_scale):
        super().__init__()
        self.blocks = nn.ModuleList(CrossBlock(width, heads, expand, km_scale) for _ in range(depth))

    def forward(self, trucks, loads, km, truck_mask, load_mask):
        for block in self.blocks:
            trucks, loads = block(trucks, loads, km, truck_mask, load_mask)
        return trucks, loads


@SCORERS.register("distance_scorer")
class DistanceScorer(nn.Module):
    """Inner product of both sides, plus a learned curve of the empty kilometres."""

    def __init__(self, width, centres, spread):
        super().__init__()
        self.truck_head = nn.Linear(width, width)
        self.load_head = nn.Linear(width, width)
        self.curve = nn.Linear(len(centres), 1, bias=False)
        self.register_buffer("centres", torch.tensor(centres))
        self.spread = spread

    def forward(self, trucks, loads, km):
        pairs = self.truck_head(trucks) @ self.load_head(loads).transpose(1, 2) / math.sqrt(trucks.shape[-1])
        bumps = torch.exp(-0.5 * ((km.unsqueeze(-1) - self.centres) / self.spread) ** 2)
        return pairs + self.curve(bumps).squeeze(-1)


@TRANSPORTS.register("sinkhorn_bins")
class SinkhornBins(nn.Module):
    """Log of an assignment with a bin for idle trucks (last column) and one for loads left over (last row)."""

    def __init__(self, iterations, bin_score):
        super().__init__()
        self.iterations = iterations
        self.bin_score = nn.Parameter(torch.tensor(bin_score))

    def forward(self, scores, truck_mask, load_mask):
        trucks, loads = truck_mask.sum(1), load_mask.sum(1)
        rows = F.pad(truck_mask, (0, 1), value=True)
        columns = F.pad(load_mask, (0, 1), value=True)
        table = F.pad(scores, (0, 1, 0, 1))
        bins = torch.zeros_like(table, dtype=torch.bool)
        bins[:, -1, :] = True
        bins[:, :, -1] = True
        table = torch.where(bins, self.bin_score, table)
        valid = rows.unsqueeze(2) & columns.unsqueeze(1)
        table = table.masked_fill(~valid, -1e4)
        norm = torch.log((trucks + loads).to(table.dtype)).unsqueeze(1)
        log_mu = torch.zeros_like(table[:, :, 0])
        log_mu[:, -1] = torch.log(loads.to(table.dtype))
        log_nu = torch.zeros_like(table[:, 0, :])
        log_nu[:, -1] = torch.log(trucks.to(table.dtype))
        log_mu = (log_mu - norm).masked_fill(~rows, -1e4)
        log_nu = (log_nu - norm).masked_fill(~columns, -1e4)
        u, v = torch.zeros_like(log_mu), torch.zeros_like(log_nu)
        for _ in range(self.iterations):
            u = log_mu - torch.logsumexp(table + v.unsqueeze(1), dim=2)
            v = log_nu - torch.logsumexp(table + u.unsqueeze(2), dim=1)
        plan = table + u.unsqueeze(2) + v.unsqueeze(1) + norm.unsqueeze(2)
        return plan.masked_fill(~valid, -30.0)


@MODELS.register("freight_matcher")
class FreightMatcher(nn.Module):
    def __init__(self, kinds, width, kind_width, encoder, mixer, scorer, transport):
        super().__init__()
        common = {"kinds": kinds, "kind_width": kind_width, "width": width}
        self.truck_encoder = ENCODERS.build(encoder, features=6, **common)
        self.load_encoder = ENCODERS.build(encoder, features=8, **common)
        self.mixer = MIXERS.build(mixer, width=width)
        self.scorer = SCORERS.build(scorer, width=width)
        self.transport = TRANSPORTS.build(transport)
        self.apply(self.start)

    @staticmethod
    def start(module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.5)

    def forward(self, trucks, truck_kinds, truck_mask, loads, load_kinds, load_mask):
        km = haversine(trucks, loads)
        t, l = self.truck_encoder(trucks, truck_kinds), self.load_encoder(loads, load_kinds)
        t, l = self.mixer(t, l, km, truck_mask, load_mask)
        return self.transport(self.scorer(t, l, km), truck_mask, load_mask)
