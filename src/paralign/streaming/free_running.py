"""Outputs of both sides after their own way through all blocks, judged and ranked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paralign.align import leaves
from paralign.dtypes import is_floating, widen
from paralign.stages.common.judging import choose, paired
from paralign.worker.sides.session import NATIVE

if TYPE_CHECKING:
    from typing import Any

    from paralign.capture import Capture
    from paralign.dtypes import Typed
    from paralign.model import Pair, Tolerance

    Array = np.ndarray[Any, Any]

#: values along the last axis from which it is taken for scores of classes or words, and how many of the largest are compared
SCORES, LARGEST = 10, 5

#: rows of scores that are ranked at a time: with 128,000 words in float64 some 250 MB
ROWS = 256


def judge(reference: Capture, candidate: Capture, tolerance: Tolerance) -> tuple[list[Pair], list[str]]:
    """The outputs' pairs, judged by the best method that both sides' runs allow, and notes.

    Args:
        reference: the reference's free run.
        candidate: the candidate's.
        tolerance: the user's.
    """
    method, notes = choose(reference, candidate)
    first, second = (
        capture.select(name="output", run=run) for capture, run in ((reference, method.reference_run), (candidate, method.candidate_run))
    )
    pairs = paired(reference, candidate, leaves(first, second), method, tolerance)
    for pair in pairs:
        pair.key = f"free running: {pair.key}"
    notes += [f"free running, judged by {method.name}: the candidate's blocks took what its own blocks made, with its own weights"]
    for one, other, _ in leaves(reference.select(name="output", run=NATIVE), candidate.select(name="output", run=NATIVE)):
        if one is None or other is None or one.location is None or other.location is None or not is_floating(one.dtype):
            continue
        if len(one.shape) > 1 and one.shape == other.shape and one.shape[-1] >= SCORES:
            notes.append(f"free running, {one.key} in {one.dtype}: {ranked(reference.value(one), candidate.value(other))}")
    return pairs, notes


@dataclass
class _Ranks:
    """In how many rows the largest value is the same, and the largest few; with margins."""

    rows: int = 0
    first: int = 0
    few: int = 0
    closest: float = np.inf
    lost: float = 0.0
    error: float = 0.0


def ranked(reference: Typed, candidate: Typed) -> str:
    """How the largest values along the last axis compare, with margins.

    The margin of a row is how far the reference's largest value is ahead of its second. A row can have another largest value only
    where its margin is at most twice the greatest difference of the two sides.

    Args:
        reference: scores of any shape, at least two along the last axis.
        candidate: scores of the same shape.

    >>> from paralign.dtypes import typed
    >>> scores, other = np.array([[1.0, 4.0, 2.0], [3.0, 2.75, 0.0]]), np.array([[1.0, 4.0, 2.0], [2.5, 2.75, 0.0]])
    >>> ranked(typed(scores), typed(other)).partition(" (")[0]
    'the largest value is the same in 1 of 2 rows'
    """
    found = _Ranks()
    shape = (-1, reference.array.shape[-1])
    for start in range(0, reference.array.size // shape[1], ROWS):
        one, other = (
            widen(type(side)(side.array.reshape(shape)[start : start + ROWS], side.dtype)).astype(np.float64)
            for side in (reference, candidate)
        )
        _add(found, one, other)
    count = min(LARGEST, shape[1])
    text = (
        f"the largest value is the same in {found.first:,} of {found.rows:,} rows (the {count} largest in {found.few:,}); "
        f"the sides differ by at most {found.error:.3g}, the smallest margin is {found.closest:.3g}"
    )
    return text if found.first == found.rows else f"{text}; where another is largest, the reference's margin is at most {found.lost:.3g}"


def _add(found: _Ranks, one: Array, other: Array) -> None:
    count = min(LARGEST, one.shape[1])
    tops = [np.sort(np.argpartition(-rows, count - 1, axis=1)[:, :count], axis=1) for rows in (one, other)]
    largest = np.partition(one, -2, axis=1)[:, -2:]
    margins = largest[:, 1] - largest[:, 0]
    same = one.argmax(1) == other.argmax(1)
    found.rows += len(one)
    found.first += int(same.sum())
    found.few += int((tops[0] == tops[1]).all(1).sum())
    found.closest = min(found.closest, float(margins.min()))
    found.lost = max(found.lost, float(margins[~same].max(initial=0.0)))
    finite = np.isfinite(one) & np.isfinite(other)
    if (np.isfinite(one) != np.isfinite(other)).any():
        found.error = float("inf")  # a suppressed word or NaN on one side alone
    found.error = max(found.error, float(np.abs(one[finite] - other[finite]).max(initial=0.0)))
