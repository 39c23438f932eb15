"""Tensors that no run tells apart, placed by the number of the block that they are in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.weights.plan import Plan

NUMBER = re.compile(r"\d+")


def numbered_alike(plan: Plan, names: Sequence[str]) -> bool:
    """Whether tensors are one and the same of several blocks on both sides, and each went to that of its own block.

    So the bias of keys in every block of a transformer, on which no output depends: softmax takes no notice of it.

    Args:
        plan: where each tensor went.
        names: of the reference's tensors that could stand for each other.
    """
    moves = [move for name in names for move in plan.moves_of(name)]
    ends = [(move.reference.name, move.candidate.name) for move in moves if move.reference is not None and move.candidate is not None]
    if len(ends) < len(names) or len({tuple(NUMBER.sub("#", name) for name in pair) for pair in ends}) != 1:
        return False
    counted = [[[int(digits) for digits in NUMBER.findall(pair[side])] for pair in ends] for side in (0, 1)]
    blocks = [_varying(rows) for rows in counted]
    if any(column is None or len(set(column)) < len(ends) for column in blocks):
        return False
    return len({one - other for one, other in zip(blocks[0] or [], blocks[1] or [], strict=True)}) == 1


def _varying(rows: list[list[int]]) -> list[int] | None:
    """The one number of names that is not the same in all of them; None where several are not."""
    columns = [list(column) for column in zip(*rows, strict=True) if len(set(column)) > 1]
    return columns[0] if len(columns) == 1 else None
