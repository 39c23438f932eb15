"""Arrays of whole numbers and masks, whose numbers stand everywhere.

Numbers alone do not tell which of them the reference has.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.values.seen_values import Seen
from paralign.locate.provenance.values.value_graph import COMMON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.locate.provenance.values.value_graph import Expression

#: comparisons of numbers: a mask of one may be another one's with a wrong edge
COMPARISONS = frozenset({"Lt", "LtE", "Gt", "GtE", "Eq", "NotEq"})

#: elements from which on the order of an array tells it from another one
FEW = 8


def is_count(each: Expression) -> bool:
    """Whether a value is an array of whole numbers, or a mask, long enough to be told."""
    numbers = each.numbers
    return numbers is not None and each.mark[0] == "a" and each.size >= FEW and bool(np.all(numbers == np.round(numbers)))


def is_counted(value: Expression, user: Expression) -> bool:
    """Whether a mask was made of real numbers: what is greater than what says little of them."""
    numbers = user.numbers
    is_mask = numbers is not None and is_count(user) and len(np.unique(numbers)) <= 2  # noqa: PLR2004 - true and false
    return is_mask and value.numbers is not None and value.mark[0] == "a" and not is_count(value)


class Counts:
    """The arrays of whole numbers that the reference has.

    Args:
        reference: all its expressions.
    """

    def __init__(self, reference: Iterable[Expression]) -> None:
        held = [each for each in reference if is_count(each)]
        self._seen = Seen(held, [0.0])
        self._made: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._sizes = {each.size for each in held}
        for each in held:
            self._made[_operation(each)].add(math.prod(each.mark[1]))

    def is_right(self, each: Expression) -> bool | None:
        """Whether one whose numbers were seen is the reference's.

        It is not, where the reference has as many elements of the same operation, and no such result; of a mask it cannot be told else.
        """
        if self._seen.has_ordered(each):
            return True
        made = each.kind in ("operation", "call") and each.size in self._made.get(_operation(each), ())
        if made:
            return False
        return None if each.numbers is not None and set(each.numbers.tolist()) <= COMMON else True

    def lacks(self, each: Expression) -> bool | None:
        """What is known of one whose numbers were not seen: False, or None.

        None where the reference has none of that size: then it goes another way, as with a table of places where the
        reference cuts its pieces out one by one.
        """
        return False if each.size in self._sizes else None


def _operation(each: Expression) -> tuple[str, str]:
    """What made a value; all comparisons are one."""
    return each.kind, "compare" if each.label in COMPARISONS else each.word
