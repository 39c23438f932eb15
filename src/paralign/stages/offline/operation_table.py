"""Every operation of both forward passes, read from captures.

What it made, how that was matched, how far it is apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.capture import Capture
from paralign.locate.laboratory.watched import OPERATIONS, Recorded

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: operations of a side at most: about what a reader's browser holds at once
MOST = 20_000

#: what an operation's result is: the other side's; near one of it; like none of it; like none, but what is made of it is right again
RIGHT, WRONG, UNMATCHED, OWN_WAY = "right", "wrong", "unmatched", "own way"


@dataclass
class Row:
    """One operation; ``counterpart`` is the number of the other side's row, -1 without one."""

    module: str
    kind: str
    operation: str
    source: str
    shape: tuple[int, ...]
    state: str
    counterpart: int = -1
    error: float | None = None
    noise: float | None = None


@dataclass(frozen=True)
class OperationTable:
    """The operations of both sides, in the order of execution."""

    reference: list[Row]
    candidate: list[Row]


def of_folder(output: Path, since: str = "") -> OperationTable | None:
    """The operations that a check left in its output folder.

    None where it watched none, too many, or their values were released.

    Args:
        output: the folder.
        since: when the check's forward pass was recorded: operations that the candidate did before are of an earlier check.

    Raises:
        CaptureFormatError: a capture is damaged.
    """
    paths = [output / "captures" / side / OPERATIONS for side in ("reference", "candidate")]
    if not all(path.is_dir() for path in paths):
        return None
    captures = [Capture.open(path) for path in paths]
    if any(not capture.records or not capture.complete or capture.manifest.released for capture in captures):
        return None
    if captures[1].manifest.created < since:
        return None
    judgement = Recorded(captures[0], captures[1]).judgement()
    sides = judgement.reference.operations, judgement.candidate.operations
    if not all(0 < len(side) <= MOST for side in sides):
        return None
    return _table(judgement)


def _table(judgement: Judgement) -> OperationTable:
    reference = [_row(operation, judgement.reference.kinds) for operation in judgement.reference.operations]
    candidate = [_row(operation, judgement.candidate.kinds) for operation in judgement.candidate.operations]
    numbers = {operation: number for number, operation in enumerate(judgement.reference.operations)}
    for number, operation in enumerate(judgement.candidate.operations):
        row = candidate[number]
        _judge(row, operation, judgement)
        makers = [numbers[maker] for maker in _makers(operation, judgement) if maker in numbers]
        free = [other for other in makers if reference[other].counterpart < 0]
        row.counterpart = next(iter(free or makers), -1)
        if row.counterpart < 0:
            continue
        chosen = reference[row.counterpart]
        if chosen.counterpart < 0 or candidate[chosen.counterpart].state != RIGHT:
            chosen.counterpart = number
            chosen.error, chosen.noise = row.error, row.noise
    for number, operation in enumerate(judgement.reference.operations):
        if any(judgement.lacking(value) for value in _used(operation, judgement.reference)):
            reference[number].state = UNMATCHED
    _rejoin(reference, judgement.reference)
    _rejoin(candidate, judgement.candidate)
    return OperationTable(reference, candidate)


def _used(operation: Operation, graph: Graph) -> list[Value]:
    """The results that are used or returned; all where there is no such."""
    returned = set(graph.outputs.values())
    return [value for value in operation.outputs if value.users or value in returned] or operation.outputs


def _rejoin(rows: list[Row], graph: Graph) -> None:
    """Tell what only computes the same in other steps: all that is made of it is right again."""
    state = dict(zip(graph.operations, rows, strict=True))
    for operation in reversed(graph.operations):
        row = state[operation]
        if row.state not in (WRONG, UNMATCHED):
            continue
        users = [state[user] for value in _used(operation, graph) for user in value.users if user in state]
        if users and all(user.state in (RIGHT, OWN_WAY) for user in users):
            row.state, row.error, row.noise = OWN_WAY, None, None


def _row(operation: Operation, kinds: dict[str, str]) -> Row:
    shape = operation.outputs[0].shape
    return Row(operation.module, kinds.get(operation.module, ""), operation.op, operation.source or "", shape, RIGHT)


def _makers(operation: Operation, judgement: Judgement) -> list[Operation]:
    """The reference's operations that may have made the same, those of its kind first."""
    found = [value.maker for output in operation.outputs for value in _alike(output, judgement) if value.maker is not None]
    return sorted(dict.fromkeys(found), key=lambda maker: (maker.kind != operation.kind, maker.module != operation.module))


def _alike(output: Value, judgement: Judgement) -> list[Value]:
    known = judgement.partners(output)
    nearest = judgement.matches.nearest(output)[1]
    return known or ([] if nearest is None else [nearest])


def _judge(row: Row, operation: Operation, judgement: Judgement) -> None:
    """Put error, noise and state of an operation's worst result into its row."""
    used = _used(operation, judgement.candidate)
    far = [judgement.error.get(value, 0.0) for value in used]
    finite = [error for error in far if math.isfinite(error)]
    if finite:
        noise = [judgement.scale.floor]
        for value in used:
            near = judgement.matches.nearest(value)[1]
            if near is not None:
                noise.append(judgement.noise.get(near.record.id, 0.0))
        row.error, row.noise = max(finite), max(noise)
    if any(value in judgement.wrong for value in used):
        row.state = WRONG if len(finite) == len(far) else UNMATCHED
