"""Whole numbers of predictions that rounding decides.

A colour between two levels, a class beside an equal one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.model import ALIGNED, Pair
from paralign.stages.infer.rounded_weights import moved, paths_of

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import StageResult
    from paralign.stages.infer.rounded_weights import Moved

#: the share of a prediction's elements up to which rounding may decide
SHARE = 0.02


def excuse(context: Context, result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Accept whole numbers that become the reference's when rounding moves its weights.

    Args:
        context: the check.
        result: its pairs are judged.
        reference: the predictions of the reference.
        candidate: those of the candidate.
    """
    wrong = [pair for pair in result.pairs if pair.wrong and _is_whole(pair)]
    if not wrong:
        return
    paths = paths_of(wrong)
    found = moved(context, paths)
    if found is None:
        return
    for pair in wrong:
        _excuse(pair, found, (reference, candidate), result)


def _is_whole(pair: Pair) -> bool:
    both = pair.reference, pair.candidate
    if any(record is None or record.location is None for record in both):
        return False
    first, second = both
    if first is None or second is None or first.dtype != second.dtype or first.shape != second.shape:
        return False
    return "int" in first.dtype and "path" in first.attrs


def _excuse(pair: Pair, found: Moved, captures: tuple[Capture, Capture], result: StageResult) -> None:
    reference, candidate = captures
    first, second = pair.reference, pair.candidate
    if first is None or second is None:
        return
    here, there = reference.value(first).array, candidate.value(second).array
    again = found.of(reference, first)
    if not again:
        return
    loose = np.logical_or.reduce([each != here for each in again])
    differ = here != there
    met = np.logical_or.reduce([each == there for each in again])
    if not met[differ].all() or loose.mean() > SHARE:
        return
    pair.verdict = ALIGNED
    pair.notes.append("rounding decides on the elements that differ")
    result.notes.append(
        f"{pair.key}: {int(differ.sum())} of {differ.size} whole numbers differ, where the reference's own change, too, when its weights "
        "are moved by rounding: they are left out"
    )
