"""Outputs on further batches of the loader: a mask that the first batch lacks shows there.

Outputs alone are compared; on the first batch that differs the stage is judged again, which names the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage, Divergence, Finding, Point, wrong_of
from paralign.stages.common.forward_passes import record
from paralign.stages.common.judging import FLOAT64, final, paired
from paralign.stages.forward.further import lost_reason, points
from paralign.worker.datasets.feed import name_of
from paralign.worker.protocol import Batch, Feed, Forward
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, StageResult

#: seconds of both sides' passes on the first batch above which no further one is looked at, and bytes of its outputs
SECONDS, BYTES = 20.0, 1 << 28

#: how many times the first batch's error beside its noise a further one's has to be
GAIN = 10.0


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
    wrong, compared = _first_wrong(context, result, fed, count)
    if wrong is None:
        result.coverage.append(Coverage("batches", compared, whole or (count if compared < count else None)))
        return result
    number = wrong.number
    found, alone = _judged_on(context, number, judge)
    coverage = Coverage("batches", compared + 1, whole)
    if found.verdict != DIVERGED:
        _judge_kept(context, result, wrong, alone if found.verdict == ALIGNED else None)
        record(context)
        result.coverage.append(coverage)
        return result
    record(context)  # later stages take the outputs on the first batch, with its labels
    for pair in found.pairs:
        pair.key = f"{pair.key} (batch {number})"
    found.notes.insert(0, f"only further batches show it: the outputs on {compared} before batch {number} agree")
    found.coverage.append(coverage)
    return found


@dataclass(frozen=True)
class _Wrong:
    """The first batch whose outputs differ after those before it.

    Its number, both sides' passes, and its pairs.
    """

    number: int
    captures: tuple[Capture, Capture]
    pairs: list[Pair]


def _judge_kept(context: Context, result: StageResult, wrong: _Wrong, alone: tuple[Capture, Capture] | None) -> None:
    """Judge outputs that differ on a batch after others, and not on this batch alone.

    A model whose outputs depend on earlier batches keeps something of them. The stage diverges where the candidate alone does that; where
    the reference does too, or the batch alone proves nothing, the test is too weak.
    """
    number = wrong.number
    steady = None if alone is None else [_is_steady(context, one, after, number) for one, after in zip(alone, wrong.captures, strict=True)]
    if steady != [True, False]:
        result.doubt(f"outputs on batch {number} differ, and not where it is looked at alone: a model that keeps what it was given?")
        result.verdict = UNDERPOWERED
        return
    for pair in wrong.pairs:
        pair.key = f"{pair.key} (batch {number} after others)"
    result.pairs += wrong.pairs
    result.verdict = DIVERGED
    worst = wrong_of(wrong.pairs)[0]
    ends = [None if each is None else Point(each.name, each.op, each.source) for each in (worst.reference, worst.candidate)]
    result.divergence = Divergence(ends[0], ends[1], worst)
    result.findings.append(
        Finding(
            "forward/kept",
            f"the candidate keeps something of earlier batches: its outputs on batch {number} are right alone, and others after the "
            "batches before it; those of the reference are the same both times",
            "write nothing into the model in eval mode that a later pass reads",
            proven=True,
        )
    )


def _is_steady(context: Context, alone: Capture, after: Capture, number: int) -> bool:
    """Whether a side's outputs on a batch are the same alone and after other batches."""
    first = {record.leaf: record for record in final(alone, name="output", run=DOUBLE)}
    ends = [(first.get(each.leaf), each, "name") for each in final(after, name=name_of("output", number), run=DOUBLE)]
    pairs = paired(alone, after, ends, FLOAT64, context.settings.tolerance_of("forward"))
    return bool(pairs) and not wrong_of(pairs)


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


def _first_wrong(context: Context, result: StageResult, fed: Capture, count: int) -> tuple[_Wrong | None, int]:
    """The first of so many batches whose outputs differ, None where none does.

    And on how many they were seen to agree.
    """
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
        wrong = wrong_of(pairs)
        if is_beyond(wrong, result.pairs):
            return _Wrong(number, captures, pairs), compared
        if wrong:
            result.notes.append(f"the outputs on batch {number} differ as those on the first do, by little more than their noise")
            compared += 1
            continue
        judged_pairs = [pair for pair in pairs if pair.judged]
        if judged_pairs and all(pair.verdict == ALIGNED for pair in judged_pairs):
            compared += 1
        else:
            result.notes.append(f"the outputs on batch {number} are too weak a test, and do not count")
    return None, compared


def is_beyond(wrong: Sequence[Pair], first: Sequence[Pair]) -> bool:
    """Whether outputs of a further batch differ by far more than those of the first.

    Rounded constants differ in every batch, and in one of many by more than the noise that was measured there.

    Args:
        wrong: pairs of the further batch that differ.
        first: those of the first batch, which agree.
    """
    usual = max((pair.ratio or 0.0 for pair in first if pair.judged), default=0.0)
    return any(pair.ratio is None or pair.ratio > GAIN * usual for pair in wrong)


def _judged_on(
    context: Context, number: int, judge: Callable[[Context], StageResult]
) -> tuple[StageResult, tuple[Capture, Capture] | None]:
    """The stage on one batch of the loader in place of the check's own.

    And both sides' passes there.
    """
    before = context.inputs, context.labels, context.drawn, context.forwarded
    kept = dict(context.artifacts), dict(context.replays), list(context.untested)
    context.inputs = context.labels = context.reference.record(f"batch-{number}", Batch(context.settings.split, number))
    try:
        found = judge(context)
        return found, context.artifacts.get("forward")
    finally:
        context.inputs, context.labels, context.drawn, context.forwarded = before
        for current, earlier in zip((context.artifacts, context.replays), kept[:2], strict=True):
            current.clear()
            current.update(earlier)
        context.untested[:] = kept[2]
