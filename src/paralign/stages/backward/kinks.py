"""Gradients that part only where a value lies exactly at a kink.

A function has no derivative there, and each framework takes one of those beside it: at 0 the gradient of a leaky ReLU is its slope in
PyTorch and 1 in Paddle. Padding, masks and biases that begin at zero put many values there. What follows from that is gone as soon as
the zeros among the weights are moved by next to nothing, the same on both sides. A mistake of the port stays: a guard against small
values acts on next to nothing as it does on zero.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np

from paralign.dtypes import narrow, widen
from paralign.errors import WorkerFailed
from paralign.locate.gradients.gradient_faults import Wrong
from paralign.locate.source.statements import custom_backward
from paralign.model import ALIGNED, DIVERGED, wrong_of
from paralign.stages.backward.where_it_starts import places_of
from paralign.stages.common.places import Kind
from paralign.stages.forward import moved_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import Divergence, Pair, StageResult

#: how far zeros are moved: less than any guard against small values, and a number of float32 still
MOVED = 1e-30

#: types that hold so small a number
WIDE = ("float64", "float32", "bfloat16")

#: what the choice of a derivative does to a gradient
_CHOSEN = (Wrong.DIFFERENT.value, Wrong.FACTOR.value)


def excused(context: Context, result: StageResult, again: Callable[[], StageResult]) -> StageResult:
    """The stage with moved zeros, where kinks alone part gradients as they are.

    Where something else differs too, the one that shows that alone; else the result as it was.

    Args:
        context: of the check, with the weights carried over.
        result: of the stage, which may diverge.
        again: judges the stage anew.
    """
    if result.verdict != DIVERGED or context.settings.strict:
        return result
    chosen = [divergence for divergence in result.divergences if divergence.confirmed and _is_chosen(divergence)]
    values = _values(context) if chosen else {}
    if not values:
        return result
    try:
        with moved_weights.moved(context, values):
            other = again()
    except WorkerFailed:  # the weights may have left the range that a layer works in: nothing is shown then
        return result
    if not _shows(result, other, chosen):
        return result
    other.excuse(_told(chosen[0], len(values), other.verdict))
    return other


def _shows(result: StageResult, other: StageResult, chosen: list[Divergence]) -> bool:
    """Whether a result with moved weights shows that kinks made the gradients part."""
    if other.verdict == ALIGNED:
        return _is_all(result) and _are_judged(wrong_of(result.pairs), other)
    if other.verdict != DIVERGED or not other.divergences:
        return False
    return not _lines(chosen) <= _lines(other.divergences)


def _lines(divergences: list[Divergence]) -> set[str]:
    """The candidate's lines that are named."""
    return {str(d.candidate.source) for d in divergences if d.candidate is not None}


def _is_all(result: StageResult) -> bool:
    """Whether nothing but finite gradients part, behind an equal first loss.

    They do so at operations of the frameworks.
    """
    wrong = wrong_of(result.pairs)
    places = places_of(wrong)
    if len(places) < len(wrong) or any(place.step == 0 and place.kind not in (Kind.GRADIENT, Kind.CHANGE) for place in places):
        return False
    if not all(pair.error is not None and math.isfinite(pair.error) for pair in wrong):
        return False
    return all(map(_is_chosen, (divergence for divergence in result.divergences if divergence.confirmed)))


def _is_chosen(divergence: Divergence) -> bool:
    """Whether an operation of the framework makes another gradient.

    Not a backward function of the user's own.
    """
    lines = [point.source for point in (divergence.reference, divergence.candidate) if point is not None and point.source is not None]
    return divergence.what in _CHOSEN and not any(map(custom_backward, lines))


def _values(context: Context) -> dict[str, Typed]:
    """The parameters that hold zeros, these moved."""
    weights, plan = context.weights, context.plan
    if weights is None or plan is None or not moved_weights.are_carried(context):
        return {}
    found = {}
    for record in plan.sources:
        if record.role == "parameter" and record.location is not None and record.dtype in WIDE:
            value = weights.value(record)
            if value.array.size and not value.array.all():
                found[record.name] = _moved(value)
    return found


def _moved(value: Typed) -> Typed:
    """A value whose zeros are moved by noise.

    Its own numbers decide how: one that is tied to it moves alike.
    """
    wide = widen(value).astype(np.float64)
    seed = hashlib.blake2b(np.ascontiguousarray(wide).tobytes(), digest_size=4).digest()
    noise = np.abs(np.random.default_rng(int.from_bytes(seed, "little")).standard_normal(wide.shape)) + 1.0
    return narrow(np.where(wide == 0, MOVED * noise, wide), value.dtype)


def _are_judged(wrong: list[Pair], other: StageResult) -> bool:
    """Whether all that differs was judged with moved zeros too."""
    judged = {pair.key for pair in other.judged}
    return bool(wrong) and all(pair.key in judged for pair in wrong)


def _told(first: Divergence, count: int, verdict: str) -> str:
    """What was seen, with the line of the operation."""
    names = [point.op for point in (first.reference, first.candidate) if point is not None and point.op]
    where = f" ({first.candidate.source})" if first.candidate is not None and first.candidate.source is not None else ""
    what = f"{' and '.join(dict.fromkeys(names)) or 'an operation'}{where}"
    left = "all of the stage agrees" if verdict == ALIGNED else "that difference is gone, and others stay"
    return (
        f"gradients part at {what} where values lie exactly at a kink: each framework takes another of the derivatives beside it, "
        f"and either is right; with the zeros of {count} parameters moved to {MOVED:g}, the same on both sides, {left}: "
        "that is what was judged"
    )
