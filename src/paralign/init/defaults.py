"""PyTorch's default initialisation for the layers of Paddle.

A rule says what one class of layers is filled with, its own parameters and those of the sublayers that it initialises again.
Adding a layer means one rule and one line in ``RULES``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from paralign.init._paddle import element_type, fill, is_layer, kind, own_parameters, random_of, target
from paralign.init._problems import InvalidInit
from paralign.init._rounding import GREATEST
from paralign.init.draws import Constant, Draw, Normal, Uniform
from paralign.init.fans import fans
from paralign.init.outcome import Filled, InitReport, Left

if TYPE_CHECKING:
    import numpy as np

#: what a rule yields: a tensor (None where the layer was built without it) and what fills it
Pairs = Iterator[Tuple[Any, Draw]]

_COMPUTED = "its weight is computed from other parameters; initialise before weight_norm or spectral_norm is applied"
_CLONES = (
    "PyTorch starts all layers of a TransformerEncoder or TransformerDecoder from copies of one layer; here each is drawn on its "
    "own, from the same distributions"
)


def default_like_torch(layer: Any, seed: Optional[Union[int, np.random.Generator]] = None) -> InitReport:
    """Give a layer and all its sublayers PyTorch's default initialisation.

    Running statistics are included.

    Every parameter, frozen or not, is filled in place and keeps its ``stop_gradient``. Parameters of layers without a rule, above all a
    user's own, are left as they are and named in the report; buffers are left too. The default is that of the constructor with the
    same arguments (a ``PReLU(init=0.1)`` starts at 0.1); initialisers given to Paddle's constructor (``weight_attr``) do not count.

    Args:
        layer: a ``paddle.nn.Layer``.
        seed: an int, a ``numpy.random.Generator``, or None to follow ``paddle.seed``.

    Returns:
        What each parameter was filled with, and what was left.

    Raises:
        InvalidInit: not a layer, or a seed that is none of these.
    """
    if not is_layer(layer):
        raise InvalidInit(
            f"{type(layer).__name__} is not a Paddle layer",
            where="layer",
            hint="give a paddle.nn.Layer; the other functions of paralign.init fill single tensors",
        )
    random = random_of(seed, "seed")
    report = InitReport()
    claims, owners = _claims(layer, report.notes), _owners(layer)
    for name, tensor in layer.named_parameters():
        claim, owner = claims.get(id(tensor)), owners[id(tensor)]
        label = kind(owner) if kind(owner) in RULES else type(owner).__name__
        if claim is None or element_type(tensor) not in GREATEST:
            report.left.append(Left(name, label, _reason(owner, tensor)))
            continue
        fill(target(tensor), claim.draw, random)
        report.filled.append(Filled(name, label, str(claim.draw)))
    return report


class _Claim(NamedTuple):
    """What fills a tensor, and the path and class of the layer whose rule says so."""

    draw: Draw
    path: str
    kind: str


def _claims(root: Any, notes: List[str]) -> Dict[int, _Claim]:
    """What fills each tensor, by its identity.

    An outer layer's word comes before an inner one's, an earlier one's before a later one's.
    """
    claims: Dict[int, _Claim] = {}
    for path, layer in reversed(list(root.named_sublayers(include_self=True))):
        name = kind(layer)
        for tensor, draw in RULES[name](layer) if name in RULES else ():
            if tensor is None:
                continue
            other = claims.get(id(tensor))
            if other is not None and other.draw != draw and not _inside(other.path, path):
                notes.append(
                    f"{path or 'the layer'} ({name}) and {other.path} ({other.kind}) share a tensor: it is filled with {draw}, "
                    f"as the first of them is in PyTorch, not with {other.draw}"
                )
            claims[id(tensor)] = _Claim(draw, path, name)
        if name in ("TransformerEncoder", "TransformerDecoder") and len(layer.layers) > 1 and _CLONES not in notes:
            notes.append(_CLONES)
    return claims


def _inside(path: str, outer: str) -> bool:
    return outer in ("", path) or path.startswith(outer + ".")


def _owners(root: Any) -> Dict[int, Any]:
    """The first layer that holds each tensor, by the tensor's identity.

    Of recurrent layers it is the one that users build.
    """
    owners: Dict[int, Any] = {}
    for layer in root.sublayers(include_self=True):
        for tensor in own_parameters(layer).values():
            owners.setdefault(id(tensor), layer)
    return owners


def _reason(owner: Any, tensor: Any) -> str:
    """Why a parameter was left."""
    if element_type(tensor) not in GREATEST:
        return f"its elements are {element_type(tensor)}"
    if kind(owner) not in RULES:
        return f"there is no rule for {type(owner).__name__}"
    computed = "weight" not in own_parameters(owner) and getattr(owner, "weight", None) is not None
    return _COMPUTED if computed else f"PyTorch's {kind(owner)} has no such parameter"


def _fan_bound(fan_in: int) -> Uniform:
    """``kaiming_uniform_`` with ``a = sqrt(5)`` is uniform within ``±1 / sqrt(fan_in)``."""
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return Uniform(-bound, bound)


def _xavier(fan_in: int, fan_out: int) -> Uniform:
    bound = math.sqrt(6.0 / max(1, fan_in + fan_out))
    return Uniform(-bound, bound)


def _by_fan(layout: str) -> Callable[[Any], Pairs]:
    """The rule of layers whose weight and bias are uniform within ``±1 / sqrt(fan_in)``."""

    def rule(layer: Any) -> Pairs:
        own = own_parameters(layer)
        if "weight" not in own:  # computed: see _reason
            return
        draw = _fan_bound(fans(own["weight"].shape, layout)[0])
        yield own["weight"], draw
        yield own.get("bias"), draw

    return rule


def _bilinear(layer: Any) -> Pairs:
    own = own_parameters(layer)
    if "weight" in own:
        draw = _fan_bound(own["weight"].shape[1])  # [out, in1, in2]: PyTorch counts the first input alone
        yield own["weight"], draw
        yield own.get("bias"), draw


def _embedding(layer: Any) -> Pairs:
    weight = own_parameters(layer).get("weight")
    if weight is None:
        return
    padding = getattr(layer, "_padding_idx", None)
    if padding is not None and padding < 0:
        # Paddle kept -1 for "none" before its Embedding had a padding_idx to ask for; since then it keeps what the user gave
        padding = weight.shape[0] + padding if hasattr(type(layer), "padding_idx") else None
    yield weight, Normal(0.0, 1.0, zero_row=padding)


def _norm(layer: Any) -> Pairs:
    own = own_parameters(layer)
    for leaf, value in (("weight", 1.0), ("scale", 1.0), ("bias", 0.0), ("_mean", 0.0), ("_variance", 1.0)):
        yield own.get(leaf), Constant(value)


def _prelu(layer: Any) -> Pairs:
    yield own_parameters(layer).get("_weight"), Constant(float(getattr(layer, "_init", 0.25)))


def _recurrent(layer: Any) -> Pairs:
    """Fill everything uniformly within ``±1 / sqrt(hidden_size)``.

    Weights and biases of all layers and directions, and the projections.
    """
    draw = _fan_bound(int(layer.hidden_size))
    for tensor in layer.parameters():
        yield tensor, draw


def _attention(layer: Any) -> Pairs:
    """Fill input projections by Xavier's rule, as one matrix where their sizes agree.

    PyTorch keeps ``[3 * embed, embed]`` then.
    """
    embed, packed = layer.embed_dim, layer.kdim == layer.vdim == layer.embed_dim
    for leaf, size in (("q_proj", embed), ("k_proj", layer.kdim), ("v_proj", layer.vdim)):
        yield _leaf(layer, leaf, "weight"), _xavier(size, 3 * embed if packed else embed)
        yield _leaf(layer, leaf, "bias"), Constant(0.0)
    yield _leaf(layer, "out_proj", "bias"), Constant(0.0)


def _leaf(layer: Any, child: str, leaf: str) -> Any:
    """A parameter of a child that is a plain linear layer, or None.

    What a user put in its place has its own rule, or none.
    """
    found = getattr(layer, child, None)
    return own_parameters(found).get(leaf) if kind(found) == "Linear" else None


def _packed_attention(layer: Any) -> Pairs:
    """``paddle.compat.nn.MultiheadAttention``, which keeps its parameters as PyTorch does."""
    own = own_parameters(layer)
    for leaf in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
        if leaf in own:
            yield own[leaf], _xavier(*fans(own[leaf].shape))
    for leaf in ("in_proj_bias", "q_proj_bias", "k_proj_bias", "v_proj_bias"):
        yield own.get(leaf), Constant(0.0)
    for leaf in ("bias_k", "bias_v"):
        if leaf in own:
            yield own[leaf], Normal(0.0, math.sqrt(2.0 / sum(fans(own[leaf].shape))))
    yield own_parameters(layer.out_proj).get("bias"), Constant(0.0)


def _transformer(layer: Any) -> Pairs:
    """Fill all tensors of two or more dimensions again by Xavier's rule.

    The input projections of attention keep theirs, which is the same.
    """
    projections = {id(tensor) for inner in layer.sublayers() if kind(inner) == "MultiHeadAttention" for tensor, _ in _attention(inner)}
    for tensor in layer.parameters():
        if len(tensor.shape) > 1 and id(tensor) not in projections:
            yield tensor, _xavier(*fans(tensor.shape))


RULES: Dict[str, Callable[[Any], Pairs]] = {
    "Linear": _by_fan("paddle"),
    "compat.Linear": _by_fan("torch"),
    **{f"Conv{n}D": _by_fan("torch") for n in (1, 2, 3)},
    **{f"Conv{n}DTranspose": _by_fan("torch") for n in (1, 2, 3)},
    "Bilinear": _bilinear,
    "Embedding": _embedding,
    **dict.fromkeys(
        (
            "BatchNorm",
            "BatchNorm1D",
            "BatchNorm2D",
            "BatchNorm3D",
            "SyncBatchNorm",
            "LayerNorm",
            "GroupNorm",
            "InstanceNorm1D",
            "InstanceNorm2D",
            "InstanceNorm3D",
        ),
        _norm,
    ),
    "PReLU": _prelu,
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "LSTMCell", "GRUCell", "SimpleRNNCell"), _recurrent),
    "MultiHeadAttention": _attention,
    "compat.MultiheadAttention": _packed_attention,
    "Transformer": _transformer,
}
