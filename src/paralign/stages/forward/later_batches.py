"""Outputs on further batches of the loader: a mask that the first batch lacks shows there.

Outputs alone are compared; on the first batch that differs the stage is judged again, which names the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import DIVERGED, Coverage
from paralign.stages.common.judging import FLOAT64, paired
from paralign.stages.forward.further import lost_reason, points
from paralign.worker.protocol import Batch, Feed, Forward
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import StageResult

#: seconds of both sides' passes on the first batch above which no further one is looked at, and bytes of its outputs
SECONDS, BYTES = 20.0, 1 << 28


def judged(context: Context, result: StageResult, judge: Callable[[Context], StageResult]) -> StageResult:
    """The result, or that of the first further batch whose outputs differ.

    Args:
        context: of the check, whose inputs are the loader's first batch; nothing happens where they are not.
        result: of that batch; its outputs agree in float64.
        judge: judges the outputs on the context's inputs.

    Raises:
        WorkerFailed: the candidate fails on a batch that the reference takes.
    """
    if not _may_be_looked_at(context, result):
        return result
    fed = _fed(context, result)
    count = 1 if fed is None else Feed.answer(fed).batches
    if fed is None or count == 1:
        result.coverage.append(Coverage("batches", 1, 1 if fed is not None else None))
        return result
    number = _first_wrong(context, result, fed, count)
    if number is None:
        return result
    found = _judged_on(context, number, judge)
    if found.verdict != DIVERGED:
        result.notes.append(f"outputs on batch {number} differ, and not where it is looked at alone: a model that keeps what it was given?")
        return result
    for pair in found.pairs:
        pair.key = f"{pair.key} (batch {number})"
    found.notes.insert(0, f"only further batches show it: the outputs on {number} before batch {number} agree")
    found.coverage.append(Coverage("batches", number + 1))
    return found


def _may_be_looked_at(context: Context, result: StageResult) -> bool:
    """Whether inputs come from the loader, and outputs were judged in float64 at little cost."""
    if context.inputs is None or context.inputs.manifest.stage != Batch.task or context.settings.batches < 2:  # noqa: PLR2004 - one further
        return False
    if result.method != FLOAT64.name or context.drawn or context.settings.draws or context.moved:
        return False
    sizes = [8 * pair.stats.count for pair in result.pairs if pair.stats is not None]
    return sum(result.seconds.get(side, 0.0) for side in ("reference", "candidate")) <= SECONDS and sum(sizes) <= BYTES


def _fed(context: Context, result: StageResult) -> Capture | None:
    """The loader's first batches; None, with a note, where it fails."""
    try:
        return context.reference.record("forward-feed", Feed(context.settings.split, context.settings.batches))
    except WorkerFailed as failure:
        result.notes.append(f"further batches were not looked at: the {failure.side} failed with {failure.type}: {failure.message}")
        return None


def _first_wrong(context: Context, result: StageResult, fed: Capture, count: int) -> int | None:
    """The first of these batches whose outputs differ; None where none does."""
    captures = context.record_both("forward-batches", Forward([DOUBLE, NATIVE], draws=count), {"inputs": fed})
    compared = 1
    for number in range(1, count):
        lost = [lost_reason(capture, number) for capture in captures]
        if lost[0]:
            result.notes.append(f"the reference fails on batch {number} ({lost[0]}): left out")
            continue
        if lost[1]:
            kind, _, said = lost[1].partition(": ")
            raise WorkerFailed(kind, f"the candidate fails on batch {number}, the reference does not: {said}", side="candidate")
        ends = points(captures, number, (DOUBLE, DOUBLE))
        pairs = paired(*captures, ends, FLOAT64, context.settings.tolerance_of("forward"))
        if any(pair.verdict == DIVERGED for pair in pairs):
            return number
        compared += 1
    result.coverage.append(Coverage("batches", compared, count if count < context.settings.batches else None))
    return None


def _judged_on(context: Context, number: int, judge: Callable[[Context], StageResult]) -> StageResult:
    """The stage on one batch of the loader in place of the check's own."""
    before = context.inputs, context.labels, dict(context.artifacts)
    context.inputs = context.labels = context.reference.record(f"batch-{number}", Batch(context.settings.split, number))
    try:
        return judge(context)
    finally:
        context.inputs, context.labels, context.artifacts = before
