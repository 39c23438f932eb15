"""Gradients that differ behind an equal loss.

Parameters at 1 or 0 may hide in the forward pass what is done with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import DIVERGED, StageResult
from paralign.stages.common.places import Kind, key_of
from paralign.stages.forward import moved_weights
from paralign.stages.forward import stage as forward

if TYPE_CHECKING:
    from paralign.context import Context


def locate(context: Context, result: StageResult) -> bool:
    """Look for the fault in a forward pass with the constant parameters moved by noise.

    Whether it was found there.

    A scale of 1 that the port forgot, or a shift of 0 that it adds at another place, leaves every value as it is and shows in gradients
    alone. These say which parameter it is, not what was forgotten.

    Args:
        context: the check.
        result: of the backward stage, judged; gets the places of the forward pass.
    """
    places = [place for place in map(key_of, result.wrong) if place is not None and place.is_before_updates]
    by_gradients = bool(places) and all(place.kind is Kind.GRADIENT for place in places)
    if not by_gradients or result.verdict != DIVERGED or context.drawn:
        return False
    values = moved_weights.movable(context, single=True)
    if not values:
        return False
    try:
        with moved_weights.moved(context, values):
            found = forward.judged(context)
    except WorkerFailed:  # noise may leave the range that a layer works in: then the gradients alone tell
        return False
    confirmed = [divergence for divergence in found.divergences if divergence.confirmed]
    if found.verdict != DIVERGED or not confirmed:
        return False
    result.divergences, result.divergence = found.divergences, confirmed[0]
    result.notes.append(
        f"the forward pass agrees as long as constant parameters are as constructed; with {len(values)} of them moved by noise, the same "
        "on both sides, it diverges at the place that is named"
    )
    return True
