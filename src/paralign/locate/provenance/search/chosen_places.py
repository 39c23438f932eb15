"""Arrays of right numbers that were taken from wrong places.

Each number of them stands in the reference's array too, another number of times: what chose the places is at fault, not what takes them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.search.selections import are_in, arrays_of
from paralign.locate.provenance.values.expression_counterparts import TELLING, doing, is_equal, origin
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.locate.provenance.values.value_graph import Expression

#: calls that take elements at places that are given as an array
_TAKING = frozenset({"gather", "gather_nd", "index_select", "take", "take_along_axis", "index_sample"})


class Places:
    """What both sides took from arrays.

    Args:
        reference: its expressions.
        candidate: the other side's.
    """

    def __init__(self, reference: Iterable[Expression], candidate: Iterable[Expression]) -> None:
        self._due, self._own = _by_size(reference), _by_size(candidate)

    def chosen_wrongly(self, each: Expression) -> Expression | None:
        """The places at which a wrong value's numbers were taken; None if all are right."""
        wrong = [each] if self._is_taken_wrongly(each) else [inner for inner in arrays_of(each) if self._is_taken_wrongly(inner)]
        if len(wrong) != 1:
            return None
        way = reached(wrong, lambda e: [inner for inner in arrays_of(e) if self._is_taken_wrongly(inner)])
        return next((places for places in map(_places_of, way) if places is not None), None)

    def _is_taken_wrongly(self, each: Expression) -> bool:
        """Whether the reference has, in place of this array, one of the same numbers."""
        if not _has_repeated_numbers(each) or any(is_equal(each, due) for due in self._due[each.size]):
            return False
        alike = [due for due in self._due[each.size] if _shares_most(each, due)]
        return any(not any(is_equal(own, due) for own in self._own[due.size]) for due in alike)


def _by_size(expressions: Iterable[Expression]) -> dict[int, list[Expression]]:
    found: dict[int, list[Expression]] = defaultdict(list)
    for each in expressions:
        if _has_repeated_numbers(each):
            found[each.size].append(each)
    return found


def _has_repeated_numbers(each: Expression) -> bool:
    """Whether an array has some measured numbers, one of them several times."""
    numbers = each.numbers
    if each.mark[0] != "a" or numbers is None or not TELLING <= numbers.size < each.size:
        return False
    return not _is_whole(each)


def _is_whole(each: Expression) -> bool:
    return each.numbers is not None and bool(np.all(each.numbers == np.round(each.numbers)))


def _shares_most(each: Expression, due: Expression) -> bool:
    """Whether two arrays have most of their numbers in common."""
    if each.numbers is None or due.numbers is None:
        return False
    return 2 * int(np.sum(are_in(each.numbers, due.numbers))) > max(each.numbers.size, due.numbers.size)


def _places_of(taken: Expression) -> Expression | None:
    """The computed array of places by which an expression takes its elements."""
    if taken.kind != "item" and doing(taken) not in _TAKING:
        return None
    indices = [inner for role, inner in taken.values if inner.mark[0] == "a" and role not in ("object", "self") and _is_whole(inner)]
    made = origin(indices[0]) if len(indices) == 1 else None
    return made if made is not None and made.file and made.kind in ("operation", "call") else None
