"""The loss of further batches.

Padding, labels to be ignored or a rare class may lack in the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.model import ALIGNED, DIVERGED, Coverage
from paralign.stages.common import forward_passes, lower_precision, probing, repeatability
from paralign.stages.common.judging import FLOAT64, final, paired, points_of
from paralign.worker.protocol import Batch, BatchLosses, Evaluate, Lowered
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.pipeline import Searched
    from paralign.model import Pair, Record, StageResult
    from paralign.stages.common.judging import Method
    from paralign.worker.protocol import BatchesJudged

#: what the losses of a batch are recorded as, before its number
BATCH = "batch_"


def compare(context: Context, result: StageResult, evaluation: Capture, method: Method) -> None:
    """Add the losses of the evaluation's batches, of which the reference's outputs are known.

    Nothing where the first batch's differ already, or where not both sides are judged in float64.

    Raises:
        WorkerFailed: the candidate's loss fails on a batch that the reference's takes.
    """
    about = Evaluate.answer(evaluation)
    if method is not FLOAT64 or not about.loader or result.wrong:
        return
    values = {"evaluation": evaluation}
    captures = context.record_both("loss-batches", BatchLosses([DOUBLE, NATIVE], context.halves_apart), values)
    left_out = _left_out(result, *(BatchLosses.answer(c) for c in captures))
    tolerance = context.settings.tolerance_of("loss")
    ends = (final(capture, run=DOUBLE) for capture in captures)
    points = points_of(*([r for r in records if r.name not in left_out] for records in ends))
    found = paired(*captures, list(filter(_is_of_one_name, points)), method, tolerance)
    compared = [pair for pair in found if pair.verdict in (ALIGNED, DIVERGED)]  # what is finite on neither side says nothing
    if lower_precision.places(context, compared, method, tolerance, Lowered("loss"), _first(context)):
        result.notes.append("the loss of further batches was not compared: a side computes it in a lower precision")
        return
    result.pairs += compared
    seen = {pair.reference.name for pair in compared if pair.reference is not None}
    result.coverage.append(Coverage("batches", len(seen), about.total))


def _is_of_one_name(point: tuple[Record | None, Record | None, str]) -> bool:
    """Whether both sides have a record of a point, under one name."""
    one, other, _ = point
    return one is not None and other is not None and one.name == other.name


def _left_out(result: StageResult, reference: BatchesJudged, candidate: BatchesJudged) -> set[str]:
    """The batches on which the reference's loss fails, or a side's is random.

    There is a note for each.

    Raises:
        WorkerFailed: the candidate's fails on a batch that the reference's takes.
    """
    left_out = set()
    for number, why in candidate.refused.items():
        if number not in reference.refused:
            kind, _, said = why.partition(": ")
            raise WorkerFailed(kind, f"the candidate's loss fails on batch {number}, the reference's does not: {said}", side="candidate")
    for number, why in reference.refused.items():
        result.notes.append(f"the reference's loss fails on batch {number} ({why}): left out")
        left_out.add(f"{BATCH}{number}")
    for number in sorted(reference.repeats.keys() | candidate.repeats.keys(), key=int):
        if max(each.repeats.get(number, 0.0) for each in (reference, candidate)) > repeatability.REPEATED:
            result.notes.append(f"the loss of batch {number} is random: left out")
            left_out.add(f"{BATCH}{number}")
    return left_out


def _first(context: Context) -> dict[str, Capture]:
    """What the loss of the check's own batch is made of."""
    outputs = context.artifacts["forward"][0] if "forward" in context.artifacts else forward_passes.reference_alone(context)
    return {name: held for name, held in (("outputs", outputs), ("labels", context.labels)) if held is not None}


def first_wrong(pairs: Sequence[Pair]) -> int | None:
    """The first of the evaluation's batches whose loss differs.

    None where the check's own does too, or none. Probes are made of the check's own batch, and say nothing of it.
    """
    wrong = [pair for pair in pairs if pair.verdict == DIVERGED]
    names = [pair.key if pair.reference is None else pair.reference.name for pair in wrong]
    batches = [int(name[len(BATCH) :]) for name in names if name.startswith(BATCH)]
    is_own = len(batches) < sum(not name.startswith(probing.PROBE) for name in names)
    return None if is_own or not batches else min(batches)


def located(context: Context, number: int, evaluation: Capture) -> Searched | None:
    """What is guilty in the loss of a further batch, which takes the place of the check's own.

    Args:
        context: of the check.
        number: of the batch in the evaluation.
        evaluation: the reference's; its last batch is the loader's last.

    Returns:
        None where that batch cannot be told among the loader's.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    about = Evaluate.answer(evaluation)
    if number >= context.settings.batches:
        if about.total is None:
            return None
        number = about.total - 1
    batch = context.reference.record(f"batch-{number}", Batch(context.settings.split, number))
    before = context.inputs, context.labels
    context.inputs = context.labels = batch
    try:
        return pipeline.backward(context, "eval")
    finally:
        context.inputs, context.labels = before
