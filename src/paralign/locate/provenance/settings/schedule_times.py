"""Rates that are the reference's, but set at other steps.

An argument of a schedule says when.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.tracing_back import is_close

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression, ValueGraph

    Rates = Sequence[Sequence[float]]

#: two steps in a row, in which what counts them is looked for
_COUNTED_IN = (2, 3)

#: different rates, and steps that are compared, by which a schedule is known to be late
_TELLING = 4

#: steps by which a schedule counts otherwise than the steps that are made
COUNTED = (0, 1, -1)


def of_times(sides: Sides) -> Blamed | None:
    """The argument of a schedule that names the steps of wrongly timed changes.

    None unless both sides have the same rates in the same order, and one argument names more of these steps than others. A list that the
    reference has as well is right: then it is the call that takes it as it should not.
    """
    moved = _moved(sides.candidate.rates, sides.reference.rates)
    given = _arguments_of_steps(sides.candidate)
    begins = {0, *(number for each in given for number in _steps(each))}
    kept = set(_changes(sides.candidate.rates)) - set(moved)
    for counted in COUNTED:
        steps = [step + counted for step in moved]
        named = {each: _named(each, steps, begins) for each in given}
        greatest = max(named.values(), default=0)
        most = [each for each, count in named.items() if count == greatest]
        if len(most) > 1 and greatest == len(moved):  # an argument whose steps are those of changes at the right time is right
            most = [each for each in most if not kept.issuperset(step + counted for step in _steps(each))]
        if greatest and len(most) == 1:
            return _taken_by(sides, most[0], moved[-1])
    return None


def _taken_by(sides: Sides, given: Expression, step: int) -> Blamed:
    """An argument; the schedule that takes it where the reference has the list too.

    The reference hands it to a schedule, or reads it where one is advanced to a step that differs.
    """
    given_there = [each for call in _schedules(sides.reference) for _, each in call.inputs]
    read = [*given_there, *sides.reference.in_schedule_step(step)]
    is_due = given.mark[0] == "l" and len(_steps(given)) > 1 and any(each.mark == given.mark for each in read)
    calls = [call for call in _schedules(sides.candidate) if call.file == given.file and call.line > given.line]
    taken_by = [call for call in calls if any(each.mark == given.mark for _, each in call.inputs)]
    if is_due and len(taken_by) == 1:
        return Blamed(taken_by[0], [taken_by[0], given])
    return Blamed(given, [given])


def _arguments_of_steps(graph: ValueGraph) -> list[Expression]:
    """The user's arguments of schedules that hold numbers of steps, the last of each line."""
    given = [each for call in _schedules(graph) for _, each in call.inputs]
    return list({each.source: each for each in given if each.file and _steps(each)}.values())


def of_counting(sides: Sides) -> Blamed | None:
    """What a schedule counts its steps by, where its rates are those of a step beside.

    None unless the user's own code reads a number that grows by one with each step.
    """
    if not any(_is_late(sides.candidate.rates, sides.reference.rates, steps) for steps in (1, -1)):
        return None
    own, due = (_growing(graph) for graph in (sides.candidate, sides.reference))
    if not own:
        return None
    strange = [each for each in own if all(each.scalar != other.scalar for other in due)]
    first = _taken(strange[0] if strange else own[-1])
    return Blamed(first, [first]) if first.file else None


def _growing(graph: ValueGraph) -> list[Expression]:
    """The whole numbers of a step that are greater by one in the next."""
    counts = [_whole_numbers(graph.in_schedule_step(step)) for step in _COUNTED_IN]
    grown = [each for place, each in counts[0].items() if place in counts[1] and counts[1][place].scalar == each.scalar + 1]
    return sorted(grown, key=lambda each: each.number)


def _taken(each: Expression) -> Expression:
    """A number that is read; of one that is handed in, what is first computed of it."""
    if each.kind not in ("parameter", "input"):
        return each
    computed = [user for user in each.users if user.kind == "operation" and user.file and not isinstance(user.scalar, bool)]
    return computed[0] if computed else each


def _is_late(own: Rates, due: Rates, steps: int) -> bool:
    """Whether the rates are the reference's of so many steps before, and no others."""
    pairs = [(own[step], due[step - steps]) for step in range(len(own)) if 0 <= step - steps < len(due)]
    told = {tuple(sorted(rates)) for rates in own}
    return len(told) >= _TELLING and len(pairs) >= _TELLING and all(_alike(one, other) for one, other in pairs)


def _whole_numbers(expressions: Sequence[Expression]) -> dict[tuple[str, str, str], Expression]:
    """The first whole number that each place of the user's code made in a step."""
    found: dict[tuple[str, str, str], Expression] = {}
    for each in expressions:
        is_users = bool(each.file) or each.kind == "input"
        if is_users and each.kind != "constant" and type(each.scalar) is int:
            found.setdefault((each.source, each.kind, each.label), each)
    return found


def _named(each: Expression, steps: Sequence[int], begins: Collection[int]) -> int:
    """How many steps an argument holds, counted from a beginning that it does not hold."""
    held = _steps(each)
    return max((sum(step - begin in held for step in steps) for begin in begins if begin not in held), default=0)


def _moved(own: Rates, due: Rates) -> list[int]:
    """The steps of changes that the reference makes at others; none if rates differ."""
    changes = [_changes(rates) for rates in (own, due)]
    if len(own) != len(due) or not own or not _alike(own[0], due[0]):
        return []
    pairs = list(zip(*changes, strict=False))
    if not all(_alike(own[one], due[other]) for one, other in pairs):
        return []
    return [one for one, other in pairs if one != other]


def _changes(rates: Rates) -> list[int]:
    """The steps that have other rates than the one before."""
    return [step for step, (before, now) in enumerate(pairwise(rates), 1) if not _alike(before, now)]


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two steps have the same rates; the groups and their order are each side's own."""
    rates = sorted(one), sorted(other)
    if len(one) != len(other):
        rates = _told_apart(rates[0]), _told_apart(rates[1])
    return len(rates[0]) == len(rates[1]) and all(map(is_close, *rates))


def _told_apart(rates: Sequence[float]) -> list[float]:
    """Rates in ascending order without those that are the one before."""
    return [rate for place, rate in enumerate(rates) if not place or not is_close(rate, rates[place - 1])]


def _schedules(graph: ValueGraph) -> list[Expression]:
    """The calls that construct something between the model and the first step."""
    return [each for each in graph.building() if each.kind == "call" and each.is_object]


def _steps(each: Expression) -> list[int]:
    """The numbers of steps that an argument holds: one whole number, or a list of such."""
    listed = each.mark[1] if each.mark[0] == "l" else [each.scalar]
    whole = [number for number in listed if isinstance(number, int) and not isinstance(number, bool) and number > 0]
    return whole if len(whole) == len(listed) else []
