"""What an expression says of itself, whatever the reference has."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from paralign.locate.provenance.values.counts import COMPARISONS, is_count
from paralign.locate.provenance.values.expression_counterparts import TELLING
from paralign.locate.provenance.values.value_graph import COMMON, SAME_RMS, SHORT, behind
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paralign.locate.provenance.values.value_graph import Expression


def is_short_list(each: Expression) -> bool:
    """Whether a value is a list of a few plain values, of which not all are the same."""
    if each.mark[0] != "l" or not 1 < len(each.mark[1]) <= SHORT:
        return False
    return len(set(sorted_elements(each))) > 1


def sorted_elements(each: Expression) -> tuple[str, ...]:
    """What a list holds, in whatever order."""
    return tuple(sorted(map(repr, each.mark[1])))


def deciding(root: Expression, shared: Collection[Expression]) -> list[Expression]:
    """A right value and what decided on it: zero is zero times anything.

    A part of a container says nothing of it where another part (it is ``shared``) leads to what is wrong.
    """

    def decided(each: Expression) -> list[Expression]:
        if not each.is_copy and is_common_number(each):
            return []
        return [inner for _, inner in each.inputs if inner not in shared or not is_taken_out(each, inner)]

    return list(reached([root], decided))


def is_taken_out(each: Expression, container: Expression) -> bool:
    """Whether a value is only a part of what it was taken from."""
    return each.kind in ("element", "item") and container.mark[0] in ("a", "l") and container.size > each.size


def are_whole_numbers(each: Expression) -> bool:
    """Whether an index is made of whole numbers alone."""
    if each.kind == "display":
        return all(are_whole_numbers(inner) for _, inner in each.values)
    return is_count(each) or isinstance(each.scalar, int)


def has_telling_order(each: Expression) -> bool:
    """Whether the order of an array's or list's elements tells something."""
    if each.mark[0] not in ("a", "l") or each.numbers is None:
        return False
    return each.numbers.size >= TELLING or (each.numbers.size > 1 and each.size >= 2 * TELLING)


def numbered_roles(values: Sequence[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    """What an expression takes, roles that occur again told apart: ``x[a:b, c:d]``."""
    count: Counter[str] = Counter()
    found = []
    for role, inner in values:
        count[role] += 1
        found.append((role if count[role] == 1 else f"{role} {count[role]}", inner))
    return found


def uncompared_operands(each: Expression) -> Sequence[Expression]:
    """What a value was made of, but not what was only compared."""
    return () if is_common_number(each) or each.label in COMPARISONS else each.operands


def is_common_number(each: Expression) -> bool:
    """Whether a value is a number that any other operands might have given too."""
    return each.mark[0] == "s" and each.scalar in COMMON


def identity(each: Expression) -> tuple[str, str, str, str]:
    """What tells that an expression made the same once more."""
    return each.source, each.kind, each.label, str(each.mark[:3])


def lacks_an_operand(each: Expression, inner: Expression, twin: Expression | None) -> bool:
    """Whether a constant lacks one operation with another number: ``total`` for ``total - 4``."""
    leaf = inner.uncopied
    own, due = single_number(leaf), None if twin is None else single_number(twin)
    if leaf.values or own is None or due is None:
        return False
    for other in behind(each):
        if other.mark[0] != "s" or other.kind == "input" or other.numbers is None or is_common_number(other) or other.scalar in (own, due):
            continue
        number = float(other.scalar)
        made = (own + number, own - number, own * number, own / number)
        if any(math.isclose(result, due, rel_tol=SAME_RMS) for result in made):
            return True
    return False


def single_number(each: Expression) -> float | None:
    """The number that a value of one number holds."""
    return float(each.numbers[0]) if each.numbers is not None and each.numbers.size == 1 else None
