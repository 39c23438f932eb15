"""Records at the same place of one structure: by key, else by order."""

from __future__ import annotations

from collections import defaultdict, deque
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
            left = deque(i for i in group if i not in pairs)
            others = deque(j for j in theirs.get(point, ()) if j in free)
            while left and others and (any_count or len(left) == len(others)):
                taken = others.popleft()
                pairs[left.popleft()] = (taken, how)
                free.discard(taken)
    found: list[Match] = [
        (record, candidate[pairs[i][0]], pairs[i][1]) if i in pairs else (record, None, "unmatched") for i, record in enumerate(reference)
    ]
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
