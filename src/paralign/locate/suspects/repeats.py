"""Other calls of a line at fault: what is due there, and which of them one run explains."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING

from paralign.capture import digest as digests
from paralign.locate.reaching import reached
from paralign.locate.runs.construction import own_line
from paralign.locate.runs.dataflow import Value
from paralign.locate.runs.traverse import makers
from paralign.locate.suspects.patch_evidence import improved

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from paralign.locate.runs.dataflow import Graph, Operation
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.types import Guilt


class Shown(Enum):
    """What a run with the reference's values at further calls shows of one of them."""

    #: it has the fault as well
    FAULT = "fault"
    #: it makes what is due
    RIGHT = "right"
    #: it makes another of the reference's values: it is none of these calls
    OTHER = "other"
    #: something else is wrong on the way there, or what follows becomes no better
    NOTHING = "nothing"


#: innermost lines that two calls have in common: that of the operation, and the one that calls its function
CALLING = 2


@dataclass(frozen=True)
class Repeat:
    """A wrong result of another call of a line at fault, and the value that is due there.

    ``steps`` are the operations that do there what the fault's did; ``alike``: other lines called them.
    """

    guilt: Guilt
    value: Value
    due: Value
    steps: frozenset[Operation] = frozenset()
    alike: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """The number of its operation, and the place among the results."""
        maker = self.value.maker
        return (-1 if maker is None else maker.number, self.value.place)


def of_fault(judgement: Judgement, guilt: Guilt, suspects: Collection[Operation]) -> list[Repeat]:
    """Wrong results of other calls of a fault's line, where it is known what is due there.

    Args:
        judgement: of the run as it is now.
        guilt: a confirmed fault.
        suspects: operations that are to be explained.
    """
    trial = guilt.trial
    maker, other = trial.value.maker, trial.due.maker
    if maker is None or other is None or maker.written or other.written:
        return []
    calls = _calls(judgement, guilt, suspects)
    due = _of_line(judgement, maker, other) or _of_calls(judgement, maker, other, calls)
    found: list[Repeat] = []
    for operation, theirs in due.items():
        if operation.number == maker.number:
            continue
        made, wanted = _result(operation, trial.value.place), _result(theirs, trial.due.place)
        if made is None or wanted is None or judgement.is_right(made):
            continue
        steps = frozenset(calls.get(operation, {operation}))
        found.append(Repeat(guilt, made, wanted, steps, operation.stack[:CALLING] != maker.stack[:CALLING]))
    return found


def _result(operation: Operation, place: int) -> Value | None:
    """What an operation makes at a place; None where it makes fewer results."""
    for value in operation.outputs:
        if value.place == place:
            return value
    return None


def apart(judgement: Judgement, guilts: Sequence[Guilt], suspects: Collection[Operation]) -> list[Repeat]:
    """What may repeat several faults; a call that two could explain counts for the first."""
    found: list[Repeat] = []
    numbers = {o.number for guilt in guilts for o in guilt.trial.region}
    taken = {o for o in judgement.candidate.operations if o.number in numbers}
    for guilt in guilts:
        new = [each for each in of_fault(judgement, guilt, suspects) if taken.isdisjoint(each.steps)]
        found += new
        taken.update(*(each.steps for each in new))
    return found


def closeness(judgement: Judgement, guilt: Guilt, suspects: set[Operation]) -> int:
    """How much a fault resembles suspects.

    2 where another call from the same line has one, 1 where a call from another line does, else 0.
    """
    for lines in (CALLING, 1):
        if _concern(_calls_of(judgement, guilt, lines), suspects):
            return lines
    maker, other = guilt.trial.value.maker, guilt.trial.due.maker
    if maker is None or other is None:
        return 0
    return int(not suspects.isdisjoint(_of_line(judgement, maker, other)))


def _concern(calls: Mapping[Operation, set[Operation]], suspects: Collection[Operation]) -> bool:
    """Whether one of some calls has a suspect among its operations."""
    return any(not steps.isdisjoint(suspects) for steps in calls.values())


def _of_line(judgement: Judgement, maker: Operation, other: Operation) -> dict[Operation, Operation]:
    """The operations of a line and kind, where the reference's line does as many: in order."""
    first = judgement.candidate.numbered(maker.number)
    if first is None:
        return {}
    own, theirs = _of_own_line(judgement.candidate, first), _of_own_line(judgement.reference, other)
    if len(own) != len(theirs) or own.index(first) != theirs.index(other):
        return {}
    return dict(zip(own, theirs, strict=True))


def _of_own_line(graph: Graph, first: Operation) -> list[Operation]:
    """The operations of the line and kind of another one, that one too."""
    line = own_line(graph, first)
    found: list[Operation] = []
    for operation in graph.operations:
        if operation.kind != first.kind or operation.written:
            continue
        if own_line(graph, operation) == line:
            found.append(operation)
    return found


def _calls(judgement: Judgement, guilt: Guilt, suspects: Collection[Operation]) -> dict[Operation, set[Operation]]:
    """The calls from the same line; from any line, where no suspect is among these."""
    from_same_line = _calls_of(judgement, guilt, CALLING)
    if _concern(from_same_line, suspects):
        return from_same_line
    return _calls_of(judgement, guilt, 1)


def _calls_of(judgement: Judgement, guilt: Guilt, lines: int) -> dict[Operation, set[Operation]]:
    """The calls that do what a fault's operations did, with the innermost lines in common.

    The last operation of each -> all of them.
    """
    maker = guilt.trial.value.maker
    if maker is None:
        return {}
    inside = {*guilt.trial.region, maker}
    found: dict[Operation, set[Operation]] = {}
    for operation in judgement.candidate.operations:
        if operation.kind != maker.kind or operation.stack[:lines] != maker.stack[:lines]:
            continue
        steps = _same_steps(maker, operation, inside)
        if steps:
            found[operation] = steps
    return found


def _same_steps(operation: Operation, other: Operation, inside: Collection[Operation]) -> set[Operation]:
    """The operations of another call that do the same; empty where it does otherwise.

    Args:
        operation: the last one.
        other: that of the other call.
        inside: the operations.
    """
    seen: set[Operation] = set()
    found: set[Operation] = set()
    todo = [(operation, other)]
    while todo:
        one, two = todo.pop()
        if one in seen:
            continue
        if (one.kind, one.op, one.source, one.written, len(one.inputs)) != (two.kind, two.op, two.source, two.written, len(two.inputs)):
            return set()
        seen.add(one)
        found.add(two)
        for mine, theirs in zip(one.inputs, two.inputs, strict=True):
            if mine.maker is None or mine.maker not in inside:
                continue
            if theirs.maker is None:
                return set()
            todo.append((mine.maker, theirs.maker))
    return found


def _of_calls(
    judgement: Judgement, maker: Operation, other: Operation, steps: Mapping[Operation, set[Operation]]
) -> dict[Operation, Operation]:
    """The reference's operations that stand to other calls as a fault's does to its call.

    They are counted from the operation before that takes a parameter which both sides have; without parameters, from the first.

    Args:
        judgement: of the run as it is now.
        maker: the last operation of the fault.
        other: the reference's that makes what is due there.
        steps: the last operation of each call -> all of them.
    """
    theirs = [o for o in judgement.reference.operations if (o.kind, o.source, o.written) == (other.kind, other.source, False)]
    own = next((operation for operation in steps if operation.number == maker.number), None)
    if own is None:
        return {}
    orders = [o.order for o in theirs]
    parameters = _Parameters(judgement)
    begun = {operation: min(o.order for o in inside) for operation, inside in steps.items()}
    anchor = parameters.before(begun[own])
    if anchor is None:
        ours = sorted(steps, key=lambda o: o.order)
        is_paired = len(ours) == len(theirs) and ours.index(own) == theirs.index(other)
        return dict(zip(ours, theirs, strict=True)) if is_paired else {}
    behind = theirs.index(other) - bisect_right(orders, anchor)
    found: dict[Operation, Operation] = {}
    for operation, since in begun.items():
        start = parameters.before(since)
        place = -1 if start is None else bisect_right(orders, start) + behind
        if 0 <= place < len(theirs):
            found[operation] = theirs[place]
    return found


class _Parameters:
    """Where the candidate takes parameters, and where the reference takes the same."""

    def __init__(self, judgement: Judgement) -> None:
        uses: list[tuple[int, int]] = []
        for value in dict.fromkeys(judgement.candidate.values.values()):
            if not value.is_parameter or not judgement.is_established(value):
                continue
            for partner in judgement.partners(value)[:1]:
                uses += [(one.order, two.order) for one, two in zip(value.users, partner.users, strict=False)]
        self._uses = sorted(uses)

    def before(self, order: int) -> int | None:
        """When the reference takes the parameter that the candidate took last before a time."""
        place = bisect_right(self._uses, (order, -1)) - 1
        return None if place < 0 else self._uses[place][1]


def shown(repeat: Repeat, before: Judgement, again: Judgement) -> Shown:
    """What a run with the reference's values at further calls shows of one of them.

    Args:
        repeat: the call.
        before: the run without the reference's values.
        again: the run with them.
    """
    number, place = repeat.place
    made = again.candidate.made.get((number, place))
    operation = again.candidate.numbered(number)
    maker = repeat.guilt.trial.value.maker
    if operation is None or made is None or maker is None:
        return Shown.NOTHING
    limit = again.scale.own * again.scale.floor
    if digests.distance(repeat.due.digest or "", made) <= limit:
        return Shown.RIGHT
    own = Value(replace(operation.outputs[place].record, digest=made))
    if again.matches.nearest(own)[0] <= limit:
        return Shown.OTHER
    if _way(again, operation) != _way(repeat.guilt.judgement, maker):
        return Shown.NOTHING
    if not repeat.alike and not again.wrong_outputs():
        return Shown.FAULT
    trial = replace(repeat.guilt.trial, value=repeat.value, due=repeat.due)
    return Shown.FAULT if improved(before, again, trial) else Shown.NOTHING


def kept(said: Mapping[Repeat, Shown]) -> list[Repeat]:
    """The calls at which the reference's values are put once more.

    Without those that are none of these calls.

    Behind a call with another fault besides, nothing is put in place: that would hide it. In order, as the calls are given. Empty
    where no call has the fault.
    """
    found = list(takewhile(lambda each: said[each] is not Shown.NOTHING, said))
    shown_of_found = {said[each] for each in found}
    if Shown.OTHER in shown_of_found:
        return [each for each, what in said.items() if what is not Shown.OTHER]
    return found if Shown.FAULT in shown_of_found else []


def _way(judgement: Judgement, operation: Operation) -> Counter[tuple[str, str | None, int]]:
    """The steps whose results are wrong on the way to what an operation makes, and that one."""
    found: Counter[tuple[str, str | None, int]] = Counter()
    for step in reached([operation], lambda each: makers(judgement.wrong_inputs(each))):
        given = sum(value.maker is None for value in judgement.wrong_inputs(step))
        found[step.kind, step.source, given] += 1
    return found
