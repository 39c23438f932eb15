import math

import torch
from torch import nn

from .registry import CONFIG, MODULES


def rotate(x, base):
    """Rotary positions, neighbouring channels in pairs."""
    n, size = x.shape[-2:]
    speed = base ** (-torch.arange(0, size, 2, device=x.device, dtype=x.dtype) / size)
    angle = torch.arange(n, device=x.device, dtype=x.dtype).unsqueeze(1) * speed
    cos, sin = angle.cos().repeat_interleave(2, dim=-1), angle.sin().repeat_interleave(2, dim=-1)
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
    return x * cos + turned * sin


@MODULES.register
class SpanPointer(nn.Module):
    """A score for every field and every first and last word (efficient global pointer)."""

    def __init__(self, width, size, base):
        super().__init__()
        self.size, self.base = size, base
        self.fields = len(CONFIG["fields"])
        self.ends = nn.Linear(width, 2 * size)
        self.kind = nn.Linear(2 * size, 2 * self.fields)

    def forward(self, x, present):
        b, n, _ = x.shape
        both = self.ends(x)
        first, last = both[..., ::2], both[..., 1::2]
        score = rotate(first, self.base) @ rotate(last, self.base).transpose(-1, -2) / math.sqrt(self.size)
        kind = self.kind(both).view(b, n, self.fields, 2).permute(0, 2, 1, 3) / 2
        logits = score.unsqueeze(1) + kind[..., 0].unsqueeze(3) + kind[..., 1].unsqueeze(2)
        allowed = present.unsqueeze(1) * present.unsqueeze(2)
        allowed = torch.triu(allowed).unsqueeze(1)
        return logits.masked_fill(allowed == 0, -1e6)
