"""Which values of two runs are the same, by what they hold.

A value of the candidate is held against all values of the reference of as many elements. Digests do not see order, so a transposed,
reshaped or differently laid out value is found as well; where two values have the same shape, sketches tell whether the order is the
same too. The search goes by size and root mean square and looks at a few digests only, however many there are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import digest as digests
from paralign.capture import sketch as sketches
from paralign.dtypes import is_floating

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.locate.runs.dataflow import Graph, Value

#: a distance up to this still suggests that two values stand at the same place
ALIKE = 0.05

#: values whose figures are such simple numbers are found by chance
_SIMPLE = 1024

#: integers from this many on are not met by chance
_SEVERAL = 24

#: bounded means below this are zero
SMALLEST = 1e-12

#: a distance up to this is looked for before greater ones, as there are few such values
SLIGHT = 1e-3

#: percentiles between which figures are spread
_LOW = 10

#: what figures of equal numbers may differ by, and the least root mean square whose logarithm is taken
_ROUNDING, _SMALLEST = 1e-13, 1e-300


class Matches:
    """The values of a reference run, to be found by those of a candidate run.

    Args:
        reference: the graph of the reference's run.
        equal: digests up to this distance are those of one value.
    """

    def __init__(self, reference: Graph, equal: float) -> None:
        self.reference, self.equal = reference, equal
        groups: dict[tuple[float, bool], list[Value]] = defaultdict(list)
        for value in dict.fromkeys(reference.values.values()):
            if value.digest is not None:
                groups[_cell_of(value)].append(value)
        self._cells = {size: _Cell(values) for size, values in groups.items()}
        self._equal: dict[tuple[str, float | None], list[Value]] = {}
        self._near: dict[tuple[str, float | None], tuple[float, Value | None]] = {}

    def equals(self, value: Value) -> list[Value]:
        """The reference's values of the same elements in any order, the first seen first."""
        if value.digest is None:
            return []
        key = value.digest, value.bounded
        if key not in self._equal:
            found = [v for _, v in self._within(value, self.equal)] or self._repeated(value)
            self._equal[key] = sorted(found, key=lambda v: v.order)
        return self._equal[key]

    def nearest(self, value: Value) -> tuple[float, Value | None]:
        """The reference's nearest value and its distance; None beyond ``ALIKE``."""
        if value.digest is None:
            return math.inf, None
        key = value.digest, value.bounded
        if key not in self._near:
            found: list[tuple[float, Value]] = []
            for limit in (self.equal, SLIGHT, ALIKE):
                found = found or self._within(value, limit, nearest=True)
                if limit == self.equal and not found:
                    found = [(0.0, each) for each in self._repeated(value)]
            self._near[key] = min(found, key=lambda item: (item[0], item[1].order), default=(math.inf, None))
        return self._near[key]

    def next_to(self, value: Value) -> list[Value]:
        """The reference's nearest value, and those that hold the same."""
        near = self.nearest(value)[1]
        return [] if near is None else self.equals(near)

    def _repeated(self, value: Value) -> list[Value]:
        """The values that this one repeats along some axes, or that repeat it."""
        if not is_telling(value) or value.unmasked is not None:
            return []
        found = []
        for (size, masked), cell in self._cells.items():
            if masked or size == value.size or not _is_multiple(size, value.size):
                continue
            for _, each in cell.near(value.digest or "", 2 * self.equal):
                far = digests.distance(each.digest or "", value.digest or "", sized=False)
                if far <= self.equal and broadcasts(each.shape, value.shape):
                    found.append(each)
        return found

    def _within(self, value: Value, limit: float, *, nearest: bool = False) -> list[tuple[float, Value]]:
        """The values within a limit, with distances; ``nearest``: candidates for the nearest."""
        cell = self._cells.get(_cell_of(value))
        if cell is None:
            return []
        found: list[tuple[float, Value]] = []
        best = limit
        for gap, other in cell.near(_telling_part(value), 2 * limit):
            if nearest and gap > 2 * best:  # further than the nearest so far, as are all that follow
                break
            far = apart(other, value)
            if far <= limit:
                found.append((far, other))
                best = min(best, far)
        return found


class _Cell:
    """The reference's values of one size, sorted by the figure in which they differ most."""

    def __init__(self, values: list[Value]) -> None:
        figures = np.array([_figures(_telling_part(v)) for v in values])
        low, high = np.percentile(figures, (_LOW, 100 - _LOW), axis=0)
        self._column = int(np.argmax(high - low))
        order = np.argsort(figures[:, self._column], kind="stable")
        self._values, self._figures = [values[place] for place in order], figures[order]
        self._keys = np.ascontiguousarray(self._figures[:, self._column])

    def near(self, digest: str, gap: float) -> Iterator[tuple[float, Value]]:
        """The values whose figures are no further apart, the nearest first."""
        own = np.array(_figures(digest))
        key, reach = own[self._column], gap + _ROUNDING
        first, last = np.searchsorted(self._keys, (key - reach, key + reach))
        gaps = np.abs(self._figures[first:last] - own).max(axis=1, initial=0.0)
        places = np.flatnonzero(gaps <= reach)
        for place in places[np.argsort(gaps[places], kind="stable")]:
            yield float(gaps[place]), self._values[first + int(place)]


def apart(one: Value, other: Value) -> float:
    """How far two values are apart in any order; infinite where that is not known.

    Very large elements beside ordinary ones would hide these: the mean of what is bounded of their moduli is compared as well.
    """
    if one.digest is None or other.digest is None:
        return math.inf
    if one.unmasked is not None and other.unmasked is not None:  # it is no matter which number masks the rest
        return digests.distance(one.unmasked, other.unmasked)
    far = digests.distance(one.digest, other.digest)
    if one.bounded is not None and other.bounded is not None:
        far = max(far, abs(one.bounded - other.bounded) / max(abs(one.bounded), abs(other.bounded), SMALLEST))
    return far


def _is_multiple(one: float, other: float) -> bool:
    """Whether one of two numbers of elements is a multiple of the other, and none is zero."""
    if not one or not other:
        return False
    return one % other == 0 or other % one == 0


def digests_of(values: Iterable[Value]) -> set[str | None]:
    """The digests of some values."""
    return {value.digest for value in values}


def _telling_part(value: Value) -> str:
    """The digest of what is not masked; of the whole value where nothing is."""
    return value.unmasked or value.digest or digests.EMPTY


def _cell_of(value: Value) -> tuple[float, bool]:
    """Values of one size, those with masked elements by themselves."""
    return digests.size_and_rms(value.digest or digests.EMPTY)[0], value.unmasked is not None


def _figures(digest: str | None) -> list[float]:
    """Figures of a digest, scaled so that near digests have near figures."""
    known = digests.figures(digest or digests.EMPTY)
    return [math.log(max(known.rms, _SMALLEST)), *map(_scaled, known.moments())]


def _scaled(moment: float) -> float:
    """A moment; of one beyond 1, the logarithm of what it exceeds 1 by."""
    if abs(moment) <= 1:
        return moment
    return math.copysign(1 + math.log(abs(moment)), moment)


def is_telling(value: Value) -> bool:
    """Whether a value is too particular to be met by chance."""
    if value.digest is None:
        return False
    floating = is_floating(value.record.dtype)
    if digests.is_evidence(_telling_part(value)):
        return floating or digests.size_and_rms(value.digest)[0] >= _SEVERAL
    if not floating:
        return False
    figures = digests.numbers(_telling_part(value))[1:]
    if not figures:
        return False
    return not all((figure * _SIMPLE).is_integer() for figure in figures[:2])


def ordered_distance(one: Value, other: Value) -> float | None:
    """The relative L2 distance of two values in order; None where it is not known."""
    if one.sketch is None or other.sketch is None or not same_shape(one, other):
        return None
    return float(sketches.distance(one.sketch, other.sketch))


def same_shape(one: Value, other: Value) -> bool:
    """Whether shapes are equal but for axes of length one."""
    return [n for n in one.shape if n != 1] == [n for n in other.shape if n != 1]


def broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether one shape broadcasts to the other."""
    try:
        return np.broadcast_shapes(one, other) in (one, other)
    except ValueError:
        return False
