"""Which values of two runs are the same, by what they hold.

A value of the candidate is held against all values of the reference of as many elements. Digests do not see order, so a transposed,
reshaped or differently laid out value is found as well; where two values have the same shape, sketches tell whether the order is the
same too. The search goes by size and root mean square and looks at a few digests only, however many there are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import digest as digests
from paralign.capture import sketch as sketches
from paralign.dtypes import is_floating

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.locate.graph import Graph, Operation, Value

#: a distance up to this still suggests that two values stand at the same place
ALIKE = 0.05

#: values whose figures are such simple numbers are found by chance
_SIMPLE = 1024

#: integers from this many on are not met by chance
_SEVERAL = 24

#: figures that all forms of digests have
_COMMON = 6

#: values that are compared one by one; of more, those with the nearest figures
_FEW = 64


class Matches:
    """The values of a reference run, to be found by those of a candidate run.

    Args:
        reference: the graph of the reference's run.
        equal: digests up to this distance are those of one value.
    """

    def __init__(self, reference: Graph, equal: float) -> None:
        self.reference, self.equal = reference, equal
        groups: dict[float, list[tuple[float, Value]]] = defaultdict(list)
        for value in dict.fromkeys(reference.values.values()):
            if value.digest is not None:
                size, rms = digests.size_and_rms(value.digest)
                groups[size].append((rms, value))
        self._groups = {size: sorted(found, key=lambda item: item[0]) for size, found in groups.items()}
        self._scales = {size: [rms for rms, _ in found] for size, found in self._groups.items()}
        self._figures = {size: np.array([_figures(v.digest) for _, v in found]) for size, found in self._groups.items()}
        self._equal: dict[str, list[Value]] = {}
        self._near: dict[Value, tuple[float, Value | None]] = {}

    def equals(self, value: Value) -> list[Value]:
        """The reference's values that hold the same elements, in the order in which they were seen; in any order of elements."""
        if value.digest is None:
            return []
        if value.digest not in self._equal:
            found = [v for d, v in self._within(value.digest, self.equal) if d <= self.equal]
            self._equal[value.digest] = sorted(found, key=lambda v: v.order)
        return self._equal[value.digest]

    def nearest(self, value: Value) -> tuple[float, Value | None]:
        """Distance and value of the reference's nearest value, None where none is alike (see ``ALIKE``)."""
        if value not in self._near:
            same = self.equals(value)
            if same and value.digest is not None:
                best = min(same, key=lambda v: (digests.distance(v.digest or "", value.digest or ""), v.order))
                self._near[value] = (digests.distance(best.digest or "", value.digest), best)
            else:
                near = self._within(value.digest, ALIKE) if value.digest is not None else []
                self._near[value] = min(near, key=lambda item: item[0], default=(math.inf, None))
        return self._near[value]

    def _within(self, digest: str, limit: float) -> list[tuple[float, Value]]:
        size, rms = digests.size_and_rms(digest)
        found = self._groups.get(size, [])
        if not found:
            return []
        scales = self._scales[size]
        first, last = bisect_left(scales, rms * (1 - 2 * limit) - 1e-300), bisect_left(scales, rms * (1 + 2 * limit) + 1e-300)
        last = max(last, first + (first < len(found) and scales[first] == rms))
        places = np.arange(first, last)
        if len(places) > _FEW:
            own = _figures(digest)
            gaps = np.abs(self._figures[size][first:last] - own) / np.maximum(1.0, np.abs(own))
            places = places[gaps.max(axis=1) <= 2 * limit]
        near = ((digests.distance(found[place][1].digest or "", digest), found[place][1]) for place in places)
        return [(far, value) for far, value in near if far <= limit]


def _figures(digest: str | None) -> list[float]:
    """The figures of a digest that are multiples of its root mean square."""
    return list(digests.figures(digest or digests.EMPTY).shares()[:_COMMON])


def is_telling(value: Value) -> bool:
    """Whether a value is so particular that it is not met by chance: no constants, no few small or simple numbers."""
    if value.digest is None:
        return False
    if digests.is_evidence(value.digest):
        return is_floating(value.record.dtype) or digests.size_and_rms(value.digest)[0] >= _SEVERAL
    if not is_floating(value.record.dtype):
        return False
    figures = digests.numbers(value.digest)[1:]
    return bool(figures) and not all((figure * _SIMPLE).is_integer() for figure in figures[:2])


def ordered_distance(one: Value, other: Value) -> float | None:
    """The relative L2 distance of two values of the same shape but for axes of length one; None where it is not known."""
    if one.sketch is None or other.sketch is None or not same_shape(one, other):
        return None
    return float(sketches.distance(one.sketch, other.sketch))


def same_shape(one: Value, other: Value) -> bool:
    """Whether shapes are equal but for axes of length one."""
    return [n for n in one.shape if n != 1] == [n for n in other.shape if n != 1]


def users_of(values: Iterable[Value]) -> list[Operation]:
    """The operations that take any of these values, in order, each once."""
    found = {id(user): user for value in values for user in value.users}
    return sorted(found.values(), key=lambda operation: operation.order)
