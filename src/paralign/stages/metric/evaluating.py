"""Each side's own evaluation beside the other.

Its model over its loader, its metric, and the samples that these saw.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, ERROR, UNDERPOWERED, Coverage, Divergence, Finding, Pair, Point, Record, wrong_of
from paralign.stages.common import own_batches
from paralign.stages.metric import redrawn_evaluations
from paralign.worker.protocol import Own, Raised

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import StageResult
    from paralign.run.recorder import Recorder
    from paralign.worker.protocol.metric_tasks import OwnEvaluated

#: the id of the finding where only the sides' own evaluations differ
EVALUATION = "metric/evaluation"

#: relative difference that rounding in a whole model explains in a metric that is continuous
SAME = 1e-3

#: errors of paralign's own about what a loader gives: the user's program may well take it
OURS = ("UsageError", "UnsupportedTensor")

#: how near to a whole number of samples a share is that counts some
COUNTED = 1e-4

#: samples whose decision rounding may turn: one and a half of one, so that a metric may move by one sample
TURNED = 1.5


def compare(context: Context, result: StageResult) -> None:
    """Run both evaluations, and judge their results and how many samples they counted."""
    if not context.has_both("build_dataloader"):
        result.notes.append("the port's own evaluation was not run: it needs build_dataloader(split) on both sides")
        return
    order = Own(context.settings.split, context.settings.patience)
    try:
        captures = context.record_both("own-evaluation", order)
    except WorkerFailed as failed:
        _judge_failed(context, result, order, failed)
        return
    finally:
        context.artifacts.pop("own-evaluation", None)
    before = list(result.pairs)
    apart = _judge_figures(context, result, order, captures)
    if apart and not wrong_of(before):
        cause = "the metrics agree on the reference's outputs, the evaluations do not: what differs lies in the model or in the data"
        result.findings.append(Finding(EVALUATION, cause, "look at the stages forward and data", proven=False))


def _judge_figures(context: Context, result: StageResult, order: Own, captures: tuple[Capture, Capture]) -> list[str]:
    """Judge samples and figures of both evaluations; the names of figures that differ."""
    answers = [Own.answer(c) for c in captures]
    whole = all(answer.whole for answer in answers)
    taken = None if whole and all(answer.joined for answer in answers) else _batches_of_both(captures)
    counts = _counted(answers[0], answers[1])
    told = f"{counts[0]:,} samples in the reference, {counts[1]:,} in the candidate"
    if not whole and not _in_one_order(answers, taken or []):
        result.coverage.append(Coverage("batches evaluated", 0, answers[1].total))
        result.notes.append("not all batches could be evaluated by both sides within a minute: their own evaluations were not judged")
        return []
    if whole:
        _judge_counts(result, counts, told)
    if taken is not None:
        counts = [sum(answer.sizes[number] for number in taken) for answer in answers]
        told = f"{len(taken):,} batches one by one, {counts[0]:,} samples in the reference, {counts[1]:,} in the candidate"
        total = answers[1].total if not whole else max(answer.batches for answer in answers)
        result.coverage.append(Coverage("batches evaluated one by one", len(taken), total))
    result.coverage.append(Coverage("samples evaluated", counts[1], None))
    values = [_values(c, taken) for c in captures]
    sizes = _sizes(captures, answers, taken)
    both = [leaf for leaf in values[0] if leaf in values[1]]
    batches = len(taken or [])
    apart = [leaf for leaf in both if not _same(values[0][leaf], values[1][leaf], sizes.get(leaf, min(counts)), batches)]
    if whole:
        apart = [] if _saw_others(result, answers, apart) else _redrawn(context, result, order, values, apart, taken)
    said = {leaf: [_said(side[leaf], one_by_one=taken is not None) for side in values] for leaf in both}
    _say_figures(result, said, apart, told)
    if said:
        listed = ", ".join(f"{leaf or 'metric'} {one} / {other}" for leaf, (one, other) in said.items())
        over = f"{counts[0]:,} / {counts[1]:,}"
        result.notes.append(f"each side's own evaluation (reference / candidate): {listed}, over {over} samples")
    if said and taken is not None:
        result.notes.append(f"own evaluations: figures are means of {len(taken):,} batches, which were compared one by one and not joined")
    return apart


def _say_figures(result: StageResult, said: dict[str, list[str]], apart: list[str], told: str) -> None:
    for leaf, (one, other) in said.items():
        notes = [f"{one} and {other} over {told}"] if leaf in apart else []
        result.pairs.append(_pair(f"own_all.{leaf}" if leaf else "own_all", one, other, notes))


def _batches_of_both(captures: tuple[Capture, Capture]) -> list[int]:
    """The numbers of the batches of which both sides' metric gave a figure."""
    names = [{r.name for r in capture.records if r.location is not None} for capture in captures]
    return sorted(int(name.partition("_")[2]) for name in names[0] & names[1] if name.partition("_")[2].isdigit())


def _in_one_order(answers: list[OwnEvaluated], taken: list[int]) -> bool:
    """Whether both sides saw the same samples in the same order, as far as both came."""
    first, second = (answer.seen for answer in answers)
    if first is None or second is None or not taken:
        return False
    count = sum(answers[0].sizes[: taken[-1] + 1])
    return first[:count] == second[:count]


def _sizes(captures: tuple[Capture, Capture], answers: list[OwnEvaluated], taken: list[int] | None) -> dict[str, Any]:
    """Leaf -> the samples behind each of its values, of batches that stand one by one."""
    found: dict[str, list[Any]] = {}
    for number in taken or []:
        size = min(answer.sizes[number] for answer in answers)
        for record in captures[0].select(name=f"own_{number}"):
            if record.location is not None:
                found.setdefault(record.leaf, []).append(np.full(np.asarray(captures[0].array(record)).size, size))
    return {leaf: np.concatenate(parts) for leaf, parts in found.items()}


def _judge_failed(context: Context, result: StageResult, order: Own, failed: WorkerFailed) -> None:
    """Judge an evaluation that one side alone cannot do.

    Where that side's training step takes the batches, it may prepare them, and nothing is known of the evaluation.
    """
    told = f"the {failed.side}'s own evaluation failed with {failed.type}: {failed.message.partition(chr(10))[0]}"
    others = None if failed.side == "candidate" else _failure_of(context.candidate, order)
    if failed.side not in ("reference", "candidate") or others is not None:
        result.warnings.append(told)
        if others is not None:
            result.warnings.append(f"the candidate's own evaluation failed with {others.type}: {others.message}")
        return
    taken = own_batches.stepped(context) if context.has_both("train_step") else None
    prepares = taken is not None and taken[failed.side == "candidate"].raised is None
    if prepares or failed.type in OURS:
        result.doubt(f"{told}. The other side's does not: the evaluations were not compared")
        result.pairs.append(_pair("own_all", "", "", ["one evaluation failed"], UNDERPOWERED))
        return
    raised = Raised(failed.type, failed.message, failed.traceback, failed.frames)
    result.failure = {**own_batches.failure(context, failed.side, raised), "log": failed.log}
    result.pairs.append(_pair("own_all", "", "", [told], ERROR))
    frame = failed.frames[-1].partition(" in ")[0] if failed.frames else None
    end = Point("own_all", "evaluation", frame)
    result.divergence = Divergence(*((None, end) if failed.side == "candidate" else (end, None)))
    cause = (
        f"the {failed.side}'s own evaluation, its model and metric over its own loader, fails with {failed.type}; the other side's does not"
    )
    refused = own_batches.refusal(context)
    if refused is not None and refused.proven and refused.side == failed.side:
        result.findings.append(own_batches.finding(refused))
    result.findings.append(Finding(EVALUATION, cause, "make what the loader gives fit what the model and the metric take", proven=False))


def _failure_of(recorder: Recorder, order: Own) -> WorkerFailed | None:
    try:
        recorder.record("own-evaluation", order)
    except WorkerFailed as failed:
        return failed
    return None


def _counted(reference: OwnEvaluated, candidate: OwnEvaluated) -> list[int]:
    """How many samples each side's evaluation counted.

    Labels whose leaves have first axes of several lengths (one label a graph, one a node) count their first one, whichever side has
    it first.
    """
    shared = [leaf for leaf in reference.counts if leaf in candidate.counts]
    if not shared:  # of other names
        return [reference.samples, candidate.samples]
    return [reference.counts[shared[0]], candidate.counts[shared[0]]]


def _judge_counts(result: StageResult, counts: list[int], told: str) -> None:
    """Both evaluations have to count the same samples."""
    agrees = counts[0] == counts[1]
    result.pairs.append(_pair("own_samples", str(counts[0]), str(counts[1]), [] if agrees else [told]))
    if agrees:
        return
    cause = f"the two evaluations count different samples: {told}"
    fix = "compare drop_last, what the data sets leave out, and the padding of a distributed sampler"
    result.findings.append(Finding("metric/samples", cause, fix, proven=True))


def _saw_others(result: StageResult, answers: list[OwnEvaluated], apart: list[str]) -> bool:
    """Whether the evaluations saw other samples, as shuffled loaders that drop some do.

    Their results then say nothing of the models. A loader leaves out less than a batch; more are wrong samples, or have another form.
    """
    first, second = (answer.seen for answer in answers)
    if not apart or not first or not second or len(first) != len(second):
        return False
    same = sum((Counter(first) & Counter(second)).values())
    others = len(first) - same
    in_place = sum(one == other for one, other in zip(first, second, strict=True))
    batch = len(first) / max(1, answers[0].batches)
    if not 0 < others < batch or 2 * in_place > same:  # more than a last batch, or samples in one order: no shuffle leaves these out
        return False
    result.notes.append(
        f"own evaluations: {len(first) - same:,} of {len(first):,} samples that the sides saw are not the same, as with a shuffled loader "
        f"that leaves some out: {', '.join(leaf or 'metric' for leaf in apart)} were not judged there"
    )
    return True


def _redrawn(
    context: Context, result: StageResult, order: Own, values: list[dict[str, Any]], apart: list[str], taken: list[int] | None
) -> list[str]:
    """The results that differ by more than what both models draw in eval mode explains."""
    if not apart:
        return apart
    try:
        means = [_means(side, taken) for side in values]
        redrawn = redrawn_evaluations.judge(context, order, means, apart, lambda c: _means(_values(c, taken), taken))
    except WorkerFailed as failed:
        result.notes.append(f"evaluations under other seeds: the {failed.side} failed with {failed.type}: {failed.message}")
        return apart
    if redrawn is None:
        return apart
    result.notes.append(redrawn.note)
    return redrawn.apart


def _pair(key: str, reference: str, candidate: str, wrong: list[str], verdict: str = DIVERGED) -> Pair:
    first, second = (Record(0, key, "metric", "fact", "none", (), text=text) for text in (reference, candidate))
    return Pair(key, first, second, verdict=verdict if wrong else ALIGNED, judged=bool(wrong), notes=wrong)


def _values(capture: Capture, taken: list[int] | None) -> dict[str, Any]:
    """A side's figures by leaf.

    Those of all batches joined, or, one after the other, of the batches that are named.
    """
    if taken is None:
        return {r.leaf: np.asarray(capture.array(r)) for r in capture.select(name="own_all") if r.location is not None}
    found: dict[str, list[Any]] = {}
    for number in taken:
        for record in capture.select(name=f"own_{number}"):
            if record.location is not None:
                found.setdefault(record.leaf, []).append(np.asarray(capture.array(record)).reshape(-1))
    return {leaf: np.concatenate(parts) for leaf, parts in found.items()}


def _means(values: dict[str, Any], taken: list[int] | None) -> dict[str, Any]:
    """Figures by leaf; of batches that stand one by one their mean.

    Another seed may order these otherwise.
    """
    if taken is None:
        return values
    return {leaf: np.asarray(value.mean()) for leaf, value in values.items() if value.dtype.kind in "fiub" and value.size}


def _same(one: Any, other: Any, samples: Any, batches: int = 0) -> bool:
    """Whether two results differ by rounding: a thousandth, or one sample's decision.

    ``samples`` lie behind a result: a number, or one for each value, where these are of so many ``batches``. One decision may turn in
    each of these, and no more than one in all of them: a batch of one sample proves nothing by itself.
    """
    if one.shape != other.shape or one.dtype.kind not in "fiub" or other.dtype.kind not in "fiub":
        return bool(one.shape == other.shape and (one == other).all())
    first, second = one.astype(np.float64), other.astype(np.float64)
    if not (np.isfinite(first) == np.isfinite(second)).all():
        return False
    finite = np.isfinite(first)
    samples = np.maximum(np.broadcast_to(samples, first.shape)[finite], 1)
    first, second = first[finite], second[finite]
    granted, turned = SAME * np.abs(first), 0.0
    apart = np.abs(first - second) > granted
    for unit in (1.0, 100.0):  # a share, or a percentage, of samples: a decision may turn
        counted = _counts(first, samples, unit) & _counts(second, samples, unit)
        granted = np.where(counted, np.maximum(granted, TURNED * unit / samples), granted)
        turned = TURNED * unit if counted[apart].all() else turned
    if not (np.abs(first - second) <= granted).all():
        return False
    if not batches or not apart.any():
        return True
    away = abs(float(((first - second) * samples).sum()))
    return bool(away <= SAME * float((np.abs(first) * samples).sum()) + turned * math.ceil(one.size / batches))


def _counts(values: Any, samples: Any, unit: float) -> Any:
    """Where values are as many whole samples of those behind them, in a unit."""
    hits = values * samples / unit
    return (np.abs(hits - np.round(hits)) < COUNTED) & (values <= unit)


def _said(value: Any, *, one_by_one: bool = False) -> str:
    if one_by_one and value.size and value.dtype.kind in "fiub":
        return f"{float(value.astype(np.float64).mean()):.6g}"
    if value.size == 1 and value.dtype.kind in "fiub":
        return f"{float(value):.6g}"
    return str(value.tolist())[:60]
