import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from . import tables
from .additive import AdditiveWeather
from .memory import Memory
from .season import Season
from .space import Neighbourhood


class LitterModel(nn.Module):
    """Zero-inflated negative binomial counts of five kinds of litter."""

    def __init__(self, places, width=10, hidden=8):
        super().__init__()
        kinds = len(tables.KINDS)
        facing = np.deg2rad([float(p["facing_deg"]) for p in places])
        fixed = np.array([[float(p["river_km"]), float(p["visitors"]) / 1000.0] for p in places])
        fixed = np.log1p(fixed)
        fixed = (fixed - fixed.mean(axis=0)) / fixed.std(axis=0)
        self.register_buffer("facing", torch.tensor(facing, dtype=torch.float32), persistent=False)
        self.register_buffer("fixed", torch.tensor(fixed, dtype=torch.float32), persistent=False)
        ground = torch.tensor([tables.SUBSTRATES.index(p["substrate"]) for p in places])
        self.register_buffer("ground", ground, persistent=False)
        self.coast = Neighbourhood(places, width)
        self.substrate = nn.Embedding(len(tables.SUBSTRATES), 4)
        self.site = nn.Sequential(
            nn.Linear(width + 4 + 2, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 16), nn.Tanh())
        self.level = nn.Linear(16, kinds)
        self.film = nn.Linear(16, 2 * kinds)
        self.onshore = nn.Linear(16, kinds)
        self.season = Season(kinds)
        self.weather = AdditiveWeather(len(tables.WEATHER), hidden, kinds)
        self.memory = Memory(kinds)
        self.share = nn.Parameter(torch.tensor([1.0, 0.3]))
        self.spread = nn.Linear(16, kinds)
        self.empty = nn.Linear(16 + 1, kinds)
        nn.init.normal_(self.film.weight, 0.0, 0.1)
        nn.init.zeros_(self.film.bias)
        nn.init.constant_(self.empty.bias, -2.0)
        nn.init.normal_(self.substrate.weight, 0.0, 0.5)

    def forward(self, beach, season, weather, wind, past, gap, seen, effort):
        site = self.site(torch.cat([self.coast(beach), self.substrate(self.ground[beach]), self.fixed[beach]], dim=-1))
        gain, shift = self.film(site).chunk(2, dim=-1)
        parts = self.weather(weather)
        sky = (1 + gain) * parts.sum(dim=1) + shift
        towards = wind[:, 0] * torch.relu(torch.cos(wind[:, 1] - self.facing[beach]))
        drift = F.softplus(self.onshore(site)) * torch.log1p(towards).unsqueeze(-1) * 0.2
        work = effort @ self.share
        log_mu = self.level(site) + self.season(season) + sky + drift + self.memory(past, gap, seen)
        log_mu = log_mu + work.unsqueeze(-1)
        log_r = torch.clamp(self.spread(site), -3.0, 3.0)
        empty = self.empty(torch.cat([site, work.unsqueeze(-1)], dim=-1))
        return {"log_mu": log_mu, "log_r": log_r, "empty": empty, "parts": parts}
