"""Optimizers that differ where the user's own steps make up for it.

Gradients are clipped in the loop, or in the optimizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.optimizer.term_causes import CLIPPED_ELSEWHERE
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Noise, Unjudged
from paralign.stages.common.places import Kind, key_of
from paralign.stages.steps.clipped_gradients import clipped, company, length, sizes

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from paralign.context import Clipping, Context
    from paralign.model import Pair, StageResult

    #: gradients of the reference and of the candidate, by the reference's names
    Pairs = Mapping[str, tuple[NDArray[Any], NDArray[Any]]]

#: how far gradients clipped by us may be from those that the other side's loop has clipped, relative
SAME = 1e-5

#: what PyTorch's clipping adds to a norm; and how far that may bring gradients of small norms
SLACK, MOST = 1e-6, 1e-3
#: and what rounding adds to that: the difference is it and nothing else
WHOLE = 1.01

#: how far from a threshold what was clipped to it may lie, relative: PyTorch adds to norms
AT = 1e-4

#: how far beyond a threshold gradients are brought that do not reach it by themselves
BEYOND = 4.0

#: how exactly enlarged gradients are larger
GROWN = 1e-3

#: clippings that are known here: of all gradients together, of each group's, of each tensor, of each element
_KINDS = frozenset({"global", "group", "tensor", "value"})

#: what to do where own steps, which were compared too, do not make up for a clipping
COMPARED = (
    "clip alike, in the loop or in the optimizer, by one threshold: train_step of both sides was compared as well, and does not come to "
    "the same (the stage backward says where; what differs before the update comes first)"
)

#: what to do where they do not with larger gradients
ENLARGED = (
    "clip alike, in the loop or in the optimizer, by one threshold: with gradients {} times as large on both sides, as a larger loss "
    "makes them, train_step of both sides does not come to the same"
)

#: what is said of the optimizers' own updates where own steps were compared
_AGREES = "what the optimizers alone do differs, what train_step does with them agrees"
_DIFFERS_BEFORE = "what the optimizers alone do differs, what train_step does with them differs before them already"

#: what follows from an update, besides the experiment with the optimizers alone
_FOLLOWS = (Kind.LOSS, Kind.GRADIENT, Kind.CHANGE)


def may_be(context: Context, result: StageResult) -> bool:
    """Whether all that is said is that one optimizer clips and the other does not.

    Not where several batches or accumulated ones feed the stage: the own steps see one batch, and cannot speak for the others.
    """
    apart, pace = context.clipping, context.settings.pace
    if apart is None or not apart.alone:
        return False
    if result.verdict != DIVERGED or result.divergences:
        return False
    if pace.batches or pace.accumulate != 1:
        return False
    return all(_follows(pair, apart) for pair in result.wrong)


def has_excused(context: Context, result: StageResult) -> bool:
    """Whether a clipping was made up for in a result that is aligned now."""
    if context.clipping is None:
        return False
    return context.clipping.excused and result.verdict == ALIGNED


def is_unreached(context: Context) -> bool:
    """Whether one optimizer clips, and no step is large enough to ask the other side."""
    return context.clipping is not None and context.clipping.unreached


def slack(context: Context, gradients: Pairs) -> Noise | None:
    """How far clipping in PyTorch brings own steps apart; None where neither side does so.

    The other side's optimizer clips.
    """
    apart = context.clipping
    frameworks = {context.framework(side) for side in ("reference", "candidate")}
    if apart is None or apart.kind not in ("global", "group", "tensor") or context.settings.strict or len(frameworks) == 1:
        return None
    felt = [size for size in _held_against(apart, gradients) if size > apart.threshold]
    return Noise(min(WHOLE * SLACK / min(felt), MOST), "the 1e-6 that PyTorch adds to a norm that it clips by") if felt else None


def excuse(context: Context, result: StageResult, own: StageResult, gradients: Pairs) -> None:
    """Take back what was said of the optimizers alone where own steps come to the same.

    They must be seen to clip alike.

    PyTorch's programs clip in their training loop, Paddle's give ``grad_clip`` to the optimizer: fed equal gradients, the optimizers
    differ, although the trainings do not. Where the own steps never reach the threshold, nothing is shown: the test is too weak.

    Args:
        context: the check, in which the experiment with the optimizers has left what clips.
        result: of the stage without the own steps; changed in place.
        own: of the own steps.
        gradients: those that reach the first update of the own steps, of the reference and of the candidate, a pair for each parameter.
    """
    apart = context.clipping
    if apart is None or not may_be(context, result) or not own.pairs:
        return
    seen = _clips_alike(apart, gradients) if own.verdict == ALIGNED else None
    if seen is None and not (own.verdict == DIVERGED and _is_cut_elsewhere(apart, gradients)):
        if apart.finding.fix == CLIPPED_ELSEWHERE:
            apart.finding.fix = COMPARED
        return
    wrong = result.wrong
    for pair in wrong:
        pair.leave_out(Unjudged.ELSEWHERE, _DIFFERS_BEFORE if seen is None else _AGREES)
    result.findings = [finding for finding in result.findings if finding is not apart.finding]
    result.divergence = None
    result.verdict = result.verdict_of_pairs
    if seen is None:
        result.verdict, apart.unreached = UNDERPOWERED, True
        result.warnings.append(
            f"the optimizers differ by themselves ({apart.finding.cause}), and the largest gradients of the other side's loop lie at the "
            "same threshold: whether both then come to the same is not seen before the gradients that reach them agree (the stage backward "
            "says where they part)"
        )
        return
    if seen:
        apart.excused = True
        unseen = _groups_unseen(apart, gradients)
        if unseen:
            result.warnings.append(
                f"{unseen} of the optimizer's groups never reach the norm that it clips to: whether the other side's loop clips "
                "them was not tested (inputs or labels with larger gradients would show it)"
            )
        result.excuse(
            f"the optimizers differ by themselves ({apart.finding.cause}), but train_step of both sides comes to the same: no "
            f"difference. Left to it: {len(wrong)} values after the first update"
        )
        return
    result.verdict, apart.unreached = UNDERPOWERED, True
    result.warnings.append(
        f"the optimizers differ ({apart.finding.cause}), and the own steps never reach it: whether the other side clips in its loop "
        "was not tested (inputs or labels with larger gradients would show it)"
    )


def reaching(context: Context, result: StageResult, own: StageResult, gradients: Pairs) -> float | None:
    """By what gradients of the own steps have to be multiplied to be clipped.

    Arguments as in :func:`excuse`.

    Returns:
        None where they are clipped as they are, or nothing is to be excused.
    """
    apart = context.clipping
    if apart is None or not may_be(context, result) or not own.pairs or own.verdict != ALIGNED:
        return None
    if _clips_alike(apart, gradients) is not False:
        return None
    felt = [size for size in _held_against(apart, gradients) if size > 0.0]
    return BEYOND * apart.threshold / max(felt) if felt else None


def _before(apart: Clipping, gradients: Pairs) -> dict[str, NDArray[Any]]:
    """The gradients that reach the optimizer that clips."""
    return {name: both[apart.side].astype(np.float64) for name, both in gradients.items()}


def _together(apart: Clipping, names: Iterable[str]) -> dict[str, Hashable]:
    return {name: company(apart.kind, name, apart.groups.get(name, -1)) for name in names}


def _held_against(apart: Clipping, gradients: Pairs) -> list[float]:
    """The sizes that the clipping holds against its threshold."""
    before = _before(apart, gradients)
    return list(sizes(before, apart.kind, _together(apart, before)).values())


def is_enlarged(apart: Clipping, recorded: Pairs, larger: Pairs, factor: float) -> bool:
    """Whether the gradients that reach the first update have grown on both sides.

    Those of a step that takes them by the framework's function in place of its backward pass may not have.

    Args:
        apart: the clipping of one optimizer, before which gradients are as they were made.
        recorded: gradients of the own steps, by name.
        larger: those of the enlarged ones.
        factor: by which they were to grow.
    """
    if recorded.keys() != larger.keys():
        return False
    grown = []
    for side in (apart.side, 1 - apart.side):
        before, after = (length(each[side].astype(np.float64) for each in found.values()) for found in (recorded, larger))
        grown.append(after / before if before else 0.0)
    whole, other = grown
    return abs(whole - factor) <= GROWN * factor and abs(other - 1.0) > GROWN


def _follows(pair: Pair, apart: Clipping) -> bool:
    """Whether a pair is of the optimizers alone, or follows from what an update did."""
    if any(pair is each for each in apart.pairs):
        return True
    place = key_of(pair)
    if place is None:
        return False
    return place.is_later_buffer or (place.kind in _FOLLOWS and not place.is_before_updates)


def _clips_alike(apart: Clipping, gradients: Pairs) -> bool | None:
    """Whether the gradients before the clipping optimizer, clipped, are the other side's.

    Returns:
        False where nothing is clipped by either; None where they do not clip alike.
    """
    before = _before(apart, gradients)
    if not before or apart.kind not in _KINDS:
        return None
    cut = clipped(before, apart.kind, apart.threshold, _together(apart, before))
    felt = [norm for norm in _held_against(apart, gradients) if norm > apart.threshold]
    slack = SLACK / min(felt) if apart.kind != "value" and felt else 0.0
    allowed = min(SAME + slack, MOST) * length(cut.values())
    if length(both[1 - apart.side].astype(np.float64) - cut[name] for name, both in gradients.items()) > allowed:
        return None
    return length(before[name] - value for name, value in cut.items()) > allowed


def _is_cut_elsewhere(apart: Clipping, gradients: Pairs) -> bool:
    """Whether gradients differ, and the other side's were clipped to the same threshold.

    Some of them lie at it, and none beyond. Where each is clipped by itself, all of them together do not: a loop that clips the norm of
    all brings a gradient that is nearly all of it to the threshold as well.
    """
    if not gradients or apart.kind not in _KINDS or _clips_alike(apart, gradients) is not None:
        return False
    other = {name: both[1 - apart.side].astype(np.float64) for name, both in gradients.items()}
    found = sizes(other, apart.kind, _together(apart, other))
    if not _is_at(apart, max(found.values(), default=0.0)):
        return False
    return apart.kind not in ("group", "tensor") or len(found) == 1 or not _is_at(apart, length(other.values()))


def _is_at(apart: Clipping, size: float) -> bool:
    """Whether a size is the threshold."""
    return abs(size - apart.threshold) <= AT * apart.threshold


def _groups_unseen(apart: Clipping, gradients: Pairs) -> int:
    """How many groups are too small to be clipped, of an optimizer that clips each by itself."""
    if apart.kind != "group":
        return 0
    return sum(norm <= apart.threshold for norm in _held_against(apart, gradients))
