"""Faults at operations that take weights whose places are guessed.

An experiment that puts the reference's result there shows that the result is wrong, not whether the operation is or its weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.types import Guilt
    from paralign.model import Divergence
    from paralign.weights import Plan


def doubt(told: Sequence[Divergence], guilts: Sequence[Guilt], plan: Plan | None) -> None:
    """Call no fault confirmed whose operations take a weight at a guessed place.

    A note says which weight that is.

    Args:
        told: the faults as they are reported.
        guilts: the same, in the same order.
        plan: how the weights were carried over.
    """
    unsure = {name for ambiguity in (plan.ambiguous if plan is not None else ()) for name in ambiguity.candidate}
    for each, guilt in zip(told, guilts, strict=True):
        taken = sorted(unsure & _weights_of((guilt.trial.suspect, *guilt.trial.region)))
        if not taken or not each.confirmed:
            continue
        each.confirmed = False
        more = f" and {len(taken) - 1} more" if taken[1:] else ""
        each.notes.append(f"takes {taken[0]}{more}, whose place is guessed: another tensor there may be all that is wrong")


def _weights_of(operations: Iterable[Operation]) -> set[str]:
    """Names of the parameters and buffers that operations take, as they are or moved."""
    waiting: list[Value] = [value for operation in operations for value in operation.inputs]
    found: set[str] = set()
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if value.maker is None:
            found.add(value.record.name)
        elif value.maker.kind in MOVES:
            waiting += value.maker.inputs
    return found
