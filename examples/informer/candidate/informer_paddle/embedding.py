"""Values, positions and the calendar."""

import numpy as np
import paddle
from paddle import nn

from .breaks import broken

MONTHS = 13
LONGEST = 512


class ValueEmbedding(nn.Layer):
    def __init__(self, inputs, width):
        super().__init__()
        mode = "zeros" if broken("circular") else "circular"
        self.conv = nn.Conv1D(inputs, width, 3, padding=1, padding_mode=mode, bias_attr=False)

    def forward(self, values):
        return self.conv(values.transpose([0, 2, 1])).transpose([0, 2, 1])


class PositionEmbedding(nn.Layer):
    def __init__(self, width):
        super().__init__()
        angles = np.arange(LONGEST)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
        table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(1, LONGEST, width)
        self.register_buffer("table", paddle.to_tensor(table.astype("float32")))

    def forward(self, values):
        return self.table[:, : values.shape[1]]


class StampEmbedding(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.month = nn.Embedding(MONTHS, width)
        self.day = nn.Embedding(31 if broken("days") else 32, width)

    def forward(self, stamps):
        return self.month(stamps[:, :, 0]) + self.day(stamps[:, :, 1])


class DataEmbedding(nn.Layer):
    def __init__(self, inputs, width, dropout):
        super().__init__()
        self.value = ValueEmbedding(inputs, width)
        self.position = PositionEmbedding(width)
        self.stamp = StampEmbedding(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values, stamps):
        return self.dropout(self.value(values) + self.position(values) + self.stamp(stamps))
