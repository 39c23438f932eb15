"""The outputs of an exported program, in the order in which the model gives them.

Paddle's exported programs give the entries of a dict sorted by their names, without the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Sequence, Tuple

import numpy as np

from paralign.dtypes import widen
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from paralign.worker.sides.session import Session

#: the path of an output and the output
Leaf = Tuple[str, Any]


def in_order(session: "Session", eager: Any, exported: Any) -> Tuple[Any, List[str]]:
    """A program's outputs as the model orders them, and the names in its own order.

    No names where that is the same.

    Args:
        session: of the side.
        eager: what the model gives.
        exported: what the program gives; with names of its own it stays as it is.
    """
    own, given = (list(leaves(value, session.adapter.is_tensor)) for value in (eager, exported))
    if len(own) != len(given) or len(own) == 1 or not all(path.isdecimal() for path, _ in given):
        return exported, []
    ordered = sorted(range(len(own)), key=lambda place: _words(own[place][0]))
    sorted_by_name: List[Leaf] = [given[ordered.index(place)] for place in range(len(own))]
    if _distance(session, own, sorted_by_name) < _distance(session, own, given):
        return [leaf for _, leaf in sorted_by_name], [own[place][0] for place in ordered]
    return exported, []


def _words(path: str) -> List[Tuple[int, str]]:
    """What paths are sorted by: places in lists as numbers."""
    return [(int(word), "") if word.isdecimal() else (0, word) for word in path.split(".")]


def _distance(session: "Session", own: Sequence[Leaf], given: Sequence[Leaf]) -> float:
    """How far outputs are from others, together; infinite where shapes differ."""
    total = 0.0
    for (_, one), (_, other) in zip(own, given):
        mine, theirs = (to_value(leaf, session.adapter) for leaf in (one, other))
        if isinstance(mine, str) or isinstance(theirs, str):
            continue
        first, second = (widen(value).astype(np.float64) for value in (mine, theirs))
        if first.shape != second.shape:
            return float("inf")
        with np.errstate(all="ignore"):
            far = np.where((first == second) | (np.isnan(first) & np.isnan(second)), 0.0, np.abs(first - second))
        total += float(np.sum(np.where(np.isnan(far), np.inf, far)))
    return total
