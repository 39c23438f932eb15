"""Settings of optimizers that differ although all updates agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from paralign.locate.optimizer import read_config
from paralign.model import ALIGNED
from paralign.worker.protocol import Backward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.optimizer.update_rules import Terms
    from paralign.model import StageResult

#: settings as near as float32 holds them are the same
_SAME = 1e-6

#: what is said of an optimizer that does not clip
_NONE = "none"

#: families whose rule has no epsilon
_WITHOUT_EPSILON = frozenset({"sgd", "lion"})


def say(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> None:
    """Note epsilons and clippings that differ, of the first parameter with others.

    Args:
        context: the check; its plan says which parameters correspond.
        result: of the stage; nothing is said of one that is not aligned.
        captures: of the steps.
    """
    if result.verdict != ALIGNED or context.plan is None:
        return
    first, second = (Backward.answer(capture).optimizer for capture in captures)
    if not first or not second or first["own"] or second["own"]:
        return
    theirs, ours = (read_config.told(about, []) for about in (first, second))
    for source in context.plan.sources:
        names = [record.name for record in context.plan.candidates_of(source.name) if record.name in ours]
        if not names or source.name not in theirs:
            continue
        steps = [context.has(side, "train_step") for side in ("reference", "candidate")]
        said = _differing(theirs[source.name], ours[names[0]], steps)
        result.notes += said
        if said:
            return


def _differing(reference: Terms, candidate: Terms, steps: Sequence[bool]) -> list[str]:
    """What differs between two rules of one family.

    Args:
        reference: its rule.
        candidate: the same.
        steps: whether each side has a training step of its own, which may clip in place of its optimizer.
    """
    if reference.family != candidate.family:
        return []
    found = []
    if reference.family not in _WITHOUT_EPSILON and not math.isclose(reference.eps, candidate.eps, rel_tol=_SAME):
        found.append(
            f"the optimizers' epsilon differs without effect on these updates: {reference.eps:g} in the reference, "
            f"{candidate.eps:g} in the candidate"
        )
    clips = _clip(reference), _clip(candidate)
    in_step = any(has and clip == _NONE for has, clip in zip(steps, clips, strict=True))
    if clips[0] != clips[1] and not in_step:
        found.append(
            f"the optimizers' clipping differs without effect on these updates: {clips[0]} in the reference, {clips[1]} in the candidate"
        )
    return found


def _clip(terms: Terms) -> str:
    return f"{terms.clip} {terms.threshold:g}" if terms.clip else _NONE
