"""The careful way through a block.

NaN, infinities, complex values, long integers, and squares that leave float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison.buffers import dot
from paralign.comparison.ulp import distances, unit
from paralign.dtypes import Typed, is_complex, widen

if TYPE_CHECKING:
    from paralign.comparison.sums import Part, Peak

Array = np.ndarray[Any, Any]

#: integers up to here are exact in float64
_EXACT = 2**53
_LONG = frozenset({"int64", "uint64"})


def beyond(*sides: Array) -> bool:
    """Whether integers are among the values that float64 does not hold."""
    long = [side for side in sides if str(side.dtype) in _LONG]
    return any(int(side.max()) > _EXACT or int(side.min()) < -_EXACT for side in long)


def absorb_carefully(part: Part, start: int, reference: Typed, candidate: Typed, tolerance: tuple[float, float] | None) -> None:
    """Add one block to ``part``, whatever it holds.

    Args:
        part: what this stretch came to so far.
        start: flat index of the first element.
        reference: one-dimensional.
        candidate: as many elements.
        tolerance: the user's ``atol`` and ``rtol``, or None.
    """
    raw = reference, candidate
    either = any(is_complex(side.dtype) for side in raw)
    values = [widen(side).astype(np.complex128 if either else np.float64) for side in raw]
    keep = np.isfinite(values[0]) & np.isfinite(values[1])
    wrong = int(np.count_nonzero(_disagreeing(part, *values) & ~keep))
    part.mismatched += wrong
    part.exceeding += wrong if tolerance else 0
    places = np.flatnonzero(keep)
    if not places.size:
        return
    sides = [Typed(side.array[places], side.dtype) for side in raw]
    kept = values[0][places], values[1][places]
    error = _difference(*sides) if {side.dtype for side in raw} & _LONG and not either else kept[0] - kept[1]
    part.mismatched += int(np.count_nonzero(error))
    _add_scaled(part, start + places, *kept, error, tolerance)
    if unit(reference.dtype, candidate.dtype):
        part.ulp = max(part.ulp, float(distances(*sides).max()))


def _add_scaled(part: Part, places: Array, reference: Array, candidate: Array, error: Array, tolerance: tuple[float, float] | None) -> None:
    """Add sums and greatest values of finite float64 or complex128 values of any size.

    ``places`` are their flat indices.
    """
    doubled = 0
    if not np.isfinite(error).all():
        error, doubled = reference / 2 - candidate / 2, 1
    part.finite += places.size
    scaled = [_scale(side) for side in (reference, candidate, error)]
    for total, (side, exponent) in zip((part.reference, part.candidate, part.error), scaled, strict=True):
        twice = 2 * (exponent + (doubled if total is part.error else 0))
        total.add(dot(side, side), twice)
    part.product.add(dot(scaled[0][0], scaled[1][0]), scaled[0][1] + scaled[1][1])
    magnitude = np.absolute(error)
    small, exponent = _scale(magnitude)
    part.absolute.add(float(small.sum()), exponent + doubled)
    size = np.absolute(reference)
    ratio = np.divide(magnitude, size, out=np.zeros_like(size), where=size > 0.0) * 2.0**doubled
    _offer(part.max_rel, ratio, places)
    magnitude = magnitude * 2.0**doubled
    _offer(part.max_abs, magnitude, places)
    if tolerance:
        part.exceeding += exceeding(magnitude, size, tolerance)


def _difference(reference: Typed, candidate: Typed) -> Array:
    """Reference minus candidate, zero only where they are equal.

    A side may hold integers beyond 2**53.
    """
    (high, low), (other, rest) = _halves(reference), _halves(candidate)
    error: Array = (high - other) + (low - rest)
    return error


def _halves(value: Typed) -> tuple[Array, Array]:
    """Two float64 arrays that add up to the values exactly.

    The second is zero for values that float64 holds.
    """
    if value.dtype not in _LONG:
        return widen(value).astype(np.float64), np.zeros(value.array.size)
    side = value.array
    low = side & side.dtype.type(2**32 - 1)
    fits = (side <= _EXACT) if value.dtype == "uint64" else (side <= _EXACT) & (side >= -_EXACT)
    return np.where(fits, side, side - low).astype(np.float64), np.where(fits, 0, low).astype(np.float64)


def _disagreeing(part: Part, reference: Array, candidate: Array) -> Array:
    """Count NaN and infinities; returns where the sides differ (NaN on both sides does not)."""
    nan = np.isnan(reference), np.isnan(candidate)
    inf = np.isinf(reference) & ~nan[0], np.isinf(candidate) & ~nan[1]
    equal = reference == candidate
    part.nan += int(np.count_nonzero(nan[0] != nan[1]))
    part.inf += int(np.count_nonzero((inf[0] | inf[1]) & ~equal))
    part.nan_reference += int(np.count_nonzero(nan[0]))
    part.nan_candidate += int(np.count_nonzero(nan[1]))
    part.inf_reference += int(np.count_nonzero(inf[0]))
    part.inf_candidate += int(np.count_nonzero(inf[1]))
    differ: Array = ~(equal | (nan[0] & nan[1]))
    return differ


def _scale(side: Array) -> tuple[Array, int]:
    """Values times a power of two whose squares fit float64, and that power.

    Complex values give both parts.
    """
    if np.iscomplexobj(side):
        side = np.ascontiguousarray(side).view(np.float64)
    top = float(np.absolute(side).max())
    if top == 0.0 or 2.0**-300 < top < 2.0**300:
        return side, 0
    exponent = math.frexp(top)[1]
    return np.ldexp(side, -exponent), exponent


def exceeding(error: Array, size: Array, tolerance: tuple[float, float]) -> int:
    """How many errors are greater than ``atol + rtol * |size|``."""
    allowed = np.absolute(size)
    allowed *= tolerance[1]
    allowed += tolerance[0]
    return int(np.count_nonzero(error > allowed))


def _offer(peak: Peak, values: Array, places: Array) -> None:
    at = int(values.argmax())
    if values[at] > peak.value:
        peak.offer(float(values[at]), int(places[at]))
