"""Ports in which one side has as one layer what the other has as several, or norms of its own beside those of the library."""

from __future__ import annotations

import paddle
import paddle.nn.functional as pf
import torch
import torch.nn.functional as tf
from paddle import nn as pn
from ports import IMAGE, TOKENS, X, bare, different, equivalent, paddle_model, torch_model
from torch import nn as tn


def torch_heads(*, packed, sizes=(6, 4), order=(0, 1), act=tf.relu):
    """A trunk and heads, or one head whose outputs come in ``order``."""
    names = ("cls", "box", "obj")[: len(sizes)]
    if not packed:
        layers = {n: tn.Linear(8, size) for n, size in zip(names, sizes, strict=True)}
        return torch_model(lambda: {"body": tn.Linear(8, 8), **layers}, lambda m, x: [getattr(m, n)(act(m.body(x))) for n in names])

    def forward(m, x):
        parts = m.head(act(m.body(x))).split([sizes[n] for n in order], -1)
        return [parts[order.index(n)] for n in range(len(sizes))]

    return torch_model(lambda: {"body": tn.Linear(8, 8), "head": tn.Linear(8, sum(sizes))}, forward)


def paddle_heads(*, packed, sizes=(6, 4), order=(0, 1), act=pf.relu, starts=None):
    """The same, with names that say nothing; ``starts`` are where the parts begin if that is wrong."""
    names = ("one", "two", "three")[: len(sizes)]
    if not packed:
        layers = {n: pn.Linear(8, size) for n, size in reversed(list(zip(names, sizes, strict=True)))}
        return paddle_model(lambda: {**layers, "first": pn.Linear(8, 8)}, lambda m, x: [getattr(m, n)(act(m.first(x))) for n in names])

    def forward(m, x):
        y = m.last(act(m.first(x)))
        begins = starts or [sum(sizes[n] for n in order[: order.index(part)]) for part in range(len(sizes))]
        return [y[..., begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]

    return paddle_model(lambda: {"last": pn.Linear(8, sum(sizes)), "first": pn.Linear(8, 8)}, forward)


@equivalent
def heads_of_unequal_widths_against_one():
    return torch_heads(packed=False), paddle_heads(packed=True), X


@equivalent
def one_head_against_several_of_which_one_is_as_wide_as_another_layer():
    return torch_heads(packed=True, sizes=(8, 3, 1), order=(0, 1, 2)), paddle_heads(packed=False, sizes=(8, 3, 1)), X


@equivalent
def one_head_whose_parts_come_in_another_order():
    return torch_heads(packed=False), paddle_heads(packed=True, order=(1, 0)), X


@equivalent
def equal_heads_joined_in_another_order():
    return torch_heads(packed=True, sizes=(4, 4), order=(1, 0)), paddle_heads(packed=False, sizes=(4, 4)), X


@equivalent
def branches_of_convolutions_with_norms_as_one():
    def forward(m, x):
        return torch.cat([tf.relu(m.n1(m.c1(x))), m.n2(m.c2(x))], 1)

    def port(m, x):
        one, two = paddle.split(m.norm(m.conv(x)), [6, 4], 1)
        return paddle.concat([pf.relu(one), two], 1)

    ours = torch_model(
        lambda: {
            "c1": tn.Conv2d(4, 6, 3, bias=False),
            "n1": tn.BatchNorm2d(6),
            "c2": tn.Conv2d(4, 4, 3, bias=False),
            "n2": tn.BatchNorm2d(4),
        },
        forward,
    )
    return ours, paddle_model(lambda: {"norm": pn.BatchNorm2D(10), "conv": pn.Conv2D(4, 10, 3, bias_attr=False)}, port), IMAGE


@equivalent
def heads_of_all_levels_by_kind_against_one_a_level():
    levels = lambda make, size: {"cls": make([size(6), size(6)]), "box": make([size(4), size(4)])}  # noqa: E731 - a name for it

    def forward(m, x):
        inputs = x, tf.avg_pool2d(x, 2)
        return [layer(y) for layers in (m.cls, m.box) for layer, y in zip(layers, inputs, strict=True)]

    def port(m, x):
        made = [paddle.split(layer(y), [4, 6], 1) for layer, y in zip(m.heads, (x, pf.avg_pool2d(x, 2)), strict=True)]
        return [parts[n] for n in (1, 0) for parts in made]

    ours = torch_model(lambda: levels(tn.ModuleList, lambda n: tn.Conv2d(4, n, 1)), forward)
    return ours, paddle_model(lambda: {"heads": pn.LayerList([pn.Conv2D(4, 10, 1) for _ in range(2)])}, port), IMAGE


@equivalent
def anchors_that_hold_all_of_their_numbers():
    """A box, a score and two classes for each of three anchors: by what they are, or by anchor."""

    def forward(m, x):
        parts = [getattr(m, n)(x).reshape(2, 3, size, 6, 6) for n, size in (("box", 4), ("obj", 1), ("cls", 2))]
        return torch.cat(parts, 2)

    ours = torch_model(lambda: {"box": tn.Conv2d(4, 12, 1), "obj": tn.Conv2d(4, 3, 1), "cls": tn.Conv2d(4, 6, 1)}, forward)
    return ours, paddle_model(lambda: {"pred": pn.Conv2D(4, 21, 1)}, lambda m, x: m.pred(x).reshape([2, 3, 7, 6, 6])), IMAGE


@equivalent
def tables_of_several_kinds_as_one():
    ours = torch_model(lambda: {"word": tn.Embedding(11, 8), "kind": tn.Embedding(7, 8)}, lambda m, i: m.word(i) + m.kind(i % 7))
    return ours, paddle_model(lambda: {"table": pn.Embedding(18, 8)}, lambda m, i: m.table(i) + m.table(i % 7 + 11)), TOKENS


@different
def a_head_too_narrow():
    return torch_heads(packed=False), paddle_heads(packed=True, sizes=(6, 3)), X


@different
def heads_that_overlap():
    return torch_heads(packed=False), paddle_heads(packed=True, starts=(0, 3)), X


@different
def heads_joined_behind_another_activation():
    return torch_heads(packed=False), paddle_heads(packed=True, act=pf.gelu), X


@different
def a_head_that_is_left_out():
    return torch_heads(packed=False, sizes=(6, 4, 1)), paddle_heads(packed=True), X


def normal(x, groups):
    """Normalised over groups of channels, in either framework."""
    shape = list(x.shape)
    y = x.reshape([shape[0], groups, -1])
    y = y - y.mean(-1, keepdim=True)
    return (y / ((y * y).mean(-1, keepdim=True) + 1e-5) ** 0.5).reshape(shape)


def own_norm(made, layer, names, shape, groups=4, defined=None):
    """A norm by hand, its parameters (scale and shift) named, shaped and defined in an order as said."""

    def forward(m, x):
        scale, shift = (getattr(m, n).reshape([1, -1, 1, 1]) for n in names)
        return normal(x, groups) * scale + shift

    return made(lambda: bare(layer, **dict.fromkeys(defined or names, shape)), forward)


def normed_torch(norm):
    return torch_model(
        lambda: {"c1": tn.Conv2d(4, 4, 3), "n1": norm(), "c2": tn.Conv2d(4, 4, 3), "n2": norm()},
        lambda m, x: m.n2(m.c2(tf.relu(m.n1(m.c1(x))))),
    )


def normed_paddle(norm):
    return paddle_model(
        lambda: {"norm_b": norm(), "norm_a": norm(), "stem": pn.Conv2D(4, 4, 3), "mid": pn.Conv2D(4, 4, 3)},
        lambda m, x: m.norm_b(m.mid(pf.relu(m.norm_a(m.stem(x))))),
    )


@equivalent
def a_group_norm_of_single_channels_against_one_by_hand():
    theirs = normed_paddle(lambda: own_norm(paddle_model, pn.Layer(), ("scale", "shift"), (1, 4, 1, 1)))
    return normed_torch(lambda: tn.GroupNorm(4, 4)), theirs, IMAGE


@equivalent
def an_instance_norm_by_hand_against_a_group_norm():
    ours = normed_torch(lambda: own_norm(torch_model, None, ("a_2", "b_2"), (4,)))
    return ours, normed_paddle(lambda: pn.GroupNorm(4, 4)), IMAGE


@equivalent
def a_norm_by_hand_whose_shift_is_defined_first():
    theirs = normed_paddle(lambda: own_norm(paddle_model, pn.Layer(), ("g", "b"), (4, 1, 1), defined=("b", "g")))
    return normed_torch(lambda: tn.InstanceNorm2d(4, affine=True)), theirs, IMAGE


@different
def a_norm_by_hand_of_other_groups():
    theirs = normed_paddle(lambda: own_norm(paddle_model, pn.Layer(), ("scale", "shift"), (1, 4, 1, 1), 2))
    return normed_torch(lambda: tn.GroupNorm(4, 4)), theirs, IMAGE


def torch_step(*, joined):
    """An input and a state mixed by a gate: products of both together, or of each."""

    def forward(m, x):
        state = x[:, 0, :6] * 0
        for t in range(5):
            both = torch.cat([x[:, t], state], -1)
            gate = (m.gate(both) if joined else m.gate_x(x[:, t]) + m.gate_h(state)).sigmoid()
            new = (m.new(both) if joined else m.new_x(x[:, t]) + m.new_h(state)).tanh()
            state = gate * state + (1 - gate) * new
        return state

    names = [(n, 14, True) for n in ("gate", "new")] if joined else [(f"{n}_{w}", s, w == "x") for n in ("gate", "new") for w, s in WIDTHS]
    return torch_model(lambda: {n: tn.Linear(size, 6, bias=bias) for n, size, bias in names}, forward)


def paddle_step(*, joined, share=1.0):
    def forward(m, x):
        state = x[:, 0, :6] * 0
        for t in range(5):
            both = paddle.concat([share * state, x[:, t]], -1)
            gate = pf.sigmoid(m.u(both) if joined else m.ux(x[:, t]) + m.uh(state))
            new = paddle.tanh(m.n(both) if joined else m.nx(x[:, t]) + m.nh(state))
            state = gate * state + (1 - gate) * new
        return state

    names = [(n, 14, True) for n in "nu"] if joined else [(f"{n}{w}", s, w == "x") for n in "nu" for w, s in reversed(WIDTHS)]
    return paddle_model(lambda: {n: pn.Linear(size, 6, bias_attr=None if bias else False) for n, size, bias in names}, forward)


WIDTHS = (("x", 8), ("h", 6))


@equivalent
def products_of_input_and_state_as_one_with_the_state_first():
    return torch_step(joined=False), paddle_step(joined=True), X


@equivalent
def one_product_of_input_and_state_as_two():
    return torch_step(joined=True), paddle_step(joined=False), X


@different
def a_product_of_half_the_state():
    return torch_step(joined=False), paddle_step(joined=True, share=0.5), X
