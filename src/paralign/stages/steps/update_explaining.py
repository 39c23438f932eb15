"""The update alone: which parameters move otherwise from equal gradients, why, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate.provenance.settings import group_choice, optimizer_settings
from paralign.stages.steps import clipped_beforehand
from paralign.stages.steps.equal_gradients import Experiment, Given, record_steps
from paralign.stages.steps.traced_moves import Moves, moves_of
from paralign.stages.steps.update_lines import blamed_term, choice_of, choose, divergence_of, locate, trace_back
from paralign.stages.steps.update_reasons import (
    Reasons,
    by_what_can_be_changed,
    causes_of,
    differs_inherently,
    identified,
    keep_clipping,
    tell,
)

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.model import StageResult


def explain(context: Context, result: StageResult, given: Given, *, agreed: bool) -> Experiment | None:
    """Say which parameters move differently from equal gradients, and why.

    Args:
        context: the check.
        result: of the backward stage; gets pairs, findings and, where ``agreed``, the divergence.
        given: the gradients, mostly those that the reference recorded in the backward stage.
        agreed: whether the gradients of the first step agreed.

    Returns:
        What both sides did; None where a side failed, or nothing could be given.
    """
    context.clipping = context.inherent = None
    try:
        experiment = record_steps(context, given, result)
    except WorkerFailed as failed:
        result.warnings.append(f"the update could not be looked at by itself: the {failed.side} failed: {failed.type}: {failed.message}")
        return None
    if experiment is None:
        return None
    moves = moves_of(experiment)
    if moves.wrong:
        _say_why(context, result, experiment, moves, given, agreed=agreed)
    elif moves.pairs:
        _say_alike(result, moves, whole=given.whole)
    return experiment


def _say_why(context: Context, result: StageResult, experiment: Experiment, moves: Moves, given: Given, *, agreed: bool) -> None:
    """Say why some parameters move otherwise, and where; arguments as in :func:`explain`."""
    known = identified(experiment, moves)
    clips = clipped_beforehand.difference(context, experiment, given, moves, known)
    found = by_what_can_be_changed(causes_of(known, moves), experiment.abouts, known[1].recipe) if clips is None else [clips]
    if all(context.has(side, "train_step") for side in ("reference", "candidate")):
        found.sort(key=lambda difference: difference.terms[0] == "clip")  # which the step itself may do: others are named before
    reasons = Reasons(moves, known, found, shown=clips is not None)
    tell(result, experiment, reasons, agreed=agreed, whole=given.whole, strict=context.settings.strict)
    keep_clipping(context, result, reasons, experiment)
    if differs_inherently(result, reasons) and not context.settings.strict:
        context.inherent = known[0].recipe, known[1].recipe
    if not agreed or result.divergence is not None or not context.explains:
        return
    blamed = reasons.blamed
    result.divergence = divergence_of(reasons, experiment, context)
    if not choose(result.divergence, reasons, experiment):
        experiment.of_group = trace_back(context, result.divergence, experiment, blamed)
    elif blamed_term(blamed, experiment) == "rates":
        optimizer_settings.follow_computing(context, result.divergence)
    if blamed is not None and not experiment.of_group:
        group_choice.follow(context, result.divergence, choice_of(blamed, known, moves))
    if context.clipping is None or not context.clipping.alone:  # else no operation of the rule is guilty
        locate(context, result, experiment, reasons)


def _say_alike(result: StageResult, moves: Moves, *, whole: bool) -> None:
    """All parameters move alike, as far as they move by enough to tell."""
    if whole:
        result.pairs += moves.pairs
    if not moves.traces:
        result.notes.append("from equal gradients no parameter moves by enough to be seen: whether the update differs was not tested")
    elif not whole:
        result.notes.append("from equal gradients the parameters of both sides move alike: what differs is not the update")
