"""Ports that make mapping hard: other names, other order of definition, another structure; each pair is one model in both frameworks.

``EQUIVALENT`` maps a name to a function that gives the PyTorch model, its Paddle port and the inputs; ``DIFFERENT`` the same for ports
that are wrong.
"""

from __future__ import annotations

import math

import numpy as np
import paddle
import paddle.nn.functional as pf
import torch
import torch.nn.functional as tf
from paddle import nn as pn
from torch import nn as tn

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 5, 8)).astype("float32")
IMAGE = RANDOM.standard_normal((2, 4, 6, 6)).astype("float32")
TOKENS = RANDOM.integers(0, 11, (2, 5))

EQUIVALENT, DIFFERENT = {}, {}


def equivalent(make):
    EQUIVALENT[make.__name__] = make
    return make


def different(make):
    DIFFERENT[make.__name__] = make
    return make


def torch_attention(q, k, v, heads=2):
    shape = q.shape
    q, k, v = (t.reshape(shape[0], -1, heads, shape[2] // heads).transpose(1, 2) for t in (q, k, v))
    scores = (q @ k.transpose(-1, -2) / math.sqrt(shape[2] // heads)).softmax(-1)
    return (scores @ v).transpose(1, 2).reshape(shape)


def paddle_attention(q, k, v, heads=2):
    shape = q.shape
    q, k, v = (t.reshape([shape[0], -1, heads, shape[2] // heads]).transpose([0, 2, 1, 3]) for t in (q, k, v))
    scores = pf.softmax(paddle.matmul(q, k, transpose_y=True) / math.sqrt(shape[2] // heads), -1)
    return paddle.matmul(scores, v).transpose([0, 2, 1, 3]).reshape(shape)


def holds(module, layers):
    """Give a module its layers, in this order of definition."""
    for name, layer in layers.items():
        setattr(module, name, layer)


def torch_model(layers, forward):
    """A module of some layers whose forward is a function of itself and the inputs."""

    class Model(tn.Module):
        def __init__(self):
            super().__init__()
            holds(self, layers())

        def forward(self, *inputs):
            return forward(self, *inputs)

    return Model()


def paddle_model(layers, forward):
    class Model(pn.Layer):
        def __init__(self):
            super().__init__()
            holds(self, layers())

        def forward(self, *inputs):
            return forward(self, *inputs)

    return Model()


def chain(layers, x):
    for layer in layers:
        x = layer(x)
    return x


def torch_stack(make, count=2, name="blocks"):
    return torch_model(lambda: {name: tn.ModuleList([make() for _ in range(count)])}, lambda m, x: chain(getattr(m, name), x))


def paddle_stack(make, count=2, name="layers"):
    return paddle_model(lambda: {name: pn.LayerList([make() for _ in range(count)])}, lambda m, x: chain(getattr(m, name), x))


def torch_split(names=("q", "k", "v", "o"), order=(0, 1, 2, 3)):
    def forward(m, x):
        q, k, v, out = (getattr(m, n) for n in names)
        return x + out(torch_attention(q(x), k(x), v(x)))

    return torch_model(lambda: {names[i]: tn.Linear(8, 8) for i in order}, forward)


def paddle_split(names=("q", "k", "v", "o"), order=(0, 1, 2, 3), heads=2, residual=1):
    def forward(m, x):
        q, k, v, out = (getattr(m, n) for n in names)
        return residual * x + out(paddle_attention(q(x), k(x), v(x), heads))

    return paddle_model(lambda: {names[i]: pn.Linear(8, 8) for i in order}, forward)


def fused_parts(y, *, interleaved, order, shape, split):
    if interleaved:  # every head's query, key and value lie together
        y = y.reshape([*shape[:2], 2, 3, 4])
        parts = [y[:, :, :, n].reshape(list(shape)) for n in range(3)]
    else:
        parts = split(y)
    named = dict(zip(order, parts, strict=True))
    return named["q"], named["k"], named["v"]


def torch_fused(name="qkv", order="qkv", *, interleaved=False):
    def forward(m, x):
        found = fused_parts(getattr(m, name)(x), interleaved=interleaved, order=order, shape=x.shape, split=lambda y: y.chunk(3, -1))
        return x + m.proj(torch_attention(*found))

    return torch_model(lambda: {name: tn.Linear(8, 24), "proj": tn.Linear(8, 8)}, forward)


def paddle_fused(name="qkv", order="qkv", *, interleaved=False):
    def forward(m, x):
        y = getattr(m, name)(x)
        found = fused_parts(y, interleaved=interleaved, order=order, shape=x.shape, split=lambda y: paddle.chunk(y, 3, -1))
        return x + m.proj(paddle_attention(*found))

    return paddle_model(lambda: {name: pn.Linear(8, 24), "proj": pn.Linear(8, 8)}, forward)


@equivalent
def fused_against_split_in_another_order():
    return torch_stack(torch_fused), paddle_stack(lambda: paddle_split(("to_q", "to_k", "to_v", "merge"), (2, 3, 0, 1))), X


@equivalent
def interleaved_heads_against_split():
    ours = torch_stack(lambda: torch_fused("query_key_value", interleaved=True))
    return ours, paddle_stack(lambda: paddle_split(("q_proj", "k_proj", "v_proj", "out_proj"))), X


@equivalent
def interleaved_heads_against_thirds():
    return torch_stack(lambda: torch_fused("query_key_value", interleaved=True)), paddle_stack(lambda: paddle_fused("qkv_proj")), X


@equivalent
def split_against_interleaved_heads():
    ours = torch_stack(lambda: torch_split(("query", "key", "value", "dense"), (1, 2, 0, 3)))
    return ours, paddle_stack(lambda: paddle_fused(interleaved=True)), X


@equivalent
def fused_in_another_order_against_split():
    return torch_stack(lambda: torch_fused(order="kqv")), paddle_stack(paddle_split), X


@equivalent
def fused_in_two_orders():
    return torch_stack(lambda: torch_fused(order="kqv")), paddle_stack(lambda: paddle_fused(order="vqk")), X


@equivalent
def a_pack_whose_name_does_not_tell():
    return torch_stack(lambda: torch_fused("packed")), paddle_stack(paddle_split), X


@equivalent
def names_that_say_nothing():
    ours = torch_stack(lambda: torch_split(("ant", "bee", "cow", "dog"), (3, 1, 0, 2)))
    return ours, paddle_stack(lambda: paddle_split(("w", "x", "y", "z"), (1, 2, 0, 3))), X


@equivalent
def blocks_without_numbers():
    colours = ("red", "green", "blue")
    ours = torch_model(
        lambda: {c: torch_split(("ant", "bee", "cow", "dog")) for c in colours}, lambda m, x: chain([m.red, m.green, m.blue], x)
    )
    return ours, paddle_stack(lambda: paddle_split(("w", "x", "y", "z"), (1, 2, 0, 3)), 3), X


@equivalent
def equal_names_with_exchanged_roles():
    return torch_stack(torch_split), paddle_stack(lambda: paddle_split(("k", "q", "v", "o")), name="blocks"), X


@equivalent
def norms_used_the_other_way_round():
    ours = torch_model(
        lambda: {"norm1": tn.LayerNorm(8), "norm2": tn.LayerNorm(8), "fc1": tn.Linear(8, 8), "fc2": tn.Linear(8, 8)},
        lambda m, x: x + m.fc2(m.norm2(tf.gelu(m.fc1(m.norm1(x))))),
    )
    theirs = paddle_model(
        lambda: {"norm1": pn.LayerNorm(8), "norm2": pn.LayerNorm(8), "fc1": pn.Linear(8, 8), "fc2": pn.Linear(8, 8)},
        lambda m, x: x + m.fc1(m.norm1(pf.gelu(m.fc2(m.norm2(x))))),
    )
    return ours, theirs, X


def torch_sum(*names):
    return torch_model(lambda: {n: tn.Linear(8, 8) for n in names}, lambda m, x: sum(tf.gelu(getattr(m, n)(x)) for n in names))


def paddle_sum(*names):
    return paddle_model(lambda: {n: pn.Linear(8, 8) for n in names}, lambda m, x: sum(pf.gelu(getattr(m, n)(x)) for n in names))


@equivalent
def equal_branches_that_are_added():
    return torch_sum("left", "right"), paddle_sum("a", "b"), X


@equivalent
def ten_equal_branches_that_are_added():
    return torch_sum(*"abcdefghij"), paddle_sum(*"zyxwvutsrq"), X


@equivalent
def branches_joined_in_an_order_of_their_own():
    ours = torch_model(lambda: {n: tn.Linear(8, 8) for n in "abc"}, lambda m, x: torch.cat([m.a(x), m.b(x), m.c(x)], -1))

    def forward(m, x):
        last = m.three(x)
        return paddle.concat([m.one(x), m.two(x), last], -1)

    return ours, paddle_model(lambda: {n: pn.Linear(8, 8) for n in ("two", "three", "one")}, forward), X


@equivalent
def twelve_equal_layers_defined_in_another_order():
    names = [f"m{letter}" for letter in "qwertyuiopas"]
    ours = torch_model(
        lambda: {"body": tn.Sequential(*[tn.Linear(8, 8) for _ in names])},
        lambda m, x: chain([lambda y, n=n: torch.tanh(n(y)) for n in m.body], x),
    )
    theirs = paddle_model(
        lambda: {n: pn.Linear(8, 8) for n in sorted(names)},
        lambda m, x: chain([lambda y, n=n: paddle.tanh(getattr(m, n)(y)) for n in names], x),
    )
    return ours, theirs, X


@equivalent
def a_list_against_attributes():
    ours = torch_stack(lambda: torch_model(lambda: {"fc": tn.Linear(8, 8)}, lambda m, x: tf.relu(m.fc(x))), 4)
    names = ("first", "second", "third", "fourth")
    theirs = paddle_model(
        lambda: {n: pn.Linear(8, 8) for n in reversed(names)},
        lambda m, x: chain([lambda y, n=n: pf.relu(getattr(m, n)(y)) for n in names], x),
    )
    return ours, theirs, X


def tied():
    def layers():
        found = {"embed": tn.Embedding(11, 8), "fc": tn.Linear(8, 8), "head": tn.Linear(8, 11, bias=False)}
        found["head"].weight = found["embed"].weight
        return found

    return torch_model(layers, lambda m, i: m.head(torch.tanh(m.fc(m.embed(i)))))


@equivalent
def a_tied_head_without_a_layer():
    theirs = paddle_model(
        lambda: {"tok": pn.Embedding(11, 8), "mix": pn.Linear(8, 8)},
        lambda m, i: paddle.matmul(paddle.tanh(m.mix(m.tok(i))), m.tok.weight, transpose_y=True),
    )
    return tied(), theirs, TOKENS


@equivalent
def a_tied_head_that_is_apart():
    theirs = paddle_model(
        lambda: {"tok": pn.Embedding(11, 8), "mix": pn.Linear(8, 8), "out": pn.Linear(8, 11, bias_attr=False)},
        lambda m, i: m.out(paddle.tanh(m.mix(m.tok(i)))),
    )
    return tied(), theirs, TOKENS


@equivalent
def a_layer_used_twice_under_two_names():
    def layers():
        layer = tn.Linear(8, 8)
        return {"one": layer, "other": tn.Linear(8, 8), "again": layer}

    ours = torch_model(layers, lambda m, x: m.again(torch.tanh(m.other(torch.tanh(m.one(x))))))
    theirs = paddle_model(lambda: {"u": pn.Linear(8, 8), "t": pn.Linear(8, 8)}, lambda m, x: m.t(paddle.tanh(m.u(paddle.tanh(m.t(x))))))
    return ours, theirs, X


def bare(layer, **shapes):
    """Parameters that a module holds itself."""
    if isinstance(layer, pn.Layer):
        return {n: layer.create_parameter(list(s), default_initializer=pn.initializer.Normal()) for n, s in shapes.items()}
    return {n: tn.Parameter(torch.randn(*s)) for n, s in shapes.items()}


@equivalent
def square_layers_as_bare_matrices():
    ours = torch_model(lambda: {"one": tn.Linear(8, 8), "two": tn.Linear(8, 8)}, lambda m, x: m.two(torch.tanh(m.one(x))))
    theirs = paddle_model(
        lambda: bare(pn.Layer(), w1=(8, 8), w2=(8, 8), b1=(8,), b2=(8,)),
        lambda m, x: paddle.matmul(paddle.tanh(paddle.matmul(x, m.w1) + m.b1), m.w2) + m.b2,
    )
    return ours, theirs, X


@equivalent
def bare_matrices_as_layers():
    ours = torch_model(
        lambda: bare(None, weight=(8, 8), offset=(8,), scale=(8,), w_in=(8, 16)),
        lambda m, x: torch.tanh((x * m.scale) @ m.weight + m.offset) @ m.w_in,
    )
    theirs = paddle_model(
        lambda: {**bare(pn.Layer(), gamma=(8,)), "fc": pn.Linear(8, 8), "up": pn.Linear(8, 16, bias_attr=False)},
        lambda m, x: m.up(paddle.tanh(m.fc(x * m.gamma))),
    )
    return ours, theirs, X


def torch_conv1d(outputs):
    """As GPT-2 has it: inputs by outputs."""
    return torch_model(lambda: bare(None, weight=(8, outputs), bias=(outputs,)), lambda m, x: x @ m.weight + m.bias)


@equivalent
def conv1d_of_gpt2():
    def ours():
        parts = {"ln_1": tn.LayerNorm(8), "c_attn": torch_conv1d(24), "c_proj": torch_conv1d(8), "ln_2": tn.LayerNorm(8)}

        def forward(m, x):
            x = x + m.c_proj(torch_attention(*m.c_attn(m.ln_1(x)).chunk(3, -1)))
            return x + m.c_out(tf.gelu(m.c_fc(m.ln_2(x))))

        model = torch_model(lambda: {**parts, "c_fc": torch_conv1d(8), "c_out": torch_conv1d(8)}, forward)
        model.register_buffer("bias", torch.tril(torch.ones(5, 5, dtype=torch.bool)))
        return model

    def theirs():
        names = ("v", "k", "q", "out", "linear2", "linear1")

        def forward(m, x):
            h = m.norm_a(x)
            x = x + m.out(paddle_attention(m.q(h), m.k(h), m.v(h)))
            return x + m.linear2(pf.gelu(m.linear1(m.norm_b(x))))

        return paddle_model(lambda: {"norm_b": pn.LayerNorm(8), "norm_a": pn.LayerNorm(8), **{n: pn.Linear(8, 8) for n in names}}, forward)

    return torch_stack(ours, 3, "h"), paddle_stack(theirs, 3, "decoder"), X


@equivalent
def convolutions():
    ours = torch_model(
        lambda: {
            "a": tn.Conv2d(4, 4, 3, padding=1),
            "b": tn.ConvTranspose2d(4, 4, 3, padding=1),
            "c": tn.Conv2d(4, 4, 3, padding=1, groups=4),
            "d": tn.ConvTranspose2d(4, 8, 2, 2, groups=2),
            "e": tn.Conv2d(8, 8, 1),
            "f": tn.BatchNorm2d(8),
        },
        lambda m, x: chain([m.a, m.b, m.c, m.d, m.e, m.f], x),
    )
    theirs = paddle_model(
        lambda: {
            "norm": pn.BatchNorm2D(8),
            "point": pn.Linear(8, 8),
            "up2": pn.Conv2DTranspose(4, 8, 2, 2, groups=2),
            "dw": pn.Conv2D(4, 4, 3, padding=1, groups=4),
            "up": pn.Conv2DTranspose(4, 4, 3, padding=1),
            "stem": pn.Conv2D(4, 4, 3, padding=1),
        },
        lambda m, x: m.norm(m.point(chain([m.stem, m.up, m.dw, m.up2], x).transpose([0, 2, 3, 1])).transpose([0, 3, 1, 2])),
    )
    return ours, theirs, IMAGE


@equivalent
def a_convolution_by_one_for_a_linear_layer_and_the_reverse():
    ours = torch_model(
        lambda: {"a": tn.Conv1d(8, 8, 1), "b": tn.Linear(8, 8)}, lambda m, x: m.b(torch.tanh(m.a(x.transpose(1, 2)).transpose(1, 2)))
    )
    theirs = paddle_model(
        lambda: {"y": pn.Conv1D(8, 8, 1), "x": pn.Linear(8, 8)},
        lambda m, x: m.y(paddle.tanh(m.x(x)).transpose([0, 2, 1])).transpose([0, 2, 1]),
    )
    return ours, theirs, X


@equivalent
def norms_and_slopes():
    ours = tn.Sequential(
        tn.Conv2d(4, 8, 3), tn.GroupNorm(2, 8), tn.PReLU(8), tn.Conv2d(8, 8, 1, bias=False), tn.InstanceNorm2d(8, affine=True), tn.PReLU()
    )
    theirs = paddle_model(
        lambda: {
            "act2": pn.PReLU(),
            "inorm": pn.InstanceNorm2D(8),
            "pw": pn.Conv2D(8, 8, 1, bias_attr=False),
            "act1": pn.PReLU(8),
            "gn": pn.GroupNorm(2, 8),
            "conv": pn.Conv2D(4, 8, 3),
        },
        lambda m, x: chain([m.conv, m.gn, m.act1, m.pw, m.inorm, m.act2], x),
    )
    return ours, theirs, IMAGE
