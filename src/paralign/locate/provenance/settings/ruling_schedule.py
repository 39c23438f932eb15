"""Of schedules that are made of others, the one that gives the first wrong rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.tracing_back import is_close
from paralign.locate.provenance.values.expression_counterparts import origin
from paralign.locate.provenance.values.value_graph import COMMON, READINGS, keys_of
from paralign.locate.source.call_arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression, ValueGraph

#: roles in a call that are no arguments, and names that say nothing of what they are given
_ROLES = frozenset({"self", "function", "object", "value", "x", "step", "epoch", "input", "iterable", "key", "other"})


def of_name(sides: Sides) -> Blamed | None:
    """The number of the ruling schedule that the reference calls alike and has otherwise."""
    found = _ruling(sides)
    return None if found is None else _otherwise_named(sides, found[0])


def of_number(sides: Sides) -> Blamed | None:
    """The one number that the ruling schedule takes in place of one of the reference's."""
    found = _ruling(sides)
    beside = None if found is None else found[1] or sides.reference.root("scheduler")
    if found is None or beside is None or beside.kind != "call":
        return None
    return _other_number(sides, found[0], beside)


def of_ruling(sides: Sides) -> Blamed | None:
    """The ruling schedule, where it is one within another.

    The whole one is what is named without provenance.
    """
    found = _ruling(sides)
    if found is None or found[0] is sides.candidate.root("scheduler"):
        return None
    return Blamed(found[0], [found[0]], found[1])


def _ruling(sides: Sides) -> tuple[Expression, Expression | None] | None:
    """What constructs the schedule of the first wrong rates.

    Beside it the reference's, if that is one within another.
    """
    step = _first_wrong(sides.candidate.rates, sides.reference.rates)
    if step is None:
        return None
    own, due = (graph.root(f"ruling:{step}") for graph in (sides.candidate, sides.reference))
    built = own or sides.candidate.root("scheduler")
    return None if built is None or built.kind != "call" or not built.file else (built, due)


def _first_wrong(own: Sequence[Sequence[float]], due: Sequence[Sequence[float]]) -> int | None:
    """The first step in which a group has a rate that none of the reference's has."""
    for step, (rates, others) in enumerate(zip(own, due, strict=False)):
        if not all(any(is_close(rate, other) for other in others) for rate in rates):
            return step
    return None


def _otherwise_named(sides: Sides, built: Expression) -> Blamed | None:
    """What made the one number of a schedule that the reference has otherwise.

    Under every name that both give it.
    """
    known: dict[str, list[Expression]] = {}
    for each in sides.reference.expressions:
        for word in _names(each) if is_number(each.scalar) else ():
            known.setdefault(word, []).append(each)
    strange: list[tuple[Expression, Expression]] = []
    for _, each in built.inputs:
        beside = [other for word in _names(each) for other in known.get(word, ())] if is_number(each.scalar) else []
        if beside and not any(is_close(float(each.scalar), float(other.scalar)) for other in beside):
            strange.append((origin(each), beside[0]))
    if len(strange) != 1 or not strange[0][0].file:
        return None
    made, due = strange[0]
    return Blamed(made, [made, built], due)


def _names(each: Expression) -> set[str]:
    """What a value is called: by readers, calls that are given it, and entries."""
    found = set(keys_of(each)) if each.kind in READINGS or each.kind == "call" else set()
    for user in each.users:
        if user.kind in ("call", "parameter"):
            found |= {role for role, inner in user.inputs if inner is each and not role.isdecimal()}
    return found - _ROLES


def _other_number(sides: Sides, built: Expression, beside: Expression) -> Blamed | None:
    """What made the one number that a schedule takes in place of the reference's.

    Rates are left out: an optimizer may be given them in place of its schedule.
    """
    own = _numbers(built, [*_numbers(beside), *_rates_given(sides.reference)])
    due = _numbers(beside, [*_numbers(built), *_rates_given(sides.candidate)])
    if len(own) != 1 or len(due) != 1 or type(own[0].scalar) is not type(due[0].scalar):
        return None
    made = origin(own[0])
    placed = made if made.file and all(user is built or user.is_copy for user in made.users) else built
    return Blamed(placed, [placed, built], due[0])


def _numbers(built: Expression, others: Sequence[Expression] = ()) -> list[Expression]:
    """The numbers that a schedule is built with and others are not.

    Those that any may have are left out.
    """
    found = []
    for _, each in built.inputs:
        is_telling = is_number(each.scalar) and each.scalar not in COMMON
        if is_telling and not any(is_close(float(each.scalar), float(other.scalar)) for other in others):
            found.append(each)
    return found


def _rates_given(graph: ValueGraph) -> list[Expression]:
    """The numbers that the optimizer and its schedule are given."""
    return [each for root in graph.roots(("optimizer", "scheduler")) for _, each in root.inputs if is_number(each.scalar)]
