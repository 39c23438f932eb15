"""A gated state space layer with one decay a head, run as a recurrence."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .norm import RMSNorm


class StateSpace(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        mixed = cfg.inner + 2 * cfg.ssm_groups * cfg.state
        self.sizes = [cfg.inner, mixed, cfg.ssm_heads]
        self.in_proj = nn.Linear(cfg.dim, sum(self.sizes), bias=False)
        self.conv = nn.Conv1d(mixed, mixed, cfg.conv, groups=mixed, padding=cfg.conv - 1)
        low, high = (math.log(v) for v in cfg.dt_range)
        dt = torch.exp(torch.rand(cfg.ssm_heads) * (high - low) + low)
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))  # softplus of it is dt
        self.a_log = nn.Parameter(torch.log(torch.arange(1, cfg.ssm_heads + 1).float()))
        self.skip = nn.Parameter(torch.ones(cfg.ssm_heads))
        self.norm = RMSNorm(cfg.inner, cfg.eps)
        self.out_proj = nn.Linear(cfg.inner, cfg.dim, bias=False)

    def forward(self, x, mask=None):
        c = self.cfg
        batch, length, _ = x.shape
        z, mixed, dt = self.in_proj(x).split(self.sizes, -1)
        mixed = F.silu(self.conv(mixed.transpose(1, 2))[..., :length]).transpose(1, 2)
        u, b, k = mixed.split([c.inner, c.ssm_groups * c.state, c.ssm_groups * c.state], -1)
        u = u.unflatten(-1, (c.ssm_heads, -1))
        per_group = c.ssm_heads // c.ssm_groups
        b = b.unflatten(-1, (c.ssm_groups, c.state)).repeat_interleave(per_group, 2)
        k = k.unflatten(-1, (c.ssm_groups, c.state)).repeat_interleave(per_group, 2)
        dt = F.softplus(dt + self.dt_bias)
        decay = torch.exp(-dt * torch.exp(self.a_log))
        h = u.new_zeros(batch, c.ssm_heads, u.shape[-1], c.state)
        ys = []
        for t in range(length):
            write = torch.einsum("bhp,bhn->bhpn", dt[:, t, :, None] * u[:, t], b[:, t])
            h = decay[:, t, :, None, None] * h + write
            ys.append(torch.einsum("bhpn,bhn->bhp", h, k[:, t]))
        y = torch.stack(ys, 1) + self.skip[:, None] * u
        return self.out_proj(self.norm(y.flatten(2) * F.silu(z)))
