import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn import initializer as init


def like_torch(fan_in):
    return paddle.ParamAttr(initializer=init.Uniform(-(fan_in**-0.5), fan_in**-0.5))


def linear(a, b, bias=True):
    return nn.Linear(a, b, weight_attr=like_torch(a), bias_attr=like_torch(a) if bias else False)


def random_rotation(n):
    q, r = np.linalg.qr(np.random.standard_normal((n, n)))
    return q * np.sign(np.diag(r))


class HistoryReader(nn.Layer):
    def __init__(self, width, species=3, species_width=8):
        super().__init__()
        self.species = nn.Embedding(species, species_width, weight_attr=paddle.ParamAttr(initializer=init.Normal(0.0, 1.0)))
        self.lift = linear(3 + species_width, width)
        gates = np.concatenate([random_rotation(width) for _ in range(3)])
        self.gru = nn.GRUCell(
            width,
            width,
            weight_ih_attr=like_torch(width),
            weight_hh_attr=paddle.ParamAttr(initializer=init.Assign(gates.astype("float32"))),
            bias_ih_attr=like_torch(width),
            bias_hh_attr=like_torch(width),
        )

    def forward(self, past, seen, kind):
        alive = seen.astype(past.dtype)
        velocity = paddle.diff(past, axis=2) * (alive[:, :, 1:] * alive[:, :, :-1]).unsqueeze(-1)
        velocity = paddle.concat([paddle.zeros_like(past[:, :, :1]), velocity], axis=2)
        who = self.species(kind).unsqueeze(2).tile([1, 1, past.shape[2], 1])
        features = paddle.concat([velocity, alive.unsqueeze(-1), who], axis=-1)
        features = F.leaky_relu(self.lift(features), negative_slope=0.1).flatten(0, 1)
        alive = alive.flatten(0, 1)
        state = paddle.zeros([features.shape[0], features.shape[2]], dtype=features.dtype)
        for t in range(features.shape[1]):
            _, new = self.gru(features[:, t], state)
            state = paddle.lerp(state, new, alive[:, t : t + 1])
        return state.reshape([past.shape[0], past.shape[1], -1]), velocity[:, :, -1]


class PairAttention(nn.Layer):
    def __init__(self, width, heads=4, reach=2.0, bumps=8):
        super().__init__()
        self.heads, self.reach = heads, reach
        self.register_buffer("knots", paddle.arange(bumps, dtype="float32") * (reach / bumps))
        self.pair_in = linear(4 + bumps, width)
        self.pair_out = linear(width, width)
        self.ask = linear(width, width, bias=False)
        self.key_value = linear(width, 2 * width, bias=False)
        self.merge = linear(width, width)
        self.norm = nn.LayerNorm(width)

    def pairs(self, where, speed):
        """[b, i, j]: of j as i sees it."""
        offset = where.unsqueeze(1) - where.unsqueeze(2)
        drift = speed.unsqueeze(1) - speed.unsqueeze(2)
        distance = offset.square().sum(axis=-1).sqrt()
        bumps = paddle.exp(-2.0 * (distance.unsqueeze(-1) - self.knots).square())
        return distance, self.pair_out(F.relu(self.pair_in(paddle.concat([offset, drift, bumps], axis=-1))))

    def forward(self, h, where, speed, here):
        n, width = h.shape[1], h.shape[2]
        distance, pair = self.pairs(where, speed)
        linked = paddle.logical_and(here.unsqueeze(1), distance < self.reach)
        linked = paddle.logical_and(linked, paddle.eye(n) == 0)
        # a head's keys and values lie side by side
        both = self.key_value(h.unsqueeze(1) + pair).reshape([0, n, n, self.heads, -1])
        key, value = paddle.split(both, 2, axis=-1)
        ask = self.ask(h).reshape([0, n, self.heads, width // self.heads])
        score = paddle.einsum("bihd,bijhd->bhij", ask, key) * (width // self.heads) ** -0.5
        score = paddle.where(linked.unsqueeze(1), score, paddle.full_like(score, -1e30))
        # one silent entry with score 0 beside the neighbours
        top = paddle.clip(score.max(axis=-1, keepdim=True), min=0.0).detach()
        mass = paddle.exp(score - top)
        share = mass / (mass.sum(axis=-1, keepdim=True) + paddle.exp(-top))
        seen = paddle.einsum("bhij,bijhd->bihd", share, value).flatten(2)
        return self.norm(h + self.merge(seen))
