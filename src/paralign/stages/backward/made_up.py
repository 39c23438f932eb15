"""Optimizers that differ by themselves, where the user's own steps make up for it: clipping in the loop, or in the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.model import ALIGNED, DIVERGED, Unjudged, overall
from paralign.stages.common.places import Kind, key_of
from paralign.stages.steps import update

if TYPE_CHECKING:
    from paralign.model import Pair, StageResult

#: findings of what a step may do to gradients by hand and an optimizer does elsewhere: only these differences are made up for
_BY_HAND = frozenset(f"update/{term}" for term in update.BY_HAND)

#: findings of the update that accuse nobody
_INHERENT = "update/inherent"

#: what no training step makes up for
_APART = (Kind.RATE, Kind.SCHEDULE)


def may_be(result: StageResult) -> bool:
    """Whether all that is said of the optimizers alone is what a step may do by hand."""
    blamed = [finding for finding in result.findings if finding.rule != _INHERENT]
    return result.verdict == DIVERGED and bool(blamed) and all(finding.rule in _BY_HAND for finding in blamed)


def excuse(result: StageResult, own: StageResult, *, other_gradients: bool) -> None:
    """Take back what was said of the optimizers alone where both sides' own steps come to the same.

    PyTorch's programs clip in their training loop, Paddle's give ``grad_clip`` to the optimizer: fed equal gradients, the optimizers
    differ, although the trainings do not.

    Args:
        result: of the stage without the own steps; changed in place.
        own: of the own steps.
        other_gradients: whether other gradients reach the first update of the own steps, as where one side has clipped before.
    """
    if not may_be(result) or own.verdict != ALIGNED or not own.pairs or not other_gradients:
        return
    blamed = [finding for finding in result.findings if finding.rule != _INHERENT]
    wrong = result.wrong
    if not all(map(_is_of_updates, wrong)):
        return
    for pair in wrong:
        pair.leave_out(Unjudged.ELSEWHERE, "what the optimizers alone do differs, what train_step does with them agrees")
    causes = "; ".join(finding.cause for finding in blamed)
    result.notes.append(f"the optimizers differ by themselves ({causes}), but train_step of both sides comes to the same: not a difference")
    result.findings = [finding for finding in result.findings if finding not in blamed]
    result.divergence, result.divergences = None, []
    result.verdict = overall([pair.verdict for pair in result.pairs if pair.judged])


def _is_of_updates(pair: Pair) -> bool:
    """Whether a pair follows from what an update did; those of an experiment with the optimizers alone are of no place."""
    place = key_of(pair)
    return place is None or not (place.is_before_updates or place.kind in _APART)
