"""Which points of a series a picture shows, and which of them need a mark to be seen."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: points of a curve: more than a picture has columns
POINTS = 2000

#: points below which each is marked: they can be told apart
FEW = 30


def spread(count: int) -> Array:
    """Places of at most ``POINTS`` of so many points, evenly spread, both ends included.

    >>> spread(1), spread(0), spread(10000)[[0, -1]]
    (array([0]), array([], dtype=int64), array([   0, 9999]))
    """
    return np.unique(np.linspace(0, max(count - 1, 0), min(POINTS, count)).astype(np.int64))


def marked(values: Array) -> list[int]:
    """Places of the points that get a mark: all of a few, else those that no line reaches.

    A line joins two finite neighbours; a finite point between others has no line of its own.

    >>> marked(np.array([0.5]))
    [0]
    >>> marked(np.array([1.0] * 50 + [np.nan, 2.0, np.inf] + [1.0] * 50))
    [51]
    """
    finite = np.isfinite(np.asarray(values, np.float64))
    if len(finite) < FEW:
        return [int(place) for place in np.flatnonzero(finite)]
    beside = np.zeros_like(finite)
    beside[1:] |= finite[:-1]
    beside[:-1] |= finite[1:]
    return [int(place) for place in np.flatnonzero(finite & ~beside)]
