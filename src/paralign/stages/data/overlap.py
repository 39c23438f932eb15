"""Samples that a side has in two splits, such as validation data that hold training data."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from paralign.model import DIVERGED, Finding
from paralign.stages.data.sample_fingerprints import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.model import StageResult

#: numbers of samples that a finding lists
SHOWN = 8

Row = bytes


def explain(results: Sequence[tuple[str, StageResult]], captures: Sequence[tuple[Capture, Capture]]) -> None:
    """Say of a split that differs that one side alone fills it with samples of another split.

    Samples are known by the fingerprints of all that is in them: those of random transforms are in no other split.
    """
    rows = [[_rows(capture) for capture in pair] for pair in captures]
    for number, (_, result) in enumerate(results):
        if result.verdict != DIVERGED:
            continue
        for other, (name, _) in enumerate(results):
            finding = None if other == number else _finding(rows[number], rows[other], name)
            if finding is not None:
                result.findings.insert(0, finding)
                break


def _finding(own: Sequence[dict[int, Row]], others: Sequence[dict[int, Row]], name: str) -> Finding | None:
    """What one side alone has of another split; None where both have as much."""
    shared = [_shared(one, other) for one, other in zip(own, others, strict=True)]
    more, fewer = ("candidate", "reference") if len(shared[1]) > len(shared[0]) else ("reference", "candidate")
    most, least = sorted(shared, key=len, reverse=True)
    if len(most) == len(least):
        return None
    whose = own[1] if more == "candidate" else own[0]
    listed = ", ".join(map(str, most[:SHOWN])) + (" …" if len(most) > SHOWN else "")
    cause = (
        f"{len(most):,} of {len(whose):,} samples of the {more} are samples of its split {name} too, "
        f"{len(least):,} of those of the {fewer}: {listed}"
    )
    return Finding("data/overlap", cause, "read each split from its own files, or cut them at the same place", proven=True)


def _shared(own: dict[int, Row], others: dict[int, Row]) -> list[int]:
    """The numbers of samples of one split that are in the other.

    Each there stands for one here.
    """
    left, found = Counter(others.values()), []
    for index, row in own.items():
        if left[row] > 0:
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
