import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal, Uniform

from .frames import LITTER, READINGS
from .pieces import AlongTheCoast, Before, Sky, Year, constant


def dense(n_in, n_out, weight=None, bias=None):
    """A linear layer that begins as it does in the reference."""
    edge = 1.0 / math.sqrt(n_in)
    return nn.Linear(n_in, n_out, weight_attr=weight or Uniform(-edge, edge), bias_attr=bias or Uniform(-edge, edge))


class BeachLitter(nn.Layer):
    def __init__(self, coast, dim=10, units=8):
        super().__init__()
        n = len(LITTER)
        self.register_buffer("facing", constant(coast.facing), persistable=False)
        self.register_buffer("traits", constant(coast.traits), persistable=False)
        self.register_buffer("ground", paddle.to_tensor(coast.ground, dtype="int64"), persistable=False)
        self.shore = AlongTheCoast(coast.kilometres(), dim)
        self.soil = nn.Embedding(3, 4, weight_attr=Normal(0.0, 0.5))
        self.widen = dense(dim + 6, 24)
        self.even = nn.LayerNorm(24)
        self.narrow = dense(24, 16)
        self.base = dense(16, n)
        self.modulate = dense(16, 2 * n, Normal(0.0, 0.1), Constant(0.0))
        self.landward = dense(16, n)
        self.year = Year(n)
        self.sky = Sky(len(READINGS), units, n)
        self.before = Before(n)
        self.toil = self.create_parameter([2], default_initializer=nn.initializer.Assign([1.0, 0.3]))
        self.breadth = dense(16, n)
        self.nothing = dense(17, n, bias=Constant(-2.0))

    def places(self):
        """A description of every beach; surveys pick theirs."""
        table = paddle.concat([self.shore(), self.soil(self.ground), self.traits], axis=1)
        return F.tanh(self.narrow(F.gelu(self.even(self.widen(table)))))

    def blown_in(self, place, wind, facing):
        speed, origin = wind[:, 0], wind[:, 1]
        head_on = speed * F.relu(paddle.cos(origin - facing))
        return 0.2 * paddle.log1p(head_on)[:, None] * F.softplus(self.landward(place))

    def forward(self, beach, season, weather, wind, past, gap, seen, effort):
        place = paddle.gather(self.places(), beach, axis=0)
        work = paddle.matmul(effort, self.toil)[:, None]
        curves = self.sky(weather)
        scale, offset = paddle.split(self.modulate(place), 2, axis=1)
        terms = [
            self.base(place),
            self.year(season),
            curves.sum(axis=1) * (scale + 1) + offset,
            self.blown_in(place, wind, paddle.gather(self.facing, beach)),
            self.before(past, gap, seen),
        ]
        return dict(
            log_mu=paddle.add_n(terms) + work,
            log_r=paddle.clip(self.breadth(place), -3.0, 3.0),
            empty=self.nothing(paddle.concat([place, work], axis=1)),
            parts=curves,
        )
