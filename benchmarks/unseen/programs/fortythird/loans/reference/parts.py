"""Parts of the hazard model, each under a name of its registry."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from .records import CODES, library
from .registry import HEADS, TOKENS, WEEKS
from .settings import CONFIG


@TOKENS.register("piecewise")
class Piecewise(nn.Module):
    """A token for each number: how far it has gone through each bin of its training quantiles."""

    def __init__(self, bins, width):
        super().__init__()
        lib = library()
        rows = np.stack([lib.numbers(loan) for loan in lib.early]).astype("float64")
        edges = np.quantile(rows, np.linspace(0, 1, bins + 1), axis=0).T
        self.register_buffer("edges", torch.tensor(edges, dtype=torch.float32))
        self.weight = nn.Parameter(torch.empty(len(edges), bins, width))
        self.bias = nn.Parameter(torch.empty(len(edges), width))
        nn.init.normal_(self.weight, std=1 / math.sqrt(bins))
        nn.init.normal_(self.bias, std=0.1)

    def forward(self, facts):
        left, right = self.edges[:, :-1], self.edges[:, 1:]
        gone = (facts["numbers"].unsqueeze(-1) - left) / (right - left).clamp(min=0.05)
        gone = gone.clamp(0, 1)
        return torch.einsum("bfk,fkw->bfw", gone, self.weight) + self.bias


@TOKENS.register("codes")
class Codes(nn.Module):
    """One table for all codes, each with its own stretch; the first row of a stretch is 'unknown'."""

    def __init__(self, width):
        super().__init__()
        sizes = [len(v) + 1 for v in CODES.values()]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.register_buffer("starts", torch.tensor(starts), persistent=False)
        self.table = nn.Embedding(sum(sizes), width)
        self.bias = nn.Parameter(torch.zeros(len(sizes), width))
        nn.init.normal_(self.table.weight, std=0.3)

    def forward(self, facts):
        return self.table(facts["codes"] + self.starts) + self.bias


@TOKENS.register("title")
class Title(nn.Module):
    """The mean of a title's hashed words."""

    def __init__(self, width):
        super().__init__()
        self.bag = nn.EmbeddingBag(CONFIG["data"]["vocabulary"], width, mode="mean", padding_idx=0)
        nn.init.normal_(self.bag.weight, std=0.3)
        with torch.no_grad():
            self.bag.weight[0].zero_()

    def forward(self, facts):
        return self.bag(facts["words"]).unsqueeze(1)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.gate = nn.Linear(width, heads)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(2 * width, width)
        for layer in (self.qkv, self.out, self.up, self.down):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, 1.0)

    def forward(self, x):
        b, n, w = x.shape
        y = self.norm1(x)
        q, k, v = self.qkv(y).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        mixed = mixed * torch.sigmoid(self.gate(y)).unsqueeze(-1)
        x = x + self.out(mixed.reshape(b, n, w))
        value, valve = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(value * F.relu(valve))


@WEEKS.register("causal")
class CausalWeeks(nn.Module):
    """Dilated convolutions that look back only, steered by what is known of the loan."""

    def __init__(self, kernel, dilations, width, features=6):
        super().__init__()
        self.enter = nn.Conv1d(features, width, 1)
        self.convs = nn.ModuleList(nn.Conv1d(width, 2 * width, kernel, dilation=d) for d in dilations)
        self.norms = nn.ModuleList(nn.GroupNorm(4, width) for _ in dilations)
        self.film = nn.Linear(width, 2 * width)
        nn.init.normal_(self.film.weight, std=0.1)
        nn.init.zeros_(self.film.bias)

    def forward(self, weekly, static):
        x = self.enter(weekly.transpose(1, 2))
        for conv, norm in zip(self.convs, self.norms):
            reach = conv.dilation[0] * (conv.kernel_size[0] - 1)
            x = x + F.glu(conv(F.pad(norm(x), (reach, 0))), dim=1)
        scale, shift = self.film(static).unsqueeze(-1).chunk(2, dim=1)
        return F.gelu(x * (1 + scale) + shift, approximate="tanh").transpose(1, 2)


@HEADS.register("curves")
class Curves(nn.Module):
    """Log odds of each end in each week: a smooth curve for the loan and what the week adds."""

    def __init__(self, bases, spread, prior, width, weeks, cap):
        super().__init__()
        self.cap, self.ends = cap, len(prior)
        centres = torch.linspace(0, weeks - 1, bases)
        grid = torch.exp(-0.5 * ((torch.arange(weeks).float()[:, None] - centres) / spread) ** 2)
        self.register_buffer("grid", grid / grid.sum(1, keepdim=True))
        self.curve = nn.Linear(width, bases * self.ends)
        self.week = nn.Linear(width, self.ends, bias=False)
        prior = torch.tensor(prior)
        self.level = nn.Parameter(torch.log(prior / (1 - prior.sum())))
        nn.init.normal_(self.curve.weight, std=0.2)
        nn.init.zeros_(self.curve.bias)

    def forward(self, static, hidden):
        knots = self.curve(static).view(len(static), -1, self.ends)
        odds = torch.matmul(self.grid, knots) + self.week(hidden) + self.level
        return self.cap * torch.tanh(odds / self.cap)
