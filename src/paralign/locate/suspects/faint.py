"""Faults that outputs hardly show.

A branch behind tiny weights, as that of a new residual block, adds too little to be seen beside the rounding of float32. In float64 the
outputs differ by it all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.runs.counterparts import SLIGHT
from paralign.locate.runs.traverse import taken_by
from paralign.locate.suspects.patching import guilty_of_little
from paralign.locate.suspects.propose import Reason

if TYPE_CHECKING:
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.suspects.patching import Laboratory
    from paralign.locate.types import Guilt

#: lines that are looked for, and runs of the candidate that are spent: outputs agree, so that the search is short
MOST, RUNS = 4, 16

#: outputs must come nearer by this factor for what was found to be the reason that they differ
REASON = 10.0

#: outputs that are further away by this factor with a value of the reference in place: it belonged elsewhere
SPOILT = 2.0

#: inputs nearer to the reference's than the outputs are, by this factor, are not why outputs differ
EXACT = 1e-3


def faint(laboratory: Laboratory, exact: Judgement) -> list[Guilt]:
    """Operations that make something else of right values although the outputs agree.

    They are looked for where the outputs differ by more than float64 rounds. An operation that is off by a rounded constant only is
    none of them. They are confirmed where the outputs become those of the reference with its values in place, else ``hidden``.

    Args:
        laboratory: runs the sides again.
        exact: the candidate's run in float64, judged by the rounding of float64.
    """
    before = left = _farthest(exact)
    if not before > exact.scale.equal:
        return []
    limit = EXACT * before
    all_found, besides = guilty_of_little(laboratory, exact, MOST, RUNS, lambda guilt: _is_told(guilt, limit))
    if besides is not None and not _farthest(besides) > exact.scale.equal:
        return []  # rounded constants are why outputs differ
    found: list[Guilt] = []
    for guilt in all_found:
        if guilt.after is None or guilt.after > SPOILT * before:
            break
        left = guilt.after
        if _is_told(guilt, limit):
            found.append(guilt)
    if left > before / REASON:
        for guilt in found:
            guilt.confirmed, guilt.hidden = False, True
    return found


def _is_told(guilt: Guilt, limit: float) -> bool:
    """Whether a fault is shown, and no rounded constant, nor an error of what goes in."""
    return guilt.confirmed and _is_gross(guilt) and _takes_exact(guilt, limit)


def _farthest(judgement: Judgement) -> float:
    """The largest error of the outputs."""
    return max((far for _, _, far in judgement.outputs), default=0.0)


def _is_gross(guilt: Guilt) -> bool:
    """Whether a result is no rounded form of what is due in its place."""
    return guilt.error > SLIGHT or guilt.trial.why is Reason.ORDER


def _takes_exact(guilt: Guilt, limit: float) -> bool:
    """Whether no error of what goes in can be mended with the result.

    A result may be another one where that is of no consequence, as what a mask leaves out.
    """
    within = guilt.trial.region or [guilt.trial.suspect]
    given = [value for value in taken_by(within) if value.maker not in within]
    return all(guilt.judgement.is_right(value) and guilt.judgement.error[value] <= limit for value in given)


__all__ = ["faint"]
