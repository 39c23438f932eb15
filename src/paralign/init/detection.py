"""The two layer initialisers of PaddleDetection that ``torch.nn.init`` lacks.

They have their names there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional, Union

from paralign.init._paddle import kind, random_of
from paralign.init._problems import InvalidInit
from paralign.init.filling import uniform_

if TYPE_CHECKING:
    import numpy as np

    Random = Optional[Union[int, np.random.Generator]]


def linear_init_(layer: Any, generator: Random = None) -> Any:
    """Fill a ``Linear`` with ``U(-1/√in, 1/√in)``, PyTorch's default; gives it back.

    Weight and bias.

    Raises:
        InvalidInit: it is no ``Linear`` of ``paddle.nn``.
    """
    if kind(layer) != "Linear":
        raise _unfit(layer, "a paddle.nn.Linear")
    return _filled(layer, layer.weight.shape[0], generator)  # Paddle keeps [in, out]


def conv_init_(layer: Any, generator: Random = None) -> Any:
    """Fill a convolution with ``U(-1/√fan_in, 1/√fan_in)``, PyTorch's default.

    Weight and bias; the layer is given back.

    Raises:
        InvalidInit: it is no ``Conv1D``, ``Conv2D`` or ``Conv3D`` of ``paddle.nn``.
    """
    if kind(layer) not in ("Conv1D", "Conv2D", "Conv3D"):
        raise _unfit(layer, "a paddle.nn.Conv1D, Conv2D or Conv3D")
    return _filled(layer, math.prod(layer.weight.shape[1:]), generator)


def _filled(layer: Any, fan_in: int, generator: Random) -> Any:
    bound, random = 1 / math.sqrt(fan_in), random_of(generator)
    for parameter in (layer.weight, layer.bias):
        if parameter is not None:
            uniform_(parameter, -bound, bound, generator=random)
    return layer


def _unfit(layer: Any, wanted: str) -> InvalidInit:
    return InvalidInit(f"{type(layer).__name__} is not {wanted}", where="layer", hint="uniform_, xavier_uniform_ … take any parameter")
