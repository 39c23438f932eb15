"""Parts of the mean that are no plain layers: coast, year, sky, what was there before."""
import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal, Uniform


def constant(values):
    return paddle.to_tensor(np.asarray(values), dtype="float32")


class AlongTheCoast(nn.Layer):
    def __init__(self, km, dim):
        super().__init__()
        self.register_buffer("km", constant(km), persistable=False)
        self.own = self.create_parameter([len(km), dim], default_initializer=Normal(0.0, 0.3))
        self.scale = self.create_parameter([1], default_initializer=Constant(math.log(math.expm1(1.5))))

    def forward(self):
        z = self.km / (10.0 * F.softplus(self.scale))
        return paddle.matmul(F.softmax(-z * z / 2, axis=1), self.own)


class Year(nn.Layer):
    def __init__(self, n_litter, waves=3):
        super().__init__()
        self.register_buffer("times", paddle.arange(1, waves + 1).astype("float32"), persistable=False)
        self.cos = self.create_parameter([waves, n_litter], default_initializer=Normal(0.0, 0.1))
        self.sin = self.create_parameter([waves, n_litter], default_initializer=Normal(0.0, 0.1))

    def forward(self, turn):
        phase = paddle.outer(turn, self.times)
        fade = 2.0 ** (self.times - 1)
        both = paddle.concat([paddle.cos(phase) / fade, paddle.sin(phase) / fade], axis=-1)
        return paddle.matmul(both, paddle.concat([self.cos, self.sin], axis=0))


class Sky(nn.Layer):
    """A curve for each reading of the weather; the curves are summed outside."""

    def __init__(self, n_readings, units, n_litter, p=0.1):
        super().__init__()
        edge = 1.0 / math.sqrt(units)
        self.steep = self.create_parameter([n_readings, units], default_initializer=Normal(0.3, 0.2))
        self.middle = self.create_parameter([n_readings, units], default_initializer=Uniform(-1.5, 1.5))
        self.blend = self.create_parameter([n_readings, units, n_litter], default_initializer=Uniform(-edge, edge))
        self.dropout = nn.Dropout(p)

    def forward(self, air):
        ramp = paddle.clip(paddle.exp(self.steep) * (air[:, :, None] - self.middle), min=0.0, max=2.0)
        curves = paddle.bmm(ramp.transpose([1, 0, 2]), self.blend).transpose([1, 0, 2])
        return self.dropout(curves)


class Before(nn.Layer):
    def __init__(self, n_litter):
        super().__init__()
        self.pace = self.create_parameter([n_litter], default_initializer=Constant(-1.0))
        self.carry = self.create_parameter([n_litter], default_initializer=Constant(0.5))
        self.blank = self.create_parameter([n_litter], default_initializer=Constant(0.0))

    def forward(self, past, gap, seen):
        months = gap.unsqueeze(-1) / 30.0
        weight = seen * paddle.exp(-months * F.softplus(self.pace))
        mass = weight.sum(axis=1)
        mean = paddle.einsum("bpk,bpk->bk", weight, past) / (mass + 0.05)
        return mean * self.carry + paddle.exp(-mass) * self.blank
