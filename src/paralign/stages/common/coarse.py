"""Candidates whose float64 run has the rounding of the reference's native run.

Kernels compute some numbers in float32 whatever they are given: Paddle's interpolation its coordinates, which large pictures amplify.
The error of such a right port is the reference's own noise, and not only as large: it is the same, element by element.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from paralign.dtypes import widen
from paralign.model import ALIGNED, DIVERGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paralign.dtypes import Typed
    from paralign.model import Pair, Record

#: a candidate has the native run's rounding where it is nearer to that run than to the float64 run by this factor. An error of another
#: origin is independent of the rounding, and further from the native run than from the float64 run.
NEARER = 0.4

NOTE = "the difference is the rounding of the reference's own native run: a kernel computes partly in float32"

Both = tuple["Typed", "Typed"]


def excuse(pairs: Iterable[Pair], both_of: Callable[[Record], Both | None], fetch: Callable[[Record, Record], Typed | None]) -> None:
    """Take pairs for aligned that diverge by nothing but the reference's own native rounding.

    Args:
        pairs: judged pairs.
        both_of: gives what a record of the reference is in its float64 and in its native run; None where that is not compared.
        fetch: gives a candidate's value in the reference's layout.
    """
    for pair in pairs:
        first, second = pair.reference, pair.candidate
        if pair.verdict != DIVERGED or pair.noise is None or first is None or second is None:
            continue
        own = both_of(first)
        if own is None:
            continue
        value = fetch(first, second)
        if value is not None and _is_nearer(value, *own):
            pair.verdict = ALIGNED
            pair.notes.append(NOTE)


def _is_nearer(value: Typed, double: Typed, native: Typed) -> bool:
    """Whether a value is nearer to the native one than to that in float64, by the factor."""
    if not value.array.shape == double.array.shape == native.array.shape:
        return False
    wide = widen(value)
    far, near = (float(np.linalg.norm((wide - widen(other)).ravel())) for other in (double, native))
    return math.isfinite(far) and near <= NEARER * far
