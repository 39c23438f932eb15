"""Layers of the planner; each is named in settings.ini."""
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as I

from .kit import dense, make, part


@part("clock/between")
class Clock(nn.Layer):
    """The cycle lies between `low` and `high`; greens share what lost time and minima leave."""

    def __init__(self, size, low, high, intergreen, saturated):
        super().__init__()
        self.low, self.high, self.intergreen, self.saturated = low, high, intergreen, saturated
        edge = size ** -0.5
        self.to_cycle = nn.Linear(size, 1, weight_attr=I.Uniform(-edge, edge), bias_attr=I.Constant(-0.4))
        self.to_offset = dense(size, 2, weight=I.Normal(0.0, 0.3))

    def forward(self, logits, whole, arms):
        least = arms["min_green"]
        exists = (least > 0).astype(logits.dtype)
        level = paddle.exp(logits - logits.max(axis=-1, keepdim=True)) * exists
        portion = level / level.sum(axis=-1, keepdim=True)
        cycle = F.sigmoid(self.to_cycle(whole))[:, 0] * (self.high - self.low) + self.low
        free = cycle - self.intergreen * exists.sum(axis=-1) - least.sum(axis=-1)
        greens = least + portion * free[:, None]
        point = self.to_offset(whole)
        point = point * paddle.rsqrt(point.square().sum(axis=-1, keepdim=True) + 1e-4)
        wait = waiting_time(greens, cycle, arms, self.saturated)
        return dict(greens=greens, cycle=cycle, way=point, delay=wait)


def waiting_time(greens, cycle, arms, saturated):
    """Webster's two terms, per vehicle."""
    q, cap = arms["flow"], arms["saturation"]
    c = cycle.unsqueeze(-1)
    lam = paddle.clip(paddle.einsum("bp,bpa->ba", greens, arms["served"]) / c, 0.05, 0.97)
    degree = paddle.clip(q / cap / lam, max=saturated)
    uniform = 0.5 * c * paddle.square(1 - lam) / (1 - lam * degree)
    overflow = degree * degree / (2 * paddle.clip(q, min=1e-3) * (1 - degree))
    weight = q / q.sum(axis=-1, keepdim=True)
    return paddle.sum(weight * (uniform + overflow), axis=-1)


@part("stage_view/worst_and_mean")
class StageView(nn.Layer):
    def __init__(self, size, inner):
        super().__init__()
        self.blend = dense(size + 2, inner)
        self.grade = dense(inner, 1, bias=False)

    def forward(self, x, arms):
        ratio = arms["flow"] / arms["saturation"]
        served = arms["served"]
        many = paddle.clip(served.sum(axis=-1, keepdim=True), min=1.0)
        average = paddle.einsum("bpa,bad->bpd", served / many, x)
        peak = (served * ratio[:, None, :]).max(axis=-1)
        part_of_all = peak / ratio.sum(axis=-1, keepdim=True)
        seen = paddle.concat([average, paddle.stack([peak, part_of_all], axis=-1)], axis=-1)
        return self.grade(F.silu(self.blend(seen)))[..., 0]


class Talk(nn.Layer):
    def __init__(self, size, n_head, p):
        super().__init__()
        self.n_head, self.each = n_head, size // n_head
        self.before = nn.LayerNorm(size, epsilon=1e-6)
        self.three = dense(size, 3 * size, weight=I.XavierNormal(), bias=I.Constant(0.0))
        self.clash = self.create_parameter([n_head], default_initializer=I.Normal(-0.5, 0.2))
        self.valve = dense(size, size, bias=I.Constant(1.0))
        self.back = dense(size, size)
        self.drop = nn.Dropout(p)

    def forward(self, x, conflict, there):
        h = self.before(x)
        q, k, v = [t.reshape([0, 0, self.n_head, self.each]) for t in self.three(h).chunk(3, axis=-1)]
        pull = paddle.einsum("bihd,bjhd->bhij", q, k) * self.each ** -0.5
        pull = pull + paddle.einsum("h,bij->bhij", self.clash, conflict)
        shut = (1 - there)[:, None, None, :].astype("bool")
        pull = paddle.where(shut, paddle.full_like(pull, -1e30), pull)
        heard = paddle.einsum("bhij,bjhd->bihd", F.softmax(pull, axis=-1), v).flatten(2)
        update = F.sigmoid(self.valve(h)) * self.back(heard)
        return there[..., None] * (self.drop(update) + x)


@part("talk/clashing")
class Talks(nn.LayerList):
    def __init__(self, size, depth, n_head, p):
        super().__init__([Talk(size, n_head, p) for _ in range(depth)])

    def forward(self, x, conflict, there):
        for layer in self:
            x = layer(x, conflict, there)
        return x


@part("lift/two_layer")
class Lift(nn.Layer):
    def __init__(self, n_in, inner, size):
        super().__init__()
        self.net = nn.Sequential(dense(n_in, inner), nn.GELU(), dense(inner, size), nn.LayerNorm(size))

    def forward(self, x, there):
        return self.net(x) * there[..., None]


class SignalPlan(nn.Layer):
    def __init__(self, settings, n_in):
        super().__init__()
        net, size = settings["net"], settings["lift"]["size"]
        self.lift = make(net["lift"], n_in, **settings["lift"])
        self.talk = make(net["talk"], size, **settings["talk"])
        self.stage_view = make(net["stage_view"], size, **settings["stage_view"])
        self.clock = make(net["clock"], size, **settings["clock"])

    def forward(self, features, flow, saturation, served, conflict, min_green, present):
        arms = dict(flow=flow, saturation=saturation, served=served, min_green=min_green)
        x = self.talk(self.lift(features, present), conflict, present)
        weight = flow / flow.sum(axis=1, keepdim=True)
        whole = paddle.einsum("ba,bad->bd", weight, x)
        return self.clock(self.stage_view(x, arms), whole, arms)
