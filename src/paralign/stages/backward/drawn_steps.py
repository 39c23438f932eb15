"""Training steps of random models: the candidate draws what the reference drew.

Compared where one pass is the same on both sides once its draws are replayed; where it is not, that pass says more than steps would.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.stages.common.judging import Method
from paralign.worker.protocol import Backward, Redraw
from paralign.worker.sides.session import DOUBLE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context

#: no native run tells the noise, as it would draw other numbers: ten times the least that is granted
DRAWN = Method("float64, draws replayed", DOUBLE, DOUBLE, (), 10.0)

#: the artifact that is kept of steps in eval mode
STEPS = "backward with draws replayed"


def record(context: Context, mode: str, order: Backward) -> tuple[Capture, Capture] | str:
    """The steps of both sides in one mode, the candidate's with the reference's draws.

    Args:
        context: the check; ``labels`` are there.
        mode: ``eval`` or ``train``.
        order: the steps of all modes.

    Returns:
        Both captures, or why the steps cannot be compared.
    """
    if context.settings.modules == "none" and not context.settings.replay:
        return "single operations are not watched"
    try:
        replay = pipeline.replayed(context, mode)
        if replay is None:
            return "what is random cannot be watched on both sides"
        if not replay.right:
            return "a pass with the reference's draws differs already" if replay.whole else "not every draw has a counterpart"
        return _steps(context, replay, replace(order, modes=[mode], runs=[DOUBLE], ahead=None))
    except WorkerFailed as failure:
        return f"with the reference's draws the {failure.side} failed with {failure.type}: {failure.message}"


def _steps(context: Context, replay: pipeline.Replay, order: Backward) -> tuple[Capture, Capture] | str:
    """Run the steps of the reference, then those of the candidate."""
    if context.inputs is None or context.labels is None:
        raise AssertionError("steps are compared where there are inputs and labels")
    mode, values = order.modes[0], {"inputs": context.inputs, "labels": context.labels}
    reference = context.reference.record(f"drawn-{mode}", replace(order, redraw=Redraw(keep=True)), values)
    asked = replace(order, redraw=Redraw(use=replay.use, mirrored=replay.mirrored))
    candidate = context.candidate.record(f"drawn-{mode}", asked, {**values, "draws": reference})
    answers = [Backward.answer(c) for c in (reference, candidate)]
    for side, answer in zip(("reference", "candidate"), answers, strict=True):
        if answer.failed:
            return f"the {side} fails: {next(iter(answer.failed.values()))}"
    drawn = [answer.drawn[f"{DOUBLE}:{mode}"] for answer in answers]
    if any(given < count for count, given in drawn[1]) or len({count for count, _ in drawn[0]}) > 1:
        return "later steps have other random operations than the first"
    return reference, candidate
