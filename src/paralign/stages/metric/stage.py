"""The metric: on the reference's outputs, on probes, and each side's own evaluation."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from paralign.comparison import judge, measure
from paralign.context import spent
from paralign.errors import WorkerFailed
from paralign.locate import other_axis
from paralign.locate.provenance import tracing_back
from paralign.model import ALIGNED, DIVERGED, Coverage, Noise, StageResult
from paralign.stages.common import nonfinite, own_batches, probing
from paralign.stages.common.judging import ROUNDING, conclude, paired, points_of
from paralign.stages.data.stage import first
from paralign.stages.metric import evaluating, metric_lines
from paralign.worker.evaluation.metrics import MOVED, MOVED_DOUBLE, REVERSED
from paralign.worker.protocol import Evaluate, Metric
from paralign.worker.sides.session import DOUBLE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed

#: the metric of all batches joined
WHOLE = "all"

#: a continuous metric moves by this factor less where its values move in the last place of a float64, not of a float32 (2**29 less)
CONTINUOUS = 1e2

#: a metric that moves by more where its samples come in reverse order depends on that order; a sum of a million float32 numbers moves less
REORDERED = 1e-3


def run(context: Context) -> StageResult:
    """Judge the metric on the reference's outputs, on probes, and in own evaluations."""
    missing = context.lacking("metric", "metric", "build_model")
    if missing:
        return missing
    if _lacks_labels(context):
        note = "no labels: define build_dataloader(split) or labels() in the reference, or set [labels] in paralign.toml"
        return StageResult("metric", notes=[note], lacks=["labels() in the reference"])
    evaluation, prepared = _evaluation(context)
    reference, candidate = context.record_both("metric", Metric(tolerant=True, widens=context.halves_apart), {"evaluation": evaluation})
    result = spent(StageResult("metric"), reference, candidate)
    left_out = _say_failed(context, result, reference, candidate, evaluation)
    taken = [[r for r in capture.records if r.name not in left_out] for capture in (reference, candidate)]
    result.pairs = paired(reference, candidate, points_of(*taken), ROUNDING, context.settings.tolerance_of("metric"))
    _grant_noise(context, result, reference, evaluation)
    probing.probe(context, result, evaluation, "metric")
    _compare_own(context, result, prepared)
    nonfinite.excuse_seen_elsewhere(result.judged, lambda p: None if p.reference is None else p.reference.leaf)
    conclude(result, ROUNDING)
    if result.wrong:
        result.verdict = DIVERGED  # that holds whatever else failed
    about = Evaluate.answer(evaluation)
    if about.loader:
        result.coverage.append(Coverage("batches", about.batches, about.total))
    if not _outputs_are_finite(evaluation):
        result.notes.append("the reference's outputs, on which the metric is computed, hold NaN or infinities")
        nonfinite.explain(context, result, partly=False)
    if result.verdict == DIVERGED:
        result.divergence = first(result.judged)
        if not _trace_back(context, result, evaluation):
            metric_lines.follow(context, result, evaluation)
    return result


def _evaluation(context: Context) -> tuple[Capture, WorkerFailed | None]:
    """The reference's outputs and labels, and why its loader gave none of them.

    None where it did; else they are those of the check's inputs.

    Raises:
        WorkerFailed: the reference fails.
    """
    try:
        return context.evaluation(), None
    except WorkerFailed as failed:
        if not _is_prepared(context):
            raise
        return context.evaluation(given=True), failed


def _compare_own(context: Context, result: StageResult, prepared: WorkerFailed | None) -> None:
    """Compare both sides' own evaluations, unless their training steps prepare the batches."""
    if prepared is None:
        evaluating.compare(context, result)
        return
    result.excuse(
        f"the reference's model does not take its loader's batches as they are ({prepared.type}), the training steps of both sides do: "
        "the metric was compared on the check's inputs, own evaluations were not"
    )


def _is_prepared(context: Context) -> bool:
    """Whether both sides' own training steps take what their loaders give.

    There have to be inputs and labels to be evaluated on instead. Such steps may cast or normalise a batch before the model sees it.
    """
    if context.inputs is None or context.labels is None or context.unlabelled or not context.has_both("train_step"):
        return False
    taken = own_batches.stepped(context)
    return taken is not None and all(side.raised is None for side in taken)


def _lacks_labels(context: Context) -> bool:
    """Whether the reference has neither a loader nor inputs with labels to be evaluated on."""
    if context.has("reference", "build_dataloader"):
        return False
    return context.inputs is None or context.labels is None or context.unlabelled


def _outputs_are_finite(evaluation: Capture) -> bool:
    """Whether no output that was kept holds NaN or infinities."""
    for record in evaluation.records:
        if record.role != "output" or record.location is None:
            continue
        values = evaluation.array(record)
        if values.dtype.kind in "fc" and not np.isfinite(values).all():
            return False
    return True


def _say_failed(context: Context, result: StageResult, reference: Capture, candidate: Capture, evaluation: Capture) -> dict[str, str]:
    """Leave out and tell the batches on which the reference's metric fails.

    One of too few samples may be such.

    Raises:
        WorkerFailed: the candidate's fails where the reference's does not.
    """
    left_out, failed = (Metric.answer(capture).failed for capture in (reference, candidate))
    if any(name not in left_out for name in failed):
        context.candidate.record("metric-alone", Metric(widens=context.halves_apart), {"evaluation": evaluation})
    for name, why in left_out.items():
        other = "as the candidate's does" if name in failed else "the candidate's does not"
        result.notes.append(f"the reference's metric fails on {name.replace('_', ' ')} ({why}), {other}: left out")
    batches = [name for name in left_out if name != WHOLE]
    if batches:
        count = Metric.answer(reference).batches
        result.coverage.append(Coverage("batches with a metric", count - len(batches), count))
    return left_out


def _trace_back(context: Context, result: StageResult, evaluation: Capture) -> bool:
    """Name the metric's line that makes another value than the reference's.

    Gives whether there is one.
    """
    wrong = next((p for p in result.wrong if metric_lines.is_of_batch(p)), None)
    if wrong is None:
        return False
    sides = tracing_back.recorded(context, "metric", {"evaluation": evaluation})
    if sides is None or wrong.candidate is None or wrong.reference is None:
        return False
    names = [f"{r.name}:{r.leaf}" for r in (wrong.candidate, wrong.reference)]
    right = [f"{p.candidate.name}:{p.candidate.leaf}" for p in result.pairs if p.verdict == ALIGNED and p.candidate is not None]
    found = tracing_back.of_value(sides, names[0], names[1], right)
    if found is None or result.divergence is None:
        return False
    result.divergence.pair = wrong
    tracing_back.name(result.divergence, found)
    axis = other_axis.of_values(sides, *names)
    if axis is not None:
        other_axis.name(result.divergence, axis)
    return True


def _grant_noise(context: Context, result: StageResult, reference: Capture, evaluation: Capture) -> None:
    """Judge metrics again by what rounding does to the reference's own.

    That is asked where they differ by more than one rounding.
    """
    diverged = [p for p in result.pairs if p.verdict == DIVERGED and p.granted is None and p.stats is not None]
    wrong = [(p, p.reference, p.noise) for p in diverged if p.reference is not None and p.noise is not None]
    if not wrong:
        return
    skipped = tuple(Metric.answer(reference).failed)
    capture = context.reference.record(
        "metric-noise", Metric(noise=True, skip=skipped, widens=context.halves_apart), {"evaluation": evaluation}
    )
    runs: dict[tuple[str, str], dict[str, Typed]] = defaultdict(dict)
    for record in capture.records:
        if record.location is not None:
            runs[record.name, record.leaf][record.run] = capture.value(record)
    for pair, record, noise in wrong:
        moved = _moved(reference.value(record), runs[record.name, record.leaf])
        if moved > noise.value:
            pair.noise = Noise(moved, "how far rounding moves the reference's metric")
            judge(pair, limit=ROUNDING.limit, tolerance=context.settings.tolerance_of("metric"))


def _moved(value: Typed, runs: dict[str, Typed]) -> float:
    """How far rounding moves a value, relative.

    0 where it moves by decisions, as those between equal scores.

    Of values in float64 that differ in the last place, what is continuous gives results that differ in their last places as well.
    """

    def far(one: Typed, run: str) -> float:
        other = runs.get(run)
        if other is None or other.array.shape != one.array.shape:
            return 0.0
        return measure(one, other, shown=False).rel_l2

    nudged = max((far(value, run) for run in (*MOVED, DOUBLE)), default=0.0)
    if DOUBLE in runs and far(runs[DOUBLE], MOVED_DOUBLE) > nudged / CONTINUOUS:
        nudged = 0.0
    reordered = far(value, REVERSED)
    if not reordered <= REORDERED:
        reordered = 0.0
    return max(nudged, reordered)
