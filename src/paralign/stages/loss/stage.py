"""The loss and its gradient with respect to the outputs.

Both sides are given the reference's outputs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from paralign.context import spent
from paralign.dtypes import widen
from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.model import DIVERGED, StageResult, Unjudged
from paralign.run.recorder import both
from paralign.stages.common import forward_passes, lower_precision, nonfinite, own_batches, precision, probing, repeatability
from paralign.stages.common.judging import PARTLY, choose, conclude, final, paired, points_of
from paralign.stages.data.stage import first
from paralign.stages.loss import further_batches, second_gradients
from paralign.worker.protocol import Attached, Loss, Lowered
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.locate.pipeline import Replay, Searched
    from paralign.stages.common.judging import Method


UNATTACHED = "nothing trainable lies behind this output on either side (a mask, an input handed through): its gradient trains nothing"


def run(context: Context) -> StageResult:
    """Judge the loss apart from the model."""
    missing = _missing(context)
    if missing is not None:
        return missing
    outputs = context.artifacts["forward"][0] if "forward" in context.artifacts else forward_passes.reference_alone(context)
    captures = context.record_labelled(Loss([DOUBLE, NATIVE], context.halves_apart), {"outputs": outputs})
    if isinstance(captures, StageResult):
        return captures
    reference, candidate = captures
    method, notes = choose(reference, candidate)
    points = points_of(final(reference, run=method.reference_run), final(candidate, run=method.candidate_run))
    result = spent(StageResult("loss", notes=[*context.label_notes, *notes]), reference, candidate)
    tolerance = context.settings.tolerance_of("loss")
    result.pairs = paired(reference, candidate, points, method, tolerance)
    values = {n: c for n, c in (("outputs", outputs), ("labels", context.labels)) if c is not None}
    low = lower_precision.places(context, result.pairs, method, tolerance, Lowered("loss"), values)
    if low:
        method, reference = PARTLY, lower_precision.perturbed(context, Loss([], context.halves_apart), values)
        points = points_of(final(reference, run=DOUBLE), final(candidate, run=DOUBLE))
        result.pairs = paired(reference, candidate, points, method, tolerance)
        result.notes += low
    untrained = _leave_out_unattached(context, result)
    repeats = (Loss.answer(captures[0]).repeat, Loss.answer(captures[1]).repeat)
    repeatability.say_gradients(result, result.pairs, repeats, "loss and its gradients")
    if max(repeats) > repeatability.REPEATED:
        result.notes.append("the loss was not probed: it is random")
    else:
        _probe(context, result, method)
    if context.settings.second_gradients:
        second_gradients.compare(context, result)
    conclude(result, method)
    nonfinite.explain(context, result, "eval")
    kept = [r for r in final(reference, run=DOUBLE) if r.name != "gradient" or r.leaf not in untrained]
    natives = points_of(kept, [r for r in final(candidate, run=NATIVE) if r.name != "gradient" or r.leaf not in untrained])
    if not repeatability.hides(repeats):
        precision.judge(result, (reference, candidate), natives, method, tolerance)
    precision.say_types(result, points_of(final(reference, name="loss", run=NATIVE), final(candidate, name="loss", run=NATIVE)))
    if result.verdict == DIVERGED:
        result.divergence = first(result.pairs)
        _locate(context, result)
    own_batches.judge(context, result, only="loss")
    return result


def _missing(context: Context) -> StageResult | None:
    """What stands in place of the stage where something is missing that it needs.

    None where nothing is.
    """
    lacking = context.lacking("loss", "loss")
    if lacking is None and not context.has("reference", "build_model"):
        lacking = context.lacking("loss", "build_model")
    lacking = lacking or context.untrainable("loss")
    if lacking is None and context.inputs is None:
        return StageResult("loss", notes=["no inputs: define inputs() in the reference, or set [inputs]"])
    return lacking


def _probe(context: Context, result: StageResult, method: Method) -> None:
    """Ask both losses about further batches and rare cases.

    They are asked on the metric's outputs and labels.
    """
    known = context.settings.verdict_only and any(p.verdict == DIVERGED for p in result.judged)
    if context.labels is None or context.unlabelled or known:
        return
    try:
        evaluation = context.evaluation()
    except WorkerFailed as failure:
        result.notes.append(f"the loss was not probed: the evaluation failed with {failure.type}: {failure.message}")
        return
    further_batches.compare(context, result, evaluation, method)
    probing.probe(context, result, evaluation, "loss")


def _leave_out_unattached(context: Context, result: StageResult) -> set[str]:
    """Leave out gradients of outputs that depend on no parameter.

    Formulas that give one loss may use a mask in different ways.

    Returns:
        The outputs whose gradients differ and are left out.
    """
    diverged = [p for p in result.pairs if p.verdict == DIVERGED]
    wrong = [(p, p.reference.leaf) for p in diverged if p.reference is not None and p.reference.name == "gradient"]
    if not wrong or not context.has("candidate", "build_model"):
        return set()
    try:
        free = _unattached(context)
    except WorkerFailed as failure:
        result.notes.append(
            f"which outputs are trained was not found out: the {failure.side} failed with {failure.type}: {failure.message}"
        )
        return set()
    left_out = set()
    for pair, leaf in wrong:
        if leaf in free:
            pair.leave_out(Unjudged.UNATTACHED, UNATTACHED)
            result.notes.append(f"{pair.key} differs and was not judged: {UNATTACHED}")
            left_out.add(leaf)
    return left_out


def _unattached(context: Context) -> set[str]:
    """The reference's outputs that no parameter of either side acts on.

    Equal names are the same output, else equal places are.
    """
    if context.inputs is None:
        return set()
    values = {"inputs": context.inputs}
    captures = both(
        lambda: context.reference.record("attached", Attached(), values),
        lambda: context.candidate.record("attached", Attached(), values),
    )
    ours, theirs = (Attached.answer(capture).attached for capture in captures)
    if ours is None or theirs is None or len(ours) != len(theirs):
        return set()
    named = dict(theirs)
    same_names = set(named) == {path for path, _ in ours}
    found = set()
    for (path, attached), (_, beside) in zip(ours, theirs, strict=True):
        counterpart = named[path] if same_names else beside
        if not attached and not counterpart:
            found.add(path)
    return found


def sensitivity(context: Context) -> float:
    """By how much more the loss changes, at most, than all outputs do, in shares of each.

    At least 1, also where it was not recorded.

    A loss that is small beside its terms (a mean of squares near zero) multiplies what rounding did to the outputs.
    """
    captures = context.artifacts.get("loss")
    outputs = context.artifacts.get("forward")
    if captures is None or outputs is None:
        return 1.0
    method, _ = choose(*captures)
    run = method.reference_run
    values = {r.leaf: r for r in final(outputs[0], name="output", run=run)}
    total = next((float(abs(captures[0].array(r).flat[0])) for r in final(captures[0], name="loss", run=run)), 0.0)
    moved = 0.0
    for gradient in final(captures[0], name="gradient", run=run):
        value = values.get(gradient.leaf)
        if value is not None and value.location is not None and gradient.location is not None:
            moved += float(np.abs(widen(captures[0].value(gradient)) * widen(outputs[0].value(value))).sum())
    if total > 0 and math.isfinite(moved):
        return max(1.0, moved / total)
    return 1.0


def _locate(context: Context, result: StageResult) -> None:
    """Watch the operations of the loss, on the model's own outputs."""
    if context.plan is None or context.settings.modules == "none" or not context.has("candidate", "build_model"):
        return
    try:
        further = further_batches.first_wrong(result.pairs)
        if further is not None:
            _locate_in(context, result, further)
            return
        drawn = context.drawn or not context.forwarded  # the model draws in eval mode, or no stage has looked whether it does
        replay = pipeline.replayed(context, "eval", backward=True) if drawn else None
        searched = replay if replay is not None else pipeline.backward(context, "eval")
    except WorkerFailed as failure:
        result.notes.append(f"operations could not be watched: the {failure.side} failed with {failure.type}: {failure.message}")
        return
    _take(result, searched)


def _locate_in(context: Context, result: StageResult, number: int) -> None:
    """Watch the operations of the loss on a further batch: the check's own shows nothing."""
    result.notes.append("the loss of the batch that the check is made on is equal: what differs shows in other batches of the loader")
    if context.drawn:  # its draws would have to be replayed on that batch
        return
    searched = further_batches.located(context, number, context.evaluation())
    if searched is not None:
        _take(result, searched)


def _take(result: StageResult, searched: Searched | Replay) -> None:
    """Have what was found take the place of the pair that differs."""
    found = searched.divergences
    result.divergences, result.divergence = found, found[0] if found else result.divergence
    result.notes += searched.notes
