"""Values that are NaN or infinite on both sides, so that they were not compared.

The operation that made them first, and what it was given, are worth knowing.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.capture import digest as digests
from paralign.comparison.judge import finite
from paralign.errors import WorkerFailed
from paralign.locate.laboratory.watched import Watched
from paralign.model import ALIGNED, UNDERPOWERED
from paralign.worker.protocol import Operations
from paralign.worker.sides.session import DOUBLE, NATIVE
from paralign.worker.steps.training import MODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.model import Pair, StageResult


#: keys of losses: of the stage ``loss``, of steps in either mode
_LOSS = re.compile(r"loss(_\d+)?( \(\w+\))?$")

#: inputs of an operation that are told: what computes takes one to three tensors
TOLD = 3


def is_unseen(pair: Pair) -> bool:
    """Whether a pair has elements, and none that is finite on a side."""
    stats = pair.stats
    if stats is None or stats.count == 0 or finite(stats):
        return False
    return not stats.nan and not stats.inf


def is_partly_unseen(pair: Pair) -> bool:
    """Whether a pair was compared in part: its other elements are not finite on both sides."""
    stats = pair.stats
    if stats is None or stats.nan or stats.inf:
        return False
    return 0 < finite(stats) < stats.count


def excuse_seen_elsewhere(pairs: list[Pair], leaf_of: Callable[[Pair], object]) -> None:
    """Accept a leaf that is NaN in one sample and was compared in another.

    An absent class is no gap.

    Args:
        pairs: judged ones.
        leaf_of: what is the same for one leaf of several samples or batches.
    """
    seen = {leaf_of(p) for p in pairs if p.stats is not None and finite(p.stats) > 0}
    for pair in pairs:
        if is_unseen(pair) and pair.verdict == UNDERPOWERED and leaf_of(pair) in seen:
            pair.verdict = ALIGNED


def explain(context: Context, result: StageResult, mode: str | None = None, *, partly: bool = True) -> None:
    """Say which operations made a stage's values not finite.

    Args:
        context: of the check.
        result: of the stage; gets notes.
        mode: of the training step that is watched; None for the forward pass alone.
        partly: also where some elements are finite; a metric leaves absent classes NaN on purpose.
    """
    unseen = [p for p in result.judged if is_unseen(p)]
    _name_first(result, unseen)
    if partly and not context.settings.verdict_only:
        unseen += _say_partly(result)
    if not unseen or context.inputs is None or context.settings.modules == "none":
        return
    if not context.observed:
        result.notes.append("which operation made what is not finite is not known: a side's operations cannot be watched")
        return
    order = Operations([DOUBLE, NATIVE])
    values: dict[str, Capture] = {"inputs": context.inputs}
    name = "operations"
    if mode is not None and context.labels is not None:
        order, name = replace(order, mode=MODES[mode], backward=True), f"gradients-{mode}"
        values["labels"] = context.labels
    try:
        watched = Watched(context, order, values, name)
        judgement = watched.judgement()
    except WorkerFailed as failed:
        result.notes.append(f"operations could not be watched: the {failed.side} failed with {failed.type}: {failed.message}")
        return
    for side, graph in (("reference", judgement.reference), ("candidate", judgement.candidate)):
        note = f"{side}: {told(graph)}"
        if note not in result.notes:
            result.notes.append(note)


def _say_partly(result: StageResult) -> list[Pair]:
    """Say of the first pair that is finite in part how much of it was not compared; all such."""
    partly = [pair for pair in result.judged if is_partly_unseen(pair)]
    if partly and (stats := partly[0].stats) is not None:
        result.notes.append(
            f"{partly[0].key}: {stats.count - finite(stats):,} of {stats.count:,} elements are NaN or infinite at the same places of both "
            "sides, and were not compared"
        )
    return partly


def _name_first(result: StageResult, unseen: list[Pair]) -> None:
    """Name a loss that is finite on neither side before gradients that diverge."""
    losses = [pair.key for pair in unseen if _LOSS.match(pair.key)]
    if losses and result.wrong:
        result.notes.insert(0, f"{losses[0]} is finite on neither side, so that it was not compared: look at it before the gradients")


def told(graph: Graph) -> str:
    """The operation of a pass that first made what is not finite, in words."""
    ends = list(graph.outputs.values())
    if graph.loss is not None:
        ends.append(graph.loss)
    for kind, what in enumerate(("NaN", "infinities")):
        spoilt = [v for v in ends if _counts(v.digest)[kind]]
        if not spoilt:
            continue
        made = origin(spoilt, kind)
        if isinstance(made, tuple):
            return f"{what} came in with {made[0].record.name or 'a value that was given'}"
        return f"{what} first made by {'; '.join([_place(made), *_given(made)])}"
    lost = gradient_origin(graph)
    if lost is None:
        return "nothing that is not finite was seen in the first pass"
    return f"the gradient is first not finite behind {_place(lost)}"


def origin(ends: list[Value], kind: int) -> Operation | tuple[Value]:
    """The first operation that made NaN (kind 0) or infinities (1), or the given value.

    It lies on the way to some values.
    """
    waiting, seen, makers, given = list(ends), set(), [], []
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.maker is None:
            given.append(value)
            continue
        before = [v for v in value.maker.inputs if _counts(v.digest)[kind]]
        waiting += before
        if not before:
            makers.append(value.maker)
    if given or not makers:
        return (given[0],)
    return min(makers, key=lambda o: o.order)


def gradient_origin(graph: Graph) -> Operation | None:
    """The last operation whose results have finite gradients and what it takes has not."""
    lost, inner = [], []
    for operation in graph.operations:
        losing = [value for value in operation.inputs if _loses(value)]
        if not losing or any(map(_loses, operation.outputs)):
            continue
        lost.append(operation)
        if any(value.maker is not None for value in losing):  # a parameter's gradient adds up its uses
            inner.append(operation)
    return max(inner or lost, key=lambda o: o.order, default=None)


def _loses(value: Value) -> bool:
    """Whether a value's gradient is not finite."""
    return value.gradient is not None and any(_counts(value.gradient.digest))


def _counts(digest: str | None) -> tuple[float, float]:
    """How many elements are NaN, and how many infinite."""
    if digest is None:
        return 0.0, 0.0
    counts = (*digests.figures(digest).counts, 0.0, 0.0, 0.0)
    return counts[0], counts[1] + counts[2]


def _place(operation: Operation) -> str:
    return "  ".join(filter(None, (operation.module or "the model itself", operation.op, operation.source)))


def _given(operation: Operation) -> list[str]:
    """What an operation was given: the least and the greatest value of its first inputs."""
    spans = (_span(value.digest) for value in operation.inputs)
    told = [f"it was given values from {low:.4g} to {high:.4g}" for low, high in filter(None, spans)]
    return list(dict.fromkeys(told[:TOLD]))


def _span(digest: str | None) -> tuple[float, float] | None:
    """The least and the greatest element, infinities included.

    None where there is nothing but NaN.
    """
    if digest is None:
        return None
    known = digests.figures(digest)
    nan, above, below = known.counts
    if known.size <= nan:
        return None
    low, high = known.low * known.rms, known.high * known.rms
    if known.size <= nan + above + below:  # no finite element
        low, high = math.inf, -math.inf
    return (-math.inf if below else low, math.inf if above else high)
