"""Values that are a part of one of the reference's: a column, a half, a coordinate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.capture import sketch as sketches
from paralign.locate.reaching import reached
from paralign.locate.runs.counterparts import ALIKE, is_telling
from paralign.locate.runs.traverse import computing_users, makers
from paralign.locate.runs.value_index import Values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from paralign.capture.passes import Figures
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: axes up to this length are taken apart
LONGEST = 16

#: elements of all values that are taken apart, at most
MOST = 1 << 24

#: what a number does to all elements alike
SCALING = ("multiply", "divide")

#: parts up to this distance are the same
SAME = 1e-6


class Slices:
    """The parts of some of the reference's values, by what they hold.

    Args:
        arrays: the values, the last the one that is due at the end of what they lead to.
        masks: values of numbers alone, known but for a positive factor.
        unscaled: those of the values that are right only where a number multiplies them next.
    """

    def __init__(self, arrays: Iterable[np.ndarray], masks: Iterable[np.ndarray] = (), unscaled: Iterable[np.ndarray] = ()) -> None:
        self._unscaled: Values[None] = Values(SAME)
        for value in unscaled:
            self._unscaled.add(digests.moments(value), None)
        self._masks = [digests.figures(digests.moments(mask)) for mask in masks]
        self._known: Values[np.ndarray] = Values(SAME)
        taken = 0
        for value in arrays:
            taken += value.size
            if taken > MOST:
                break
            for part in _parts(value):
                self._known.add(digests.moments(part), part)

    def holds(self, value: Value) -> bool:
        """Whether a value is a part of a known one, in its order as far as that shows."""
        if value.digest is None:
            return False
        same = self._known.find(value.digest)
        alike = [part for part in same if _same_shape(part, value)]
        if alike and value.sketch is not None:
            return any(sketches.distance(sketches.sketch(part), value.sketch) <= ALIKE for part in alike)
        if same:
            return True
        return value.unmasked is not None and value.unmasked in self._known

    def _is_mask(self, value: Value) -> bool:
        """Whether a value is a known mask times any positive factor."""
        if value.digest is None:
            return False
        own = digests.figures(value.digest)
        return any(_is_scaled(own, known) for known in self._masks)

    def _lacks_scale(self, value: Value) -> bool:
        """Whether a value that has to be scaled goes on without that."""
        if value.digest is None or value.digest not in self._unscaled:
            return False
        return not any(user.kind in SCALING for user in computing_users(value))

    def first_wrong(self, judgement: Judgement, region: Sequence[Operation]) -> Operation | None:
        """A region's first operation that makes of right parts what is no part.

        None where no value of the region is such a part. What leads to parts that are right in the end is not to blame.
        """
        fine: set[Value] = set()
        bare: set[Value] = set()
        held: set[Value] = set()
        suspects: list[Operation] = []
        for operation in region:
            made = operation.outputs
            good = _takes_right(judgement, operation, fine)
            if _takes_numbers(operation, bare):
                bare.update(made)
            if bare.issuperset(made) and all(map(self._is_mask, made)):
                fine.update(made)
            elif good and any(map(self._lacks_scale, made)):
                return operation
            elif all(map(self.holds, made)):
                held.update(filter(is_telling, made))
                fine.update(made)
            elif good and operation.kind in MOVES and len(operation.inputs) == 1:
                fine.update(made)
            elif good:
                suspects.append(operation)
        if not held:
            return None
        innocent = _ways(held)
        return next((o for o in suspects if o not in innocent), None)


def _takes_right(judgement: Judgement, operation: Operation, fine: set[Value]) -> bool:
    """Whether all that an operation takes is right, is given, or is a part of what is right."""
    for value in operation.inputs:
        if value.maker is None or value in fine:
            continue
        if not judgement.is_right(value):
            return False
    return True


def _takes_numbers(operation: Operation, bare: set[Value]) -> bool:
    """Whether all that an operation takes was computed of numbers alone, or could be."""
    for value in operation.inputs:
        if value.maker is None or value in bare:
            continue
        if is_telling(value):
            return False
    return True


def _same_shape(part: np.ndarray, value: Value) -> bool:
    """Whether an array has the shape of a value, but for axes of length one."""
    return [n for n in part.shape if n != 1] == [n for n in value.shape if n != 1]


def _is_scaled(own: Figures, known: Figures) -> bool:
    """Whether figures are those of a mask times any positive factor."""
    if (own.rms > 0) != (known.rms > 0):
        return False
    return all(abs(a - b) <= SAME for a, b in zip(own.shares(), known.shares(), strict=False))


def _ways(values: Iterable[Value]) -> set[Operation]:
    """All operations on the way to values."""
    return set(reached(makers(values), lambda operation: makers(operation.inputs)))


def _parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array, and its slices along short axes, halves, thirds and every other element."""
    yield array
    for axis, length in enumerate(array.shape):
        if 1 < length <= LONGEST:
            yield from (np.take(array, place, axis) for place in range(length))
        for count in (2, 3, 4):
            if length > count and length % count == 0:
                yield from np.split(array, count, axis)
        if length > 2 and length % 2 == 0:  # noqa: PLR2004 - pairs
            yield from (array[(slice(None),) * axis + (slice(begin, None, 2),)] for begin in (0, 1))
