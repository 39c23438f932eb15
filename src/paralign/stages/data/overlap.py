"""Samples that a side has in two splits, such as validation data that hold training data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.model import DIVERGED, Finding
from paralign.stages.data.sample_fingerprints import compare, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.model import StageResult, Tolerance

#: numbers of samples that a finding lists
SHOWN = 8

Row = bytes


@dataclass
class _Split:
    """A split of both sides.

    Its samples' rows by number, the reference's first, and the numbers of the samples that differ and that do not.
    """

    rows: tuple[dict[int, Row], dict[int, Row]]
    wrong: set[int]
    right: set[int]


def explain(results: Sequence[tuple[str, StageResult]], captures: Sequence[tuple[Capture, Capture]], tolerance: Tolerance) -> None:
    """Say of a split that differs that one side alone fills it with samples of another split.

    Samples are known by the fingerprints of all that is in them: those of random transforms are in no other split. Only samples that
    differ are told, and only such as the other side has in its other split.
    """
    splits = [_split(*pair, tolerance) for pair in captures]
    for number, (_, result) in enumerate(results):
        if result.verdict != DIVERGED:
            continue
        for other, (name, _) in enumerate(results):
            finding = None if other == number else _finding(splits[number], splits[other], name)
            if finding is not None:
                is_second = any(each.proven for each in result.findings)
                result.findings.insert(len(result.findings) if is_second else 0, finding)
                break


def _split(reference: Capture, candidate: Capture, tolerance: Tolerance) -> _Split:
    first, second = _rows(reference), _rows(candidate)
    compared = compare(reference, candidate, tolerance)
    differing = set() if compared is None else {*compared.distances, *compared.apart}
    return _Split((first, second), differing | (first.keys() ^ second.keys()), (first.keys() & second.keys()) - differing)


def _finding(own: _Split, other: _Split, name: str) -> Finding | None:
    """What one side alone has of another split; None where both have as much."""
    shared = [_shared(one, two) for one, two in zip(own.rows, other.rows, strict=True)]
    if len(shared[0]) == len(shared[1]):
        return None
    more = int(len(shared[1]) > len(shared[0]))
    if not more and (not own.right or not own.right.isdisjoint(shared[0])):  # right samples are shared too: that is not what is wrong
        return None
    both = {other.rows[more][index] for index in other.right} | {*other.rows[1 - more].values()}
    told = [index for index in shared[more] if index in own.wrong and own.rows[more][index] in both]
    if not told:
        return None
    sides = ("reference", "candidate")
    listed = ", ".join(map(str, told[:SHOWN])) + (" …" if len(told) > SHOWN else "")
    cause = (
        f"{len(shared[more]):,} of {len(own.rows[more]):,} samples of the {sides[more]} are samples of its split {name} too, "
        f"{len(shared[1 - more]):,} of those of the {sides[1 - more]}: {listed}"
    )
    return Finding("data/overlap", cause, "read each split from its own files, or cut them at the same place", proven=True)


def _shared(own: dict[int, Row], others: dict[int, Row]) -> list[int]:
    """The numbers of samples of one split that are in the other.

    Each there stands for one here. Of samples that are equal within their own split nothing is known.
    """
    left, here, found = Counter(others.values()), Counter(own.values()), []
    for index, row in own.items():
        if here[row] == 1 and left[row] > 0:
            left[row] -= 1
            found.append(index)
    return found


def _rows(capture: Capture) -> dict[int, Row]:
    """Of every sample that was read whole, what its values are known by."""
    found: dict[int, list[bytes]] = {}
    every = tables(capture)
    for leaf in sorted(every):
        table = every[leaf]
        for index, numbers, figures in zip(table.index, table.numbers, table.figures, strict=True):
            found.setdefault(int(index), []).append(numbers[1:].tobytes() + figures.tobytes())
    return {index: b"|".join(parts) for index, parts in sorted(found.items()) if len(parts) == len(every)}
