import math

import numpy as np
import paddle
from paddle import nn
from paddle.nn.initializer import Constant, Normal, XavierUniform

from .decompose import instance_statistics, split_trend


def harmonics(count, past, future):
    """Rows: count cosines, then count sines; columns: time, one period is the past."""
    time = np.arange(past + future) / past
    phase = 2 * math.pi * np.outer(np.arange(count), time)
    table = np.vstack([np.cos(phase), np.sin(phase)]).astype("float32")
    return paddle.to_tensor(table[:, :past]), paddle.to_tensor(table[:, past:])


def linear(inner, outer, bias=True, start=None):
    return nn.Linear(
        inner,
        outer,
        weight_attr=paddle.ParamAttr(initializer=start or XavierUniform()),
        bias_attr=paddle.ParamAttr(initializer=Constant(0.0)) if bias else False,
    )


class HarmonicStack(nn.Layer):
    def __init__(self, past, future, extra, width, count, drop):
        super().__init__()
        self.enter = linear(past + extra, width)
        self.inner = linear(width, width)
        self.drop = nn.Dropout(drop)
        self.to_past = linear(width, 2 * count, bias=False)
        self.to_future = linear(width, 2 * count, bias=False)
        table_past, table_future = harmonics(count, past, future)
        self.register_buffer("table_past", table_past, persistable=False)
        self.register_buffer("table_future", table_future, persistable=False)

    def forward(self, series, calendar):
        hidden = nn.functional.relu(self.enter(paddle.concat([series, calendar], axis=-1)))
        hidden = self.drop(nn.functional.relu(self.inner(hidden)))
        explained = paddle.matmul(self.to_past(hidden), self.table_past)
        expected = paddle.matmul(self.to_future(hidden), self.table_future)
        return explained, expected


class Forecaster(nn.Layer):
    def __init__(self, past=48, future=12, channels=4, extra=4, smooth=13, width=32, stacks=2, count=5, drop=0.1):
        super().__init__()
        self.smooth = smooth
        self.scale = self.create_parameter([channels], default_initializer=Constant(1.0))
        self.shift = self.create_parameter([channels], default_initializer=Constant(0.0))
        self.trend = linear(past, future, start=Constant(1.0 / past))
        self.stacks = nn.LayerList([HarmonicStack(past, future, extra, width, count, drop) for _ in range(stacks)])
        self.gate = self.create_parameter([channels], default_initializer=Constant(0.0))
        self.mixing = nn.Conv1D(
            channels,
            channels,
            3,
            padding=1,
            padding_mode="replicate",
            weight_attr=paddle.ParamAttr(initializer=Normal(std=0.05)),
            bias_attr=False,
        )

    def season(self, rest, calendar):
        total = 0.0
        for stack in self.stacks:
            explained, expected = stack(rest, calendar)
            rest = rest - explained
            total = total + expected
        return total

    def forward(self, series, calendar):
        center, spread = instance_statistics(series)
        normal = (series - center) / spread * self.scale + self.shift
        trend, rest = split_trend(normal.transpose([0, 2, 1]), self.smooth)
        last = calendar[:, -1].unsqueeze(1).tile([1, series.shape[2], 1])
        gate = 2.0 * paddle.nn.functional.sigmoid(self.gate).reshape([1, -1, 1])
        future = self.trend(trend) + gate * self.season(rest, last)
        future = (future + self.mixing(future)).transpose([0, 2, 1])
        return (future - self.shift) / (self.scale + 1e-10) * spread + center
