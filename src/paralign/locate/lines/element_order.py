"""The order of elements: where the reference changes it before both go on alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture.sketch import distance
from paralign.locate.runs.counterparts import ALIKE, is_telling, ordered_distance, same_shape

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement


def before(judgement: Judgement, lacked: Operation | None) -> tuple[Operation, Operation, bool] | None:
    """What gives elements an order that the candidate lacks, before both go on alike.

    The candidate's order is not wrong in itself where the reference has the elements in it too, one step earlier.

    Returns:
        The reference's operation, the candidate's, and whether the candidate takes as many steps to another order: then its operation is
        the last of them, else the one that takes the elements as they are.
    """
    if lacked is None or lacked.kind == "fill":
        return None
    for due in lacked.inputs:
        if due.maker is None:
            continue
        taken = _taken_otherwise(judgement, due, lacked.kind)
        if taken is None:
            continue
        value, user = taken
        theirs, ours = _moves_to(due.maker), _moves_to(value.maker)
        if value.maker is not None and theirs and _kinds(theirs) == _kinds(ours):
            return due.maker, value.maker, True
        if _is_in_order_of(value, theirs):
            return next((o for o in theirs if o.kind == "transpose"), due.maker), user, False
    return None


def _kinds(operations: list[Operation]) -> list[str]:
    """The kinds of some operations, in order."""
    return [operation.kind for operation in operations]


def _is_in_order_of(value: Value, moves: list[Operation]) -> bool:
    """Whether a value has the order that the reference's elements have before some moves."""
    if value.sketch is None:
        return False
    for operation in moves:
        for taken in operation.inputs[:1]:
            if taken.sketch is not None and distance(taken.sketch, value.sketch) <= ALIKE:
                return True
    return False


def _taken_otherwise(judgement: Judgement, due: Value, kind: str) -> tuple[Value, Operation] | None:
    """The value of the same elements in another order that an operation of a kind takes."""
    if not is_telling(due):
        return None
    same = [v for v in judgement.backwards.equals(due) if same_shape(v, due)]
    for value in same:
        far = ordered_distance(due, value)
        if far is None or far <= ALIKE:
            return None
    return next(((v, u) for v in same for u in v.users if u.kind == kind), None)


def otherwise_shaped(operation: Operation, other: Operation | None) -> str | None:
    """The first line that shapes elements otherwise than the reference's step does.

    None where both sides do not take the same steps.
    """
    if other is None:
        return None
    ours, theirs = _moves_to(operation), _moves_to(other)
    if _kinds(ours) != _kinds(theirs):
        return None
    for own, due in zip(reversed(ours), reversed(theirs), strict=True):
        if own.outputs[0].shape != due.outputs[0].shape:
            return own.source
    return None


def _moves_to(operation: Operation | None) -> list[Operation]:
    """An operation and those before it that only move its value, the last first.

    Copies are left out.
    """
    found = []
    step = operation
    while step is not None and step.kind in MOVES:
        if step.kind in ("view", "transpose"):
            found.append(step)
        step = step.inputs[0].maker if step.inputs else None
    return found
