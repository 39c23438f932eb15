import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MaskedStandardizer(nn.Module):
    """Batch normalisation without affine part, over observed entries only; starts from the training table's statistics."""

    def __init__(self, mean, var, momentum=0.05, eps=1e-3):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("var", torch.as_tensor(var, dtype=torch.float32))

    def forward(self, x, seen):
        if self.training:
            n = seen.sum(0)
            mean = (x * seen).sum(0) / n.clamp(min=1)
            var = ((x - mean).square() * seen).sum(0) / n.clamp(min=1)
            with torch.no_grad():
                rate = self.momentum * (n > 1).to(x.dtype)
                self.mean.add_(rate * (mean - self.mean))
                self.var.add_(rate * (var - self.var))
        else:
            mean, var = self.mean, self.var
        return (x - mean) * torch.rsqrt(var + self.eps) * seen


class PeriodicTokens(nn.Module):
    """x -> relu(W_f [cos, sin](2 pi c_f x) + b_f), one token per number; a learned token where it is missing."""

    def __init__(self, n_features, n_freq, d, sigma):
        super().__init__()
        self.coef = nn.Parameter(torch.empty(n_features, n_freq))
        self.weight = nn.Parameter(torch.empty(n_features, 2 * n_freq, d))
        self.bias = nn.Parameter(torch.empty(n_features, d))
        self.missing = nn.Parameter(torch.empty(n_features, d))
        nn.init.normal_(self.coef, 0.0, sigma)
        bound = (2 * n_freq) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)
        nn.init.normal_(self.missing, std=0.02)

    def forward(self, x, seen):
        angle = 2 * math.pi * self.coef * x[..., None]
        wave = torch.cat([angle.cos(), angle.sin()], -1)
        tokens = F.relu(torch.einsum("bfk,fkd->bfd", wave, self.weight) + self.bias)
        return torch.where(seen[..., None] > 0, tokens, self.missing)


class CategoryTokens(nn.Module):
    def __init__(self, sizes, d):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, d, padding_idx=0) for n in sizes)
        for table in self.tables:
            nn.init.normal_(table.weight, std=d ** -0.5)
            with torch.no_grad():
                table.weight[0].zero_()

    def forward(self, codes):
        return torch.stack([t(codes[:, i]) for i, t in enumerate(self.tables)], 1)


class AttentionPool(nn.Module):
    """Tokens of missing numbers may be looked at, those of unknown levels may not."""

    def __init__(self, d, hidden=24):
        super().__init__()
        self.key = nn.Linear(d, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        nn.init.xavier_normal_(self.key.weight, gain=5 / 3)
        nn.init.zeros_(self.key.bias)

    def forward(self, tokens, allowed):
        score = self.score(torch.tanh(self.key(tokens))).squeeze(-1)
        score = score.masked_fill(~allowed, float("-inf"))
        return (score.softmax(-1)[..., None] * tokens).sum(1)


class GatedBlock(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.drop = nn.Dropout(dropout)
        self.down = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, h):
        value, gate = self.up(self.norm(h)).chunk(2, -1)
        return h + self.scale * self.down(self.drop(value * F.gelu(gate, approximate="tanh")))


class TenureNet(nn.Module):
    def __init__(self, cfg, sizes, mean, var, hazard):
        super().__init__()
        n = len(cfg.numeric)
        self.standardize = MaskedStandardizer(mean, var)
        self.numbers = PeriodicTokens(n, cfg.frequencies, cfg.d_token, cfg.sigma)
        self.levels = CategoryTokens(sizes, cfg.d_token)
        self.pool = AttentionPool(cfg.d_token)
        self.stem = nn.Linear((n + len(sizes)) * cfg.d_token, cfg.width)
        self.context = nn.Linear(cfg.d_token, cfg.width, bias=False)
        self.blocks = nn.ModuleList(GatedBlock(cfg.width, cfg.dropout) for _ in range(cfg.n_blocks))
        self.norm = nn.LayerNorm(cfg.width, eps=1e-6)
        self.risk = nn.Linear(cfg.width, 1, bias=False)
        self.hazard = nn.Linear(cfg.width, cfg.bins)
        nn.init.kaiming_uniform_(self.stem.weight, nonlinearity="relu")
        nn.init.zeros_(self.stem.bias)
        nn.init.normal_(self.risk.weight, std=0.02)
        nn.init.normal_(self.hazard.weight, std=0.02)
        with torch.no_grad():
            self.hazard.bias.copy_(torch.as_tensor(hazard).logit())

    def forward(self, x, seen, codes):
        z = self.standardize(x, seen)
        tokens = torch.cat([self.numbers(z, seen), self.levels(codes)], 1)
        allowed = torch.cat([torch.ones_like(seen, dtype=torch.bool), codes > 0], 1)
        h = self.stem(tokens.flatten(1)) + self.context(self.pool(tokens, allowed))
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)
        risk = self.risk(h)
        return {"risk": risk.squeeze(-1), "hazard": self.hazard(h) + risk}
