"""The arithmetic of the comparison on one block that fits into a core's cache.

Most blocks take the short way: finite values of ordinary size. It makes few passes over the block, in buffers that are
made once, and looks closer (which element, its exact relative error, its distance in units in the last place) only where
a block can hold a new greatest value. NaN, infinities, complex values, integers beyond 2**53 and values whose squares
leave float64 take the careful way, in pieces, for it allocates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison.buffers import ROUGH_RUN, Desk, dot, product, runs
from paralign.comparison.careful import absorb_carefully, beyond, exceeding
from paralign.comparison.ulp import distances, greatest, unit
from paralign.dtypes import EPS, STORAGE, Typed, is_complex, widen

if TYPE_CHECKING:
    from paralign.comparison.sums import Part

Array = np.ndarray[Any, Any]

#: sums of squares between which no square can have been lost
_LOW, _HIGH = 1e-200, 1e280
#: |reference| ** 2 and |candidate| ** 2 within this factor: their product follows from the error without cancellation
_ALIKE = 16.0
#: bounds the rounding of a relative error that was computed in float32: two operations, and what float32 cannot hold
_ROUNDING, _VANISHED = 1.0 + 2.0**-20, 2.0**-125
#: relative errors up to here are exact in the type of the values (Sterbenz: the difference of x and y is, from y / 2 <= x <= 2 y)
_NEAR = 0.49
#: squares of the error, to those of the reference, up to which float32 serves: |candidate| ** 2 and the product of both follow from
#: it without cancellation
_SLIGHT = 1e-4
#: mean squares of the reference and of the error that float32 still holds well
_SMALL, _SMALLEST = 1e-25, 1e-28

#: elements that are compared before a whole block is
_PROBE = 64
#: elements that go the careful way at a time
_PIECE = 16384
#: lengths of blocks whose buffers are kept
_DESKS = 3

_NARROW = frozenset({"float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"})
_LONG = frozenset({"int64", "uint64"})


class Kernel:
    """Compares blocks of one pair of element types; for one thread.

    What the kernel has seen so far lets it skip work that cannot change the result: a greatest value below one that was
    seen elsewhere. Parts from several kernels merge to the same result however the blocks were dealt out.

    Args:
        reference: canonical element type of the reference.
        candidate: canonical element type of the candidate.
        atol: absolute tolerance of the user's, or None.
        rtol: relative tolerance of the user's, or None.
        shown: whether to measure what only a person looks at: relative errors, mean error, units in the last place.
    """

    def __init__(self, reference: str, candidate: str, atol: float | None = None, rtol: float | None = None, *, shown: bool = True) -> None:
        self._names, self._shown = (reference, candidate), shown
        self._narrow = {reference, candidate} <= _NARROW
        self._complex = is_complex(reference) or is_complex(candidate)
        self._long = bool({reference, candidate} & _LONG)
        self._guarded = "float64" in self._names
        self._unit = unit(reference, candidate)
        self._width = STORAGE[reference].itemsize * 8 if reference == candidate == self._unit else None
        self._tolerance = None if atol is None and rtol is None else (atol or 0.0, rtol or 0.0)
        self._seen_abs = self._seen_rel = self._seen_ulp = 0.0
        self._desks: dict[int, Desk] = {}

    def absorb(self, part: Part, start: int, reference: Array, candidate: Array) -> None:
        """Add one block to ``part``; floating-point warnings are the caller's to switch off.

        Args:
            part: what this stretch came to so far.
            start: flat index of the first element.
            reference: one-dimensional, contiguous, in the storage type of its element type.
            candidate: as ``reference``, as many elements.
        """
        raw = Typed(reference, self._names[0]), Typed(candidate, self._names[1])
        if self._complex or (self._long and beyond(reference, candidate)):
            done = False
        elif self._names[0] == self._names[1] and _same_bits(reference, candidate) and self._alike(part, raw[0]):
            done = True
        else:
            done = (self._singles if self._narrow else self._doubles)(part, start, raw, self._desk(reference.size))
        if not done:
            for at in range(0, reference.size, _PIECE):
                piece = [Typed(side.array[at : at + _PIECE], side.dtype) for side in raw]
                absorb_carefully(part, start + at, piece[0], piece[1], self._tolerance)

    def _alike(self, part: Part, value: Typed) -> bool:
        """Add a block of which both sides hold the same bits.

        False where it may hold NaN or infinities, or squares that vanish.
        """
        if self._narrow:
            single = _single(value)
            cut = runs(single, ROUGH_RUN)
            squares = product(cut, cut)
            kept = squares >= _SMALL * single.size or (squares == 0.0 and not single.any())
            if not kept:
                return False
            return math.isfinite(squares) and _add_equal(part, single.size, squares)
        wide = widen(value).astype(np.float64, copy=False)
        squares = dot(wide, wide)
        return self._ordinary(squares, wide) and _add_equal(part, wide.size, squares)

    def _desk(self, size: int) -> Desk:
        """Buffers for blocks of one length; most blocks have the same."""
        desk = self._desks.get(size)
        if desk is None:
            if len(self._desks) >= _DESKS:
                self._desks.clear()
            desk = self._desks[size] = Desk(size, narrow=self._narrow, bits=self._width)
        return desk

    def _singles(self, part: Part, start: int, raw: tuple[Typed, Typed], desk: Desk) -> bool:
        """The short way of values that float32 holds, and most often their error as well.

        False where it leads nowhere.

        Sums of products are taken in float32 over short runs and added up in float64: exact to 2e-6, in half the time.
        """
        reference, candidate = _single(raw[0]), _single(raw[1])
        cut = runs(reference, ROUGH_RUN)
        squares = product(cut, cut)
        if not math.isfinite(squares):
            return self._widened(part, start, raw, (reference, candidate), desk, 0.0)
        np.subtract(reference, candidate, desk.rough)
        along = product(cut, desk.rough_runs)
        np.absolute(desk.rough, desk.rough)
        differing = int(np.count_nonzero(desk.rough_bits))
        if not differing and squares >= _SMALL * reference.size:
            return _add_equal(part, reference.size, squares)
        errors = product(desk.rough_runs, desk.rough_runs)
        slight = squares >= _SMALL * reference.size and _SMALLEST * reference.size <= errors <= _SLIGHT * squares
        if not self._shown:
            if not slight or self._tolerance:
                return self._widened(part, start, raw, (reference, candidate), desk, 0.0)
            _add(part, reference.size, differing, (squares, squares - 2.0 * along + errors, errors), squares - along)
            self._greatest(part, start, (reference, candidate), desk)
            return True
        ratio = np.divide(desk.rough, reference, desk.ratio)
        bound = max(float(np.fmax.reduce(ratio)), -float(np.fmin.reduce(ratio))) * _ROUNDING + _VANISHED
        if not (bound < _NEAR and slight):
            return self._widened(part, start, raw, (reference, candidate), desk, bound)
        _add(part, reference.size, differing, (squares, squares - 2.0 * along + errors, errors), squares - along)
        part.absolute.add(product(desk.rough_runs, desk.rough_ones))
        top = float(desk.rough.max())
        if top >= self._seen_abs and top > part.max_abs.value:
            part.max_abs.offer(top, start + int(desk.rough.argmax()))
            self._seen_abs = top
        if self._tolerance or not self._cannot_rise(part, bound):
            np.copyto(desk.first, desk.rough)
            bound = self._peaks(part, start, reference, (desk.first, desk.second), top, bound, desk.mask)
        self._units(part, raw, bound, desk)
        return True

    def _greatest(self, part: Part, start: int, sides: tuple[Array, Array], desk: Desk) -> None:
        """The greatest absolute error, exact.

        ``desk.rough`` holds errors that were rounded to float32.
        """
        top = float(desk.rough.max())
        if top * _ROUNDING < max(self._seen_abs, part.max_abs.value):
            return
        places = np.flatnonzero(desk.rough >= np.float32(top / _ROUNDING))
        errors = np.absolute(sides[0][places].astype(np.float64) - sides[1][places])
        at = int(errors.argmax())
        if errors[at] >= self._seen_abs and errors[at] > part.max_abs.value:
            part.max_abs.offer(float(errors[at]), start + int(places[at]))
            self._seen_abs = float(errors[at])

    def _widened(self, part: Part, start: int, raw: tuple[Typed, Typed], narrow: tuple[Array, Array], desk: Desk, bound: float) -> bool:
        """The short way of narrow values whose error or squares float32 does not hold.

        False where float64 does not either.
        """
        np.copyto(desk.first, narrow[0])
        np.copyto(desk.second, narrow[1])
        differing = int(np.count_nonzero(np.not_equal(desk.first, desk.second, out=desk.mask)))
        squares = product(desk.first_runs, desk.first_runs)
        if not math.isfinite(squares):
            return False
        if not differing:
            return _add_equal(part, desk.mask.size, squares)
        return self._differing(part, start, raw, (desk.first, desk.second), desk, (differing, squares, bound or math.inf))

    def _doubles(self, part: Part, start: int, raw: tuple[Typed, Typed], desk: Desk) -> bool:
        """The short way of values that float64 holds; False where it leads nowhere."""
        wide = _double(raw[0], desk.first), _double(raw[1], desk.second)
        differing = int(np.count_nonzero(np.not_equal(*wide, out=desk.mask)))
        squares = dot(wide[0], wide[0])
        if not self._ordinary(squares, wide[0]):
            return False
        if not differing:
            return _add_equal(part, desk.mask.size, squares)
        return self._differing(part, start, raw, wide, desk, (differing, squares, math.inf))

    def _differing(
        self, part: Part, start: int, raw: tuple[Typed, Typed], wide: tuple[Array, Array], desk: Desk, known: tuple[int, float, float]
    ) -> bool:
        """The short way of float64 values of which some differ.

        Args:
            part: what this stretch came to so far.
            start: flat index of the first element.
            raw: both sides.
            wide: both sides as float64; the first is not in ``desk.second``, the second not in ``desk.first``.
            desk: the buffers.
            known: elements that differ, squares of the reference, and a bound of the relative errors.
        """
        reference, candidate = wide
        differing, squares, bound = known
        others = dot(candidate, candidate)
        if not self._ordinary(others, candidate):
            return False
        alike = others / _ALIKE <= squares <= others * _ALIKE
        along = 0.0 if alike else dot(reference, candidate)
        error = np.subtract(reference, candidate, desk.second)
        np.absolute(error, error)
        errors = product(desk.second_runs, desk.second_runs)
        if self._guarded and not _LOW < errors < _HIGH:
            return False
        _add(part, error.size, differing, (squares, others, errors), (squares + others - errors) / 2 if alike else along)
        if self._shown:
            part.absolute.add(product(desk.second_runs, desk.ones))
        bound = self._peaks(part, start, reference, (error, desk.first), float(error.max()), bound, desk.mask)
        self._units(part, raw, bound, desk)
        return True

    def _peaks(self, part: Part, start: int, reference: Array, rooms: tuple[Array, Array], top: float, bound: float, mask: Array) -> float:
        """Elements beyond the user's tolerance, and the greatest absolute and relative error.

        Returns a bound of the latter.

        Args:
            part: what this stretch came to so far.
            start: flat index of the first element.
            reference: its values, float32 or float64.
            rooms: the absolute error in float64, overwritten; and room for the reference in float64.
            top: the greatest absolute error.
            bound: no relative error is greater; infinite where nothing is known.
            mask: room for booleans.
        """
        error, room = rooms
        if top >= self._seen_abs and top > part.max_abs.value:
            part.max_abs.offer(top, start + int(error.argmax()))
            self._seen_abs = top
        if self._tolerance:
            part.exceeding += exceeding(error, _in_double(reference, room), self._tolerance)
        if not self._shown or self._cannot_rise(part, bound):
            return bound
        wide = _in_double(reference, room)
        ratio = np.divide(error, wide, error)
        np.absolute(ratio, ratio)
        bound = float(np.fmax.reduce(ratio))
        if self._cannot_rise(part, bound):
            return bound
        np.copyto(ratio, 0.0, where=np.equal(wide, 0.0, out=mask))
        at = int(ratio.argmax())
        part.max_rel.offer(float(ratio[at]), start + at)
        self._seen_rel = max(self._seen_rel, part.max_rel.value)
        return bound

    def _cannot_rise(self, part: Part, bound: float) -> bool:
        """Whether a block with this bound leaves the greatest relative error as it is.

        And its first place.
        """
        return bound < self._seen_rel or bound <= part.max_rel.value

    def _units(self, part: Part, raw: tuple[Typed, Typed], bound: float, desk: Desk) -> None:
        """The greatest distance in units in the last place.

        It is looked for only where ``bound`` leaves room for it.
        """
        if self._unit is None or not self._shown:
            return
        if bound < 1.0 and 1.0 + 2.0 / EPS[self._unit] * bound / (1.0 - bound) < self._seen_ulp:
            return  # a value x lies more than |x| * EPS / 2 from its neighbours, and rounding to the unit moves by less than 1
        if desk.bits is None:
            top = float(distances(*raw).max())
        else:
            top = float(greatest(raw[0].array.view(desk.bits.dtype), raw[1].array.view(desk.bits.dtype), desk.bits))
        part.ulp = max(part.ulp, top)
        self._seen_ulp = max(self._seen_ulp, top)

    def _ordinary(self, squares: float, side: Array) -> bool:
        """Whether a sum of squares is finite and lost nothing to underflow."""
        if self._guarded:
            if _LOW < squares < _HIGH:
                return True
            return squares == 0.0 and not side.any()
        return math.isfinite(squares)


def _same_bits(reference: Array, candidate: Array) -> bool:
    """Whether two contiguous blocks of one type hold the same bits.

    Most that differ do so within the first elements.
    """
    return reference[:_PROBE].tobytes() == candidate[:_PROBE].tobytes() and bool(np.equal(_words(reference), _words(candidate)).all())


def _words(block: Array) -> Array:
    """A block as integers, as wide as its length in bytes allows: comparing goes by elements."""
    return block.view(np.uint64 if block.nbytes % 8 == 0 else f"u{block.itemsize}")


def _add_equal(part: Part, size: int, squares: float) -> bool:
    """Add a block of equal finite values; True."""
    part.finite += size
    for total in (part.reference, part.candidate, part.product):
        total.add(squares)
    return True


def _add(part: Part, size: int, differing: int, squares: tuple[float, float, float], along: float) -> None:
    """Add a block of finite values.

    Squares of reference, candidate and error, product of the first two.
    """
    part.finite += size
    part.mismatched += differing
    part.reference.add(squares[0])
    part.candidate.add(squares[1])
    part.error.add(squares[2])
    part.product.add(along)


def _single(value: Typed) -> Array:
    """Values as float32, which holds them."""
    if value.dtype == "float32":
        return value.array
    values: Array = widen(value).astype(np.float32, copy=False)
    return values


def _double(value: Typed, room: Array) -> Array:
    """Values as float64, in ``room`` where they are of another type."""
    return _in_double(widen(value), room)


def _in_double(values: Array, room: Array) -> Array:
    if values.dtype == room.dtype:
        return values
    np.copyto(room, values)
    return room
