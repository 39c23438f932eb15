import math

import torch
from torch import nn
from torch.nn import functional as F

from .encoder import Encoder
from .flow import Flow


class Gaussian(nn.Module):
    """Mean and log variance of a latent."""

    def __init__(self, features, hidden, latent):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.SiLU(), nn.Linear(hidden, 2 * latent))

    def forward(self, x):
        mean, log_var = self.body(x).chunk(2, -1)
        return mean, log_var.clamp(-6.0, 3.0)


def log_normal(x, mean, log_var):
    return -0.5 * (math.log(2 * math.pi) + log_var + (x - mean) ** 2 / log_var.exp()).sum(-1)


class LoadCast(nn.Module):
    """Conditional variational forecaster with a flow posterior."""

    def __init__(self, cfg, stations, horizon):
        super().__init__()
        self.cfg = cfg
        self.horizon = horizon
        known = 5
        context = 2 * cfg.width + cfg.series_dim
        self.series = nn.Embedding(stations, cfg.series_dim)
        self.encoder = Encoder(cfg, 2 + known)
        self.prior = Gaussian(context, cfg.hidden, cfg.latent)
        self.posterior = Gaussian(context + horizon, cfg.hidden, cfg.latent)
        self.flow = Flow(cfg.flows, cfg.latent, context, cfg.hidden)
        self.start = nn.Linear(context + cfg.latent, cfg.hidden)
        self.cell = nn.GRUCell(known + cfg.latent, cfg.hidden)
        self.params = nn.Linear(cfg.hidden, 3)
        self.quantile = nn.Linear(cfg.hidden, len(cfg.quantiles))
        self.register_buffer("kl_mean", torch.zeros(1))

    def decode(self, context, z, known):
        h = torch.tanh(self.start(torch.cat([context, z], -1)))
        states = []
        for t in range(self.horizon):
            h = self.cell(torch.cat([known[:, t], z], -1), h)
            states.append(h)
        h = torch.stack(states, 1)
        loc, scale, df = self.params(h).unbind(-1)
        q = self.quantile(h)
        steps = torch.cat([q[..., :1], F.softplus(q[..., 1:])], -1)
        return {
            "loc": loc,
            "scale": F.softplus(scale) + self.cfg.min_scale,
            "df": 2.0 + F.softplus(df),
            "quantiles": steps.cumsum(-1),
        }

    def forward(self, past, known, series, noise, future=None):
        length = past.shape[1]
        context = self.encoder(torch.cat([past, known[:, :length]], -1))
        context = torch.cat([context, self.series(series)], -1)
        p_mean, p_log_var = self.prior(context)
        if future is None:
            z = p_mean + torch.exp(0.5 * p_log_var) * noise
            return self.decode(context, z, known[:, length:])
        q_mean, q_log_var = self.posterior(torch.cat([context, future], -1))
        z0 = q_mean + torch.exp(0.5 * q_log_var) * noise
        z, logdet = self.flow(z0, context)
        kl = log_normal(z0, q_mean, q_log_var) - logdet - log_normal(z, p_mean, p_log_var)
        return {**self.decode(context, z, known[:, length:]), "kl": kl}
