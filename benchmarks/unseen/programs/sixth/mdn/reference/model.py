"""Deep random-feature mixture density network: p(y|x) is a mixture of 2-D Gaussians with full covariance."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class RandomFourierFeatures(nn.Module):
    """Random features of an RBF kernel with a lengthscale for each input (Rahimi & Recht, 2007)."""

    def __init__(self, in_dim, n_features):
        super().__init__()
        self.log_lengthscale = nn.Parameter(torch.full((in_dim,), 0.5))
        self.log_variance = nn.Parameter(torch.zeros(()))
        self.register_buffer("omega", torch.randn(in_dim, n_features))
        self.register_buffer("phase", torch.rand(n_features) * 2 * math.pi)

    def forward(self, x):
        proj = (x / self.log_lengthscale.exp()) @ self.omega + self.phase
        amplitude = math.sqrt(2.0 / self.omega.size(1)) * (0.5 * self.log_variance).exp()
        return amplitude * torch.cos(proj)


class ResidualBlock(nn.Module):
    def __init__(self, dim, expansion=2):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, expansion * dim)
        self.fc2 = nn.Linear(expansion * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 0.3))

    def forward(self, x):
        h = self.fc2(F.gelu(self.fc1(self.norm(x)), approximate="tanh"))
        return x + self.gamma * h


class MixtureHead(nn.Module):
    """Weights, means and Cholesky factors [[d0, 0], [c, d1]] of the precision matrices."""

    def __init__(self, dim, n_components, min_diag=1e-2):
        super().__init__()
        self.k = n_components
        self.min_diag = min_diag
        self.pi = nn.Linear(dim, n_components)
        self.mu = nn.Linear(dim, 2 * n_components)
        self.chol = nn.Linear(dim, 3 * n_components)
        nn.init.normal_(self.mu.weight, std=0.02)
        with torch.no_grad():
            spread = torch.linspace(-1.5, 1.5, n_components)
            self.mu.bias.copy_(torch.stack([spread, spread.flip(0)], dim=1).flatten())
        nn.init.zeros_(self.chol.bias)

    def forward(self, h):
        mu = self.mu(h).view(-1, self.k, 2)
        d0, d1, off = self.chol(h).chunk(3, dim=-1)
        diag = F.softplus(torch.stack([d0, d1], dim=-1)) + self.min_diag
        return {"log_pi": F.log_softmax(self.pi(h), dim=-1), "mu": mu, "diag": diag, "off": torch.tanh(off)}


class MDN(nn.Module):
    def __init__(self, in_dim=8, n_features=48, dim=32, n_blocks=2, n_components=4):
        super().__init__()
        self.rff = RandomFourierFeatures(in_dim, n_features)
        self.embed = nn.Linear(n_features + in_dim, dim)
        self.blocks = nn.ModuleList([ResidualBlock(dim) for _ in range(n_blocks)])
        self.norm = nn.LayerNorm(dim)
        self.head = MixtureHead(dim, n_components)

    def forward(self, x):
        h = self.embed(torch.cat([self.rff(x), x], dim=-1))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))
