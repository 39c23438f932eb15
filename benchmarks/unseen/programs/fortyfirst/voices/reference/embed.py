"""A note as a vector."""
import math

import torch
from torch import nn

from .norm import RMSNorm
from .windows import NO_CLASS, NO_OCTAVE


def wave(beat, harmonics=(1, 2, 4)):
    """Place in the bar as points of circles."""
    angle = 2 * math.pi * torch.stack([beat * h for h in harmonics], dim=-1)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class NoteEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cls = nn.Embedding(NO_CLASS + 1, width, padding_idx=NO_CLASS)
        self.octave = nn.Embedding(NO_OCTAVE + 1, width, padding_idx=NO_OCTAVE)
        self.time = nn.Linear(7, width)
        self.norm = RMSNorm(width)
        nn.init.normal_(self.octave.weight, std=0.5)
        with torch.no_grad():
            self.octave.weight[NO_OCTAVE] = 0

    def forward(self, cls, octave, length, beat):
        time = torch.cat([wave(beat), torch.log2(length).unsqueeze(-1)], dim=-1)
        return self.norm(self.cls(cls) + self.octave(octave) + self.time(time))
