"""Batches of equal samples that are padded at another end, with another value or length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import Finding, Point
from paralign.stages.common.places import batch_of, is_set_of_batches
from paralign.stages.data.same_samples import COLLATED
from paralign.worker.protocol import Data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, Record, StageResult

#: rules of other causes that padding does not explain
_KEPT = frozenset({"data/shuffle", "data/random", "data/batch-size", "data/drop-last"})

#: dimensions of a batch with sequences in it
_SEQUENCES = 2

#: elements along the axis at most: each row is tried at every length
LONGEST = 4096

#: and elements that all tries together compare at most: a tenth of a second
MOST = 100_000_000

#: one for all, so that a set has it once
_NAN = float("nan")

#: batches whose lengths are named
NAMED = 4

END, BEGINNING = "end", "beginning"

#: where the reference and the candidate may pad, the likely ones first
_WAYS = ((END, END), (BEGINNING, BEGINNING), (END, BEGINNING), (BEGINNING, END))


@dataclass
class Padding:
    """How the batches of both sides are padded; of each pair the reference's first.

    ``values`` holds what was seen behind or before the content of rows, ``beside`` how much of it, ``lengths`` those of the batches.
    ``cut``: whether the shorter side lacks more than padding.
    """

    ends: tuple[str, str]
    values: tuple[set[float], set[float]] = field(default_factory=lambda: (set(), set()))
    lengths: list[tuple[int, int]] = field(default_factory=list)
    cut: bool = False
    beside: set[int] = field(default_factory=set, repr=False)

    @property
    def is_shown(self) -> bool:
        """Whether batches have other lengths, or rows more and less beside their content.

        A constant column is no padding.
        """
        if len(self.beside) > 1:
            return True
        return any(one != other for one, other in self.lengths)


def explain(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> None:
    """Say that samples agree and their padding does not, with both collate functions."""
    wrong = [pair for pair in result.wrong if not is_set_of_batches(pair)]  # what is in shuffled batches follows from them
    if not wrong or any(batch_of(pair) is None for pair in wrong):
        return
    batches = _batches(context, wrong, captures)
    found = None if not batches else recognised(batches)
    if found is None:
        return
    findings = _findings(found, proven=len(batches) > 1)
    if not findings:
        return
    result.findings = [*findings, *(f for f in result.findings if f.rule in _KEPT)]
    _point(result, captures)


def _batches(context: Context, wrong: Sequence[Pair], captures: tuple[Capture, Capture]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """The arrays of the first part of a batch that differs, of every batch where it does."""
    leaf, found = None, []
    places = [captures, *([context.artifacts[COLLATED]] if COLLATED in context.artifacts else [])]
    for pair in wrong:
        one, other = pair.reference, pair.candidate
        if one is None or other is None or one.location is None or other.location is None or (leaf is not None and one.leaf != leaf):
            continue
        held = next((each for each in places if _holds_records(each, (one, other))), None)
        if held is not None:
            leaf = one.leaf
            found.append((held[0].array(one), held[1].array(other)))
    return found


def _holds_records(captures: tuple[Capture, Capture], records: tuple[Record, Record]) -> bool:
    """Whether these very records are of these captures."""
    return all(any(each is record for each in capture.records) for capture, record in zip(captures, records, strict=True))


def recognised(batches: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> Padding | None:
    """How batches of the same sequences are padded; None where padding does not explain all.

    >>> one, other = np.array([[3, 4, 0], [5, 0, 0]]), np.array([[9, 3, 4], [9, 9, 5]])
    >>> recognised([(one, other)])
    Padding(ends=('end', 'beginning'), values=({0.0}, {9.0}), lengths=[(3, 3)], cut=False)
    """
    rows = [_rows(*batch) for batch in batches]
    for ends in _WAYS:
        found, trimmed = Padding(ends), (set[float](), set[float]())
        if not all(each is not None and _holds(each, found, trimmed) for each in rows):
            continue
        for values, more in zip(found.values, trimmed, strict=True):
            if len(values | more) > 1:
                found.cut = True
            else:
                values.update(more)
        if found.is_shown and (found.cut or any(map(len, found.values))):
            return found
    return None


def _rows(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Both batches with the padded axis second and all that is behind it flat.

    That is the axis along which they differ in length, else the second.
    """
    if one.ndim < _SEQUENCES or one.ndim != other.ndim or one.dtype.kind not in "biuf" or other.dtype.kind not in "biuf":
        return None
    differing = [axis for axis in range(one.ndim) if one.shape[axis] != other.shape[axis]]
    if len(differing) > 1 or 0 in differing:
        return None
    axis = differing[0] if differing else 1
    longest = max(one.shape[axis], other.shape[axis])
    if longest > LONGEST or not min(one.size, other.size) or longest * max(one.size, other.size) > MOST:
        return None
    moved = [np.moveaxis(np.asarray(each, np.float64), axis, 1) for each in (one, other)]
    first, second = (each.reshape(len(each), each.shape[1], -1) for each in moved)
    return first, second


def _holds(rows: tuple[NDArray[Any], NDArray[Any]], found: Padding, trimmed: tuple[set[float], set[float]]) -> bool:
    """Whether each row has the same content on both sides, and one value beside it.

    ``trimmed`` gets what the shorter side has no place for: padding, or what was cut off.
    """
    found.lengths.append((rows[0].shape[1], rows[1].shape[1]))
    for one, other in zip(*rows, strict=True):
        rests = _rests(one, other, found.ends)
        if rests is None:
            return False
        is_trimmed = found.ends[0] == found.ends[1] and not min(map(len, rests))
        found.beside.add(max(map(len, rests)))
        for rest, values in zip(rests, trimmed if is_trimmed else found.values, strict=True):
            values.update(_NAN if each != each else each for each in np.unique(rest).tolist())  # noqa: PLR0124 - what is no number is itself
    return all(len(values) <= 1 for values in found.values)


def _rests(one: NDArray[Any], other: NDArray[Any], ends: tuple[str, str]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """What stands beside the longest content that two rows share; None without any.

    It is one value, or at the same end on both sides what the shorter row has no place for.
    """
    shortest = min(len(one), len(other))
    for length in range(shortest, 0, -1):
        (content, rest), (same, beside) = (_parted(row, length, end) for row, end in zip((one, other), ends, strict=True))
        if not np.array_equal(content, same, equal_nan=True):
            continue
        cut = length == shortest and ends[0] == ends[1]
        if cut or all(len(np.unique(each)) <= 1 for each in (rest, beside)):
            return rest, beside
    return None


def _parted(row: NDArray[Any], length: int, end: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """A row's content and its padding."""
    if end == END:
        return row[:length], row[length:]
    return row[len(row) - length :], row[: len(row) - length]


def _number(value: float | None) -> str:
    """A value as a program writes it: whole numbers with all of their digits."""
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def _findings(found: Padding, *, proven: bool) -> list[Finding]:
    """What differs in the padding, the end first."""
    findings = []
    if found.ends[0] != found.ends[1]:
        cause = f"the samples agree: the reference pads them at the {found.ends[0]}, the candidate at the {found.ends[1]}"
        findings.append(Finding("data/padding-end", cause, "pad at the same end in the collate function", proven))
    values = [next(iter(each), None) for each in found.values]
    if None not in values and values[0] is not values[1] and values[0] != values[1] and not found.cut:
        cause = f"the samples agree: the reference pads them with {_number(values[0])}, the candidate with {_number(values[1])}"
        findings.append(Finding("data/padding-value", cause, "pad with the same value in the collate function", proven))
    if any(one != other for one, other in found.lengths):
        said = [_said([each[side] for each in found.lengths]) for side in (0, 1)]
        cause = f"the samples agree: the reference's batches are of length {said[0]}, the candidate's of length {said[1]}"
        if found.cut:
            lost = f"{cause}; what is longer is cut off"
            findings.append(Finding("data/padding-length", lost, "cut samples at the same length in the collate function", proven))
        else:
            findings.append(Finding("data/padding-length", cause, "pad to the same length in the collate function", proven))
    return findings


def _said(lengths: list[int]) -> str:
    """The lengths of batches, one after the other; once where all are the same."""
    if len(set(lengths)) == 1:
        return str(lengths[0])
    return ", ".join(map(str, lengths[:NAMED])) + (", …" if len(lengths) > NAMED else "")


def _point(result: StageResult, captures: tuple[Capture, Capture]) -> None:
    """Point at both collate functions, unless the line is known that pads."""
    divergence = result.divergence
    if divergence is None or divergence.rule:
        return
    for side, capture in zip(("reference", "candidate"), captures, strict=True):
        line, end = Data.answer(capture).collate, getattr(divergence, side)
        if line is not None and end is not None:
            setattr(divergence, side, Point(end.name, "collate_fn", line, code_at(line)))
