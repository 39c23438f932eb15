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
    if not _is_of_a_loader(context):
        return result
    length = Batch.answer(context.inputs).length if context.inputs is not None else None
    limit = "" if length == 1 else _limit(context, result)
    fed = None if limit else _fed(context, result)
    count = 1 if fed is None else Feed.answer(fed).batches
    if fed is None or count == 1:
        result.coverage.append(Coverage("batches", 1, 1 if fed is not None else length))
        if limit:
            most = min(context.settings.batches, length or context.settings.batches)
            result.notes.append(f"outputs were compared on 1 batch, not on {most}: {limit}")
        return result
    whole = count if count < context.settings.batches else length  # the loader has ended
    number = _first_wrong(context, result, fed, (count, whole))
    if number is None:
        return result
    found = _judged_on(context, number, judge)
    if found.verdict != DIVERGED:
        result.notes.append(f"outputs on batch {number} differ, and not where it is looked at alone: a model that keeps what it was given?")
        return result
    for pair in found.pairs:
        pair.key = f"{pair.key} (batch {number})"
    found.notes.insert(0, f"only further batches show it: the outputs on {number} before batch {number} agree")
    found.coverage.append(Coverage("batches", number + 1, whole))
    return found


def _is_of_a_loader(context: Context) -> bool:
    """Whether the inputs are the loader's first batch, and further ones are wanted."""
    if context.inputs is None or context.inputs.manifest.stage != Batch.task or context.settings.batches < 2:  # noqa: PLR2004 - one further
        return False
    return not (context.settings.draws or context.moved)


def _limit(context: Context, result: StageResult) -> str:
    """Why no further batch is looked at; '' where one is."""
    if result.method != FLOAT64.name:
        return f"they are judged by another method than float64 ({result.method})"
    if context.drawn:
        return "they are random, and each batch would need the reference's draws"
    seconds = sum(result.seconds.get(side, 0.0) for side in ("reference", "candidate"))
    if seconds > SECONDS:
        return f"both sides took {seconds:.0f} s for the first, more than {SECONDS:.0f} s"
    size = sum(8 * pair.stats.count for pair in result.pairs if pair.stats is not None)
    if size > BYTES:
        return f"those of one batch take {size >> 20:,} MB, more than {BYTES >> 20} MB"
    return ""


def _fed(context: Context, result: StageResult) -> Capture | None:
    """The loader's first batches; None, with a note, where it fails."""
    try:
        return context.reference.record("forward-feed", Feed(context.settings.split, context.settings.batches))
    except WorkerFailed as failure:
        result.notes.append(f"further batches were not looked at: the {failure.side} failed with {failure.type}: {failure.message}")
        return None


def _first_wrong(context: Context, result: StageResult, fed: Capture, counts: tuple[int, int | None]) -> int | None:
    """The first of these batches whose outputs differ; None where none does.

    ``counts``: how many there are, and how many the loader has, as far as that is known.
    """
    count, whole = counts
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
    result.coverage.append(Coverage("batches", compared, whole or (count if compared < count else None)))
    return None


def _judged_on(context: Context, number: int, judge: Callable[[Context], StageResult]) -> StageResult:
    """The stage on one batch of the loader in place of the check's own."""
    before = context.inputs, context.labels, dict(context.artifacts)
    context.inputs = context.labels = context.reference.record(f"batch-{number}", Batch(context.settings.split, number))
    try:
        return judge(context)
    finally:
        context.inputs, context.labels, context.artifacts = before
