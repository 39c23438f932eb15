"""The operand that a wrong result's counterpart does not have, where each seems right.

An operand seems right where its numbers are the reference's in another order, or where its error cancels out in another result. That the
reference, with the same other operands, takes something else at that place shows that it is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.values.expression_counterparts import doing, is_equal, operands, origin, paired
from paralign.locate.provenance.values.seen_values import Seen
from paralign.locate.provenance.values.value_graph import SAME_RMS
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.locate.provenance.values.expression_counterparts import Counterparts
    from paralign.locate.provenance.values.value_graph import Expression

#: elements from which on the order of an array can tell it from another one
FEW = 4


@dataclass(frozen=True)
class Apart:
    """An operand of the candidate's beside what the reference takes at its place."""

    own: Expression
    due: Expression

    @property
    def is_only_ordered(self) -> bool:
        """Whether both have the same numbers."""
        return is_alike(self.own, self.due) is True


def differing(each: Expression, twin: Expression | None, known: Counterparts) -> Apart | None:
    """The one operand that an expression's counterpart has otherwise; None unless it is one.

    Args:
        each: a wrong value.
        twin: what the reference makes in its place, as far as that is known.
        known: both sides' expressions.
    """
    if twin is None or not _is_counterpart(twin, each):
        twin = known.of(each)
    if twin is None:
        return None
    pairs = [_of_one_size(own, due) for own, due in paired(each, twin)]
    apart = [pair for pair in pairs if is_alike(pair.own, pair.due) is False]
    found = _made_first(apart) or [pair for pair in pairs if has_other_order(pair.own, pair.due)]
    return Apart(_first_of_order(found[0].own), found[0].due) if len(found) == 1 else None


def _made_first(apart: Sequence[Apart]) -> list[Apart]:
    """The operands of which none is made of another one."""
    return [pair for pair in apart if not any(other is not pair and _is_made_of(pair.own, other.own) for other in apart)]


def _is_counterpart(twin: Expression, each: Expression) -> bool:
    """Whether what the reference makes in a value's place is made by the same step.

    Then another operand of it is the same, or there is only one.
    """
    if not doing(twin) or doing(twin) != doing(each) or is_equal(each, twin) is not False:
        return False
    return _shares_one(each, twin) or all(len(_arrays_and_lists(side)) == 1 for side in (each, twin))


def _arrays_and_lists(each: Expression) -> list[Expression]:
    """The operands that hold several numbers."""
    return [inner for _, inner in operands(each) if inner.numbers is not None and inner.mark[0] in ("a", "l")]


def is_alike(one: Expression, other: Expression) -> bool | None:
    """Whether two values have the same numbers, in proportion; None where nobody can tell.

    One may repeat the other along an axis, as a mask that is expanded does.
    """
    if one.numbers is None or other.numbers is None or one.size == other.size:
        return is_equal(one, other)
    if not math.isclose(one.rms, other.rms, rel_tol=SAME_RMS):
        return False
    return Seen([other]).has_numbers(one.numbers) and Seen([one]).has_numbers(other.numbers)


def has_other_order(one: Expression, other: Expression) -> bool:
    """Whether two arrays of the same numbers have them in another order."""
    if one.mark[0] != "a" or other.mark[0] != "a" or one.size != other.size or one.size < FEW:
        return False
    return is_equal(one, other) is True and not _has_order_of(one, other)


def is_repeated(each: Expression) -> bool:
    """Whether an array only repeats an operand along axes, as broadcasting does."""
    return any(_is_spread(inner, each) for _, inner in operands(each))


def _is_spread(inner: Expression, each: Expression) -> bool:
    if inner.mark[0] != "a" or each.mark[0] != "a" or inner.size >= each.size or is_alike(inner, each) is not True:
        return False
    return all(size in (1, due) for size, due in zip(inner.mark[1][::-1], each.mark[1][::-1], strict=False))


def _has_order_of(one: Expression, other: Expression) -> bool:
    return bool(np.allclose(one.mark[2], other.mark[2], rtol=1e-4, atol=1e-5))


def _of_one_size(own: Expression, due: Expression) -> Apart:
    """The values themselves, or what they repeat, where only these have one size."""
    ways = [[each, *_repeated(each)] for each in (own, due)]
    sized = [(one, other) for one in ways[0] for other in ways[1] if one.size == other.size]
    return Apart(*sized[0]) if sized else Apart(own, due)


def _repeated(each: Expression) -> Sequence[Expression]:
    """What a value repeats along axes, the nearest first."""
    return list(
        reached([each], lambda e: [inner for inner in e.operands if e.is_copy or _is_same_or_spread(inner, e)], nearest_first=True)
    )[1:]


def _is_same_or_spread(inner: Expression, each: Expression) -> bool:
    if inner.mark[0] != "a" or each.mark[0] != "a":
        return False
    return _is_spread(inner, each) or (inner.size == each.size and is_equal(inner, each) is True)


def _first_of_order(own: Expression) -> Expression:
    """What made a value in its order: later steps change its shape or type alone."""
    way = reached([own], lambda e: [inner for inner in e.operands if e.is_copy or _is_handed_on(inner, e)], nearest_first=True)
    return list(way)[-1]


def _is_handed_on(inner: Expression, each: Expression) -> bool:
    if inner.mark[0] != "a" or each.mark[0] != "a" or inner.size != each.size:
        return False
    return _has_order_of(inner, each) and is_equal(inner, each) is True


def _shares_one(each: Expression, twin: Expression) -> bool:
    return any(own.numbers is not None and is_alike(own, due) is True for own, due in paired(each, twin))


def _is_made_of(each: Expression, other: Expression) -> bool:
    first = origin(other)
    return origin(each) is not first and first in reached([each], lambda e: e.operands)
