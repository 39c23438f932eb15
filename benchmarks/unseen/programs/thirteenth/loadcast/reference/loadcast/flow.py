import torch
from torch import nn


class Coupling(nn.Module):
    """Affine coupling: the first half moves the second, then the halves change places."""

    def __init__(self, dim, context, hidden):
        super().__init__()
        self.half = dim // 2
        self.net = nn.Sequential(
            nn.Linear(self.half + context, hidden), nn.LeakyReLU(0.1), nn.Linear(hidden, 2 * (dim - self.half))
        )

    def forward(self, z, context):
        a, b = z[:, : self.half], z[:, self.half :]
        log_scale, shift = self.net(torch.cat([a, context], -1)).chunk(2, -1)
        log_scale = 0.8 * torch.tanh(log_scale)
        b = b * torch.exp(log_scale) + shift
        return torch.cat([b, a], -1), log_scale.sum(-1)


class Flow(nn.Module):
    def __init__(self, count, dim, context, hidden):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(dim, context, hidden) for _ in range(count))

    def forward(self, z, context):
        total = z.new_zeros(len(z))
        for step in self.steps:
            z, logdet = step(z, context)
            total = total + logdet
        return z, total
