"""Following values to producers and consumers, past moves; where calls part."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.reaching import reached
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.source.statements import function_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: reference operations beyond the size of a region that are searched for what belongs to it
CONTEXT = 8

#: moves that are looked through on the way to what was computed
FOLLOWED = 8


def before_moves(value: Value, source: str | None) -> Value:
    """A value as it was before a line only moved it."""
    while value.maker is not None and value.maker.kind in MOVES and value.maker.source == source and value.maker.inputs:
        value = value.maker.inputs[0]
    return value


def before_any_moves(value: Value) -> Value:
    """A value as it was before it was only moved."""
    while value.maker is not None and value.maker.kind in MOVES and value.maker.inputs:
        value = value.maker.inputs[0]
    return value


def computing_users(value: Value) -> list[Operation]:
    """The operations that take a value, and those that take what was only moved of it."""
    return list(reached(value.users, _users_of_moved))


def _users_of_moved(operation: Operation) -> list[Operation]:
    """What takes the results of an operation that only moves values; nothing of another one."""
    if operation.kind not in MOVES:
        return []
    return users_of(operation.outputs)


def users_of(values: Iterable[Value]) -> list[Operation]:
    """The operations that take any of some values, as often as they do."""
    return [user for value in values for user in value.users]


def taken_by(operations: Iterable[Operation]) -> list[Value]:
    """What some operations take, as often as they do."""
    return [value for operation in operations for value in operation.inputs]


def made_by(operations: Iterable[Operation]) -> list[Value]:
    """What some operations make."""
    return [value for operation in operations for value in operation.outputs]


def makers(values: Iterable[Value]) -> list[Operation]:
    """The operations that made some values; what was given to a program was made by none."""
    return [value.maker for value in values if value.maker is not None]


def computing(operation: Operation | None) -> Operation | None:
    """An operation, those that only move values looked through."""
    for _ in range(FOLLOWED):
        if operation is None or operation.kind not in MOVES or not operation.inputs:
            return operation
        before = operation.inputs[0].maker
        if before is None:
            return operation
        operation = before
    return operation


#: operations between a wrong value and the right one picked of it: a statement or two of indexing
PICKED = 8


def first_wrong(judgement: Judgement, picks: Operation) -> Operation:
    """What made a wrong value of right ones, if a right one was picked of it; else ``picks``.

    Elements may be those of another value of the reference by chance: one row of wrong rows is a row of it.
    """
    maker = picks
    for _ in range(PICKED):
        wrong = judgement.wrong_inputs(maker)
        if not wrong or wrong[0].maker is None or not wrong[0].maker.stack:
            return picks
        maker = wrong[0].maker
        if maker.inputs and judgement.takes_right(maker):
            return maker
    return picks


def made(operation: Operation) -> list[Value]:
    """What an operation makes for others to take, not what a normalisation notes besides."""
    return [v for v in operation.outputs if v.users] or list(operation.outputs[:1])


def makers_of(judgement: Judgement, values: list[Value]) -> list[Operation]:
    """What makes the reference's values in the candidate, where lines are known."""
    same: list[Value] = []
    for value in filter(is_telling, values):
        same += judgement.backwards.equals(value)
    return [maker for maker in makers(same) if maker.stack]


def way_to(judgement: Judgement, due: Value, most: int) -> list[Operation]:
    """The reference's operations on the way to a value, as far as they are lacking.

    The one that made it comes first; there are ``most`` at most.
    """
    way = reached(makers([due]), lambda operation: makers(filter(judgement.lacking, operation.inputs)))
    return list(islice(way, most))


def common(one: Operation, other: Operation) -> int:
    """How many of the outermost lines two operations have in common."""
    return begin_alike(one.stack[::-1], other.stack[::-1])


def begin_alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines two sequences have in common from the first on."""
    for count, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return count
    return min(len(one), len(other))


def inner_lines(maker: Operation, operation: Operation) -> tuple[str, str]:
    """The lines of two operations where their calls part."""
    shared = common(maker, operation)
    one, other = (o.stack[max(0, len(o.stack) - 1 - shared)] for o in (maker, operation))
    return one, other


def parting(maker: Operation, operation: Operation) -> str:
    """The line that made a value, in the function that also hands it to an operation."""
    shared, inner = common(maker, operation), inner_lines(maker, operation)
    parts_inside = 0 < shared < min(len(maker.stack), len(operation.stack))
    if parts_inside and function_of(inner[0]) != function_of(inner[1]):  # one line calls both
        return maker.stack[len(maker.stack) - shared]
    return inner[0]


def taken_besides(judgement: Judgement, value: Value, user: Operation, missing: Operation) -> bool:
    """Whether others take a value as in the reference: then the step is missing later."""
    kinds = {o.kind for o in computing_users(value) if o is not user} - MOVES
    theirs: set[str] = set()
    for partner in judgement.partners(value):
        theirs.update(o.kind for o in computing_users(partner) if o is not missing)
    return not kinds.isdisjoint(theirs)
