"""All that touches Paddle.

What is a tensor, what a layer is, writing values, a seed from Paddle's own generator.

Paddle is imported when a function is called, so that importing ``paralign.init`` costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from paralign.errors import EnvironmentUnavailable
from paralign.init._problems import InvalidInit
from paralign.init._rounding import GREATEST, stored
from paralign.init.fans import LAYOUTS

if TYPE_CHECKING:
    from paralign.init.draws import Draw

#: layers whose 2-dimensional weight has a known layout; ``paddle.compat.nn.Linear`` keeps PyTorch's
LAYER_LAYOUTS = {"Linear": "paddle", "compat.Linear": "torch", "Embedding": "torch"}

#: layers whose weight is called otherwise
WEIGHTS = {"InstanceNorm1D": "scale", "InstanceNorm2D": "scale", "InstanceNorm3D": "scale", "PReLU": "_weight"}


class Target(NamedTuple):
    """A tensor to be filled: its name in errors, shape, type, and layout where known."""

    tensor: Any
    name: str
    shape: Tuple[int, ...]
    dtype: str
    layout: Optional[str]


def paddle() -> Any:
    """The framework.

    Raises:
        EnvironmentUnavailable: it cannot be imported here.
    """
    try:
        return import_module("paddle")
    except ImportError as missing:
        raise EnvironmentUnavailable(
            f"paddle, whose tensors paralign.init fills, cannot be imported: {missing}",
            where=sys.executable,
            hint="install paddlepaddle for this interpreter; PyTorch has torch.nn.init",
        ) from missing


def kind(layer: Any) -> str:
    """The class of ``paddle.nn`` that a layer is or derives from; '' for others.

    Those of ``paddle.compat.nn`` begin with ``compat.``.
    """
    for cls in type(layer).__mro__:
        if cls.__module__.startswith("paddle.compat.nn"):
            return f"compat.{cls.__name__}"
        if cls.__module__.startswith("paddle.nn.layer.") and cls is not paddle().nn.Layer:
            return str(cls.__name__)
    return ""


def is_layer(value: Any) -> bool:
    """Whether a value is a ``paddle.nn.Layer``."""
    return isinstance(value, paddle().nn.Layer)


def own_parameters(layer: Any) -> Dict[str, Any]:
    """Parameters that a layer holds itself, by their names in it."""
    return dict(layer.named_parameters(include_sublayers=False))


def element_type(tensor: Any) -> str:
    """The canonical name of a tensor's element type."""
    return str(tensor.dtype).rsplit(".", maxsplit=1)[-1]


def target(value: Any, layout: Optional[str] = None) -> Target:
    """The tensor that a tensor or layer stands for.

    Args:
        value: an eager tensor, or a layer with a weight.
        layout: what the caller says.

    Raises:
        InvalidInit: neither, or a layer whose weight is not a parameter; an element type that is not floating; a layout that is
            unknown, or not that of the layer.
    """
    if layout is not None and layout not in LAYOUTS:
        raise InvalidInit(
            f"there is no layout {layout!r}",
            where="layout",
            hint="choose 'torch' for matrices kept as [out, in], 'paddle' for [in, out] as in paddle.nn.Linear",
        )
    if is_layer(value):
        tensor, name = _weight(value)
        known = LAYER_LAYOUTS.get(kind(value))
        if known and layout and layout != known:
            raise InvalidInit(
                f"{kind(value)} keeps its weight in layout {known!r}, not {layout!r}",
                where=name,
                hint="leave layout out: the layer's class tells it",
            )
        layout = known or layout
    else:
        tensor, name = value, _name(value)
    dtype = element_type(tensor)
    if dtype not in GREATEST:
        raise InvalidInit(f"tensors of {dtype} cannot be initialised", where=name, hint="use one of: " + ", ".join(GREATEST))
    return Target(tensor, name, tuple(int(size) for size in tensor.shape), dtype, layout)


def _name(value: Any) -> str:
    if not isinstance(value, paddle().Tensor) or not paddle().in_dynamic_mode():
        raise InvalidInit(
            f"{type(value).__module__}.{type(value).__name__} is neither a Paddle tensor nor a layer in dynamic graph mode",
            where="tensor",
            hint="give a paddle.Tensor, a parameter or a paddle.nn.Layer; call paddle.disable_static() first",
        )
    return f"tensor {value.name}"


def _weight(layer: Any) -> Tuple[Any, str]:
    leaf = WEIGHTS.get(kind(layer), "weight")
    own, name = own_parameters(layer), type(layer).__name__
    if leaf in own:
        return own[leaf], f"{leaf} of {name}"
    there = ", ".join(own) or "none"
    if hasattr(layer, leaf) and getattr(layer, leaf) is not None:
        raise InvalidInit(
            f"the {leaf} of this {name} is computed from other parameters, and would be computed again",
            where=name,
            hint=f"initialise it before weight_norm or spectral_norm is applied; its parameters are: {there}",
        )
    raise InvalidInit(
        f"{name} has no parameter {leaf!r}",
        where=name,
        hint=f"give one of its own parameters ({there}) or of its sublayers', or use default_like_torch for all of them",
    )


def random_of(given: Any, name: str = "generator") -> np.random.Generator:
    """The numpy generator that an argument stands for.

    None draws a seed from Paddle's generator.

    Raises:
        InvalidInit: neither None, nor an integer of 0 or more, nor a numpy generator.
    """
    if given is None:
        drawn = paddle().randint(0, 2**31 - 1, [2], dtype="int64").numpy()
        return np.random.default_rng([int(word) for word in drawn])
    if isinstance(given, np.random.Generator):
        return given
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and given >= 0:
        return np.random.default_rng(int(given))
    raise InvalidInit(
        f"{given!r} cannot seed random values",
        where=name,
        hint="give an int of 0 or more, a numpy.random.Generator, or None, which follows paddle.seed",
    )


def fill(filled: Target, draw: Draw, random: Any) -> Any:
    """Write the values of a draw into a tensor, in place and unseen by gradients; the tensor.

    ``random`` is as :func:`random_of` takes it. A tensor without elements is left as it is and takes nothing from the generator.

    Raises:
        InvalidInit: as the draw's ``check``, or :func:`random_of`; nothing was written.
    """
    draw.check(filled.shape, filled.dtype)
    if 0 not in filled.shape:
        values = draw.values(random_of(random), filled.shape, filled.dtype)
        filled.tensor.set_value(stored(values, filled.dtype))  # bfloat16 as its bits, which is how Paddle takes it
    return filled.tensor
