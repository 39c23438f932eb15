"""A right operand that the reference does not take there.

A step is missing before it, or it is handed over in place of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance.values.expression_counterparts import (
    Counterparts,
    doing,
    is_equal,
    is_many,
    operands,
    origin,
    paired,
    way_back,
)
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from paralign.locate.provenance.values.value_graph import Expression

#: expressions that both sides do alike, of another value each, and that are followed back
FOLLOWED = 8


def place(each: Expression, twin: Expression | None, known: Counterparts) -> Expression | None:
    """Where a right operand of an expression became another than the reference's.

    Args:
        each: a wrong value, made of what the reference has too.
        twin: what the reference makes in its place, as far as that is known.
        known: both sides' expressions.

    Returns:
        The expression to look at; None where it is ``each`` itself, or nobody can tell.
    """
    elsewhere = known.right_elsewhere(each)
    if elsewhere is not None:
        return _parting(each, elsewhere)
    partings = filter(None, (_parting(each, right) for right in known.numbers_right_elsewhere(each)))
    parting = next((own for own in partings if not known.has(own)), None)  # of right values, what computes with them is at fault
    return parting if parting is not None else _followed_back(each, twin, known)


def _followed_back(each: Expression, twin: Expression | None, known: Counterparts) -> Expression | None:
    """Where an operand became another one, followed back through what both sides do alike."""
    if twin is None or not doing(twin) or doing(twin) != doing(each) or is_equal(each, twin):
        twin = known.of(each)
    for _ in range(FOLLOWED):
        apart = None if twin is None else _one_apart(each, twin)
        if apart is None or not is_many(apart[0]):  # a number may be right for others
            return None
        own, step = apart[0], origin(apart[1])
        if known.is_made(step):
            made = known.first_made(step)
            return _of_miswired(own, step, made) or (each if made < each.number else None)
        before = [inner for _, inner in operands(step) if is_equal(own, inner)]
        if before:
            return _of_missing(own, step, before[0], known)
        each, twin = origin(own), step
        if doing(each) != doing(twin):
            return None
    return None


def _parting(each: Expression, right: Expression) -> Expression | None:
    """Where the way to a value parts from the way to a right one of the same line."""
    pairs = reached([(each, right)], lambda pair: _followed(*pair), nearest_first=True)
    return next((own for own, other in pairs if own.source != other.source and own.file), None)


def _followed(own: Expression, other: Expression) -> list[tuple[Expression, Expression]]:
    """What two evaluations of one line take in the same role, where it is not the same."""
    if own.source != other.source or own.kind != other.kind:
        return []
    taken = zip(own.inputs, other.inputs, strict=False)
    return [(one, two) for (role, one), (same, two) in taken if role == same and one is not two]


def _one_apart(each: Expression, twin: Expression) -> tuple[Expression, Expression] | None:
    """The one pair of operands that differ, without those made of another one that does."""
    apart = [pair for pair in paired(each, twin) if is_equal(*pair) is False]
    firsts = [pair for pair in apart if not any(other is not pair and _is_made_of(pair[0], other[0]) for other in apart)]
    return firsts[0] if len(firsts) == 1 else None


def _is_made_of(each: Expression, other: Expression) -> bool:
    first = origin(other)
    return origin(each) is not first and first in reached([each], lambda e: e.operands)


def _of_miswired(own: Expression, due: Expression, made: int) -> Expression | None:
    """Where a value is taken in place of one that the candidate has too.

    At the step that was done to it besides, else where it is handed over; what was handed over before the other one was made (at an event
    of a number) was needed for that.
    """
    maker = origin(own)
    if maker.file and doing(maker) and any(is_equal(inner, due) for _, inner in operands(maker)):
        return maker
    return _handed_over(own, made)


def _handed_over(own: Expression, after: int = -1) -> Expression | None:
    """The first call that handed a value on, after the event of a number; None where none did."""
    handed = [each for each in way_back(own) if each.kind == "parameter" and each.file and each.number > after]
    return handed[-1] if handed else None


def _of_missing(own: Expression, step: Expression, before: Expression, known: Counterparts) -> Expression | None:
    """Where a step of the reference is missing that makes what is due of a value of both.

    Beside the line that does the same with the step's other operand; else where the value is made, if the reference has it for this step
    alone; else where it is handed over.
    """
    beside = known.beside(step, before)
    if len({each.source for each in beside}) == 1:
        return beside[0]
    made = origin(own)
    if made.kind in ("operation", "call") and made.file and made.values and not _is_needed_besides(before, step):
        return made
    return _handed_over(own)


def _is_needed_besides(value: Expression, step: Expression) -> bool:
    """Whether the reference computes something else with a value too."""
    first = origin(value)
    for user in reached([first], lambda each: each.users if each is first or each.is_copy else []):
        if user is not first and user is not step and not user.is_copy and doing(user) and user.mark[0] == "a":
            return True
    return False
