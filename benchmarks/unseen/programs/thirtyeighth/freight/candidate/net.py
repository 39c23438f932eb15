"""The matcher in Paddle: towers, rounds of exchange, pair scores, transport."""
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Assign, Constant, Normal, XavierUniform

from .catalog import entry, make

RADIUS = 6371.0


def dense(fan_in, fan_out, bias=True):
    return nn.Linear(fan_in, fan_out, weight_attr=XavierUniform(), bias_attr=Constant(0.0) if bias else False)


def layer_norm(dim):
    return nn.LayerNorm(dim, epsilon=1e-6)


def empty_km(trucks, loads):
    """Great-circle kilometres, [batch, trucks, loads]."""
    here, there = trucks[:, :, None, :2], loads[:, None, :, :2]
    s = paddle.sin((there - here) / 2).square()
    chord = s[..., 0] + paddle.cos(here[..., 0]) * paddle.cos(there[..., 0]) * s[..., 1]
    return 2 * RADIUS * paddle.asin(paddle.clip(chord, 1e-12, 1.0).sqrt())


@entry("tower", "tower")
class Tower(nn.Layer):
    def __init__(self, numbers, equipment, equipment_dim, dim, inner, dropout):
        super().__init__()
        self.equipment = nn.Embedding(equipment, equipment_dim, weight_attr=Normal(0.0, 0.5))
        self.lift = dense(numbers + equipment_dim, inner)
        self.land = dense(inner, dim)
        self.norm = layer_norm(dim)
        self.dropout = dropout

    def forward(self, numbers, codes):
        h = F.gelu(self.lift(paddle.concat([numbers, self.equipment(codes)], axis=-1)))
        h = F.dropout(h, self.dropout, training=self.training)
        return self.norm(self.land(h))


class Look(nn.Layer):
    """One side looks at the other; distance weakens it, for each head at its own rate."""

    def __init__(self, dim, heads, reach_km):
        super().__init__()
        self.heads, self.reach_km = heads, reach_km
        self.to_q = dense(dim, dim, bias=False)
        self.to_k = dense(dim, dim, bias=False)
        self.to_v = dense(dim, dim)
        self.merge = dense(dim, dim)
        start = np.linspace(-2.0, 1.0, heads).astype("float32")
        self.slope = self.create_parameter([heads], default_initializer=Assign(start))

    def forward(self, own, others, km, real):
        def heads(x):
            return x.reshape([x.shape[0], x.shape[1], self.heads, -1])

        q, k, v = heads(self.to_q(own)), heads(self.to_k(others)), heads(self.to_v(others))
        logits = paddle.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5
        logits -= paddle.einsum("h,bij->bhij", F.softplus(self.slope), km / self.reach_km)
        logits = paddle.where(real[:, None, None, :], logits, paddle.full_like(logits, -1e9))
        seen = paddle.einsum("bhij,bjhd->bihd", F.softmax(logits, axis=-1), v)
        return self.merge(seen.flatten(2))


class Round(nn.Layer):
    def __init__(self, dim, heads, widen, reach_km):
        super().__init__()
        self.truck_norm, self.load_norm = layer_norm(dim), layer_norm(dim)
        self.truck_look, self.load_look = Look(dim, heads, reach_km), Look(dim, heads, reach_km)
        self.truck_think, self.load_think = (
            nn.Sequential(layer_norm(dim), dense(dim, widen * dim), nn.Silu(), dense(widen * dim, dim))
            for _ in range(2)
        )

    def forward(self, trucks, loads, km, real_trucks, real_loads):
        t, l = self.truck_norm(trucks), self.load_norm(loads)
        trucks = trucks + self.truck_look(t, l, km, real_loads)
        loads = loads + self.load_look(l, t, km.transpose([0, 2, 1]), real_trucks)
        return trucks + self.truck_think(trucks), loads + self.load_think(loads)


@entry("exchange", "exchange")
class Exchange(nn.LayerList):
    def __init__(self, dim, heads, rounds, widen, reach_km):
        super().__init__([Round(dim, heads, widen, reach_km) for _ in range(rounds)])

    def forward(self, trucks, loads, *rest):
        for layer in self:
            trucks, loads = layer(trucks, loads, *rest)
        return trucks, loads


@entry("pairing", "pairing")
class Pairing(nn.Layer):
    def __init__(self, dim, knots_km, knot_width_km):
        super().__init__()
        self.truck_side = dense(dim, dim)
        self.load_side = dense(dim, dim)
        self.curve = dense(len(knots_km), 1, bias=False)
        self.register_buffer("knots", paddle.to_tensor(knots_km, dtype="float32"))
        self.width = knot_width_km

    def forward(self, trucks, loads, km):
        affinity = paddle.einsum("btd,bld->btl", self.truck_side(trucks), self.load_side(loads))
        offsets = (km[..., None] - self.knots) / self.width
        return affinity * trucks.shape[-1] ** -0.5 + self.curve(paddle.exp(-offsets.square() / 2))[..., 0]


@entry("transport", "sinkhorn")
class Sinkhorn(nn.Layer):
    """Entropic transport in logarithms, with a slack row and a slack column."""

    def __init__(self, sweeps, slack):
        super().__init__()
        self.sweeps = sweeps
        self.slack = self.create_parameter([], default_initializer=Constant(slack))

    def forward(self, scores, real_trucks, real_loads):
        batch, trucks, loads = scores.shape
        dtype = scores.dtype
        side = self.slack.expand([batch, trucks, 1])
        below = self.slack.expand([batch, 1, loads + 1])
        cost = paddle.concat([paddle.concat([scores, side], axis=2), below], axis=1)

        always = paddle.ones([batch, 1], dtype="bool")
        rows = paddle.concat([real_trucks, always], axis=1)
        columns = paddle.concat([real_loads, always], axis=1)
        void = paddle.logical_not(rows[:, :, None] & columns[:, None, :])
        cost = paddle.masked_fill(cost, void, -1e4)

        n = real_trucks.astype(dtype).sum(axis=1, keepdim=True)
        m = real_loads.astype(dtype).sum(axis=1, keepdim=True)
        total = paddle.log(n + m)
        supply = paddle.concat([paddle.zeros([batch, trucks], dtype=dtype), paddle.log(m)], axis=1) - total
        demand = paddle.concat([paddle.zeros([batch, loads], dtype=dtype), paddle.log(n)], axis=1) - total
        supply = paddle.masked_fill(supply, paddle.logical_not(rows), -1e4)
        demand = paddle.masked_fill(demand, paddle.logical_not(columns), -1e4)

        f, g = paddle.zeros_like(supply), paddle.zeros_like(demand)
        for _ in range(self.sweeps):
            f = supply - paddle.logsumexp(cost + g[:, None, :], axis=2)
            g = demand - paddle.logsumexp(cost + f[:, :, None], axis=1)
        plan = cost + f[:, :, None] + g[:, None, :] + total[:, :, None]
        return paddle.masked_fill(plan, void, -30.0)


@entry("net", "matcher")
class Matcher(nn.Layer):
    def __init__(self, equipment, dim, equipment_dim, tower, exchange, pairing, transport):
        super().__init__()
        sizes = dict(equipment=equipment, equipment_dim=equipment_dim, dim=dim)
        self.truck_tower = make("tower", tower, numbers=6, **sizes)
        self.load_tower = make("tower", tower, numbers=8, **sizes)
        self.exchange = make("exchange", exchange, dim=dim)
        self.pairing = make("pairing", pairing, dim=dim)
        self.transport = make("transport", transport)

    def forward(self, trucks, truck_kinds, truck_mask, loads, load_kinds, load_mask):
        km = empty_km(trucks, loads)
        t, l = self.exchange(
            self.truck_tower(trucks, truck_kinds), self.load_tower(loads, load_kinds), km, truck_mask, load_mask
        )
        return self.transport(self.pairing(t, l, km), truck_mask, load_mask)
