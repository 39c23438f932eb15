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
    for due in lacked.inputs if lacked is not None and lacked.kind != "fill" else []:
        found = _taken_otherwise(judgement, due, lacked.kind) if due.maker is not None and lacked is not None else None
        if found is None or due.maker is None:
            continue
        value, user = found
        ways = (_moves_to(due.maker), _moves_to(value.maker))
        if value.maker is not None and ways[0] and [o.kind for o in ways[0]] == [o.kind for o in ways[1]]:
            return due.maker, value.maker, True
        if not _is_in_order_of(value, ways[0]):
            continue
        return next((o for o in ways[0] if o.kind == "transpose"), due.maker), user, False
    return None


def _is_in_order_of(value: Value, moves: list[Operation]) -> bool:
    """Whether a value has the order that the reference's elements have before some moves."""
    taken = [v.sketch for o in moves for v in o.inputs[:1]]
    return value.sketch is not None and any(sketch is not None and distance(sketch, value.sketch) <= ALIKE for sketch in taken)


def _taken_otherwise(judgement: Judgement, due: Value, kind: str) -> tuple[Value, Operation] | None:
    """The value of the same elements in another order that an operation of a kind takes."""
    same = [v for v in judgement.backwards.equals(due) if is_telling(due) and same_shape(v, due)]
    if any(far is None or far <= ALIKE for far in (ordered_distance(due, v) for v in same)):
        return None
    return next(((v, u) for v in same for u in v.users if u.kind == kind), None)


def otherwise_shaped(operation: Operation, other: Operation | None) -> str | None:
    """The first line that shapes elements otherwise than the reference's step does.

    None where both sides do not take the same steps.
    """
    ways = [_moves_to(each) for each in (operation, other) if each is not None]
    if len(ways) < 2 or [o.kind for o in ways[0]] != [o.kind for o in ways[1]]:  # noqa: PLR2004 - both sides
        return None
    pairs = zip(reversed(ways[0]), reversed(ways[1]), strict=True)
    return next((ours.source for ours, theirs in pairs if ours.outputs[0].shape != theirs.outputs[0].shape), None)


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
