"""More ports that make mapping hard: recurrent layers, normalised weights, parameters of the root, buffers; and ports that are wrong."""

from __future__ import annotations

import warnings

import numpy as np
import paddle
import paddle.nn.functional as pf
import torch
import torch.nn.functional as tf
from paddle import nn as pn
from ports import (
    IMAGE,
    TOKENS,
    X,
    bare,
    chain,
    different,
    equivalent,
    paddle_attention,
    paddle_model,
    paddle_split,
    paddle_stack,
    paddle_sum,
    torch_attention,
    torch_model,
    torch_split,
    torch_stack,
    torch_sum,
)
from torch import nn as tn


def first(layer, x):
    return layer(x)[0]


@equivalent
def recurrent_layers():
    def ours():
        return {
            "enc": tn.LSTM(8, 6, 2, batch_first=True, bidirectional=True, proj_size=3),
            "dec": tn.GRU(6, 6, 2, batch_first=True, bidirectional=True),
            "head": tn.RNN(12, 6, batch_first=True),
        }

    def theirs():
        return {
            "top": pn.SimpleRNN(12, 6),
            "mid": pn.GRU(6, 6, 2, direction="bidirect"),
            "low": pn.LSTM(8, 6, 2, direction="bidirect", proj_size=3),
        }

    model = torch_model(ours, lambda m, x: first(m.head, first(m.dec, first(m.enc, x))))
    return model, paddle_model(theirs, lambda m, x: first(m.top, first(m.mid, first(m.low, x)))), X


def lstm():
    return torch_model(lambda: {"lstm": tn.LSTM(8, 6, 2, batch_first=True)}, lambda m, x: first(m.lstm, x))


@equivalent
def layers_of_an_lstm_as_cells():
    def forward(m, x):
        for cell in m.cells:
            state, outputs = (paddle.zeros([x.shape[0], 6], x.dtype),) * 2, []
            for step in range(x.shape[1]):
                output, state = cell(x[:, step], state)
                outputs.append(output)
            x = paddle.stack(outputs, 1)
        return x

    return lstm(), paddle_model(lambda: {"cells": pn.LayerList([pn.LSTMCell(8, 6), pn.LSTMCell(6, 6)])}, forward), X


@equivalent
def layers_of_an_lstm_one_by_one():
    theirs = paddle_model(
        lambda: {"layers": pn.LayerList([pn.LSTM(8, 6), pn.LSTM(6, 6)])}, lambda m, x: first(m.layers[1], first(m.layers[0], x))
    )
    return lstm(), theirs, X


@equivalent
def both_directions_one_by_one():
    ours = torch_model(lambda: {"lstm": tn.LSTM(8, 6, batch_first=True, bidirectional=True)}, lambda m, x: first(m.lstm, x))
    theirs = paddle_model(
        lambda: {"backward_lstm": pn.LSTM(8, 6), "forward_lstm": pn.LSTM(8, 6)},
        lambda m, x: paddle.concat([first(m.forward_lstm, x), first(m.backward_lstm, x.flip([1])).flip([1])], -1),
    )
    return ours, theirs, X


@equivalent
def gates_in_another_order():
    """A cell of the user's own, as Keras orders its gates: update, reset, new."""

    def forward(m, x):
        before = x[:, 1]
        ours = paddle.matmul(x[:, 0], m.weight_ih, transpose_y=True) + m.bias_ih
        theirs = paddle.matmul(before, m.weight_hh, transpose_y=True) + m.bias_hh
        (update, reset, new), (update2, reset2, new2) = paddle.chunk(ours, 3, -1), paddle.chunk(theirs, 3, -1)
        keep = pf.sigmoid(update + update2)
        return (1 - keep) * paddle.tanh(new + pf.sigmoid(reset + reset2) * new2) + keep * before

    shapes = {"weight_ih": (24, 8), "weight_hh": (24, 8), "bias_ih": (24,), "bias_hh": (24,)}
    ours = torch_model(lambda: {"cell": tn.GRUCell(8, 8)}, lambda m, x: m.cell(x[:, 0], x[:, 1]))
    return ours, paddle_model(lambda: bare(pn.Layer(), **shapes), forward), X


@equivalent
def weight_norm():
    normed = torch.nn.utils.parametrizations.weight_norm
    ours = torch_model(
        lambda: {"conv": normed(tn.Conv2d(4, 4, 3)), "fc": normed(tn.Linear(4, 6, bias=False))},
        lambda m, x: m.fc(m.conv(x).permute(0, 2, 3, 1)),
    )
    theirs = paddle_model(
        lambda: {"lin": pn.utils.weight_norm(pn.Linear(4, 6, bias_attr=False), dim=1), "c": pn.utils.weight_norm(pn.Conv2D(4, 4, 3))},
        lambda m, x: m.lin(m.c(x).transpose([0, 2, 3, 1])),
    )
    return ours, theirs, IMAGE


@equivalent
def weight_norm_by_hooks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        layers = {"c": torch.nn.utils.weight_norm(tn.Conv2d(4, 4, 3, bias=False)), "d": torch.nn.utils.weight_norm(tn.Linear(4, 6))}
    theirs = paddle_model(
        lambda: {"lin": pn.utils.weight_norm(pn.Linear(4, 6), dim=1), "conv": pn.utils.weight_norm(pn.Conv2D(4, 4, 3, bias_attr=False))},
        lambda m, x: m.lin(m.conv(x).transpose([0, 2, 3, 1])),
    )
    return torch_model(lambda: layers, lambda m, x: m.d(m.c(x).permute(0, 2, 3, 1))), theirs, IMAGE


@equivalent
def spectral_norm():
    normed, there = torch.nn.utils.parametrizations.spectral_norm, pn.utils.spectral_norm
    ours = torch_model(
        lambda: {"conv": normed(tn.Conv2d(4, 4, 3)), "fc": normed(tn.Linear(4, 6))}, lambda m, x: m.fc(m.conv(x).permute(0, 2, 3, 1))
    )
    theirs = paddle_model(
        lambda: {"conv": there(pn.Conv2D(4, 4, 3)), "fc": there(pn.Linear(4, 6), dim=1)},
        lambda m, x: m.fc(m.conv(x).transpose([0, 2, 3, 1])),
    )
    return ours, theirs, IMAGE


@equivalent
def parameters_of_the_root_and_positions():
    def forward(m, i):
        return (torch.cat([m.cls_token.expand(2, 1, 8), m.emb(i)], 1) + m.pos_embed) * m.gamma + m.beta

    ours = torch_model(
        lambda: {
            **bare(None, cls_token=(1, 1, 8), pos_embed=(1, 6, 8)),
            "emb": tn.Embedding(11, 8, padding_idx=0),
            **bare(None, gamma=(8,), beta=(8,)),
        },
        forward,
    )
    ours.register_buffer("position_ids", torch.arange(6)[None])
    theirs = paddle_model(
        lambda: {
            **bare(pn.Layer(), shift=(8,), weight=(8,)),
            "position": pn.Embedding(6, 8),
            "token": pn.Embedding(11, 8, padding_idx=0),
            **bare(pn.Layer(), cls=(8,)),
        },
        lambda m, i: (paddle.concat([m.cls.expand([2, 1, 8]), m.token(i)], 1) + m.position(paddle.arange(6))) * m.weight + m.shift,
    )
    return ours, theirs, TOKENS


@equivalent
def a_table_that_only_one_side_keeps():
    table = np.sin(np.arange(40).reshape(1, 5, 8)).astype("float32")
    ours = torch_model(lambda: {"fc": tn.Linear(8, 8)}, lambda m, x: m.fc(x + m.pe))
    ours.register_buffer("pe", torch.from_numpy(table.copy()))
    return ours, paddle_model(lambda: {"proj": pn.Linear(8, 8)}, lambda m, x: m.proj(x + paddle.to_tensor(table).astype(x.dtype))), X


@equivalent
def gate_and_up_fused():
    def ours():
        names = ("gate_proj", "up_proj", "down_proj")
        return torch_model(
            lambda: {n: tn.Linear(8, 8, bias=False) for n in names}, lambda m, x: m.down_proj(tf.silu(m.gate_proj(x)) * m.up_proj(x))
        )

    def forward(m, x):
        gate, up = paddle.chunk(m.gate_up(x), 2, -1)
        return m.down(pf.silu(gate) * up)

    def theirs():
        return paddle_model(lambda: {"gate_up": pn.Linear(8, 16, bias_attr=False), "down": pn.Linear(8, 8, bias_attr=False)}, forward)

    return torch_stack(ours), paddle_stack(theirs), X


@equivalent
def keys_and_values_fused():
    def forward(m, x):
        return x + m.proj(torch_attention(m.q(x), *m.kv(x).chunk(2, -1)))

    def ours():
        return torch_model(lambda: {"q": tn.Linear(8, 8), "kv": tn.Linear(8, 16), "proj": tn.Linear(8, 8)}, forward)

    return torch_stack(ours), paddle_stack(lambda: paddle_split(("wq", "wk", "wv", "wo"), (2, 1, 0, 3))), X


@equivalent
def heads_that_nothing_uses():
    names = ("body", "aux1", "aux2")
    ours = torch_model(lambda: {n: tn.Linear(8, 8) for n in names}, lambda m, x: m.body(x))
    return ours, paddle_model(lambda: {n: pn.Linear(8, 8) for n in names}, lambda m, x: m.body(x)), X


def small(ours, theirs, **norm):
    model = torch_model(lambda: {"a": tn.Linear(8, 8), "n": tn.LayerNorm(8), "b": tn.Linear(8, 8)}, lambda m, x: m.b(ours(m.n(m.a(x)))))
    port = paddle_model(
        lambda: {"u": pn.Linear(8, 8), "w": pn.LayerNorm(8, **norm), "v": pn.Linear(8, 8)}, lambda m, x: m.v(theirs(m.w(m.u(x))))
    )
    return model, port, X


@different
def another_form_of_gelu():
    return small(tf.gelu, lambda x: pf.gelu(x, approximate=True))


@different
def another_activation():
    return small(tf.gelu, pf.relu)


@different
def another_epsilon():
    return small(tf.gelu, pf.gelu, epsilon=1e-3)


@different
def other_heads():
    return torch_stack(torch_split), paddle_stack(lambda: paddle_split(heads=4)), X


@different
def no_residual():
    ours = torch_stack(lambda: torch_split(("ant", "bee", "cow", "dog")))
    return ours, paddle_stack(lambda: paddle_split(("w", "x", "y", "z"), residual=0)), X


@different
def a_branch_used_twice():
    return (
        torch_sum("left", "right"),
        paddle_model(lambda: {n: pn.Linear(8, 8) for n in "ab"}, lambda m, x: pf.gelu(m.a(x)) * 2 + 0 * m.b(x)),
        X,
    )


@different
def a_branch_too_many():
    return torch_sum("left", "right"), paddle_sum("a", "b", "c"), X


@different
def steps_in_another_order():
    ours = torch_model(lambda: {"n": tn.LayerNorm(8), "f": tn.Linear(8, 8)}, lambda m, x: m.f(m.n(x)))
    return ours, paddle_model(lambda: {"n": pn.LayerNorm(8), "f": pn.Linear(8, 8)}, lambda m, x: chain([m.f, m.n], x)), X


@different
def dropout_that_scales_in_eval_mode():
    ours = torch_model(lambda: {"f": tn.Linear(8, 8), "d": tn.Dropout(0.2)}, lambda m, x: m.d(m.f(x)))
    theirs = paddle_model(lambda: {"f": pn.Linear(8, 8), "d": pn.Dropout(0.2, mode="downscale_in_infer")}, lambda m, x: m.d(m.f(x)))
    return ours, theirs, X


@different
def a_layer_missing_that_acts_on_nothing():
    ours = torch_model(lambda: {n: tn.Linear(8, 8) for n in ("body", "pool")}, lambda m, x: m.body(x))
    return ours, paddle_model(lambda: {"body": pn.Linear(8, 8)}, lambda m, x: m.body(x)), X


@different
def a_bias_too_many():
    ours = torch_model(lambda: {"f": tn.Linear(8, 8, bias=False)}, lambda m, x: m.f(x))
    return ours, paddle_model(lambda: {"g": pn.Linear(8, 8)}, lambda m, x: m.g(x)), X


@different
def scores_scaled_by_the_wrong_width():
    def forward(m, x):
        return x + m.o(paddle_attention(m.q(x) * 2, m.k(x), m.v(x)))

    theirs = paddle_stack(lambda: paddle_model(lambda: {n: pn.Linear(8, 8) for n in "vkqo"}, forward))
    return torch_stack(torch_split), theirs, X
