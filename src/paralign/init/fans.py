"""Gains and fans: how wide the values of a weight spread."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Optional, Sequence, Tuple

from paralign.init._problems import InvalidInit

#: nonlinearities with a gain of their own
GAINS = {"sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 0.75}

#: names that mean that nothing nonlinear follows
LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")

MODES = ("fan_in", "fan_out")
LAYOUTS = ("torch", "paddle")


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The gain that keeps the spread of activations through a nonlinearity.

    Args:
        nonlinearity: its name in ``torch.nn.functional``.
        param: the negative slope of ``leaky_relu`` (0.01 unless given); the others have none.

    Raises:
        InvalidInit: an unknown name, or a slope that is not a number.

    >>> calculate_gain("leaky_relu", 1), calculate_gain("selu"), calculate_gain("conv2d")
    (1.0, 0.75, 1.0)
    """
    if nonlinearity in LINEAR:
        return 1.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, Real):
            raise InvalidInit(f"the negative slope {slope!r} is not a number", where="leaky_relu", hint="give a number, such as 0.01")
        return math.sqrt(2.0 / (1 + float(slope) ** 2))
    if nonlinearity not in GAINS:
        raise InvalidInit(
            f"there is no gain for nonlinearity {nonlinearity!r}",
            where="nonlinearity",
            hint="choose one of: " + ", ".join([*LINEAR, *GAINS, "leaky_relu"]),
        )
    return GAINS[nonlinearity]


def fans(shape: Sequence[int], layout: str = "torch", where: Optional[str] = None) -> Tuple[int, int]:
    """Fan in and fan out of a weight.

    Args:
        shape: of the weight as it is kept; 2-dimensional ones are ``[out, in]`` in layout ``torch``, ``[in, out]`` in ``paddle``,
            those of more dimensions ``[out, in / groups, *kernel]`` in both.
        layout: ``torch`` or ``paddle``.
        where: what the weight is called.

    Raises:
        InvalidInit: fewer than 2 dimensions.

    >>> fans([8, 3, 5, 5]), fans([8, 3]), fans([8, 3], "paddle")
    ((75, 200), (3, 8), (8, 3))
    """
    if len(shape) < 2:  # noqa: PLR2004 - an output and an input
        raise InvalidInit(
            f"fan in and fan out need a tensor of 2 or more dimensions, this one has shape {list(shape)}",
            where=where,
            hint="use uniform_, normal_ or constant_ for vectors",
        )
    first, second = (shape[1], shape[0]) if layout == "paddle" and len(shape) == 2 else (shape[0], shape[1])  # noqa: PLR2004 - a matrix
    receptive = 1
    for size in shape[2:]:
        receptive *= size
    return second * receptive, first * receptive


def fan(shape: Sequence[int], mode: str, layout: str, where: Optional[str] = None) -> int:
    """The fan that a mode means.

    Raises:
        InvalidInit: a mode that is not ``fan_in`` or ``fan_out`` (in any case), or fewer than 2 dimensions.
    """
    if str(mode).lower() not in MODES:
        raise InvalidInit(f"there is no mode {mode!r}", where="mode", hint="choose one of: " + ", ".join(MODES))
    return fans(shape, layout, where)[MODES.index(mode.lower())]
