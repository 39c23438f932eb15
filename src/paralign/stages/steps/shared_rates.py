"""Rates that an optimizer of the user's own shares out among its groups.

What it tells of a group is then not what it moves by: a factor in its step is part of the rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.model import ALIGNED, Tolerance, Unjudged
from paralign.stages.common.judging import CONSTANTS
from paralign.stages.common.places import Kind, key_of
from paralign.stages.steps import rate_schedules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, StageResult

Array = np.ndarray[Any, Any]

#: causes of updates that are the rates', or may be
_OF_RATES = frozenset({"update/rates", "update/whole", "update/moves", "update/family"})


def excused(
    context: Context, result: StageResult, captures: tuple[Capture, Capture], abouts: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> bool:
    """Leave out rates that differ by constant factors where all updates agree.

    One optimizer is the user's own. The updates show that the rates are equal in effect at their steps. As all groups' rates rise and
    fall alike on both sides, they are equal at every other.

    Args:
        context: the check.
        result: of the stage, whose pairs are judged.
        captures: what followed both schedules.
        abouts: what both optimizers say of themselves.
    """
    told = [pair for pair in result.wrong if _is_rate(pair)]
    rest = [pair for pair in result.wrong if not _is_rate(pair)]
    if not told or not any(about.get("own") for about in abouts) or (rest and not _are_explained(result, rest)):
        return False
    if not _all_groups_moved(context, result, rest, abouts):
        return False
    every = rate_schedules.every(context.settings.pace)
    sides = [rate_schedules.Followed.read(capture, each) for capture, each in zip(captures, every, strict=True)]
    first, second = sides
    if first is None or second is None:
        return False
    count = min((side.steps for side in (first, second) if side.scheduled), default=1)
    rates = first.until(count), second.until(count)
    if not are_proportional(*rates) or not rate_schedules.differing(*rates, Tolerance()).any():
        return False
    for pair in told:
        pair.leave_out(Unjudged.ELSEWHERE, "an optimizer of the user's own shares its rate out: told otherwise, and equal in effect")
    result.verdict = result.verdict_of_pairs
    if rest:
        result.notes.append(
            "the learning rates that the optimizers tell differ by constant factors of their groups, one optimizer is the user's own, and "
            "what is named above explains its updates: the rates are equal in effect"
        )
        return True
    result.excuse(
        "the learning rates that the optimizers tell differ by constant factors of their groups, one optimizer is the user's own, and all "
        "updates agree: it applies such factors in its step, so that the rates are equal in effect"
    )
    return True


def _are_explained(result: StageResult, rest: list[Pair]) -> bool:
    """Whether other terms than rates are proven to make all updates that differ."""
    causes = [finding for finding in result.findings if finding.rule.startswith("update/")]
    if not causes or not all(finding.proven and finding.rule not in _OF_RATES for finding in causes):
        return False
    return all(map(_is_change, rest))


def _is_rate(pair: Pair) -> bool:
    """Whether a pair holds rates as they are told.

    What a resumed schedule tells is judged by its own side.
    """
    place = key_of(pair)
    if place is None or pair.key.startswith("resumed"):
        return False
    return place.kind in (Kind.RATE, Kind.SCHEDULE)


def _all_groups_moved(
    context: Context, result: StageResult, explained: list[Pair], abouts: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> bool:
    """Whether a parameter of every group was seen to move alike, or by what is explained."""
    seen = [pair for pair in result.pairs if pair.judged and pair.verdict == ALIGNED and _is_change(pair)] + explained
    moved = {pair.reference.name for pair in seen if pair.reference}, {pair.candidate.name for pair in seen if pair.candidate}
    moves = [] if context.plan is None else [move for move in context.plan.moves if move.reference and move.candidate]
    still = [move for move in moves if not all(r.attrs.get("trainable", True) for r in (move.reference, move.candidate) if r)]
    frozen = {move.reference.name for move in still if move.reference}, {move.candidate.name for move in still if move.candidate}
    for about, names, held in zip(abouts, moved, frozen, strict=True):
        group_of = {name: own["group"] for name, own in about["parameters"].items() if name not in held}
        if not group_of or set(group_of.values()) - {group_of[name] for name in names if name in group_of}:
            return False
    return True


def _is_change(pair: Pair) -> bool:
    """Whether a pair holds how far a parameter moved, and it did move."""
    return _is_of_change(pair) and pair.stats is not None and pair.stats.rms_reference > 0.0


def _is_of_change(pair: Pair) -> bool:
    place = key_of(pair)
    return place is not None and place.kind is Kind.CHANGE


def are_proportional(first: Array, second: Array) -> bool:
    """Whether all columns of both sides rise and fall alike.

    Each is a constant times one curve.

    Args:
        first: rates, shape ``(steps, groups)``.
        second: likewise, of as many steps.
    """
    columns = np.concatenate((first, second), axis=1)
    greatest = np.abs(columns).max(axis=0, initial=0.0)
    if not columns.size or not np.isfinite(columns).all() or not (greatest > 0).all():
        return False
    curves = columns / greatest
    allowed = CONSTANTS * np.maximum(np.abs(curves[:, :1]), rate_schedules.VANISHING)
    return bool((np.abs(curves - curves[:, :1]) <= 2 * allowed).all())
