"""What turns the reference's array into the candidate's, by simple experiments."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.data.distances import EQUAL, apart
from paralign.locate.data.films import AXES, channel_axes, is_doubtful
from paralign.locate.data.interpolation import recognised
from paralign.locate.data.moved_content import (
    CHANNELS,
    are_views,
    elsewhere,
    planes,
    reordered_rows,
    rolled,
    row_places,
    turned_by_quarters,
)
from paralign.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

#: relative error up to which a line that was fitted to one sample fits another
CARRIED = 10 * EQUAL

#: how far a crop may be shifted, and the size of the patch that is looked for
SHIFT, PATCH = 24, 8

#: correlation above which two arrays show the same thing
SIMILAR = 0.8


def laid_out(reference: Array, candidate: Array) -> Array | None:
    """The candidate's array in the reference's order of axes, if one move does it.

    None where moving one axis does not make them equal.
    """
    first, second = (np.squeeze(a) if a.ndim > 1 else a for a in (reference, candidate))
    if sorted(first.shape) != sorted(second.shape) or first.ndim > 4:  # noqa: PLR2004 - more axes than images and videos have
        return None
    orders = [o for o in _orders(second.ndim) if tuple(second.shape[a] for a in o) == first.shape]
    fits = (second.transpose(order) for order in orders)
    return next((fit for fit in fits if apart(first, fit) <= EQUAL), None)


def _orders(count: int) -> list[tuple[int, ...]]:
    """Orders of axes that differ in the place of the channels alone.

    Exchanging height and width would be another picture.
    """
    axes = tuple(range(count))
    found = [axes]
    if count >= 3:  # noqa: PLR2004 - channels beside height and width
        found += [(*axes[1:], 0), (count - 1, *axes[:-1])]
    if count == 4:  # noqa: PLR2004 - and a batch before them
        found += [(0, 2, 3, 1), (0, 3, 1, 2)]
    return found


def same(reference: Array, candidate: Array) -> bool:
    """Whether two arrays hold the same values, whatever the order of their axes."""
    if reference.size != candidate.size:
        return False
    if reference.ndim <= 1 and candidate.ndim <= 1:
        return apart(reference.reshape(-1), candidate.reshape(-1)) <= EQUAL
    return laid_out(reference, candidate) is not None


def pointwise(reference: Array, candidate: Array) -> bool:
    """Whether two arrays show the same, each channel scaled and shifted.

    What differs is then no matter of places.
    """
    candidate = _oriented(reference, candidate)
    if reference.shape != candidate.shape or reference.size < PATCH * PATCH:
        return False
    if not (np.isfinite(reference).all() and np.isfinite(candidate).all()):
        return False
    for axis in _channel_axes(reference):
        slopes, _, error = _lines(reference, candidate, axis)
        if error <= 10 * EQUAL and min(slopes) > 0:
            return True
    slope, offset = _line(reference.ravel(), candidate.ravel())
    return slope > 0 and apart(candidate, slope * reference + offset) <= 10 * EQUAL


def explain(given: Array | None, reference: Array, candidate: Array) -> Finding | None:
    """A finding that says how the candidate's value comes from the reference's, or None.

    Args:
        given: what both were made from, in the reference's layout; None where it is not known.
        reference: the trusted value.
        candidate: the value in the candidate.
    """
    given, reference, candidate = (None if a is None else np.asarray(a, np.float64) for a in (given, reference, candidate))  # type: ignore[assignment]
    candidate = _oriented(reference, candidate)
    if not reference.size and not candidate.size:
        return None
    if reference.shape != candidate.shape:
        for attempt in ATTEMPTS_AT_OTHER_SHAPES:
            for rule, cause, fix, after in attempt(None, reference, candidate):
                return Finding(f"data/{rule}", cause, fix, True, float("inf"), after)
        return _sizes(reference, candidate)
    if not (np.isfinite(reference).all() and np.isfinite(candidate).all()):
        return None
    before = apart(reference, candidate)
    for attempt in ATTEMPTS:
        for rule, cause, fix, after in attempt(given, reference, candidate):
            return Finding(f"data/{rule}", cause, fix, after is not None, before, after)
    return None


Values = tuple["Array | None", Array, Array]


def carries(first: Values, second: Values) -> bool:
    """Whether what turns one sample's reference value into the candidate's fits another.

    A line that was fitted to one (a factor, a mean and a deviation) must fit the other as it is; any other kind of difference must
    be of the same kind there.

    Args:
        first: what both were made from (None where it is not known), and both sides' values, in the sample where a cause was found.
        second: the same of the other sample.
    """
    line = _fitted(first[1], first[2])
    if line is not None:
        return _fits(line, second[1], second[2])
    found, again = explain(*first), explain(*second)
    return found is not None and again is not None and found.rule == again.rule


def _fitted(reference: Array, candidate: Array) -> tuple[int | None, list[float], list[float]] | None:
    """The line from one side's value to the other's: axis of channels, slopes, offsets.

    The axis is None for all elements alike.
    """
    reference = np.asarray(reference, np.float64)
    candidate = _oriented(reference, np.asarray(candidate, np.float64))
    if reference.shape != candidate.shape or not (np.isfinite(reference).all() and np.isfinite(candidate).all()):
        return None
    slope, offset = _line(reference.ravel(), candidate.ravel())
    if slope and apart(candidate, slope * reference + offset) <= EQUAL:
        return None, [slope], [offset]
    for axis in _channel_axes(reference):
        slopes, offsets, error = _lines(reference, candidate, axis)
        if error <= EQUAL and all(slopes):
            return axis, slopes, offsets
    return None


def _fits(line: tuple[int | None, list[float], list[float]], reference: Array, candidate: Array) -> bool:
    """Whether a line turns one side's value into the other's."""
    axis, slopes, offsets = line
    reference = np.asarray(reference, np.float64)
    candidate = _oriented(reference, np.asarray(candidate, np.float64))
    if reference.shape != candidate.shape or (axis is not None and reference.shape[axis : axis + 1] != (len(slopes),)):
        return False
    along = [-1 if a == axis else 1 for a in range(reference.ndim)]
    return apart(candidate, np.reshape(slopes, along) * reference + np.reshape(offsets, along)) <= CARRIED


def _oriented(reference: Array, candidate: Array) -> Array:
    """The candidate's array in the reference's layout, if only the channels' place differs."""
    if reference.shape == candidate.shape or reference.ndim != candidate.ndim or reference.ndim not in (3, 4):
        return candidate
    for source, target in ((-1, -3), (-3, -1)):
        moved = np.moveaxis(candidate, source, target)
        if moved.shape == reference.shape and candidate.shape[source] <= CHANNELS:
            return moved
    return candidate


def _sizes(reference: Array, candidate: Array) -> Finding:
    shapes = f"shape {reference.shape} in the reference, {candidate.shape} in the candidate"
    picture = max(reference.ndim, candidate.ndim) >= 3  # noqa: PLR2004 - height, width, channels
    sizes = "sizes of resize and crop, the number of channels" if picture else "lengths of windows, of padding and of what is cut off"
    return Finding("data/shape", shapes, f"check {sizes}, and axes that are added", False)


Found = tuple[str, str, str, "float | None"]

#: of what both were made from, the reference's value and the candidate's
Attempt = Callable[["Array | None", Array, Array], "Iterator[Found]"]


def _turned(_: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    if reference.ndim != candidate.ndim or not 2 <= reference.ndim <= 4:  # noqa: PLR2004 - axes of images and videos
        return
    for order in itertools.permutations(range(reference.ndim)):
        turned = candidate.transpose(order)
        if order != tuple(range(reference.ndim)) and turned.shape == reference.shape and apart(reference, turned) <= EQUAL:
            yield (
                "axes",
                f"the axes are in another order: transpose{order} of the candidate is the reference",
                "transpose as the reference does",
                apart(reference, turned),
            )
            return


#: elements of a mask of two numbers from which chance does not make it look the same from the other end
TELLING = 64


def _is_mask(array: Array) -> bool:
    """Whether an array is a short row of two numbers, a mask of padding.

    From the other end it looks as if it were shifted. A mask of a picture has a shape of its own.
    """
    row = max(array.shape, default=0) == array.size
    return len(np.unique(array)) == 2 and array.size > 2 and (row or array.size < TELLING)  # noqa: PLR2004 - two numbers, more elements


def _flipped(_: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """The reference's values from the other end of an axis."""
    if _is_mask(reference):
        return
    for axis in range(reference.ndim):
        error = apart(np.flip(reference, axis), candidate)
        if reference.shape[axis] > 1 and error <= EQUAL:
            if reference.ndim <= 2 and axis == reference.ndim - 1:  # noqa: PLR2004 - a row of values, or columns
                yield "columns", "the values of each row are in reverse order", "select columns in the reference's order", error
            elif 1 < reference.shape[axis] <= CHANNELS and is_doubtful(reference.shape):
                yield (
                    "channels",
                    "the channels (RGB against BGR), or few frames of a clip, are in reverse order",
                    "reverse the channels on one side: OpenCV reads BGR, PIL RGB; for frames, compare how they are drawn",
                    error,
                )
            elif 1 < reference.shape[axis] <= CHANNELS and _are_channels(reference.shape, axis):
                yield (
                    "channels",
                    "the channels are in reverse order (RGB against BGR)",
                    "reverse the channels on one side: OpenCV reads BGR, PIL RGB",
                    error,
                )
            else:
                yield "flip", f"flipped along axis {axis}", "check the flip, and its probability", error


def _are_channels(shape: tuple[int, ...], axis: int) -> bool:
    """Whether so short an axis is surely one of channels, not of a clip's frames."""
    return len(shape) != AXES or axis in channel_axes(shape)


def _affine(given: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """One factor, one shift, or both."""
    if given is not None and given.shape == candidate.shape and apart(given, candidate) <= EQUAL:
        yield "missing", "the candidate leaves its input as it is where the reference changes it", "put the transform in", 0.0
        return
    factor, offset = _line(reference.ravel(), candidate.ravel())
    error = apart(factor * reference + offset, candidate)
    if not factor or error > EQUAL:
        return
    size = float(np.abs(candidate).max())
    if abs(factor - 1) <= EQUAL:
        is_picture = reference.size >= PATCH * PATCH and reference.ndim >= 2  # noqa: PLR2004 - height and width
        whole = not is_picture and abs(offset) <= COUNTED and all(np.array_equal(a, np.round(a)) for a in (reference, candidate))
        said, undo = _offset_words(offset)
        yield "shift", said, "count from the same number on both sides" if whole else undo, error
    elif abs(offset) <= EQUAL * size:
        known = " (a division by 255 is missing or is done twice)" if any(abs(factor / k - 1) < 1e-4 for k in (255, 1 / 255)) else ""  # noqa: PLR2004 - rounding
        yield "scale", f"the candidate's values are the reference's times {factor:.6g}{known}", _scaling(factor), error
    else:
        yield (
            "affine",
            f"the candidate's values are the reference's times {factor:.6g} plus {offset:.6g}",
            "check the range of values before it",
            error,
        )


def _offset_words(offset: float) -> tuple[str, str]:
    """How values are shifted, and what undoes it."""
    amount = f"{abs(offset):.6g}"
    if offset > 0:
        return f"the candidate's values are the reference's plus {amount}", f"subtract {amount}, or leave out what adds it"
    return f"the candidate's values are the reference's minus {amount}", f"add {amount}, or leave out what subtracts it"


#: how far numbers of classes or words are apart that are counted from another number: special ones come first
COUNTED = 4

#: how far a factor may be from 1 to be that of two standard deviations: 50 rows and more
NEARLY = 0.01


#: how near to a whole number rows have to be: what rounding of float32 leaves of a factor of 1,000 rows
WHOLE = 1e-4


def _scaling(factor: float) -> str:
    """Say what to change where values differ by a factor."""
    if not EQUAL < abs(factor - 1) < NEARLY:
        return "scale as the reference does"
    rows = 1 / (1 - min(factor, 1 / factor) ** 2)
    if abs(rows - round(rows)) > WHOLE * rows:
        return "scale as the reference does"
    first, second = ("n - 1", "n") if factor < 1 else ("n", "n - 1")
    return (
        f"scale as the reference does; if it divides by a standard deviation: that of {rows:.4g} rows gives this factor, "
        f"over {first} in the candidate and over {second} in the reference "
        "(torch.std, paddle.std and pandas take n - 1, numpy and scikit-learn n)"
    )


def _line(x: Array, y: Array) -> tuple[float, float]:
    """Slope and offset of the least squares; slope 0 where ``x`` is constant."""
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ (y - y.mean())) / spread if spread else 0.0
    return slope, float(y.mean() - slope * x.mean())


def _lines(x: Array, y: Array, axis: int) -> tuple[list[float], list[float], float]:
    """Slopes and offsets channel by channel, and how far the lines are from ``y``."""
    one, other = (np.moveaxis(a, axis, 0).reshape(x.shape[axis], -1) for a in (x, y))
    fits = [_line(a, b) for a, b in zip(one, other, strict=True)]
    fitted = np.stack([slope * a + offset for a, (slope, offset) in zip(one, fits, strict=True)])
    return [f[0] for f in fits], [f[1] for f in fits], apart(other, fitted)


def _channel_axes(array: Array) -> list[int]:
    return [a for a in range(array.ndim) if 1 < array.shape[a] <= CHANNELS and array.size > array.shape[a] * PATCH]


def _normalised(given: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """Another mean or deviation, channel by channel."""
    for axis in _channel_axes(reference):
        for flipped in (False, True):
            source = np.flip(reference, axis) if flipped else reference
            slopes, offsets, error = _lines(source, candidate, axis)
            if error > EQUAL or not all(slopes):
                continue
            if flipped:
                bgr = " (RGB against BGR)" if reference.ndim > 2 else ""  # noqa: PLR2004 - height, width, channels
                yield (
                    "channels",
                    f"the channels are in reverse order{bgr}, then each is scaled",
                    "reverse the channels on one side",
                    error,
                )
                return
            yield (
                "normalise",
                _constants(given, reference, candidate, slopes, offsets),
                "use the reference's mean and deviation, in its order",
                error,
            )
            return


def normalisation(given: Array, result: Array) -> tuple[list[float], list[float]] | None:
    """Mean and deviation by channel with which a value was normalised; None if it was not."""
    given = _oriented(result, np.asarray(given, np.float64))
    if given.shape != result.shape or not (np.isfinite(given).all() and np.isfinite(result).all()):
        return None
    if not _channel_axes(result):
        slope, offset = _line(given.ravel(), result.ravel())
        fits = slope != 0 and apart(result, slope * given + offset) <= EQUAL
        return ([-offset / slope], [1 / slope]) if fits else None
    for axis in _channel_axes(result):
        scale, shift, error = _lines(given, result, axis)
        if error <= EQUAL and all(scale):
            return [-b / a for a, b in zip(scale, shift, strict=True)], [1 / a for a in scale]
    return None


def _constants(given: Array | None, reference: Array, candidate: Array, slopes: list[float], offsets: list[float]) -> str:
    """Mean and deviation on both sides, where what was normalised is known."""
    right, wrong = (None if given is None else normalisation(given, side) for side in (reference, candidate))
    if right is None or wrong is None:
        return f"each channel is scaled and shifted: times {_list(slopes)}, plus {_list(offsets)}"
    (mean, std), (other_mean, other_std) = right, wrong
    said = ""
    if _near(mean, other_mean[::-1]) and not _near(mean, other_mean):
        said = ": the mean is in the other channel order" + (
            ", and the deviation" if _near(std, other_std[::-1]) and not _near(std, other_std) else ""
        )
    elif _near(mean, other_std) and _near(std, other_mean):
        said = ": mean and deviation are swapped"
    return (
        f"mean {_list(mean)} and deviation {_list(std)} in the reference, mean {_list(other_mean)} and deviation "
        f"{_list(other_std)} in the candidate{said}"
    )


def _near(first: list[float], second: list[float]) -> bool:
    return bool(np.allclose(first, second, rtol=1e-3, atol=1e-6))


def _list(values: list[float]) -> str:
    return "(" + ", ".join(f"{v:.4g}" for v in values) + ")"


#: what to do about rows in another order: they may be sorted, or computed from what comes in that order
IN_ORDER = "bring the rows into the reference's order: sort by the same rule, or make what they are computed from in that order"
#: the same of views of one picture
VIEWS_IN_ORDER = "put the views in the reference's order; where they are turned or flipped one by one, do so as the reference does"


def _reordered(_: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """The same values in another order: of a list, or of whole rows.

    Single values of a picture elsewhere are no order by which anything was sorted.
    """
    if _is_mask(reference) or reference.size <= 1:
        return
    error = apart(np.sort(reference, axis=None), np.sort(candidate, axis=None))
    if error > EQUAL:
        return
    if max(reference.shape) == reference.size:
        yield "order", "the same values in another order", "sort on both sides by the same rule", error
        return
    axis = reordered_rows(reference, candidate)
    if axis is None:
        return
    places = row_places(reference, candidate, axis)
    if are_views(np.moveaxis(reference, axis, 0)):
        cause = f"the same views of one picture in another order, along axis {axis}: perhaps turned or flipped the other way"
        if places:
            cause = (
                f"the same views of one picture in another order, along axis {axis}: the candidate's are the reference's {places}; "
                "perhaps turned or flipped the other way"
            )
        yield "order", cause, VIEWS_IN_ORDER, error
        return
    cause = f"the same rows in another order, along axis {axis}"
    if places:
        cause = f"the same rows in another order, along axis {axis}: the candidate's are the reference's {places}"
    yield "order", cause, IN_ORDER, error


def _scattered(_: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """The same values at other places, without a rule that says which."""
    if reference.ndim > 1 and not _is_mask(reference) and len(np.unique(reference)) >= PATCH:
        one, other = np.sort(reference, axis=None), np.sort(candidate, axis=None)
        if apart(one, other) <= EQUAL:
            yield (
                "arrangement",
                "the same values at other places",
                "compare how values are arranged: reshape, layout, rotation, patches",
                None,
            )


def _shifted(_: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """A crop at another place: a patch of the candidate is found elsewhere in the reference."""
    axes = planes(reference)
    if axes is None or min(reference.shape[a] for a in axes) < 2 * PATCH:
        return
    one, other = (np.moveaxis(a, axes, (0, 1)).reshape(a.shape[axes[0]], a.shape[axes[1]], -1) for a in (reference, candidate))
    rows, columns = one.shape[:2]
    top, left = (rows - PATCH) // 2, (columns - PATCH) // 2
    patch = other[top : top + PATCH, left : left + PATCH]
    scale = float(np.abs(one).max()) or 1.0
    if float(patch.std()) < 1e-3 * scale:
        return
    for down, right in itertools.product(range(-SHIFT, SHIFT + 1), repeat=2):
        y, x = top + down, left + right
        if (down, right) == (0, 0) or not (0 <= y <= rows - PATCH and 0 <= x <= columns - PATCH):
            continue
        if np.abs(one[y : y + PATCH, x : x + PATCH] - patch).max() > EQUAL * scale:
            continue
        here = one[max(0, down) : rows + min(0, down), max(0, right) : columns + min(0, right)]
        there = other[max(0, -down) : rows - max(0, down), max(0, -right) : columns - max(0, right)]
        error = apart(here, there)
        if error <= EQUAL:
            yield (
                "crop",
                f"the candidate's crop starts {down} rows and {right} columns further",
                "check the crop: centre, rounding of its start, padding",
                error,
            )
            return


def _resized(given: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """Another interpolation, recognised where the image before it is known.

    It is suspected where both show the same.
    """
    alike = _correlation(reference, candidate)
    if alike < SIMILAR:
        return
    axes = planes(reference)
    given = None if given is None else _channels_like(reference, given)
    if given is None or axes is None or tuple(given.shape[a] for a in axes) == tuple(reference.shape[a] for a in axes):
        return
    levels = float(np.abs(given).max()) or 1.0
    ways = [recognised(given, side, axes, 0.01 * levels) for side in (reference, candidate)]
    fix = "interpolate as the reference does: PIL antialiases when it shrinks an image, OpenCV and tensors do not unless asked"
    if all(ways) and ways[0] != ways[1]:
        yield "interpolation", f"resized by {ways[0]} in the reference, by {ways[1]} in the candidate", fix, _best(given, candidate, axes)
    elif any(ways) or reference.ndim > 2:  # noqa: PLR2004 - a table that nobody is known to resize is none
        known = f" (the reference's is {ways[0]})" if ways[0] else (f" (the candidate's is {ways[1]})" if ways[1] else "")
        what = "picture" if reference.ndim > 2 else "content"  # noqa: PLR2004 - height, width, channels
        yield "interpolation", f"the same {what}, resized in another way{known}", fix, None


def _best(given: Array, candidate: Array, axes: tuple[int, int]) -> float:
    from paralign.locate.data.interpolation import ways

    shape = (candidate.shape[axes[0]], candidate.shape[axes[1]])
    return min(apart(candidate, np.clip(made, given.min(), given.max())) for _, made in ways(given, axes, shape))


def _channels_like(reference: Array, given: Array) -> Array | None:
    """An image with its channels where the reference has them; None where it has others."""
    axes = planes(reference)
    if given.ndim != reference.ndim or axes is None:
        return None
    moves = ((0, 0), (-1, -3), (-3, -1)) if given.ndim > 2 else ((0, 0),)  # noqa: PLR2004 - channels beside height and width
    for source, target in moves:
        moved = np.moveaxis(given, source, target) if source or target else given
        if all(moved.shape[a] == reference.shape[a] for a in range(reference.ndim) if a not in axes):
            return moved
    return None


def _correlation(first: Array, second: Array) -> float:
    one, other = first.ravel() - first.mean(), second.ravel() - second.mean()
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / size if size else 0.0


def _rounded(_: Array | None, reference: Array, candidate: Array) -> Iterator[Found]:
    """Differences of at most one grey level, in a picture."""
    if reference.ndim < 2 or reference.size < PATCH * PATCH or len(np.unique(reference)) <= 2:  # noqa: PLR2004 - height and width
        return
    most = float(np.abs(reference - candidate).max())
    for level, said in ((1.0, "1"), (1 / 255, "1/255")):
        whole = all(np.abs(a / level - np.round(a / level)).max() < 1e-3 for a in (reference, candidate))  # noqa: PLR2004 - far from half a level
        if whole and most <= level * 1.001:
            yield (
                "rounding",
                f"values differ by at most one level of {said}",
                "round on one side as on the other: truncation, or another decoder",
                None,
            )
            return


#: what is tried, the surest first; of those that prove, moved content comes before orders, which any move is
ATTEMPTS: tuple[Attempt, ...] = (
    _turned,
    _flipped,
    turned_by_quarters,
    _affine,
    _normalised,
    elsewhere,
    rolled,
    _reordered,
    _shifted,
    _scattered,
    _resized,
    _rounded,
)

#: of those, what may change the shape
ATTEMPTS_AT_OTHER_SHAPES: tuple[Attempt, ...] = (_turned, turned_by_quarters, elsewhere)
