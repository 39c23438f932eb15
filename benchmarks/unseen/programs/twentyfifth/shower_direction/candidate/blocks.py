"""Functions that make functions: each ``make_*`` gives a layer with its parts and its closure."""
import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn import initializer as init


class Unit(nn.Layer):
    def __init__(self, call, parts):
        super().__init__()
        for name, part in parts:
            if callable(part) and not isinstance(part, nn.Layer):
                part = part(self)
            setattr(self, name, part)
        self.call = call

    def forward(self, *inputs):
        return self.call(self, *inputs)


def vector(values):
    """A free parameter that starts at the values (a list) or is drawn (an initializer and a size)."""
    def make(owner):
        if isinstance(values, tuple):
            law, size = values
        else:
            law, size = init.Assign(paddle.to_tensor(values, dtype="float32")), len(values)
        return owner.create_parameter([size], default_initializer=law)
    return make


def default_linear(cin, cout, bias=True, start=None):
    """A linear layer that starts like PyTorch's."""
    bound = 1.0 / math.sqrt(cin)
    first = init.Uniform(-bound, bound) if start is None else init.Assign(paddle.to_tensor(start))
    return nn.Linear(cin, cout,
                     weight_attr=paddle.ParamAttr(initializer=init.Uniform(-bound, bound)),
                     bias_attr=paddle.ParamAttr(initializer=first) if bias else False)


def xavier_linear(cin, cout, gain):
    bound = gain * math.sqrt(6.0 / (cin + cout))
    return nn.Linear(cin, cout, weight_attr=paddle.ParamAttr(initializer=init.Uniform(-bound, bound)))


def masked_softmax(score, keep):
    return F.softmax(paddle.where(keep, score, paddle.full_like(score, -1e9)), axis=-1)


def make_attention(width, heads, depth):
    size = width // heads

    def call(m, x, mask, dist2):
        b, n = x.shape[0], x.shape[1]
        packed = m.qkv(m.norm(x)).reshape([b, n, 3, heads, size]).transpose([2, 0, 3, 1, 4])
        q, k, v = packed[0], packed[1], packed[2]
        score = paddle.matmul(q * size ** -0.5, k, transpose_y=True)
        near = F.softplus(m.near).reshape([1, heads, 1, 1])
        score = score - near * dist2.unsqueeze(1)
        keep = (mask > 0).unsqueeze([1, 2]).expand_as(score)
        mixed = paddle.matmul(masked_softmax(score, keep), v)
        mixed = mixed.transpose([0, 2, 1, 3]).reshape([b, n, width])
        return x + m.scale * m.out(mixed)

    return Unit(call, [
        ("norm", nn.LayerNorm(width, epsilon=1e-6)),
        ("qkv", xavier_linear(width, 3 * width, math.sqrt(0.5))),
        ("near", vector([-2.0 + 2.0 * i / (heads - 1) for i in range(heads)])),
        ("out", xavier_linear(width, width, (2 * depth) ** -0.5)),
        ("scale", vector([0.5] * width)),
    ])


def make_feed(width, hidden, depth):
    def call(m, x):
        y = m.up(m.norm(x))
        return x + m.scale * m.down(y[:, :, :hidden] * F.gelu(y[:, :, hidden:]))

    return Unit(call, [
        ("norm", nn.LayerNorm(width, epsilon=1e-6)),
        ("up", default_linear(width, 2 * hidden)),
        ("down", xavier_linear(hidden, width, (2 * depth) ** -0.5)),
        ("scale", vector([0.5] * width)),
    ])


def make_embedding(width, freqs):
    octave = paddle.to_tensor([2.0 ** k for k in range(freqs)])

    def call(m, feats):
        phase = feats[:, :, 3:4] * octave
        waves = paddle.stack([paddle.sin(phase), paddle.cos(phase)], axis=-1).flatten(2)
        y = m.first(paddle.concat([feats, waves], axis=-1))
        return m.second(F.gelu(y, approximate=True))

    return Unit(call, [
        ("first", default_linear(5 + 2 * freqs, width)),
        ("second", default_linear(width, width)),
    ])


def make_pool(width):
    def call(m, x, mask, charge):
        score = paddle.matmul(m.key(x), m.query) / math.sqrt(width) + charge
        share = masked_softmax(score, mask > 0)
        return (share.unsqueeze(-1) * x).sum(axis=1)

    return Unit(call, [
        ("key", default_linear(width, width, bias=False)),
        ("query", vector((init.Normal(0.0, width ** -0.5), width))),
    ])


def make_head(width, extra, hidden):
    def call(m, pooled, whole):
        y = m.last(F.gelu(m.first(paddle.concat([m.norm(pooled), whole], axis=-1))))
        v = y[:, :3]
        length = paddle.sqrt((v * v).sum(axis=-1, keepdim=True) + 1e-8)
        return {"dir": v / length,
                "kappa": 20.0 * F.softplus(y[:, 3]) + 0.5,
                "loge": y[:, 4],
                "var": paddle.exp(paddle.clip(y[:, 5], -4.0, 2.0))}

    return Unit(call, [
        ("norm", nn.LayerNorm(width)),
        ("first", default_linear(width + extra, hidden)),
        ("last", default_linear(hidden, 6, start=[0.0, 0.0, 0.5, -1.0, 1.0, -1.0])),
    ])
