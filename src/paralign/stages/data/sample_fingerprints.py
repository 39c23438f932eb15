"""Whole data sets compared by the fingerprints of their samples.

Values are asked for only where fingerprints differ too much.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.dtypes import EPS, is_floating
from paralign.model import Coverage
from paralign.stages.common.judging import ROUNDING
from paralign.worker.datasets.whole import BINS
from paralign.worker.protocol import Data

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.model import Tolerance
    from paralign.worker.protocol import ReadThrough

Array = np.ndarray[Any, Any]

#: distances are estimated within a fifth, five times out of six: from this part of the limit on, values decide
DOUBTFUL = 0.25

#: samples whose values are asked for: the first ones that seem wrong, and as many of the worst
ASKED = 4

#: the columns of ``<name>.numbers``, and the first of the sketch in ``<name>.figures``
INDEX, HASH, FORM = 0, 1, 2
FIRST, NORM, SKETCH = 0, 1, 2

#: the hash of the form of one element
SCALAR = zlib.crc32(repr(()).encode())


@dataclass
class Table:
    """The fingerprints of one leaf on one side, by sample."""

    index: Array
    numbers: Array
    figures: Array
    dtype: str

    def at(self, indices: Array) -> Table:
        """The rows of some samples, which are all there."""
        order = np.argsort(self.index)
        rows = order[np.searchsorted(self.index, indices, sorter=order)]
        return Table(self.index[rows], self.numbers[rows], self.figures[rows], self.dtype)


@dataclass
class Compared:
    """What fingerprints say.

    How many samples both sides have read, which seem to differ, lack a leaf, or cannot be read.
    """

    what: str = "samples"
    common: int = 0
    total: int | None = None
    distances: dict[int, float] = field(default_factory=dict)
    apart: dict[int, str] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)

    @property
    def coverage(self) -> list[Coverage]:
        """How many samples were compared, of how many."""
        return [Coverage(self.what, self.common, self.total)]

    @property
    def asked(self) -> list[int]:
        """The samples whose values should decide: the first, and the worst."""
        known = sorted(self.distances)
        worst = sorted(known, key=lambda index: -self.distances[index])
        return sorted({*known[:ASKED], *worst[:ASKED]})


def tables(capture: Capture, name: str = "samples") -> dict[str, Table]:
    """The fingerprints that a side recorded, by leaf."""
    found = {}
    figures = {r.leaf: r for r in capture.select(name=f"{name}.figures", role="state")}
    for record in capture.select(name=f"{name}.numbers", role="state"):
        numbers = capture.array(record)
        found[record.leaf] = Table(numbers[:, INDEX], numbers, capture.array(figures[record.leaf]), str(record.attrs["dtype"]))
    return found


def _met(first: dict[str, Table], second: dict[str, Table]) -> list[tuple[str, Table, Table]]:
    """The leaves of both sides, by name, then, where as many are left over, by order.

    Of any others the first samples say enough.
    """
    found = [(leaf, first[leaf], second[leaf]) for leaf in first if leaf in second]
    rest = [[leaf for leaf in side if leaf not in other] for side, other in ((first, second), (second, first))]
    if len(rest[0]) == len(rest[1]):
        found += [(one, first[one], second[other]) for one, other in zip(*rest, strict=True)]
    return found


def numbers(reference: Capture, candidate: Capture) -> dict[str, list[tuple[int, int]]]:
    """Leaf -> its whole numbers in every sample that both sides have read."""
    found = {}
    for leaf, one, other in _met(tables(reference), tables(candidate)):
        if any(table.dtype[:3] not in ("int", "uin") for table in (one, other)):
            continue
        common = np.intersect1d(one.index, other.index)
        first, second = one.at(common), other.at(common)
        single = (first.numbers[:, FORM] == SCALAR) & (second.numbers[:, FORM] == SCALAR)
        if single.any() and single.all():
            found[leaf] = [(int(a), int(b)) for a, b in zip(first.figures[:, FIRST], second.figures[:, FIRST], strict=True)]
    return found


def compare(reference: Capture, candidate: Capture, tolerance: Tolerance, name: str = "samples") -> Compared | None:
    """Compare all samples that both sides have read, or all ``batches``.

    None where a side recorded no fingerprints.
    """
    first, second = _read_by(reference, name), _read_by(candidate, name)
    if first is None or second is None:
        return None
    sides = [tables(c, name) for c in (reference, candidate)]
    failed = [{int(index): why for index, why in answer.failed.items()} for answer in (first, second)]
    both = _indices(sides[0], failed[0]) & _indices(sides[1], failed[1])
    is_counted = first.total is not None and second.total is not None
    total = max(first.total or 0, second.total or 0) if is_counted else None
    found = Compared(name, common=len(both), total=total)
    for index in sorted(both & {*failed[0], *failed[1]}):
        told = [side[index] for side in failed if index in side]
        if len(told) == 1:
            found.apart[index] = f"the {'reference' if index in failed[0] else 'candidate'} fails with {told[0]}"
        else:
            found.unread[index] = told[0]
    found.common -= len(found.unread)
    for _, one, other in _met(*sides):
        _compare_leaf(found, one, other, both, tolerance)
    _compare_counts(found, sides[0], sides[1], both)
    return found


def _read_by(capture: Capture, name: str) -> ReadThrough | None:
    """What a side says of the samples, or ``batches``, that it read; None where it read none."""
    answer = Data.answer(capture)
    return answer.whole if name == "samples" else answer.batches


def _indices(side: dict[str, Table], failed: dict[int, str]) -> set[int]:
    """The samples that a side has read, or on which it fails."""
    return {*failed, *(int(index) for table in side.values() for index in table.index)}


def _compare_counts(found: Compared, first: dict[str, Table], second: dict[str, Table], both: set[int]) -> None:
    """Add the samples that have more parts on one side.

    Where all have, the first samples say so.
    """
    counts = [Counter(int(index) for table in side.values() for index in table.index) for side in (first, second)]
    compared = both - {*found.unread}
    unlike = sorted(index for index in compared if counts[0][index] != counts[1][index])
    if len(unlike) == len(compared):
        return
    for index in unlike:
        found.apart.setdefault(index, "a part of it is there on one side only")


def replays(reference: Capture, candidate: Capture, tolerance: Tolerance) -> Compared:
    """All samples that both sides have read with equal draws."""
    found = Compared()
    for _, first, second in _met(*(tables(c, "replayed") for c in (reference, candidate))):
        both = {int(i) for i in np.intersect1d(first.index, second.index)}
        found.common = max(found.common, len(both))
        _compare_leaf(found, first, second, both, tolerance)
    return found


def rarest(reference: Capture, candidate: Capture, tolerance: Tolerance, name: str) -> list[int]:
    """The samples that seem to differ, those in rarely differing leaves first.

    What is drawn differs in most, what is not in the wrong ones.
    """
    found: dict[int, int] = {}
    for _, first, second in _met(*(tables(c, name) for c in (reference, candidate))):
        leaf = Compared()
        _compare_leaf(leaf, first, second, set(), tolerance)
        for index in leaf.distances:
            found[index] = min(found.get(index, len(leaf.distances)), len(leaf.distances))
    return sorted(found, key=lambda index: (found[index], index))


def _compare_leaf(found: Compared, first: Table, second: Table, both: set[int], tolerance: Tolerance) -> None:
    """Add the samples whose leaf seems to differ, with distances in multiples of the limit."""
    common = np.intersect1d(first.index, second.index)
    for index in sorted((set(first.index.tolist()) ^ set(second.index.tolist())) & both):
        found.apart.setdefault(index, "a part of it is there on one side only")
    one, other = first.at(common), second.at(common)
    unequal = np.flatnonzero((one.numbers[:, HASH] != other.numbers[:, HASH]) | (one.numbers[:, FORM] != other.numbers[:, FORM]))
    for row in unequal:
        share = distance(one, other, int(row), tolerance)
        if share > DOUBTFUL:
            index = int(common[row])
            found.distances[index] = max(found.distances.get(index, 0.0), share)


def distance(one: Table, other: Table, row: int, tolerance: Tolerance) -> float:
    """How far two samples of unequal hashes are apart, in multiples of what is granted.

    Infinite where no distance is measured.
    """
    exact = not (is_floating(one.dtype) or is_floating(other.dtype)) or "str" in (one.dtype, other.dtype)
    if exact or one.numbers[row, FORM] != other.numbers[row, FORM]:
        return np.inf
    error = float(np.linalg.norm(one.figures[row, SKETCH:] - other.figures[row, SKETCH:]))
    size = float(one.figures[row, NORM])
    if tolerance.atol is not None or tolerance.rtol is not None:
        return error / tolerance.atol if tolerance.atol else np.inf if error else 0.0  # no element differs by more than the norm does
    noise = max(EPS.get(one.dtype, 0.0), EPS["float32"])
    limit = ROUNDING.limit if tolerance.ratio is None else tolerance.ratio
    granted = limit * noise * (size or 1.0)
    if granted:
        return error / granted
    if error:
        return np.inf
    return 0.0


# -- sets --------------------------------------------------------------------------------------------------------------------------

#: neighbours, in the order of one projection, among which a row of other rounding is looked for
NEAR = 8


def matched(first: Table, second: Table, tolerance: Tolerance) -> int:
    """How many rows of the first table the second has too, in any order; each counts once.

    By hash, then by distance.
    """
    keys = [[(int(h), int(f)) for _, h, f in table.numbers] for table in (first, second)]
    spare = Counter(keys[1])
    left = []
    for row, key in enumerate(keys[0]):
        if spare[key] > 0:
            spare[key] -= 1
        else:
            left.append(row)
    rest = [row for row, key in reversed(list(enumerate(keys[1]))) if _taken(spare, key)]
    return len(keys[0]) - len(left) + _near(first, second, left, rest, tolerance)


def _taken(spare: Counter[tuple[int, int]], key: tuple[int, int]) -> bool:
    spare[key] -= 1
    return spare[key] >= 0


def _near(first: Table, second: Table, left: list[int], rest: list[int], tolerance: Tolerance) -> int:
    """How many left-over rows have one on the other side that differs by rounding alone."""
    width = SKETCH + BINS
    if not left or not rest or first.figures.shape[1] != second.figures.shape[1] or first.figures.shape[1] % width:
        return 0
    one, other = (t.figures[rows].reshape(len(rows), -1, width) for t, rows in ((first, left), (second, rest)))
    sizes = np.maximum(one[:, :, NORM], 0.0)
    scale = np.where(sizes.mean(axis=0) > 0, sizes.mean(axis=0), 1.0)[None, :, None]
    direction = np.random.RandomState(0).randn(*one.shape[1:])[:, SKETCH:]
    places = [((rows[:, :, SKETCH:] / scale) * direction).sum(axis=(1, 2)) for rows in (one, other)]
    order = np.argsort(places[1])
    granted = (ROUNDING.limit if tolerance.ratio is None else tolerance.ratio) * EPS["float32"] / DOUBTFUL
    free, count = np.ones(len(rest), bool), 0
    for row, place in enumerate(places[0]):
        at = int(np.searchsorted(places[1], place, sorter=order))
        near = [
            i for i in order[max(0, at - NEAR) : at + NEAR] if free[i] and second.numbers[rest[i], FORM] == first.numbers[left[row], FORM]
        ]
        gaps = [np.linalg.norm(one[row, :, SKETCH:] - other[i, :, SKETCH:], axis=1) for i in near]
        fits = [i for i, gap in zip(near, gaps, strict=True) if (gap <= granted * one[row, :, NORM]).all()]
        if fits:
            free[fits[0]] = False
            count += 1
    return count


def rows(reference: Capture, candidate: Capture) -> tuple[Table | None, Table | None]:
    """What both loaders' batches hold, by sample; None where not read to the end.

    Leaves of the same names stand in the reference's order on both sides, others as they come.
    """
    ends = [capture.select(name="rows.parts", role="state") for capture in (reference, candidate)]
    names = [tuple(end[0].attrs["leaves"]) if end else () for end in ends]
    same = sorted(names[0]) == sorted(names[1])
    return _rows(reference, names[0]), _rows(candidate, names[0] if same else names[1])


def _rows(capture: Capture, leaves: tuple[str, ...]) -> Table | None:
    """The samples of a loader's batches, their leaves in some order."""
    records = capture.select(name="rows.parts", role="state")
    if not records:
        return None
    own = list(records[0].attrs["leaves"])
    order = [own.index(leaf) for leaf in leaves]
    parts = capture.array(records[0])[:, order]
    figures = capture.array(capture.select(name="rows.figures", role="state")[0])
    figures = figures.reshape(len(parts), len(own), SKETCH + BINS)[:, order].reshape(len(parts), -1)
    numbers = np.zeros((len(parts), 3), np.int64)
    numbers[:, INDEX] = np.arange(len(parts))
    for row, part in enumerate(parts):
        numbers[row, HASH] = int.from_bytes(hashlib.blake2b(part.tobytes(), digest_size=8).digest(), "big", signed=True)
        numbers[row, FORM] = zlib.crc32(np.ascontiguousarray(part[:, 1]).tobytes())
    return Table(numbers[:, INDEX], numbers, figures, str(records[0].attrs["dtype"]))
