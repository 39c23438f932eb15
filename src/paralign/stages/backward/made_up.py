"""Optimizers that differ by themselves, where the user's own steps make up for it: clipping in the loop, or in the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.model import ALIGNED, DIVERGED, Unjudged, overall
from paralign.stages.common.places import Kind, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.context import Clipping, Context
    from paralign.model import Pair, StageResult

#: how far gradients clipped by us may be from those that the other side's loop has clipped, relative
SAME = 1e-5

#: what PyTorch's clipping adds to a norm
SLACK = 1e-6

#: what follows from an update, besides the experiment with the optimizers alone
_FOLLOWS = (Kind.LOSS, Kind.GRADIENT, Kind.CHANGE)


def may_be(context: Context, result: StageResult) -> bool:
    """Whether all that is said is that one optimizer clips and the other does not."""
    apart = context.clipping
    if apart is None or not apart.alone or result.verdict != DIVERGED or result.divergences:
        return False
    return all(_follows(pair, apart) for pair in result.wrong)


def excuse(context: Context, result: StageResult, own: StageResult, gradients: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    """Take back what was said of the optimizers alone where both sides' own steps come to the same, and are seen to clip alike.

    PyTorch's programs clip in their training loop, Paddle's give ``grad_clip`` to the optimizer: fed equal gradients, the optimizers
    differ, although the trainings do not.

    Args:
        context: the check, in which the experiment with the optimizers has left what clips.
        result: of the stage without the own steps; changed in place.
        own: of the own steps.
        gradients: those that reach the first update of the own steps, of the reference and of the candidate, a pair for each parameter.
    """
    apart = context.clipping
    if apart is None or not may_be(context, result) or own.verdict != ALIGNED or not own.pairs or not _clips_alike(apart, gradients):
        return
    for pair in result.wrong:
        pair.leave_out(Unjudged.ELSEWHERE, "what the optimizers alone do differs, what train_step does with them agrees")
    result.notes.append(
        f"the optimizers differ by themselves ({apart.finding.cause}), but train_step of both sides comes to the same: not a difference"
    )
    result.findings = [finding for finding in result.findings if finding is not apart.finding]
    result.divergence = None
    result.verdict = overall([pair.verdict for pair in result.pairs if pair.judged])


def _follows(pair: Pair, apart: Clipping) -> bool:
    """Whether a pair is of the experiment with the optimizers alone, or follows from what an update did."""
    if any(pair is each for each in apart.pairs):
        return True
    place = key_of(pair)
    return place is not None and place.kind in _FOLLOWS and not place.is_before_updates


def _clips_alike(apart: Clipping, gradients: Sequence[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether what reaches the optimizer that clips is, clipped as it does, what reaches the other one; and is clipped at all."""
    before = [pair[apart.side].astype(np.float64).ravel() for pair in gradients]
    after = [pair[1 - apart.side].astype(np.float64).ravel() for pair in gradients]
    if not before:
        return False
    clipped = _clipped(before, apart)
    size = _length(clipped)
    norm = min((length for length in map(_length, ([b] for b in before)) if length), default=0.0)
    allowed = SAME + (SLACK / norm if norm else 0.0)
    is_active = _length([one - other for one, other in zip(before, clipped, strict=True)]) > allowed * size
    return is_active and _length([one - other for one, other in zip(after, clipped, strict=True)]) <= allowed * size


def _clipped(gradients: list[np.ndarray], apart: Clipping) -> list[np.ndarray]:
    """Gradients as the optimizer clips them; as they are where it clips in a way that is not known here."""
    if apart.kind == "value":
        return [np.clip(value, -apart.threshold, apart.threshold) for value in gradients]
    if apart.kind == "tensor":
        return [value * _factor(_length([value]), apart.threshold) for value in gradients]
    factor = _factor(_length(gradients), apart.threshold) if apart.kind == "global" else 1.0
    return [value * factor for value in gradients]


def _factor(norm: float, most: float) -> float:
    return most / norm if norm > most else 1.0


def _length(values: list[np.ndarray]) -> float:
    return float(np.sqrt(sum(float(value @ value) for value in values)))
