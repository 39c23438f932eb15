"""Arrays that hold other rows than the reference's.

Each number of them stands there too, so their numbers alone tell nothing.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.values.expression_counterparts import order_sums
from paralign.locate.provenance.values.readings import taken_as
from paralign.locate.provenance.values.seen_values import SAME
from paralign.locate.provenance.values.value_graph import SAME_RMS
from paralign.locate.reaching import reached
from paralign.worker.instrumentation.value_marks import order_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from paralign.locate.provenance.values.value_graph import Expression, Numbers

#: distinct numbers from which on an array is told from others by which of them it holds
FEW = 8

#: what is no further from zero is zero
NOUGHT = 1e-12

#: how many times as many numbers one selection may hold as the other
TWICE = 2.0

#: arrays of a list that are looked at, the first ones: each is compared with all of the reference's
MANY = 64


class Selections:
    """The arrays of measured numbers that the reference has, each as a whole.

    Args:
        reference: its expressions.
    """

    def __init__(self, reference: Iterable[Expression]) -> None:
        self._whole: dict[int, list[Numbers]] = defaultdict(list)
        self._sizes: dict[int, list[tuple[Expression, Numbers]]] = defaultdict(list)
        known: set[bytes] = set()
        for each in reference:
            numbers = _measured(each)
            if numbers is None:
                continue
            self._sizes[each.size].append((each, numbers))
            if (held := numbers.tobytes()) not in known:
                known.add(held)
                self._whole[numbers.size].append(numbers)
        self._strange: dict[Expression, bool] = {}

    def is_strange(self, each: Expression) -> bool:
        """Whether the reference has no array of just these numbers, each as often."""
        if each not in self._strange:
            numbers = _measured(each)
            self._strange[each] = numbers is not None and self._is_unknown(each, numbers)
        return self._strange[each]

    def _is_unknown(self, each: Expression, numbers: Numbers) -> bool:
        if not any(within(numbers, other) for other in self._whole.get(numbers.size, ())):
            return True
        held = self._sizes.get(each.size, ())
        same = [other for other, known in held if known.size == numbers.size and within(numbers, known)]
        may_be = [other for other in same if _may_be_one(each, other)]
        return bool(same) and not may_be

    def is_selection(self, each: Expression) -> bool:
        """Whether the reference has an array of some more or fewer numbers in its place."""
        if not self.is_strange(each):
            return False
        numbers = _measured(each)
        if numbers is None:
            return False
        for size, arrays in self._whole.items():
            if size > TWICE * numbers.size or numbers.size > TWICE * size:
                continue
            if any(within(*sorted((numbers, other), key=len)) for other in arrays):
                return True
        return self.is_other_choice(each)

    def is_other_choice(self, each: Expression) -> bool:
        """Whether the reference takes other numbers of a right array, and these nowhere.

        Half of what it takes is the same.
        """
        numbers = _measured(each)
        held = taken_as(each, "object") if each.kind == "item" else None
        if numbers is None or held is None or held.numbers is None:
            return False
        if self.is_other_choice(held) or not within(numbers, held.numbers):
            return False
        is_known = False
        near = self._at_least(numbers.size / TWICE)
        for array in near:
            if within(held.numbers, array):
                is_known = True
            elif within(numbers, array):
                return False  # these numbers are taken there too
        if not is_known:
            return False  # the array itself is not the reference's
        comparable = [array for array in near if array.size <= TWICE * numbers.size]
        return any(_is_half_shared(numbers, array) for array in comparable)

    def _at_least(self, size: float) -> list[Numbers]:
        """The reference's arrays of at least so many numbers."""
        return [array for known, arrays in self._whole.items() if known >= size for array in arrays]

    def is_cut_wrongly(self, root: Expression) -> bool:
        """Whether a selection leads back to an array made of the reference's own arrays."""
        if not self.is_selection(root):
            return False
        for each in reached([root], lambda e: [inner for inner in arrays_of(e) if self.is_strange(inner)]):
            held = arrays_of(each)
            if held and not any(map(self.is_strange, held)):
                return True
        return False


def _is_half_shared(numbers: Numbers, array: Numbers) -> bool:
    """Whether an array has half of some numbers or more, and not all of them."""
    count = int(np.sum(are_in(numbers, array)))
    return numbers.size <= 2 * count < 2 * numbers.size


def arrays_of(each: Expression) -> list[Expression]:
    """The arrays that a value was made of, those in lists among them; of very many the first."""
    is_series = each.kind == "display"  # of a comprehension: its elements are made one by one of those of another array

    def inside(e: Expression) -> list[Expression]:
        is_made_singly = is_series and e.mark[0] == "s" and e.kind in ("operation", "element")
        if _is_array(e) or not (e.kind == "display" or e.is_copy or is_made_singly):
            return []
        return e.operands

    found = reached(each.operands, inside)
    return list(itertools.islice(filter(_is_array, found), MANY))


def _is_array(each: Expression) -> bool:
    """Whether a value is an array, or a list of as many numbers as tell one from another."""
    return each.mark[0] == "a" or (each.mark[0] == "l" and each.numbers is not None and each.numbers.size >= FEW)


def _may_be_one(each: Expression, other: Expression) -> bool:
    """Whether two arrays of the same numbers may be one: rows hold them in one order."""
    if not math.isclose(each.rms, other.rms, rel_tol=SAME_RMS):
        return False
    if not (_is_row(each) and _is_row(other)) or _is_sorted(each) or _is_sorted(other):
        return True
    return _is_in_order(each, order_sums(other))


def _is_in_order(each: Expression, sums: list[float] | None) -> bool:
    """Whether elements are in the order that sums tell."""
    own = order_sums(each)
    return own is not None and sums is not None and bool(np.allclose(own, sums, rtol=1e-4, atol=1e-5))


def _is_sorted(each: Expression) -> bool:
    """Whether elements go up or down all along: in that order they are put, not left."""
    numbers = each.numbers
    if numbers is None or numbers.size != each.size:
        return False
    return any(_is_in_order(each, order_of(way)) for way in (numbers, numbers[::-1]))


def _is_row(each: Expression) -> bool:
    """Whether an array has one axis alone, along which nothing turns its elements over."""
    if each.mark[0] == "l":
        return True
    long = [size for size in each.mark[1] if size > 1]
    return len(long) == 1


def _measured(each: Expression) -> Numbers | None:
    """The distinct measured numbers of an array; None for counts, masks, few numbers."""
    numbers = each.numbers
    if not _is_array(each) or numbers is None or numbers.size < FEW or bool(np.all(numbers == np.round(numbers))):
        return None
    apart = np.diff(numbers) > SAME * np.abs(numbers[1:]) + NOUGHT
    kept: Numbers = numbers[np.concatenate([[True], apart])]
    return kept


def within(few: Numbers, many: Numbers) -> bool:
    """Whether each of some numbers is one of others, but for what float32 rounds."""
    return bool(np.all(are_in(few, many)))


def are_in(few: Numbers, many: Numbers) -> npt.NDArray[np.bool_]:
    """Which of some numbers are among others, but for what float32 rounds."""
    place = np.searchsorted(many, few)
    near = [many[np.clip(place + step, 0, many.size - 1)] for step in (-1, 0)]
    far = np.minimum(*(np.abs(each - few) for each in near))
    found: npt.NDArray[np.bool_] = far <= SAME * np.abs(few) + NOUGHT
    return found
