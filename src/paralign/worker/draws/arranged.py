"""Masks for values that lie in another order.

A mask belongs to the values that it falls on, not to places in memory.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import TYPE_CHECKING, Any, Optional, Sequence, Tuple

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
else:
    Array = "numpy.ndarray"

#: values that differ by less, relative to all of them, are the same computed in two ways
SAME = 1e-6

#: axes of a tensor whose orders are all tried: 120 for five
AXES = 5


def arranged(draw: Array, on: Optional[Array], own: Optional[Array], shape: Sequence[int], mine: Array) -> Optional[Array]:
    """A draw of one side for the values of another.

    None where none of its elements has a place.

    Where nothing shows another order the elements are taken as they come. Of fewer or more rows (sequences without their padding) each
    goes where the same row of values is.

    Args:
        draw: what was drawn.
        on: the values that it fell on there, None if not known.
        own: the values that it is to fall on here, None if not known.
        shape: of the draw that is wanted.
        mine: the own draw of this side, for rows that the other side does not have; of that shape.
    """
    wanted = tuple(shape)
    known = on is not None and own is not None and on.shape == draw.shape and own.size == int(np.prod(wanted, dtype=np.int64))
    if draw.size != int(np.prod(wanted, dtype=np.int64)):
        if known and on is not None and own is not None:
            return _by_rows(draw, on, own.reshape(wanted), mine)
        return None
    axes = _by_values(on, own) if known and on is not None and own is not None else None
    if axes is None:
        axes = _by_shape(draw.shape, wanted)
    turned: Array = draw.transpose(axes).reshape(wanted)
    return turned


def _by_values(on: Array, own: Array) -> Optional[Tuple[int, ...]]:
    """The order of axes in which the values are the own ones; None where there is none."""
    allowed = SAME * float(np.linalg.norm(own))
    flat = own.ravel()
    orders = permutations(range(on.ndim)) if on.ndim <= AXES else iter([tuple(range(on.ndim))])
    for axes in orders:
        if float(np.linalg.norm(on.transpose(axes).ravel() - flat)) <= allowed:
            return axes
    return None


def _by_shape(given: Tuple[int, ...], wanted: Tuple[int, ...]) -> Tuple[int, ...]:
    """The order of axes that lengths tell where all are different; else the axes as they are."""
    if given == wanted or sorted(given) != sorted(wanted) or len(set(given)) < len(given):
        return tuple(range(len(given)))
    return tuple(given.index(length) for length in wanted)


def _by_rows(draw: Array, on: Array, own: Array, mine: Array) -> Optional[Array]:
    """The draw's rows in the order of the own values' rows.

    None where a row that it fell on is not among the own, or is there twice.
    """
    width = draw.shape[-1] if draw.ndim else 0
    if not own.ndim or own.shape[-1] != width or not width:
        return None
    theirs, ours = on.reshape(-1, width), own.reshape(-1, width)
    few, many = (theirs, ours) if len(theirs) < len(ours) else (ours, theirs)
    direction = np.cos(np.arange(width) + 1.0)
    marks = many @ direction
    order = np.argsort(marks)
    places = np.searchsorted(marks[order], few @ direction - SAME * _size(many))
    found = []
    for row, start in zip(few, places):
        there = _equal(row, many, order[int(start) :], marks)
        if there is None:
            return None
        found.append(there)
    if len(set(found)) < len(found):
        return None
    result: Array = mine.reshape(own.shape).copy()
    rows = result.reshape(-1, width)
    if few is theirs:
        rows[found] = draw.reshape(-1, width)
    else:
        rows[:] = draw.reshape(-1, width)[found]
    return result


def _equal(row: Array, rows: Array, order: Array, marks: Array) -> Optional[int]:
    """The one row that equals a row.

    Rows are in the order of their marks, from the first that may be equal.
    """
    near = SAME * _size(rows)
    mark = float(row @ np.cos(np.arange(len(row)) + 1.0))
    found = []
    for place in order:
        if marks[place] > mark + near:
            break
        if float(np.linalg.norm(rows[place] - row)) <= near:
            found.append(int(place))
    return found[0] if len(found) == 1 else None


def _size(rows: Array) -> float:
    """The usual length of a row."""
    return float(np.linalg.norm(rows)) / math.sqrt(max(len(rows), 1))
