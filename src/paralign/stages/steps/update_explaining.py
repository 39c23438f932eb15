"""The update alone: which parameters move otherwise from equal gradients, why, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate.provenance import group_choice, tracing_back
from paralign.model import DIVERGED, Pair, StageResult
from paralign.stages.steps.equal_gradients import Experiment, Given, record_steps
from paralign.stages.steps.traced_moves import traces_of
from paralign.stages.steps.update_lines import Explained, blamed_term, choice_of, choose, divergence_of, locate, trace_back
from paralign.stages.steps.update_reasons import causes_of, identified, keep_clipping, tell

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.locate.optimizer.update_rules import Trace


def explain(context: Context, result: StageResult, given: Given, *, agreed: bool) -> Experiment | None:
    """Have both sides move from equal gradients, and say which parameters move differently and why.

    Args:
        context: the check.
        result: of the backward stage; gets pairs, findings and, where ``agreed``, the divergence.
        given: the gradients, mostly those that the reference recorded in the backward stage.
        agreed: whether the gradients of the first step agreed.

    Returns:
        What both sides did; None where a side failed, or nothing could be given.
    """
    context.clipping = None
    try:
        experiment = record_steps(context, given, result)
    except WorkerFailed as failed:
        result.warnings.append(f"the update could not be looked at by itself: the {failed.side} failed: {failed.type}: {failed.message}")
        return None
    if experiment is None:
        return None
    traces, pairs, limits = traces_of(experiment)
    if not pairs:
        return experiment
    if all(p.verdict != DIVERGED for p in pairs):
        _say_alike(result, pairs, seen=bool(traces), whole=given.whole)
        return experiment
    _say_why(context, result, experiment, (traces, pairs, limits), agreed=agreed, whole=given.whole)
    return experiment


def _say_why(
    context: Context,
    result: StageResult,
    experiment: Experiment,
    judged: tuple[dict[str, Trace], list[Pair], dict[str, float]],
    *,
    agreed: bool,
    whole: bool,
) -> None:
    """Say why some parameters move otherwise, and where; ``judged`` as :func:`traces_of` gives it, the rest as in :func:`explain`."""
    traces, pairs, limits = judged
    strict = context.settings.strict
    known = identified(experiment, traces, limits)
    found = causes_of(known, traces, limits)
    if all(context.has(side, "train_step") for side in ("reference", "candidate")):
        found.sort(key=lambda difference: difference.terms[0] == "clip")  # which the step itself may do: others are named before
    tell(result, pairs, found, known, experiment, traces, limits, agreed=agreed and not strict, whole=whole, strict=strict)
    keep_clipping(context, result, found, known, pairs)
    if not agreed or result.divergence is not None:
        return
    blamed = next((d for d in found if d.terms[0] != "inherent"), None)
    rule = None if known[0].left else next(iter(known[0].recipe.values()), None)
    result.divergence = divergence_of(found, [p for p in pairs if p.verdict == DIVERGED], experiment, context)
    if not choose(result.divergence, found, known, experiment):
        trace_back(context, result.divergence, experiment, blamed)
    elif blamed_term(blamed, experiment) == "rates":
        tracing_back.follow_computing(context, result.divergence)
    if blamed is not None:
        group_choice.follow(context, result.divergence, choice_of(blamed, known))
    locate(context, result, experiment, Explained(traces, limits, blamed, rule))


def _say_alike(result: StageResult, pairs: list[Pair], *, seen: bool, whole: bool) -> None:
    """All parameters move alike; ``seen``: by enough to tell."""
    if whole:
        result.pairs += pairs
    if not seen:
        result.notes.append("from equal gradients no parameter moves by enough to be seen: whether the update differs was not tested")
    elif not whole:
        result.notes.append("from equal gradients the parameters of both sides move alike: what differs is not the update")
