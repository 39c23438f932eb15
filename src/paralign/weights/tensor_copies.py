"""Tensors that are copies of others one by one, in modules of another structure.

Such are averaged weights that are kept in a list of buffers.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING

from paralign.weights.plan import Move

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from paralign.model import Record
    from paralign.weights.plan import Plan

    #: whether two tensors of one side, by name, hold the same values
    Equal = Callable[[str, str], bool]

#: tensors of a side that must be copies, and not constant: equal zeros say nothing
LEAST = 2

NOTE = "a copy of {} when it was built, and its counterpart one of {}: the outputs depend on neither"


def root_of(record: Record) -> str:
    """The entry that holds a record's values."""
    return str(record.attrs.get("shared") or record.name)


def paired(
    plan: Plan,
    reference: Sequence[Record],
    candidate: Sequence[Record],
    equal: tuple[Equal, Equal],
    telling: Callable[[str], bool],
) -> list[Move]:
    """Moves of unseen tensors to the copies of what their originals went to.

    Args:
        plan: of the tensors that outputs depend on; right.
        reference: other tensors of the reference, each once.
        candidate: likewise.
        equal: whether two tensors hold the same values as they were built, in the reference and in the candidate.
        telling: whether a tensor of the reference, by name, is not constant.

    Nothing where fewer than two of them tell, or where one original has several copies on a side.
    """
    ends: dict[str, list[Move]] = defaultdict(list)
    for move in plan.carrying:
        if move.reference is not None:
            ends[root_of(move.reference)].append(move)
    single = {name: moves[0] for name, moves in ends.items() if len(moves) == 1 and moves[0].into is None}
    sources = [move.reference for move in single.values() if move.reference is not None]
    targets = [move.candidate for move in single.values() if move.candidate is not None]
    ours, theirs = _copies(reference, sources, equal[0]), _copies(candidate, targets, equal[1])
    found, told = [], 0
    for name, move in single.items():
        if move.candidate is None:
            continue
        copies, counterparts = ours.get(name, []), theirs.get(root_of(move.candidate), [])
        if len(copies) != 1 or len(counterparts) != 1:
            continue
        told += telling(copies[0].name)
        note = NOTE.format(name, move.candidate.name)
        found.append(Move(copies[0], counterparts[0], move.transform, "copy", note))
    return found if told >= LEAST else []


def _copies(records: Iterable[Record], originals: Sequence[Record], equal: Equal) -> Mapping[str, list[Record]]:
    """Name of the entry that holds an original -> the records that are copies of it."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        alike = [o for o in originals if o.shape == record.shape and o.dtype == record.dtype and equal(record.name, root_of(o))]
        likest = sorted(alike, key=lambda o: -_common_end(record.name, o.name))
        if not likest or (len(likest) > 1 and _common_end(record.name, likest[0].name) == _common_end(record.name, likest[1].name)):
            continue
        found[root_of(likest[0])].append(record)
    return found


def _common_end(one: str, other: str) -> int:
    """How many letters and digits two names have in common at their ends.

    >>> _common_end("ema_conv1_weight", "net.conv1.weight")
    11
    """
    letters = [[c for c in reversed(name) if c.isalnum()] for name in (one, other)]
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*letters, strict=False)))
