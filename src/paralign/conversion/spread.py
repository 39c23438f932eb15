"""How the values of a tensor are spread, in one pass whose memory does not grow with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.dtypes import Typed, is_complex, widen

if TYPE_CHECKING:
    from collections.abc import Iterator

#: elements that are handled at a time
BLOCK = 1 << 18


@dataclass
class Spread:
    """Figures of the finite elements of a tensor.

    Of complex numbers, of their real and imaginary parts.

    Args:
        count: finite elements.
        mean: of them.
        std: standard deviation (of the population).
        low: the least.
        high: the greatest.
        unfinite: elements that are NaN or infinite.
    """

    count: int = 0
    mean: float = 0.0
    std: float = 0.0
    low: float = 0.0
    high: float = 0.0
    unfinite: int = 0

    @property
    def size(self) -> float:
        """The root mean square: what weight decay shrinks."""
        return math.hypot(self.mean, self.std)


def spread(value: Typed) -> Spread:
    """The spread of a tensor's values, in float64.

    Blocks are merged by the formula of Chan, Golub and LeVeque (1979), which loses nothing to cancellation.

    >>> found = spread(Typed(np.array([1.0, 3.0, np.nan]), "float64"))
    >>> found.mean, found.std, found.low, found.high, found.unfinite
    (2.0, 1.0, 1.0, 3.0, 1)
    """
    found, squares = Spread(low=math.inf, high=-math.inf), 0.0
    for block in _blocks(value):
        wide = block.astype(np.float64)
        kept = wide[np.isfinite(wide)]
        found.unfinite += wide.size - kept.size
        if not kept.size:
            continue
        mean = float(kept.mean())
        apart, total = mean - found.mean, found.count + kept.size
        squares += float(np.square(kept - mean).sum()) + apart * apart * found.count * kept.size / total
        found.mean += apart * kept.size / total
        found.count = total
        found.low, found.high = min(found.low, float(kept.min())), max(found.high, float(kept.max()))
    if not found.count:
        found.low = found.high = 0.0
        return found
    found.std = math.sqrt(squares / found.count)
    return found


def _blocks(value: Typed) -> Iterator[np.ndarray[Any, Any]]:
    """The elements as real numbers, a bounded number at a time."""
    array = value.array if value.array.flags.c_contiguous else np.ascontiguousarray(value.array)
    flat = array.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        part = widen(Typed(flat[start : start + BLOCK], value.dtype))
        yield part.view(part.real.dtype) if is_complex(value.dtype) else part
