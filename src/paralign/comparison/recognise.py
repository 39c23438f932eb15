"""Whether one tensor holds the values of another in another arrangement.

That is for notes on a difference, never to accept it.

A hypothesis says which element of the reference each element of the candidate is. It is tried on a few thousand elements
drawn with a fixed seed, first on 64 of them, so that time and memory do not grow with the tensors. Evidence is asked for:
constants, masks, near-constants and tensors of a few elements fit everything and are never recognised.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paralign.comparison.measure import as_typed, squeezed
from paralign.dtypes import Typed, widen

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

#: elements that a hypothesis is tried on, and those that it is tried on first
_PROBES, _FIRST = 4096, 64
#: root mean square that the rest may have, in standard deviations of the values
_REARRANGED, _CHANGED = 3e-3, 1e-3
#: values that must differ by more than the rest for a fit to mean anything
_DISTINCT = 6
#: axes of at most so many dimensions are permuted
_RANK = 5
#: the longest axis whose slices are told apart, and the elements of a slice that are looked at
_SLICES, _LOOKS = 1024, 48
#: the longest order that is spelled out
_SPELLED = 8
#: the largest tensors that are sorted
_SORTED = 2**21


class Rearrangement(NamedTuple):
    """How the candidate's values come from the reference's.

    In numpy's words, and to be read after ``the reference's,``.
    """

    text: str
    phrase: str


def recognise(reference: Typed | Array, candidate: Typed | Array) -> str | None:
    """How the candidate comes from the reference, where it does so up to rounding.

    None where it is equal or something else.

    The answer is one of ``transpose(0, 2, 3, 1)`` (the candidate is ``np.transpose(reference, (0, 2, 3, 1))``),
    ``reshape``, ``transpose(...), reshape``, ``reshape(...), transpose(...)``, ``flip(1)``, ``permutation of axis 1``,
    ``permuted`` (the same values in some other order), ``scaled by 0.5`` and ``shifted by 1``.

    Args:
        reference: the trusted values, any shape and type.
        candidate: values of any shape and type.

    >>> image = np.random.default_rng(0).random((2, 3, 4, 5))
    >>> recognise(image, image.transpose(0, 2, 3, 1))
    'transpose(0, 2, 3, 1)'
    """
    found = rearrangement(reference, candidate)
    return found.text if found else None


def rearrangement(reference: Typed | Array, candidate: Typed | Array) -> Rearrangement | None:
    """As :func:`recognise`, with a phrase for readers."""
    match = _Match(as_typed(reference), as_typed(candidate))
    if not match.telling or match.agree:
        return None
    for find in (_reshaped, _transposed, _flipped, _transposed_and_reshaped, _changed, _axis_permuted, _permuted):
        found = find(match)
        if found:
            return found
    return None


class _Match:
    """The pair, and the candidate's elements that hypotheses are tried on."""

    def __init__(self, reference: Typed, candidate: Typed) -> None:
        self.reference, self.candidate = reference, candidate
        self.shapes: tuple[Shape, Shape] = reference.array.shape, candidate.array.shape
        self.size = candidate.array.size
        self.telling = self.size == reference.array.size >= _DISTINCT
        if not self.telling:
            return
        drawn = np.random.default_rng(0).integers(0, self.size, _PROBES)
        self.places = np.unique(drawn) if self.size > _PROBES else np.arange(self.size)
        self.places = np.random.default_rng(1).permutation(self.places)
        values = _gather(candidate, self.places)
        self.unit = float(np.abs(values).max()) or 1.0
        self.values = values / self.unit
        self.spread = float(self.values.std())
        steps = np.round(self.values / (self.spread * 2 * _REARRANGED)) if self.spread else self.values
        self.telling = np.unique(steps).size >= _DISTINCT

    @cached_property
    def same(self) -> Array:
        """The reference's values at the same flat indices."""
        return self.take(self.places)

    @cached_property
    def agree(self) -> bool:
        """Whether the values are where they should be."""
        return squeezed(self.shapes[0]) == squeezed(self.shapes[1]) and self.rest(self.same) <= _REARRANGED

    def take(self, places: Array) -> Array:
        """The reference's values at flat indices."""
        return _gather(self.reference, places) / self.unit

    def rest(self, values: Array) -> float:
        """Root mean square of what the values leave of the candidate's, in standard deviations."""
        return float(np.sqrt(np.mean((values - self.values[: values.size]) ** 2))) / self.spread

    def index(self, shape: Shape) -> tuple[Array, ...]:
        """Index of each probe in a shape of as many elements."""
        return np.unravel_index(self.places, shape)

    def fits(self, index: tuple[Array, ...], shape: Shape) -> bool:
        """Whether the reference's elements at an index are the candidate's.

        The index is into ``shape``, a shape of as many elements.
        """
        flat = np.ravel_multi_index(index, shape)
        return self.rest(self.take(flat[:_FIRST])) <= 4 * _REARRANGED and self.rest(self.take(flat)) <= _REARRANGED


def _gather(value: Typed, places: Array) -> Array:
    """Elements at flat indices as float64.

    NaN and infinities become zero, complex values a sum of both parts.
    """
    with np.errstate(invalid="ignore"):
        taken = widen(Typed(value.array[np.unravel_index(places, value.array.shape)], value.dtype))
        if np.iscomplexobj(taken):
            taken = taken.real + math.sqrt(2) * taken.imag
        taken = taken.astype(np.float64)
    return np.where(np.isfinite(taken), taken, 0.0)


def _reshaped(match: _Match) -> Rearrangement | None:
    if squeezed(match.shapes[0]) == squeezed(match.shapes[1]) or match.rest(match.same) > _REARRANGED:
        return None
    return Rearrangement("reshape", "reshaped")


def _orders(shape: Shape) -> Iterator[tuple[int, ...]]:
    """Permutations of the axes that move elements."""
    if len(shape) <= _RANK:
        for axes in permutations(range(len(shape))):
            long = [axis for axis in axes if shape[axis] > 1]
            if long != sorted(long):
                yield axes


def _permuted_shape(shape: Shape, axes: Shape) -> Shape:
    return tuple(shape[axis] for axis in axes)


def _inverse(axes: Shape) -> Shape:
    return tuple(int(axis) for axis in np.argsort(axes))


def _transposed(match: _Match) -> Rearrangement | None:
    first, second = match.shapes
    for axes in _orders(first):
        if _permuted_shape(first, axes) == second:
            index = match.index(second)
            if match.fits(tuple(index[axis] for axis in _inverse(axes)), first):
                return Rearrangement(f"transpose{axes}", f"transposed {axes}")
    return None


def _transposed_and_reshaped(match: _Match) -> Rearrangement | None:
    first, second = match.shapes
    for axes in _orders(first):
        index = match.index(_permuted_shape(first, axes))
        if match.fits(tuple(index[axis] for axis in _inverse(axes)), first):
            return Rearrangement(f"transpose{axes}, reshape", f"transposed {axes} and reshaped")
    for axes in _orders(second):
        middle = _permuted_shape(second, axes)
        index = match.index(second)
        if match.fits(tuple(index[axis] for axis in axes), middle):
            back = _inverse(axes)
            return Rearrangement(f"reshape{middle}, transpose{back}", f"reshaped {middle} and transposed {back}")
    return None


def _flipped(match: _Match) -> Rearrangement | None:
    shape = match.shapes[0]
    if shape != match.shapes[1] or len(shape) > _RANK:
        return None
    long = [axis for axis, length in enumerate(shape) if length > 1]
    index = match.index(shape)
    for many in range(1, len(long) + 1):
        for axes in combinations(long, many):
            turned = tuple(shape[axis] - 1 - at if axis in axes else at for axis, at in enumerate(index))
            if match.fits(turned, shape):
                names = ", ".join(map(str, axes))
                return Rearrangement(f"flip({names})", f"flipped along {'axis' if many == 1 else 'axes'} {names}")
    return None


def _changed(match: _Match) -> Rearrangement | None:
    """A constant factor or a constant offset."""
    if squeezed(match.shapes[0]) != squeezed(match.shapes[1]):
        return None
    x, y = match.same, match.values
    large = np.abs(x) > 1e-6 * np.abs(x).max()
    if np.count_nonzero(large) < _DISTINCT:
        return None
    start = float(np.median(y[large] / x[large]))
    near = large & (np.abs(y - start * x) <= _CHANGED * 10 * match.spread)
    factor = float(x[near] @ y[near] / (x[near] @ x[near])) if near.any() else start
    offset = float(np.median(y - x))
    if match.rest(factor * x) <= min(_CHANGED, match.rest(x + offset)):
        text = f"scaled by {_short(factor, abs(factor))}"
    elif match.rest(x + offset) <= _CHANGED:
        text = f"shifted by {_short(offset * match.unit, match.spread * match.unit)}"
    else:
        return None
    return Rearrangement(text, text)


def _short(number: float, scale: float) -> str:
    """A number with as few digits as tell it to a hundred-thousandth of ``scale``."""
    for digits in range(1, 7):
        text = f"{number:.{digits}g}"
        if abs(float(text) - number) <= 1e-5 * scale:
            break
    return text


def _axis_permuted(match: _Match) -> Rearrangement | None:
    shape = match.shapes[0]
    if shape != match.shapes[1]:
        return None
    for axis, length in enumerate(shape):
        others = match.size // length
        if 1 < length <= _SLICES and others > 1:
            order = _order(match, axis)
            if order is None:
                continue
            index = list(match.index(shape))
            index[axis] = order[index[axis]]
            if match.fits(tuple(index), shape):
                spelled = f" in the order {tuple(map(int, order))}" if length <= _SPELLED else ""
                return Rearrangement(f"permutation of axis {axis}", f"permuted along axis {axis}{spelled}")
    return None


def _order(match: _Match, axis: int) -> Array | None:
    """Which slice of the reference each slice of the candidate is, by a few elements."""
    shape = match.shapes[0]
    length, others = shape[axis], match.size // shape[axis]
    looks = np.unique(np.random.default_rng(2).integers(0, others, _LOOKS)) if others > _LOOKS else np.arange(others)
    index = list(np.unravel_index(looks, shape[:axis] + shape[axis + 1 :]))
    index.insert(axis, np.arange(length)[:, None])
    places = np.ravel_multi_index(tuple(np.broadcast_arrays(*index)), shape)
    mine = match.take(places.reshape(-1)).reshape(places.shape)
    theirs = _gather(match.candidate, places.reshape(-1)).reshape(places.shape) / match.unit
    middle = mine.mean()
    mine, theirs = (mine - middle) / match.spread, (theirs - middle) / match.spread
    apart = (theirs**2).sum(1)[:, None] + (mine**2).sum(1) - 2 * theirs @ mine.T
    order: Array = apart.argmin(1)
    key = np.random.default_rng(3).standard_normal(looks.size) / math.sqrt(looks.size)
    alike = np.abs(np.sort(mine @ key) - np.sort(theirs @ key)).max() <= 10 * _REARRANGED  # as many of each
    if alike and apart[np.arange(length), order].max() <= looks.size * _REARRANGED**2:
        return order
    return None


def _permuted(match: _Match) -> Rearrangement | None:
    if match.size > _SORTED:
        return None
    places = np.arange(match.size)
    mine, theirs = np.sort(match.take(places)), np.sort(_gather(match.candidate, places) / match.unit)
    rest = float(np.sqrt(np.mean((mine - theirs) ** 2))) / match.spread
    # draws from one distribution, once sorted, lie about 1 / sqrt(size) apart: be far closer than that
    if rest > min(_REARRANGED, 0.03 / math.sqrt(match.size)):
        return None
    return Rearrangement("permuted", "in another order")
