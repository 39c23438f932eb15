import torch
from torch import nn

from .ring import circle_distance


class RingAttention(nn.Module):
    def __init__(self, dim, heads, width):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim)
        self.near = nn.Parameter(torch.empty(heads, width // 2 + 1))
        self.register_buffer("gap", circle_distance(width), persistent=False)
        for layer in (self.q, self.k, self.v, self.o):
            nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(self.o.bias)
        nn.init.normal_(self.near, std=0.3)

    def forward(self, x):
        b, w, c = x.shape
        h = self.norm(x)
        q, k, v = (f(h).view(b, w, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        score = q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5 + self.near[:, self.gap]
        out = score.softmax(-1) @ v
        return x + self.o(out.transpose(1, 2).reshape(b, w, c))
