"""How a wrong result comes from the reference's.

By one factor, one shift, another sign or another order of axes.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.data.distances import apart

if TYPE_CHECKING:
    from collections.abc import Iterable

    Array = np.ndarray[Any, Any]

#: relative distance up to which values of a float64 run are one: kernels sum in another order
EXACT = 1e-9

#: axes whose orders are tried: 24 orders of four
AXES = 4


def relation(candidate: Array, reference: Array, shapes: Iterable[tuple[int, ...]] = ()) -> str:
    """Say how a value comes from the reference's; '' where no single step does it.

    Args:
        candidate: the wrong value, computed in float64.
        reference: what is due, of the same shape.
        shapes: of what the value was made from: their lengths explain factors.
    """
    mine, due = np.asarray(candidate), np.asarray(reference)
    plain = mine.dtype.kind in "fiu" and due.dtype.kind in "fiu" and mine.size == due.size > 0
    if not plain or not (np.isfinite(mine).all() and np.isfinite(due).all()) or not due.any():
        return ""
    if mine.shape != due.shape:
        return _turned(mine, due)
    mine, due = mine.astype(np.float64), due.astype(np.float64)
    factor = float((mine * due).sum() / (due * due).sum())
    if factor and _near(mine, factor * due):
        return _factor(factor, mine.size, shapes)
    shift = float((mine - due).mean())
    if mine.size > 1 and _near(mine, due + shift):
        return f"the result is the reference's plus {shift:.6g}"
    return _turned(mine, due)


def _near(one: Array, other: Array) -> bool:
    return apart(other, one) <= EXACT


def _turned(mine: Array, due: Array) -> str:
    """The reference's value in another order of axes."""
    if mine.ndim != due.ndim or not 2 <= mine.ndim <= AXES:  # noqa: PLR2004 - one axis has one order
        return ""
    for order in itertools.permutations(range(mine.ndim)):
        turned = due.transpose(order)
        if order != tuple(range(mine.ndim)) and turned.shape == mine.shape and _near(mine, turned):
            return f"the result is the reference's in another order of axes: transpose{order}"
    return ""


def _factor(factor: float, size: int, shapes: Iterable[tuple[int, ...]]) -> str:
    """A factor in words: a length that it is made of, where there is one.

    Any two single numbers have a factor: of one number only such a factor tells anything.
    """
    if abs(factor - 1) <= EXACT:
        return ""
    if abs(factor + 1) <= EXACT:
        return "the result is the reference's with the other sign"
    for length in _lengths(shapes):
        for expected, said in _reductions(factor, length):
            if abs(factor / expected - 1) <= EXACT:
                return said
    if size > 1 or _is_simple(factor):
        return f"the result is the reference's times {factor:.6g}"
    return ""


def _reductions(factor: float, length: int) -> list[tuple[float, str]]:
    """Factors that a length explains, and what is said of each."""
    return [
        (
            length / (length - 1),
            f"the result is the reference's times {factor:.6g}, as of a variance over {length - 1} in place of {length}",
        ),
        (
            (length - 1) / length,
            f"the result is the reference's times {factor:.6g}, as of a variance over {length} in place of {length - 1}",
        ),
        (length, f"the result is the reference's times {length}, as of a sum over {length} values in place of their mean"),
        (1 / length, f"the result is the reference's times 1/{length}, as of a mean of {length} values in place of their sum"),
    ]


def _lengths(shapes: Iterable[tuple[int, ...]]) -> list[int]:
    """Lengths of axes and of runs of axes, over which a mean or a variance may go."""
    found: set[int] = set()
    for shape in shapes:
        for first, last in itertools.combinations(range(len(shape) + 1), 2):
            found.add(int(np.prod(shape[first:last])))
    return sorted(length for length in found if length > 2)  # noqa: PLR2004 - 2 and 1/2 have many reasons


def _is_simple(factor: float) -> bool:
    """Whether a factor is a half, a whole number or a power of ten."""
    if not 1e-6 <= abs(factor) <= 1e6:  # noqa: PLR2004 - beyond that the one of two numbers is about nothing
        return False
    return any(abs(scaled - round(scaled)) <= EXACT * abs(scaled) and round(scaled) for scaled in (2 * factor, 2 / factor))
