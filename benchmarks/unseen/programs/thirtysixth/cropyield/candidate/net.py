"""The forecaster's parts."""
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Constant, KaimingNormal, Normal, XavierUniform

from .catalog import make, part


def dense(n_in, n_out, bias=True):
    return nn.Linear(
        n_in,
        n_out,
        weight_attr=paddle.ParamAttr(initializer=XavierUniform()),
        bias_attr=paddle.ParamAttr(initializer=Constant(0.0)) if bias else False,
    )


def conv(n_in, n_out, taps=1, **options):
    fan_in = n_in // options.get("groups", 1) * taps
    return nn.Conv1D(
        n_in,
        n_out,
        taps,
        weight_attr=paddle.ParamAttr(initializer=KaimingNormal(fan_in=fan_in)),
        bias_attr=paddle.ParamAttr(initializer=Constant(0.0)),
        **options,
    )


@part("forecast", "normal")
class NormalForecast(nn.Layer):
    def __init__(self, width, count, inner, least):
        super().__init__()
        self.modulate = dense(width, 2 * width)
        self.inner = dense(count * width, inner)
        self.last = dense(inner, 2)
        self.least = least

    def forward(self, phases, ground):
        scale, shift = paddle.split(self.modulate(ground).unsqueeze(1), 2, axis=-1)
        h = phases + phases * scale + shift
        h = F.silu(self.inner(paddle.flatten(h, start_axis=1)))
        pair = self.last(h)
        return pair[:, 0], F.softplus(pair[:, 1]) + self.least


@part("phases", "attention")
class Phases(nn.Layer):
    """Growth phases of a crop look at the weeks of the season."""

    def __init__(self, width, crops, count):
        super().__init__()
        self.count, self.width = count, width
        self.spread = self.create_parameter([count], default_initializer=Constant(0.0))
        self.table = nn.Embedding(crops, count * width, weight_attr=paddle.ParamAttr(initializer=Normal(0.0, 0.5)))
        self.to_key = dense(width, width, bias=False)

    def timing(self, weeks, dtype):
        week = paddle.linspace(0, 1, weeks, dtype=dtype)
        middle = (2 * paddle.arange(self.count, dtype=dtype) + 1) / (2 * self.count)
        distance = paddle.square(week.unsqueeze(0) - middle.unsqueeze(1))
        return -4.0 * distance * paddle.exp(self.spread).unsqueeze(-1)

    def forward(self, season, crop):
        query = self.table(crop).reshape([-1, self.count, self.width])
        scores = paddle.einsum("bsc,bwc->bsw", query, self.to_key(season)) * self.width**-0.5
        share = F.softmax(scores + self.timing(season.shape[1], season.dtype), axis=-1)
        return paddle.einsum("bsw,bwc->bsc", share, season), share


@part("ground", "profile")
class Ground(nn.Layer):
    def __init__(self, width, features, inner, layers):
        super().__init__()
        self.mlp = nn.Sequential(dense(features, inner), nn.GELU(), dense(inner, width))
        self.norm = nn.LayerNorm(width, epsilon=1e-5)
        self.register_buffer("thickness", paddle.to_tensor(layers, dtype=paddle.get_default_dtype()))

    def forward(self, soil):
        share = self.thickness / self.thickness.sum()
        return self.norm(paddle.einsum("l,blc->bc", share, self.mlp(soil)))


class Block(nn.Layer):
    def __init__(self, width, taps, rate, groups, eps):
        super().__init__()
        self.padding = nn.Pad1D([(taps - 1) * rate, 0])
        self.local = conv(width, width, taps, dilation=rate, groups=width)
        self.mix = conv(width, 2 * width)
        self.norm = nn.GroupNorm(groups, width, epsilon=eps)

    def forward(self, x):
        value, gate = self.mix(self.local(self.padding(x))).chunk(2, axis=1)
        return self.norm(value * F.sigmoid(gate)) + x


@part("season", "tcn")
class Season(nn.Layer):
    def __init__(self, width, features, taps, rates, norm_groups, norm_eps):
        super().__init__()
        self.first = conv(features, width)
        self.stack = nn.LayerList([Block(width, taps, r, norm_groups, norm_eps) for r in rates])

    def forward(self, weather):
        h = self.first(weather.transpose([0, 2, 1]))
        outs = []
        for block in self.stack:
            h = block(h)
            outs.append(h)
        total = paddle.add_n(outs) / len(outs) ** 0.5
        return F.silu(total).transpose([0, 2, 1])


class Forecaster(nn.Layer):
    def __init__(self, options):
        super().__init__()
        width = options["width"]
        self.season = make("season", options["season"], width=width)
        self.ground = make("ground", options["ground"], width=width)
        self.phases = make("phases", options["phases"], width=width)
        self.forecast = make("forecast", options["forecast"], width=width, count=options["phases"]["count"])

    def forward(self, weather, soil, crop):
        phases, share = self.phases(self.season(weather), crop)
        mean, scale = self.forecast(phases, self.ground(soil))
        return {"mean": mean, "scale": scale, "attention": share}
