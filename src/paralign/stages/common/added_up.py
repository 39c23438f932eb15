"""Rounding that many operations add up.

Float64 runs are slightly further apart than the noise, and no operation is at fault.

Kernels keep constants in float32 whatever they compute in. One constant is granted to every value; several in a row, and a
gradient that passes each of them twice, may come to a little more. What tells that from a small mistake is the search: every
operation was watched on both sides, down to the rounding of one constant, and none makes another result of the reference's inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.model import ALIGNED
from paralign.stages.common.places import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.model import Pair, StageResult, Tolerance

#: error ÷ noise up to which an excess may be rounding added up: of some thousand right ports composed at random four exceeded the
#: noise and were left unexplained, by up to 2.45
MOST = 3.0

#: and the greatest relative error: those ports had up to 1.2e-6
FAR = 1e-5


def may_be(result: StageResult, tolerance: Tolerance) -> bool:
    """Whether all that differs does so slightly, before any update, by no user's limit.

    Args:
        result: of a stage whose pairs were judged by float64 runs on both sides.
        tolerance: the user's, for the stage.
    """
    if tolerance.ratio is not None or tolerance.absolute:
        return False
    if result.findings or any(d.confirmed for d in result.divergences):
        return False
    wrong = result.wrong
    if not wrong:
        return False
    return all(_can_add_up(pair) and _is_before_updates(pair) for pair in wrong)


def excuse(result: StageResult) -> None:
    """Take what differs for aligned, and say so; only after a search that confirmed nothing."""
    wrong = result.wrong
    greatest = max(pair.ratio or 0.0 for pair in wrong)
    for pair in wrong:
        pair.verdict = ALIGNED
        pair.notes.append("rounding added up: no operation makes another result of the reference's inputs")
    result.verdict = result.verdict_of_pairs
    result.divergences, result.divergence = [], None
    result.notes.append(
        f"rounding added up: {_counted(wrong)} up to {greatest:.3g} times the noise away in float64; every operation was watched on both "
        "sides, and none makes another result of the reference's inputs"
    )


def _counted(pairs: Iterable[Pair]) -> str:
    keys = [pair.key for pair in pairs]
    return f"{keys[0]} is" if len(keys) == 1 else f"{len(keys)} values, {keys[0]} the first, are"


def _can_add_up(pair: Pair) -> bool:
    """Whether values differ by so little that rounding of many operations may add up to it."""
    if pair.ratio is None or pair.error is None:
        return False
    return pair.ratio <= MOST and pair.error <= FAR


def _is_before_updates(pair: Pair) -> bool:
    """Whether nothing was updated before a value was made.

    A later one may show an optimizer's setting.
    """
    if pair.reference is not None and pair.reference.role == "output":
        return True
    place = key_of(pair)
    return place is not None and place.is_before_updates
