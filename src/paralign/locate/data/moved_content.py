"""The same content elsewhere in an array: padded otherwise, shifted, rolled, turned.

Every claim is an experiment: both contents, cut out of both arrays, are equal, and beside each stands one value.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.data.distances import EQUAL, apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Array = np.ndarray[Any, Any]

#: the longest axis that is taken for channels
CHANNELS = 4

#: values of a content that tell it from another, and elements of which two values do
TELLING, MANY = 3, 64

#: the least length of an axis whose order by chance is a rolled one once in (n - 1)! times: 1 of 5,040
ROLLED = 8

#: rules of findings of content that lies elsewhere
PLACED = ("data/padding-end", "data/padding-value", "data/shifted")

#: cells beside a content that hold one value: a single one always does
BESIDE = 2


def planes(array: Array) -> tuple[int, int] | None:
    """Which axes are height and width: those that are not channels."""
    channels = [a for a in (array.ndim - 1, array.ndim - 3) if array.ndim >= 3 and array.shape[a] <= CHANNELS]  # noqa: PLR2004 - channels, height, width
    rest = [a for a in range(array.ndim) if not channels or a != channels[0]]
    return (rest[-2], rest[-1]) if len(rest) >= 2 else None  # noqa: PLR2004 - height and width


@dataclass(frozen=True)
class Placed:
    """Where both sides hold one content.

    Attributes:
        axes: along which something stands beside it.
        before: for each axis, how many elements the reference has before the content, and the candidate.
        behind: the same of what is behind it.
        values: what stands there, on both sides; several where it differs by channel.
    """

    axes: tuple[int, ...]
    before: tuple[tuple[int, int], ...]
    behind: tuple[tuple[int, int], ...]
    values: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def is_moved(self) -> bool:
        """Whether the content lies elsewhere."""
        return any(one != other for one, other in self.before)

    @property
    def is_other_end(self) -> bool:
        """Whether each side pads at one end, the other side at the other end."""
        ends = [
            (self.before[n][0] == 0 and self.behind[n][1] == 0) or (self.before[n][1] == 0 and self.behind[n][0] == 0)
            for n in range(len(self.axes))
            if self.before[n][0] != self.before[n][1]
        ]
        return bool(ends) and all(ends)

    @property
    def has_other_values(self) -> bool:
        """Whether another value stands beside it."""
        first, second = self.values
        return len(first) != len(second) or not np.allclose(first, second, rtol=EQUAL, atol=0)

    def rule(self) -> str:
        """What a finding of it is called."""
        if not self.is_moved:
            return "padding-value"
        return "padding-end" if self.is_other_end else "shifted"


def placed(reference: Array, candidate: Array) -> Placed | None:
    """Where one content lies in both arrays, if that explains all that differs; else None.

    >>> one, other = np.zeros(8), np.zeros(8)
    >>> one[:5], other[3:] = [4, 7, 5, 9, 6], [4, 7, 5, 9, 6]
    >>> placed(one, other)
    Placed(axes=(0,), before=((0, 3),), behind=((3, 0),), values=((0.0,), (0.0,)))
    """
    if reference.ndim != candidate.ndim or not reference.size or not candidate.size:
        return None
    for axes in _axes_of(reference):
        rest = [a for a in range(reference.ndim) if a not in axes]
        if any(reference.shape[a] != candidate.shape[a] for a in rest):
            continue
        grids = [np.moveaxis(each, axes, range(len(axes))) for each in (reference, candidate)]
        for first, second in itertools.product(*(_corners(grid, len(axes)) for grid in grids)):
            found = _aligned(grids, (first, second), axes)
            if found is not None:
                return found
    return None


def _axes_of(array: Array) -> list[tuple[int, ...]]:
    """The axes along which an array may be padded: height and width, or one alone."""
    together = planes(array)
    return [*([] if together is None else [together]), *((a,) for a in range(array.ndim))]


def _corners(grid: Array, count: int) -> list[Array]:
    """What stands in the corners of the first axes, each once, the likeliest first."""
    found: list[Array] = []
    for corner in itertools.product((-1, 0), repeat=count):
        value = grid[corner]
        if not any(np.array_equal(value, known) for known in found):
            found.append(value)
    return found


def _box(grid: Array, value: Array, count: int) -> list[tuple[int, int]] | None:
    """The smallest box outside of which there is this value alone; None where that is all."""
    is_content = grid != value
    is_content = is_content.any(axis=tuple(range(count, grid.ndim))) if grid.ndim > count else is_content
    sides = []
    for axis in range(count):
        along = np.flatnonzero(is_content.any(axis=tuple(a for a in range(count) if a != axis)))
        if not len(along):
            return None
        sides.append((int(along[0]), int(along[-1]) + 1))
    return sides


def _aligned(grids: Sequence[Array], values: tuple[Array, Array], axes: tuple[int, ...]) -> Placed | None:
    """One content of both, with its place; None where the contents differ."""
    count = len(axes)
    boxes = [box for box in (_box(grid, value, count) for grid, value in zip(grids, values, strict=True)) if box is not None]
    if len(boxes) < len(grids):
        return None
    shifts = [sorted({b[0] - a[0], b[1] - a[1]}, key=abs) for a, b in zip(*boxes, strict=True)]
    for shift in itertools.product(*shifts):
        common = [(min(a[0], b[0] - s), max(a[1], b[1] - s)) for a, b, s in zip(*boxes, shift, strict=True)]
        cuts = [common, [(low + s, high + s) for (low, high), s in zip(common, shift, strict=True)]]
        if any(low < 0 or high > grid.shape[n] for grid, cut in zip(grids, cuts, strict=True) for n, (low, high) in enumerate(cut)):
            continue
        one, other = (grid[tuple(slice(*side) for side in cut)] for grid, cut in zip(grids, cuts, strict=True))
        if not _is_telling(one) or apart(one, other) > EQUAL:
            continue
        found = Placed(
            axes,
            tuple((a[0], b[0]) for a, b in zip(*cuts, strict=True)),
            tuple((grids[0].shape[n] - a[1], grids[1].shape[n] - b[1]) for n, (a, b) in enumerate(zip(*cuts, strict=True))),
            (_values(values[0]), _values(values[1])),
        )
        if (found.is_moved or found.has_other_values) and all(map(_is_padded, grids, cuts, values)):
            return found
    return None


def _is_telling(content: Array) -> bool:
    """Whether a content is one that no other array has by chance."""
    kinds = len(np.unique(content))
    return kinds >= TELLING or (kinds > 1 and content.size >= MANY)


def _is_padded(grid: Array, cut: Sequence[tuple[int, int]], value: Array) -> bool:
    """Whether enough stands beside a content to be called one value."""
    cells = int(np.prod(grid.shape[: len(cut)]))
    inside = int(np.prod([high - low for low, high in cut]))
    return cells - inside >= BESIDE or (cells > inside and value.size > 1 and float(np.ptp(value)) == 0)


def _values(value: Array) -> tuple[float, ...]:
    """A value beside a content: once where it is the same in all channels."""
    flat = np.asarray(value, np.float64).ravel()
    return (float(flat[0]),) if not flat.size or float(np.ptp(flat)) == 0 else tuple(flat.tolist())


Found = tuple[str, str, str, "float | None"]


def told(found: Placed) -> tuple[str, str]:
    """The cause and the fix of a content that lies elsewhere."""
    first, second = (_words(each) for each in found.values)
    if not found.is_moved:
        cause = f"the same content in the same place: the reference pads with {first}, the candidate with {second}"
        return cause, "pad with the same value"
    axes = ", ".join(map(str, found.axes))
    one, other = (_beside(found, side) for side in (0, 1))
    cause = f"the same content elsewhere: before and behind it along axis {axes} the reference has {one}, the candidate {other}"
    if found.has_other_values:
        cause = (
            f"the same content elsewhere: before and behind it along axis {axes} the reference has {one}, the candidate {other}; "
            f"the reference's values there are {first}, the candidate's {second}"
        )
    fix = "pad at the same sides as the reference" if found.is_other_end else "compare where the content is put: padding, centring, shifts"
    return cause, fix


def _beside(found: Placed, side: int) -> str:
    """How much stands before and behind a content, axis by axis."""
    return ", ".join(f"{before[side]} + {behind[side]}" for before, behind in zip(found.before, found.behind, strict=True))


def _words(values: tuple[float, ...]) -> str:
    """Values beside a content, the first of many."""
    said = [f"{v:.6g}" for v in values[:CHANNELS]]
    return said[0] if len(said) == 1 else "(" + ", ".join([*said, *(["…"] if len(values) > CHANNELS else [])]) + ")"


def elsewhere(_: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """The same content, padded at another side or with another value, or shifted."""
    found = placed(reference, candidate)
    if found is not None:
        # of other shapes, padding that one side alone has may be any step
        if reference.shape != candidate.shape and not all(_has_padding(found, side) for side in (0, 1)):
            return
        yield (found.rule(), *told(found), 0.0)


def _has_padding(found: Placed, side: int) -> bool:
    return any(each[side] for each in (*found.before, *found.behind))


def placed_in_rows(batches: Sequence[tuple[Array, Array]]) -> list[Placed] | None:
    """Where the contents of samples that differ lie, each padded by its own amount.

    None unless that explains every sample of every batch.
    """
    found = []
    for one, other in batches:
        if one.ndim < BESIDE or len(one) != len(other):
            return None
        for first, second in zip(one, other, strict=True):
            if apart(first, second) <= EQUAL:
                continue
            own = placed(first, second) if np.isfinite(first).all() and np.isfinite(second).all() else None
            if own is None:
                return None
            found.append(own)
    return found or None


def rolled(_: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """Values that leave an axis at one end and come in again at the other."""
    if reference.shape != candidate.shape:
        return
    for axes in _axes_of(reference):
        if min(reference.shape[a] for a in axes) < ROLLED or not _is_telling(reference):
            continue
        spectra = [np.fft.fftn(each, axes=axes) for each in (reference, candidate)]
        rest = tuple(a for a in range(reference.ndim) if a not in axes)
        agreement = np.fft.ifftn(spectra[1] * spectra[0].conj(), axes=axes).real.sum(axis=rest)
        places = np.unravel_index(int(agreement.argmax()), agreement.shape)
        shift = [int(s) for s in places]
        error = apart(np.roll(reference, shift, axes), candidate)
        if error <= EQUAL:
            ways = ", ".join(f"by {s} along axis {a}" for a, s in zip(axes, shift, strict=True) if s)
            yield (
                "rolled",
                f"the values are shifted {ways}, and what leaves one end comes in at the other",
                "shift as the reference does",
                error,
            )
            return


def turned_by_quarters(_: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """A picture that is turned, as one is whose camera's note on its orientation was not read."""
    axes = planes(reference)
    if axes is None or reference.ndim != candidate.ndim or not _is_telling(reference):
        return
    for quarters in (1, 2, 3):
        turned = np.rot90(reference, quarters, axes)
        if turned.shape == candidate.shape and min(reference.shape[a] for a in axes) > 1 and apart(turned, candidate) <= EQUAL:
            fix = "turn pictures alike on both sides: look for rotations, and for the orientation in the file (EXIF)"
            yield "rotation", f"the picture is turned by {90 * quarters} degrees to the left", fix, apart(turned, candidate)
            return


#: the most views of one picture: four quarter turns, each flipped or not; also the most rows whose order is listed
VIEWS = 8


def are_views(rows: Array) -> bool:
    """Whether rows are one picture, turned by quarters or flipped, each in another way.

    >>> picture = np.arange(9.0).reshape(3, 3)
    >>> are_views(np.stack([picture, np.rot90(picture)])), are_views(np.stack([picture, picture + 1]))
    (True, False)
    """
    axes = planes(rows[0]) if rows.ndim > 2 else None  # noqa: PLR2004 - rows, height, width
    if axes is None or not 1 < len(rows) <= VIEWS or not _is_telling(rows[0]):
        return False
    mirrored = (rows[0], np.flip(rows[0], axes[1]))
    views = [np.rot90(each, quarters, axes) for each in mirrored for quarters in range(4)]
    return all(any(view.shape == row.shape and apart(view, row) <= EQUAL for view in views) for row in rows[1:])


def reordered_rows(reference: Array, candidate: Array) -> int | None:
    """The axis along which whole rows come in another order; None where there is none."""
    for axis in range(reference.ndim):
        one, other = (np.moveaxis(each, axis, 0).reshape(each.shape[axis], -1) for each in (reference, candidate))
        if len(one) <= 1 or one.shape[1] <= 1:
            continue
        weights = np.random.RandomState(0).rand(one.shape[1])
        first, second = (np.argsort(rows @ weights, kind="stable") for rows in (one, other))
        if apart(one[first], other[second]) <= EQUAL:
            return axis
    return None


def row_places(reference: Array, candidate: Array, axis: int) -> tuple[int, ...]:
    """Which row of the reference each row of the candidate is.

    Empty where they are many, or not all different.

    >>> row_places(np.array([[1, 2], [3, 4], [5, 6]]), np.array([[5, 6], [1, 2], [3, 4]]), 0)
    (2, 0, 1)
    """
    one, other = (np.moveaxis(each, axis, 0) for each in (reference, candidate))
    if len(one) > VIEWS:
        return ()
    places = [[k for k, due in enumerate(one) if apart(due, row) <= EQUAL] for row in other]
    if any(len(each) != 1 for each in places):
        return ()
    return tuple(each[0] for each in places)
