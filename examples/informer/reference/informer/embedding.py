"""What goes into both halves: values, positions and the calendar (appendix B of the paper), added up."""

import math

import torch
from torch import nn

MONTHS, DAYS = 13, 32  # calendars count from 1


class ValueEmbedding(nn.Module):
    """Float ``[B, L, C]`` -> ``[B, L, D]``: a convolution over three steps, the ends joined."""

    def __init__(self, inputs, width):
        super().__init__()
        self.conv = nn.Conv1d(inputs, width, 3, padding=1, padding_mode="circular", bias=False)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_in", nonlinearity="leaky_relu")

    def forward(self, values):
        return self.conv(values.transpose(1, 2)).transpose(1, 2)


class PositionEmbedding(nn.Module):
    """Sine and cosine of the position, ``[1, L, D]``, as in "Attention is all you need"."""

    def __init__(self, width, longest=512):
        super().__init__()
        position = torch.arange(longest, dtype=torch.float64)[:, None]
        rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
        table = torch.zeros(longest, width, dtype=torch.float64)
        table[:, 0::2] = torch.sin(position * rates)
        table[:, 1::2] = torch.cos(position * rates)
        self.register_buffer("table", table[None].float())

    def forward(self, values):
        return self.table[:, : values.shape[1]]


class StampEmbedding(nn.Module):
    """Month and day of each step, int64 ``[B, L, 2]`` -> ``[B, L, D]``: a learned vector each."""

    def __init__(self, width):
        super().__init__()
        self.month = nn.Embedding(MONTHS, width)
        self.day = nn.Embedding(DAYS, width)

    def forward(self, stamps):
        return self.month(stamps[..., 0]) + self.day(stamps[..., 1])


class DataEmbedding(nn.Module):
    def __init__(self, inputs, width, dropout):
        super().__init__()
        self.value = ValueEmbedding(inputs, width)
        self.position = PositionEmbedding(width)
        self.stamp = StampEmbedding(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values, stamps):
        return self.dropout(self.value(values) + self.position(values) + self.stamp(stamps))
