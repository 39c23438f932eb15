"""Arrays of a few numbers that repeat, which the reference fills in another way.

Ids, classes, rows that an embedding makes of them: each number stands in the reference too, and in an array of this size, but not as often.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from paralign.locate.provenance.search.selections import MANY, are_in
from paralign.locate.provenance.values.expression_counterparts import TELLING
from paralign.locate.provenance.values.value_graph import COMMON
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.locate.provenance.values.value_graph import Expression

#: relative difference of root mean squares up to which two arrays may hold the same
SAME = 1e-4

#: elements from which on an array of few numbers is met by no chance
LONG = 2 * TELLING


class Codes:
    """The arrays of few numbers that the reference has, by their size.

    Args:
        reference: its expressions.
    """

    def __init__(self, reference: Iterable[Expression]) -> None:
        self._sizes: dict[int, list[Expression]] = defaultdict(list)
        for each in reference:
            if each.mark[0] in ("a", "l") and each.numbers is not None and not _is_being_filled(each):
                self._sizes[each.size].append(each)
        self._strange: dict[Expression, bool] = {}

    def is_strange(self, each: Expression) -> bool:
        """Whether the reference has these numbers in such an array, but never as often."""
        if each not in self._strange:
            self._strange[each] = _is_coded(each) and self._is_unknown(each)
        return self._strange[each]

    def _is_unknown(self, each: Expression) -> bool:
        held = self._sizes.get(each.size, ())
        if any(math.isclose(other.rms, each.rms, rel_tol=SAME) for other in held):
            return False
        return any(_is_coded(other) and _shares_most(each, other) for other in held)

    def made_otherwise(self, each: Expression) -> Expression | None:
        """The one operand of a wrong value that is filled in another way; None unless one."""
        found = [inner for inner in _arrays_behind(each) if self.is_strange(inner)]
        return found[0] if len({inner.source for inner in found}) == 1 else None


def _is_being_filled(each: Expression) -> bool:
    """Whether a list is filled further: no part of a program takes it as it is."""
    return any(user.kind == "change" and ("self", each) in user.inputs for user in each.users)


def _is_coded(each: Expression) -> bool:
    """Whether an array holds few numbers again and again, not zero and one alone."""
    numbers = each.numbers
    if each.mark[0] not in ("a", "l") or numbers is None or each.size < LONG or not 1 < numbers.size < each.size:
        return False
    return not COMMON.issuperset(numbers.tolist())


def _shares_most(one: Expression, other: Expression) -> bool:
    """Whether half of the distinct numbers of each are the other's."""
    if one.numbers is None or other.numbers is None:
        return False
    pairs = ((one.numbers, other.numbers), (other.numbers, one.numbers))
    return all(2 * int(are_in(few, many).sum()) >= few.size for few, many in pairs)


def _arrays_behind(each: Expression) -> list[Expression]:
    """The arrays that a value was made of.

    What cannot be compared, as the answer of a layer in two parts, is passed through.
    """
    found: list[Expression] = []
    for inner in reached(each.operands, lambda e: [] if e.numbers is not None else e.operands):
        if inner.mark[0] in ("a", "l") and inner.numbers is not None:
            found.append(inner)
        if len(found) == MANY:
            break
    return found
