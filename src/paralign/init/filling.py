"""The functions of ``torch.nn.init``, for Paddle.

Each takes a parameter, a tensor or a layer (which stands for its weight), fills it in place and returns the tensor. Elements are
float16, bfloat16, float32 or float64. ``generator`` is an int, a ``numpy.random.Generator``, or None to follow ``paddle.seed``.
All raise :class:`InvalidInit`, and then have written nothing.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Optional, Union

from paralign.init import draws
from paralign.init._paddle import Target, fill, target
from paralign.init._problems import InvalidInit
from paralign.init._rounding import number
from paralign.init.fans import calculate_gain, fan, fans

if TYPE_CHECKING:
    import numpy as np

    Random = Optional[Union[int, np.random.Generator]]


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Random = None) -> Any:
    """Fill with values uniform in ``[a, b)``.

    Raises:
        InvalidInit: ``a`` above ``b``, or a range that the element type cannot hold.
    """
    return fill(target(tensor), draws.Uniform(number(a, "a"), number(b, "b")), generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Random = None) -> Any:
    """Fill with normal values.

    Raises:
        InvalidInit: ``std`` is negative.
    """
    return fill(target(tensor), draws.Normal(number(mean, "mean"), number(std, "std")), generator)


def trunc_normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Random = None) -> Any:
    """Fill with normal values, given that they lie in ``[a, b]``.

    The bounds are absolute: with ``std=0.02`` the default bounds cut nothing. Values are exact also where the bounds are far from the
    mean, so there is no warning there as in PyTorch.

    Raises:
        InvalidInit: ``a`` above ``b``, or ``std`` not above 0.
    """
    return fill(target(tensor), draws.Truncated(number(mean, "mean"), number(std, "std"), number(a, "a"), number(b, "b")), generator)


def constant_(tensor: Any, val: float) -> Any:
    """Fill with one value.

    Raises:
        InvalidInit: the element type cannot hold it.
    """
    return fill(target(tensor), draws.Constant(number(val, "val", nan=True)), 0)


def ones_(tensor: Any) -> Any:
    """Fill with ones."""
    return fill(target(tensor), draws.Constant(1.0), 0)


def zeros_(tensor: Any) -> Any:
    """Fill with zeros."""
    return fill(target(tensor), draws.Constant(0.0), 0)


def eye_(tensor: Any) -> Any:
    """Fill a matrix with the identity.

    A linear layer hands through as many inputs as it has outputs for.

    Raises:
        InvalidInit: not 2 dimensions.
    """
    return fill(target(tensor), draws.Eye(), 0)


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill a convolution's weight so that each group hands its first channels through.

    The shape is ``[out, in / groups, *kernel]``.

    Raises:
        InvalidInit: not 3 to 5 dimensions, or output channels that do not fall into the groups.
    """
    return fill(target(tensor), draws.Dirac(groups), 0)


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Random = None) -> Any:
    """Fill with values uniform within ``±gain * sqrt(6 / (fan_in + fan_out))``.

    Glorot and Bengio 2010.

    Raises:
        InvalidInit: fewer than 2 dimensions.
    """
    found = target(tensor)
    bound = math.sqrt(3.0) * _xavier_spread(found, gain)
    return fill(found, draws.Uniform(-bound, bound), generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Random = None) -> Any:
    """Fill with normal values of deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Glorot and Bengio 2010.

    Raises:
        InvalidInit: fewer than 2 dimensions.
    """
    found = target(tensor)
    return fill(found, draws.Normal(0.0, _xavier_spread(found, gain)), generator)


def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Random = None,
    *,
    layout: Optional[str] = None,
) -> Any:
    """Fill with values uniform within ``±gain * sqrt(3 / fan)`` (He et al. 2015).

    Args:
        tensor: a layer, or a parameter or tensor; for one of 2 dimensions the layout must be said.
        a: the negative slope of ``leaky_relu``; other nonlinearities ignore it.
        mode: ``fan_in`` keeps the spread of activations, ``fan_out`` that of gradients.
        nonlinearity: what follows, see :func:`calculate_gain`.
        generator: see the head of this file.
        layout: ``paddle`` for a matrix ``[in, out]``, ``torch`` for ``[out, in]``; a layer's class tells it.

    Raises:
        InvalidInit: fewer than 2 dimensions, an unknown mode, nonlinearity or layout, or a matrix of unknown layout.
    """
    found = target(tensor, layout)
    bound = math.sqrt(3.0) * _kaiming_spread(found, a, mode, nonlinearity)
    return fill(found, draws.Uniform(-bound, bound), generator)


def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Random = None,
    *,
    layout: Optional[str] = None,
) -> Any:
    """Fill with normal values of standard deviation ``gain / sqrt(fan)`` (He et al. 2015).

    Arguments and errors are those of :func:`kaiming_uniform_`.
    """
    found = target(tensor, layout)
    return fill(found, draws.Normal(0.0, _kaiming_spread(found, a, mode, nonlinearity)), generator)


def orthogonal_(tensor: Any, gain: float = 1, generator: Random = None) -> Any:
    """Fill with ``gain`` times a uniformly random orthogonal matrix (Saxe et al. 2013).

    The axes after the first are flattened.

    Of a rectangle, the shorter side's vectors are orthonormal.

    Raises:
        InvalidInit: fewer than 2 dimensions.
    """
    return fill(target(tensor), draws.Orthogonal(number(gain, "gain")), generator)


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Random = None, *, layout: Optional[str] = None) -> Any:
    """Fill a matrix with normal values, ``sparsity`` of each input's weights zero.

    The number of zeros is rounded up (Martens 2010).

    Args:
        tensor: a layer, or a parameter or tensor whose layout is said.
        sparsity: the share of zeros, from 0 to 1.
        std: the standard deviation of the others.
        generator: see the head of this file.
        layout: as for :func:`kaiming_uniform_`.

    Raises:
        InvalidInit: not 2 dimensions, a share outside 0 to 1, or a matrix of unknown layout.
    """
    found = target(tensor, layout)
    draw = draws.Sparse(number(sparsity, "sparsity"), number(std, "std"), _layout(found))
    return fill(found, draw, generator)


def _layout(found: Target) -> str:
    """The layout of a weight; of other dimensions than 2 it is the same everywhere."""
    if found.layout is None and len(found.shape) == 2:  # noqa: PLR2004 - a matrix
        raise InvalidInit(
            f"a matrix of shape {list(found.shape)} does not say which axis is the input",
            where=found.name,
            hint="give the paddle.nn layer that it belongs to, or say layout='paddle' for [in, out] as in paddle.nn.Linear, "
            "layout='torch' for [out, in]",
        )
    return found.layout or "torch"


def _xavier_spread(found: Target, gain: float) -> float:
    fan_in, fan_out = fans(found.shape, where=found.name)
    return number(gain, "gain") * math.sqrt(2.0 / max(1, fan_in + fan_out))  # both are 0 only where there is nothing to fill


def _kaiming_spread(found: Target, a: float, mode: str, nonlinearity: str) -> float:
    spread = calculate_gain(nonlinearity, a) / math.sqrt(max(1, fan(found.shape, mode, _layout(found), found.name)))
    if 0 in found.shape:
        warnings.warn(f"{found.name} has no elements: nothing is initialised", stacklevel=3)
    return spread
