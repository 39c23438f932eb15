"""A reference's value in the shape of the place that it is put in."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np

from paralign.locate.runs.counterparts import broadcasts


def arranged(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array in another shape: axes permuted where that fits, else elements in order.

    Where there are more elements in that shape, it is repeated; else it stays as it is.
    """
    if array.shape == shape:
        return array
    size = math.prod(shape)
    if array.size > size:
        return array
    if array.size < size:
        return np.broadcast_to(array, shape).copy() if broadcasts(array.shape, shape) else array
    axes = _permutation(array.shape, shape)
    if axes is not None:
        return np.ascontiguousarray(array.transpose(axes))
    return array.reshape(shape)


def _permutation(shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order of axes that gives a shape; None if none does, or axes of length one tell."""
    if [n for n in shape if n != 1] == [n for n in wanted if n != 1] or sorted(shape) != sorted(wanted):
        return None
    for axes in permutations(range(len(shape))):
        if tuple(shape[axis] for axis in axes) == wanted:
            return axes
    return None


__all__ = ["arranged"]
