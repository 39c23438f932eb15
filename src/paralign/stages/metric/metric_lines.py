"""A diverged metric, followed: the first line that makes something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.errors import WorkerFailed
from paralign.locate.data.trace import Way, locate, locate_last
from paralign.model import Divergence
from paralign.stages.infer.wrong_prediction import end_of, rounded
from paralign.worker.protocol import MetricSteps

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.data.trace import Guilty
    from paralign.model import Pair, StageResult

#: what a metric is computed on besides single batches: all of them joined, or one after the other in one with a state
JOINED = ("all", "running")


def follow(context: Context, result: StageResult, evaluation: Capture) -> None:
    """Point the divergence at the first line that differs.

    Leaves it as it is where the metric cannot be traced, or nothing is known.
    """
    first = next((p for p in result.wrong if _point(p)), None)
    if first is None or not context.explains:
        return
    try:
        captures = context.record_both("metric-steps", MetricSteps(_point(first)), {"evaluation": evaluation})
    except WorkerFailed as failed:
        result.warnings.append(f"the metric could not be traced: the {failed.side} failed: {failed.type}: {failed.message}")
        return
    guilty = _located(captures, first)
    for side, capture in zip(("reference", "candidate"), captures, strict=True):
        if MetricSteps.answer(capture).exhausted:
            result.notes.append(f"the trace of the {side}'s metric was cut off: its way is too long to be kept whole")
    if guilty is None or guilty.candidate is None:
        return
    before = result.divergence
    last = guilty.last or (None if before is None else before.last_agreeing)
    ends = end_of(guilty.reference), end_of(guilty.candidate)
    result.divergence = Divergence(*ends, first, inputs_agree=guilty.before is not None, last_agreeing=last)


def is_of_batch(pair: Pair) -> bool:
    """Whether a pair is the metric of one batch of the reference's outputs."""
    return _point(pair) not in ("", *JOINED)


def _point(pair: Pair) -> str:
    """What the metric was computed on: ``batch_<n>``, ``all`` or ``running``.

    '' for probes and for each side's own evaluation.
    """
    record = pair.record
    if record is None:
        return ""
    word, _, number = record.name.partition("_")
    is_batch = word == "batch" and number.isdigit()
    if is_batch or record.name in JOINED:
        return record.name
    return ""


@np.errstate(all="ignore")
def _located(captures: tuple[Capture, Capture], pair: Pair) -> Guilty | None:
    reference, candidate = (Way.read(capture, "seed-0") for capture in captures)
    rounded(reference, candidate)
    record = pair.record
    name = "sample"
    if record is not None and record.leaf:
        name = f"sample.{record.leaf}"
    if name in reference.leaves and name in candidate.leaves:
        found = locate(reference, candidate, name)
        if found is not None:
            return found
    return locate_last(reference, candidate)
