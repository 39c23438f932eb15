"""When and how a side's run uses each of its tensors, read from its watched operations."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from paralign.adapters._kinds import MOVES
from paralign.capture.digest import is_evidence
from paralign.errors import WorkerFailed
from paralign.locate.runs.dataflow import Graph
from paralign.run.recorder import both
from paralign.weights import Use
from paralign.worker.protocol import Operations, runs_of
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.runs.dataflow import Value
    from paralign.run.recorder import Recorder

#: operations after a tensor that are looked at: one that takes it, and those that take its results
DEPTH = 3


def recorded(context: Context) -> tuple[dict[str, Use], dict[str, Use]] | None:
    """Each side's tensors by name, with their use in one run.

    None where a side cannot be watched.
    """
    if context.inputs is None or not context.observed:
        return None
    values = {"inputs": context.inputs}

    def record(recorder: Recorder) -> Capture:
        order = Operations([NATIVE], attempt=uuid4().hex)  # the weights are those of a trial: never reused
        return recorder.record("uses", order, values)

    try:
        captures = both(lambda: record(context.reference), lambda: record(context.candidate))
    except WorkerFailed:  # the stages that judge the forward pass will tell
        return None
    ours, theirs = (_uses(Graph(capture, NATIVE)) for capture in captures)
    return ours, theirs


def computed(side: Recorder, inputs: Capture | None) -> list[str] | None:
    """The digests of what a side computes in float64 with the weights that it has, each once.

    Without values that are likely to match by chance: constants, and what has few elements. None of a side that runs natively alone.

    Raises:
        WorkerFailed: the side cannot be run or watched.
    """
    values = {} if inputs is None else {"inputs": inputs}
    capture = side.record("computed", Operations([DOUBLE], attempt=uuid4().hex), values)
    if DOUBLE not in runs_of(capture).runs:
        return None
    graph = Graph(capture, DOUBLE)
    made = (value.digest for operation in graph.operations for value in operation.outputs)
    return list(dict.fromkeys(digest for digest in made if digest is not None and is_evidence(digest)))


def _uses(graph: Graph) -> dict[str, Use]:
    """Name of a parameter or buffer -> what a run does with it."""
    found = {}
    for value in graph.values.values():
        if value.maker is not None or not value.record.name:
            continue
        if value.record.role in ("parameter", "buffer"):
            found[value.record.name] = Use(value.order, _kinds(value))
    return found


def _kinds(value: Value) -> tuple[frozenset[str], ...]:
    """Kinds of operations by distance from a value, without those of layout alone."""
    found, front = [], [value]
    for _ in range(DEPTH):
        users, seen = [], set()
        while front:
            for operation in front.pop().users:
                if operation in seen:
                    continue
                seen.add(operation)
                if operation.kind in MOVES:
                    front += operation.outputs
                else:
                    users.append(operation)
        found.append(frozenset(o.kind for o in users))
        front = [result for operation in users for result in operation.outputs]
    return tuple(found)
