"""The loss of further batches.

Padding, labels to be ignored or a rare class may lack in the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.model import ALIGNED, DIVERGED, Coverage
from paralign.stages.common.judging import FLOAT64, final, paired, points_of
from paralign.worker.protocol import Batch, BatchLosses, Evaluate
from paralign.worker.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.pipeline import Searched
    from paralign.model import Pair, StageResult
    from paralign.stages.common.judging import Method

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
    captures = context.record_both("loss-batches", BatchLosses([DOUBLE, NATIVE]), {"evaluation": evaluation})
    ours, theirs = (BatchLosses.answer(c).refused for c in captures)
    for number, why in theirs.items():
        if number not in ours:
            kind, _, said = why.partition(": ")
            raise WorkerFailed(kind, f"the candidate's loss fails on batch {number}, the reference's does not: {said}", side="candidate")
    for number, why in ours.items():
        result.notes.append(f"the reference's loss fails on batch {number} ({why}): left out")
    points = points_of(final(captures[0], run=DOUBLE), final(captures[1], run=DOUBLE))
    found = paired(*captures, points, method, context.settings.tolerance_of("loss"))
    result.pairs += [pair for pair in found if pair.verdict in (ALIGNED, DIVERGED)]  # what is finite on neither side says nothing
    result.coverage.append(Coverage("batches", about.batches - len(ours), about.total))


def first_wrong(pairs: Sequence[Pair]) -> int | None:
    """The first of the evaluation's batches whose loss differs.

    None where the check's own does too, or none.
    """
    wrong = [pair for pair in pairs if pair.verdict == DIVERGED]
    names = ["" if pair.reference is None else pair.reference.name for pair in wrong]
    if not names or not all(name.startswith(BATCH) for name in names):
        return None
    return min(int(name[len(BATCH) :]) for name in names)


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
