import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-3):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps) * self.scale
