"""Ports that build the same from other parts: each pair is written once for both frameworks and checked in both directions."""

from __future__ import annotations

import paddle
import torch
from paddle import nn as pn
from ports import EQUIVALENT, IMAGE, TOKENS, X, bare, different, paddle_attention, paddle_model, torch_attention, torch_model
from torch import nn as tn

#: of each framework: its layers, a module of some layers, parameters of its own
FRAMEWORKS = {
    torch: (tn, torch_model, lambda **shapes: bare(None, **shapes)),
    paddle: (pn, paddle_model, lambda **shapes: bare(pn.Layer(), **shapes)),
}


def both_ways(inputs):
    """Register a function that gives two ways to build a model: the first in PyTorch against the second in Paddle, and the reverse."""

    def register(make):
        def built(framework, way):
            layers, forward = make(framework)[way]
            return FRAMEWORKS[framework][1](layers, forward)

        EQUIVALENT[make.__name__] = lambda: (built(torch, 0), built(paddle, 1), inputs)
        EQUIVALENT[f"{make.__name__}_reversed"] = lambda: (built(torch, 1), built(paddle, 0), inputs)
        return make

    return register


def conv(nn, inputs, outputs, width, groups=1):
    layer = nn.Conv2d if nn is tn else nn.Conv2D
    return layer(inputs, outputs, width, padding=width // 2, groups=groups)


def linear(nn, inputs, outputs):
    """Without a bias."""
    return nn.Linear(inputs, outputs, bias=False) if nn is tn else nn.Linear(inputs, outputs, bias_attr=False)


def turned(x, *axes):
    return x.permute(*axes) if isinstance(x, torch.Tensor) else x.transpose(list(axes))


@both_ways(IMAGE)
def depthwise_by_patches(f):
    nn, _, own = FRAMEWORKS[f]

    def forward(m, x):
        columns = nn.functional.unfold(x, 3, **{"padding" if f is torch else "paddings": 1}).reshape([2, 4, 9, 36])
        y = (columns * m.kernel.reshape([1, 4, 9, 1])).sum(2) + m.offset.reshape([1, 4, 1])
        return m.point(y.reshape([2, 4, 6, 6]))

    by_layer = lambda: {"deep": conv(nn, 4, 4, 3, 4), "wide": conv(nn, 4, 6, 1)}, lambda m, x: m.wide(m.deep(x))
    return by_layer, (lambda: {**own(kernel=(4, 9), offset=(4,)), "point": conv(nn, 4, 6, 1)}, forward)


@both_ways(TOKENS)
def an_embedding_as_a_product_with_one_hot_vectors(f):
    nn, *_ = FRAMEWORKS[f]

    def forward(m, x):
        dtype = m.out.weight.dtype
        return m.out(m.table(nn.functional.one_hot(x, 11).to(dtype) if f is torch else nn.functional.one_hot(x, 11).astype(dtype)))

    by_index = lambda: {"tok": nn.Embedding(11, 8), "head": nn.Linear(8, 3)}, lambda m, x: m.head(m.tok(x))
    return by_index, (lambda: {"table": linear(nn, 11, 8), "out": nn.Linear(8, 3)}, forward)


@both_ways(X)
def attention_of_the_library_against_an_unnamed_pack_in_another_order(f):
    nn, *_ = FRAMEWORKS[f]

    def library():
        return {"attn": nn.MultiheadAttention(8, 2, batch_first=True) if f is torch else nn.MultiHeadAttention(8, 2)}

    def packed(m, x):
        v, k, q = m.packed(x).split([8, 8, 8], -1)
        return x + m.last((torch_attention if f is torch else paddle_attention)(q, k, v))

    def forward(m, x):
        y = m.attn(x, x, x)
        return x + (y[0] if f is torch else y)

    return (library, forward), (lambda: {"last": nn.Linear(8, 8), "packed": nn.Linear(8, 24)}, packed)


def stepped(framework, gates, order="ifgo"):
    """The outputs of an LSTM whose gates a function makes of the model, an input and a state."""

    def forward(m, x):
        state = memory = 0 * x[:, 0, :6]
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = (dict(zip(order, gates(m, x[:, t], state), strict=True))[name] for name in "ifgo")
            memory = memory * f.sigmoid() + i.sigmoid() * g.tanh()
            state = o.sigmoid() * memory.tanh()
            outputs.append(state)
        return framework.stack(outputs, 1)

    return forward


def recurrent(f):
    nn, *_ = FRAMEWORKS[f]
    return lambda: {"lstm": nn.LSTM(8, 6, **({"batch_first": True} if f is torch else {}))}, lambda m, x: m.lstm(x)[0]


@both_ways(X)
def an_lstm_by_two_products_with_gates_in_another_order(f):
    nn, *_ = FRAMEWORKS[f]
    gates = lambda m, x, h: (m.wx(x) + m.wh(h)).split([6, 6, 6, 6], -1)  # noqa: E731 - a name for it
    return recurrent(f), (lambda: {"wx": nn.Linear(8, 24), "wh": nn.Linear(6, 24)}, stepped(f, gates, "ofig"))


@both_ways(X)
def an_lstm_by_eight_products(f):
    nn, *_ = FRAMEWORKS[f]
    gates = lambda m, x, h: [getattr(m, f"x{g}")(x) + getattr(m, f"h{g}")(h) for g in "ifgo"]  # noqa: E731 - a name for it
    return recurrent(f), (lambda: {f"{w}{g}": nn.Linear(n, 6) for w, n in (("x", 8), ("h", 6)) for g in "ifgo"}, stepped(f, gates))


@both_ways(IMAGE[:, :, :1, :1])
def a_group_norm_of_all_channels_as_a_layer_norm(f):
    nn, *_ = FRAMEWORKS[f]
    last = lambda m, x: m.v(turned(m.w(turned(m.u(x), 0, 2, 3, 1)), 0, 3, 1, 2))  # noqa: E731 - a name for it
    grouped = lambda: {"a": conv(nn, 4, 8, 1), "n": nn.GroupNorm(1, 8), "b": conv(nn, 8, 4, 1)}, lambda m, x: m.b(m.n(m.a(x)))
    return grouped, (lambda: {"u": conv(nn, 4, 8, 1), "v": conv(nn, 8, 4, 1), "w": nn.LayerNorm(8)}, last)


@both_ways(X)
def a_convolution_over_one_axis_as_one_over_two(f):
    nn, *_ = FRAMEWORKS[f]
    one, two = (nn.Conv1d, nn.Conv2d) if f is torch else (nn.Conv1D, nn.Conv2D)
    return (lambda: {"c": one(5, 6, 3)}, lambda m, x: m.c(x)), (lambda: {"k": two(5, 6, (1, 3))}, lambda m, x: m.k(x[:, :, None])[:, :, 0])


@both_ways(X)
def a_list_of_layers_as_a_list_of_parameters(f):
    nn, _, own = FRAMEWORKS[f]
    modules = nn.ModuleList if f is torch else nn.LayerList

    def chained(products):
        def forward(m, x):
            for product in products(m):
                x = nn.functional.gelu(product(x))
            return x

        return forward

    layers = lambda: {"fcs": modules([linear(nn, 8, 8) for _ in range(3)])}, chained(lambda m: m.fcs)
    matrices = lambda: {"ws": nn.ParameterList(list(own(a=(8, 8), b=(8, 8), c=(8, 8)).values()))}  # noqa: E731 - a name for it
    return layers, (matrices, chained(lambda m: [lambda x, w=w: x @ w for w in m.ws]))


@both_ways(X)
def weight_normalisation_by_hand(f):
    nn, _, own = FRAMEWORKS[f]
    norm = torch.nn.utils.parametrizations.weight_norm if f is torch else lambda layer: pn.utils.weight_norm(layer, dim=1)

    def forward(m, x):
        scale = m.g.reshape([6, 1]) / (m.v * m.v).sum(1, keepdim=True) ** 0.5
        return m.b((x @ turned(m.v * scale, 1, 0) + m.offset).tanh())

    library = lambda: {"a": norm(nn.Linear(8, 6)), "b": nn.Linear(6, 3)}, lambda m, x: m.b(m.a(x).tanh())
    return library, (lambda: {**own(g=(6,), v=(6, 8), offset=(6,)), "b": nn.Linear(6, 3)}, forward)


def mixture(f, *, hidden, last=2):
    """Experts as layers, and as stacks of matrices; of the last expert the stacks can take another."""
    nn, module, own = FRAMEWORKS[f]
    modules, lattice = (nn.ModuleList, torch.einsum) if f is torch else (nn.LayerList, paddle.einsum)

    def expert():
        layers = lambda: {"w1": linear(nn, 8, hidden), "w2": linear(nn, hidden, 8), "w3": linear(nn, 8, hidden)}  # noqa: E731 - a name for it
        return module(layers, lambda m, x: m.w2(nn.functional.silu(m.w1(x)) * m.w3(x)))

    def one_by_one(m, x):
        shares = nn.functional.softmax(m.gate(x), -1)
        return sum(shares[..., n : n + 1] * layer(x) for n, layer in enumerate(m.experts))

    def at_once(m, x):
        shares, places = nn.functional.softmax(m.router(x), -1), [0, 1, last]
        inner = nn.functional.silu(lattice("bti,eio->beto", x, m.gate_w[places])) * lattice("bti,eio->beto", x, m.up_w[places])
        return (turned(shares, 0, 2, 1)[..., None] * lattice("beto,eoi->beti", inner, m.down_w[places])).sum(1)

    stacks = lambda: own(down_w=(3, hidden, 8), up_w=(3, 8, hidden), gate_w=(3, 8, hidden))  # noqa: E731 - a name for it
    layers = lambda: {"gate": linear(nn, 8, 3), "experts": modules([expert() for _ in range(3)])}, one_by_one
    return layers, (lambda: {**stacks(), "router": linear(nn, 8, 3)}, at_once)


@both_ways(X)
def experts_as_stacks(f):
    return mixture(f, hidden=6)


@both_ways(X)
def experts_as_stacks_of_square_matrices(f):
    return mixture(f, hidden=8)


@both_ways(X)
def blocks_as_a_stack_with_outputs_first(f):
    nn, _, own = FRAMEWORKS[f]
    modules = nn.ModuleList if f is torch else nn.LayerList

    def layered(m, x):
        for layer in m.fcs:
            x = nn.functional.gelu(layer(x))
        return x

    def stacked(m, x):
        for n in range(3):
            x = nn.functional.gelu(x @ turned(m.kernels[n], 1, 0) + m.offsets[n])
        return x

    layers = lambda: {"fcs": modules([nn.Linear(8, 8) for _ in range(3)])}, layered
    return layers, (lambda: own(kernels=(3, 8, 8), offsets=(3, 8)), stacked)


@different
def experts_of_which_one_is_used_twice():
    (layers, forward), (stacks, wrong) = mixture(torch, hidden=6)[0], mixture(paddle, hidden=6, last=1)[1]
    return torch_model(layers, forward), paddle_model(stacks, wrong), X


@different
def an_lstm_by_two_products_that_forgets_less():
    def gates(m, x, h):
        i, f, g, o = (m.wx(x) + m.wh(h)).split([6, 6, 6, 6], -1)
        return i, f + 1.0, g, o

    return torch_model(*recurrent(torch)), paddle_model(lambda: {"wx": pn.Linear(8, 24), "wh": pn.Linear(6, 24)}, stepped(paddle, gates)), X


@different
def a_group_norm_of_two_groups_as_a_layer_norm():
    ours = torch_model(lambda: {"a": tn.Conv2d(4, 8, 1), "n": tn.GroupNorm(2, 8)}, lambda m, x: m.n(m.a(x)))
    port = lambda m, x: turned(m.w(turned(m.u(x), 0, 2, 3, 1)), 0, 3, 1, 2)  # noqa: E731 - a name for it
    return ours, paddle_model(lambda: {"u": pn.Conv2D(4, 8, 1), "w": pn.LayerNorm(8)}, port), IMAGE[:, :, :1, :1]
