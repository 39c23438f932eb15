"""The parts of the network, by name."""
import math

import torch
from torch import nn
import torch.nn.functional as F

from .registry import COMBINERS, ENCODERS, EXCHANGES, TIMERS


@ENCODERS.register("approach_mlp")
class ApproachMLP(nn.Module):
    def __init__(self, features, width, hidden):
        super().__init__()
        self.width = width
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, present):
        y = self.norm(self.down(F.gelu(self.up(x))))
        return y * present.unsqueeze(-1)


class ConflictLayer(nn.Module):
    """Attention between approaches; conflicting pairs get a learnt bias a head."""

    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads = heads
        self.pre = nn.LayerNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.clash = nn.Parameter(torch.empty(heads))
        self.gate = nn.Linear(width, width)
        self.drop = nn.Dropout(drop)
        nn.init.normal_(self.clash, mean=-0.5, std=0.2)
        nn.init.xavier_normal_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.constant_(self.gate.bias, 1.0)

    def forward(self, x, conflict, present):
        b, n, w = x.shape
        h = self.pre(x)
        q, k, v = self.qkv(h).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / math.sqrt(w // self.heads)
        score = score + self.clash.view(1, -1, 1, 1) * conflict.unsqueeze(1)
        score = score.masked_fill(present.view(b, 1, 1, n) == 0, float("-inf"))
        mixed = (score.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, w)
        # the gate sees the approach before the exchange
        mixed = self.out(mixed) * torch.sigmoid(self.gate(h))
        return (x + self.drop(mixed)) * present.unsqueeze(-1)


@EXCHANGES.register("conflict_attention")
class ConflictExchange(nn.Module):
    def __init__(self, width, layers, heads, drop):
        super().__init__()
        self.layers = nn.ModuleList(ConflictLayer(width, heads, drop) for _ in range(layers))

    def forward(self, x, conflict, present):
        for layer in self.layers:
            x = layer(x, conflict, present)
        return x


@COMBINERS.register("served_pool")
class ServedPool(nn.Module):
    """What a phase serves: the mean of its approaches, and the greatest flow ratio."""

    def __init__(self, width, hidden):
        super().__init__()
        self.mix = nn.Linear(width + 2, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(self, x, served, ratio):
        count = served.sum(dim=-1, keepdim=True)
        mean = served @ x / count.clamp(min=1.0)
        worst = (served * ratio.unsqueeze(1)).amax(dim=-1, keepdim=True)
        total = ratio.sum(dim=-1)[:, None, None].expand_as(worst)
        h = torch.cat([mean, worst, worst / total], dim=-1)
        return self.score(F.silu(self.mix(h))).squeeze(-1)


@TIMERS.register("bounded_plan")
class BoundedPlan(nn.Module):
    """Cycle between two bounds; what remains above lost time and minimum greens is shared."""

    def __init__(self, width, shortest, longest, lost_per_phase, full):
        super().__init__()
        self.shortest, self.longest = shortest, longest
        self.lost, self.full = lost_per_phase, full
        self.cycle = nn.Linear(width, 1)
        self.offset = nn.Linear(width, 2)
        nn.init.normal_(self.offset.weight, std=0.3)
        nn.init.constant_(self.cycle.bias, -0.4)

    def forward(self, logits, pooled, min_green, served, flow, saturation):
        phase = min_green > 0
        split = logits.masked_fill(~phase, float("-inf")).softmax(dim=-1)
        cycle = self.shortest + (self.longest - self.shortest) * torch.sigmoid(self.cycle(pooled)).squeeze(-1)
        spare = cycle - self.lost * phase.sum(dim=-1) - min_green.sum(dim=-1)
        greens = min_green + split * spare.unsqueeze(-1)
        way = self.offset(pooled)
        way = way / torch.sqrt((way * way).sum(dim=-1, keepdim=True) + 1e-4)
        return {"greens": greens, "cycle": cycle, "way": way,
                "delay": self.webster(greens, cycle, served, flow, saturation)}

    def webster(self, greens, cycle, served, flow, saturation):
        """Seconds a vehicle waits, weighted by the flows."""
        share = (greens.unsqueeze(1) @ served).squeeze(1) / cycle.unsqueeze(-1)
        share = share.clamp(0.05, 0.97)
        x = (flow / (saturation * share)).clamp(max=self.full)
        even = cycle.unsqueeze(-1) * (1 - share) ** 2 / (2 * (1 - share * x))
        random = x ** 2 / (2 * flow.clamp(min=1e-3) * (1 - x))
        return ((even + random) * flow).sum(dim=-1) / flow.sum(dim=-1)
