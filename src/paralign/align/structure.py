"""Records at the same place of one structure: by key, else by order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from paralign.model import Record

    Match = tuple[Record | None, Record | None, str]


def leaves(reference: Sequence[Record], candidate: Sequence[Record]) -> list[Match]:
    """Pair records that are the same leaf of the same value.

    First by key (``name``): role, rank, step, call and the full key equal. What is left over is paired by order
    (``structure``) where both sides have as many: first below the same name, so that ``output`` meets ``output.0`` and the
    elements of a tuple meet the values of a dict, then whatever the names. A record without a twin stands with None
    (``unmatched``).

    Returns:
        ``(reference, candidate, how)`` in the order of the reference, then what only the candidate has. Every record of
        either side stands in exactly one of them.
    """
    pairs: dict[int, tuple[int, str]] = {}
    free = set(range(len(candidate)))
    for how, place, any_count in (("name", _key, True), ("structure", _name, False), ("structure", _point, False)):
        ours, theirs = _grouped(reference, place), _grouped(candidate, place)
        for point, group in ours.items():
            left = [i for i in group if i not in pairs]
            others = [j for j in theirs.get(point, ()) if j in free]
            if not any_count and len(left) != len(others):
                continue
            for i, j in zip(left, others, strict=False):
                pairs[i] = (j, how)
                free.discard(j)
    found: list[Match] = []
    for i, record in enumerate(reference):
        if i in pairs:
            taken, how = pairs[i]
            found.append((record, candidate[taken], how))
        else:
            found.append((record, None, "unmatched"))
    return found + [(None, candidate[j], "unmatched") for j in sorted(free)]


def _point(record: Record) -> Hashable:
    return record.role, record.rank, record.step, record.call


def _name(record: Record) -> Hashable:
    return _point(record), record.name


def _key(record: Record) -> Hashable:
    return _point(record), record.key


def _grouped(records: Sequence[Record], place: Callable[[Record], Hashable]) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, record in enumerate(records):
        groups[place(record)].append(number)
    return groups
