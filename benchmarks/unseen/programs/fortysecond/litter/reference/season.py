import torch
from torch import nn


class Season(nn.Module):
    """A yearly curve for every kind of litter: a few harmonics."""

    def __init__(self, kinds, harmonics=3):
        super().__init__()
        order = torch.arange(1, harmonics + 1, dtype=torch.float32)
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("damping", 2.0 ** (1 - order), persistent=False)
        self.cosine = nn.Parameter(torch.randn(harmonics, kinds) * 0.1)
        self.sine = nn.Parameter(torch.randn(harmonics, kinds) * 0.1)

    def forward(self, turn):
        angle = turn.unsqueeze(-1) * self.order
        wave = (torch.cos(angle) * self.damping) @ self.cosine
        return wave + (torch.sin(angle) * self.damping) @ self.sine
