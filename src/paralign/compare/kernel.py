"""The arithmetic of the comparison on one block that fits into a core's cache.

Most blocks take the short way: finite values of ordinary size. It makes few passes over the block, in buffers that are
made once, and looks closer (which element, its exact relative error, its distance in units in the last place) only where
a block can hold a new greatest value. NaN, infinities, complex values, integers beyond 2**53 and values whose squares
leave float64 take the careful way, which allocates a few times the block.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.compare.ulp import distances, greatest, unit
from paralign.dtypes import EPS, STORAGE, Typed, is_complex, widen

if TYPE_CHECKING:
    from paralign.compare.sums import Part, Peak

Array = np.ndarray[Any, Any]

#: elements in one dot product: below the size from which BLAS libraries start threads of their own
_RUN = 8192
#: sums of squares between which no square can have been lost
_LOW, _HIGH = 1e-200, 1e280
#: integers up to here are exact in float64
_EXACT = 2**53
#: |reference| ** 2 and |candidate| ** 2 within this factor: their product follows from the error without cancellation
_ALIKE = 16.0
#: bounds the rounding of a relative error that was computed in float32: two operations, and what float32 cannot hold
_ROUNDING, _VANISHED = 1.0 + 2.0**-20, 2.0**-125
#: relative errors up to here are exact in the type of the values (Sterbenz: the difference of x and y is, from y / 2 <= x <= 2 y)
_NEAR = 0.49
#: |candidate| ** 2 = |reference| ** 2 - 2 * reference * error + |error| ** 2 may take its middle term from float32, where the run is
#: short enough, the error slight enough (its square, to that of the reference) and the values not too small (mean square) to
#: keep the sum within 1e-9
_ROUGH_RUN, _SLIGHT, _SMALL = 512, 2.5e-10, 1e-25
_LINE = 64

_NARROW = frozenset({"float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"})
_LONG = frozenset({"int64", "uint64"})


class Kernel:
    """Compares blocks of one pair of element types; owns the buffers of one thread.

    What the kernel has seen so far lets it skip work that cannot change the result: a greatest value below one that was
    seen elsewhere. Parts from several kernels merge to the same result however the blocks were dealt out.

    Args:
        reference: canonical element type of the reference.
        candidate: canonical element type of the candidate.
        length: greatest number of elements in a block.
        atol: absolute tolerance of the user's, or None.
        rtol: relative tolerance of the user's, or None.
    """

    def __init__(self, reference: str, candidate: str, length: int, atol: float | None = None, rtol: float | None = None) -> None:
        self._names = reference, candidate
        self._narrow = {reference, candidate} <= _NARROW
        self._complex = is_complex(reference) or is_complex(candidate)
        self._long = bool({reference, candidate} & _LONG)
        self._guarded = not self._narrow and bool({reference, candidate} & {"float64"})
        self._unit = unit(reference, candidate)
        self._tolerance = None if atol is None and rtol is None else (atol or 0.0, rtol or 0.0)
        self._seen_abs = self._seen_rel = self._seen_ulp = 0.0
        self._mask = np.empty(length, np.bool_)
        self._first, self._second = _room(length, np.float64), _room(length, np.float64)
        self._rough, self._ratio = (_room(length if self._narrow else 0, np.float32) for _ in range(2))
        self._bits = _room(length, f"int{8 * STORAGE[reference].itemsize}") if reference == candidate == self._unit else None
        self._ones = np.ones((_RUN, 1) if length >= _RUN else 0)

    def absorb(self, part: Part, start: int, reference: Array, candidate: Array) -> None:
        """Add one block to ``part``.

        Args:
            part: what this stretch came to so far.
            start: flat index of the first element.
            reference: one-dimensional, in the storage type of its element type.
            candidate: as ``reference``, as many elements.
        """
        with np.errstate(all="ignore"):
            if self._complex or not self._short(part, start, reference, candidate):
                self._careful(part, start, reference, candidate)

    def _short(self, part: Part, start: int, reference: Array, candidate: Array) -> bool:
        """The short way; False where the block must go the careful way (nothing was added then)."""
        raw = Typed(reference, self._names[0]), Typed(candidate, self._names[1])
        if self._narrow:
            return self._singles(part, start, raw)
        if self._long and _beyond(reference, candidate):
            return False
        low = _cast(widen(raw[0]), self._first), _cast(widen(raw[1]), self._second)
        differing = int(np.count_nonzero(np.not_equal(*low, out=self._mask[: reference.size])))
        squares = _dot(low[0], low[0])
        if not self._ordinary(squares, low[0]):
            return False
        if not differing:
            return _add_equal(part, reference.size, squares)
        return self._doubles(part, start, raw, low, differing, squares)

    def _singles(self, part: Part, start: int, raw: tuple[Typed, Typed]) -> bool:
        """The short way of values that float32 holds, and most often their error as well."""
        low = _single(raw[0]), _single(raw[1])
        size = low[0].size
        rough = np.subtract(*low, out=self._rough[:size])
        along = _rough_dot(low[0], rough)
        np.absolute(rough, out=rough)
        differing = int(np.count_nonzero(rough.view(np.int32)))
        mine = _cast(low[0], self._first)
        squares = _dot(mine, mine)
        if not math.isfinite(squares):
            return False
        if not differing:
            return _add_equal(part, size, squares)
        ratio = np.divide(rough, low[0], out=self._ratio[:size])
        bound = max(float(np.fmax.reduce(ratio)), -float(np.fmin.reduce(ratio))) * _ROUNDING + _VANISHED
        if bound >= _NEAR:
            return self._doubles(part, start, raw, (mine, _cast(low[1], self._second)), differing, squares, bound)
        error = _cast(rough, self._first)
        errors = _dot(error, error)
        if not math.isfinite(errors):
            return False
        others = squares - 2.0 * along + errors
        if not (errors <= _SLIGHT * squares and squares >= _SMALL * size and math.isfinite(others)):
            other = _cast(low[1], self._second)
            others = _dot(other, other)
        _add(part, size, differing, (squares, others, errors), (squares + others - errors) / 2)
        self._peaks(part, start, raw, low[0], error, self._second, bound)
        return True

    def _doubles(
        self,
        part: Part,
        start: int,
        raw: tuple[Typed, Typed],
        wide: tuple[Array, Array],
        differing: int,
        squares: float,
        bound: float = math.inf,
    ) -> bool:
        """The short way of float64 values that differ in places."""
        mine, other = wide
        others = _dot(other, other)
        if not self._ordinary(others, other):
            return False
        product = None if others / _ALIKE <= squares <= others * _ALIKE else _dot(mine, other)
        error = np.subtract(mine, other, out=self._second[: mine.size])
        np.absolute(error, out=error)
        errors = _dot(error, error)
        if self._guarded and not _LOW < errors < _HIGH:
            return False
        _add(part, mine.size, differing, (squares, others, errors), (squares + others - errors) / 2 if product is None else product)
        self._peaks(part, start, raw, mine, error, self._first, bound)
        return True

    def _peaks(self, part: Part, start: int, raw: tuple[Typed, Typed], reference: Array, error: Array, room: Array, bound: float) -> None:
        """Absolute errors, the user's tolerance, and the greatest of everything.

        Args:
            part: what this stretch came to so far.
            start: flat index of the first element.
            raw: both sides.
            reference: its values, float32 or float64.
            error: the absolute error, float64; overwritten.
            room: a buffer for the reference in float64.
            bound: no relative error is greater; infinite where nothing is known.
        """
        part.absolute.add(self._total(error))
        top = float(error.max())
        if top >= self._seen_abs and top > part.max_abs.value:
            part.max_abs.offer(top, start + int(error.argmax()))
            self._seen_abs = top
        if self._tolerance:
            part.exceeding += _exceeding(error, _cast(reference, room), self._tolerance)
        if bound >= self._seen_rel and bound > part.max_rel.value:
            bound = self._relative(part, start, _cast(reference, room), error)
        self._units(part, bound, raw)

    def _relative(self, part: Part, start: int, reference: Array, error: Array) -> float:
        """The greatest relative error; returns it, or infinity where only the reference is zero somewhere."""
        ratio = np.divide(error, reference, out=error)
        np.absolute(ratio, out=ratio)
        bound = float(np.fmax.reduce(ratio))
        np.copyto(ratio, 0.0, where=np.equal(reference, 0.0, out=self._mask[: reference.size]))
        at = int(ratio.argmax())
        top = float(ratio[at])
        if top > part.max_rel.value:
            part.max_rel.offer(top, start + at)
            self._seen_rel = max(self._seen_rel, top)
        return bound

    def _units(self, part: Part, bound: float, raw: tuple[Typed, Typed]) -> None:
        """Greatest distance in units in the last place, looked for only where ``bound`` leaves room for it."""
        if self._unit is None:
            return
        if bound < 1.0 and 1.0 + 2.0 / EPS[self._unit] * bound / (1.0 - bound) < self._seen_ulp:
            return  # a value x lies more than |x| * EPS / 2 from its neighbours, and rounding to the unit moves by less than 1
        if self._bits is None:
            top = float(distances(*raw).max())
        else:
            kind = self._bits.dtype
            top = float(greatest(raw[0].array.view(kind), raw[1].array.view(kind), self._bits[: raw[0].array.size]))
        part.ulp = max(part.ulp, top)
        self._seen_ulp = max(self._seen_ulp, top)

    def _careful(self, part: Part, start: int, reference: Array, candidate: Array) -> None:
        """The way for everything that the short way cannot take."""
        kind = np.complex128 if self._complex else np.float64
        values = [widen(Typed(side, name)).astype(kind) for side, name in zip((reference, candidate), self._names, strict=True)]
        keep = np.isfinite(values[0]) & np.isfinite(values[1])
        wrong = int(np.count_nonzero(_disagreeing(part, *values) & ~keep))
        part.mismatched += wrong
        part.exceeding += wrong if self._tolerance else 0
        places = np.flatnonzero(keep)
        if not places.size:
            return
        sides = [Typed(side[places], name) for side, name in zip((reference, candidate), self._names, strict=True)]
        kept = values[0][places], values[1][places]
        error = _difference(*sides) if self._long and not self._complex else kept[0] - kept[1]
        part.mismatched += int(np.count_nonzero(error))
        self._general(part, start + places, *kept, error)
        if self._unit:
            part.ulp = max(part.ulp, float(distances(*sides).max()))

    def _general(self, part: Part, places: Array, reference: Array, candidate: Array, error: Array) -> None:
        """Sums and greatest values of finite float64 or complex128 values of any size; ``places`` are their flat indices."""
        doubled = 0
        if not np.isfinite(error).all():
            error, doubled = reference / 2 - candidate / 2, 1
        part.finite += places.size
        scaled = [_scale(side) for side in (reference, candidate, error)]
        for total, (side, exponent) in zip((part.reference, part.candidate, part.error), scaled, strict=True):
            twice = 2 * (exponent + (doubled if total is part.error else 0))
            total.add(_dot(side, side), twice)
        part.product.add(_dot(scaled[0][0], scaled[1][0]), scaled[0][1] + scaled[1][1])
        magnitude = np.absolute(error)
        small, exponent = _scale(magnitude)
        part.absolute.add(float(small.sum()), exponent + doubled)
        size = np.absolute(reference)
        ratio = np.divide(magnitude, size, out=np.zeros_like(size), where=size > 0.0) * 2.0**doubled
        _offer(part.max_rel, ratio, places)
        magnitude = magnitude * 2.0**doubled
        _offer(part.max_abs, magnitude, places)
        if self._tolerance:
            part.exceeding += _exceeding(magnitude, size, self._tolerance)

    def _ordinary(self, squares: float, side: Array) -> bool:
        """Whether a sum of squares is finite and lost nothing to underflow."""
        if self._guarded:
            return _LOW < squares < _HIGH or (squares == 0.0 and not side.any())
        return math.isfinite(squares)

    def _total(self, side: Array) -> float:
        """Sum, float64."""
        whole = side.size // _RUN * _RUN
        total = float(np.matmul(side[:whole].reshape(-1, 1, _RUN), self._ones).sum()) if whole else 0.0
        return total + float(side[whole:].sum()) if whole < side.size else total


def _add_equal(part: Part, size: int, squares: float) -> bool:
    """Add a block of equal finite values; True."""
    part.finite += size
    for total in (part.reference, part.candidate, part.product):
        total.add(squares)
    return True


def _add(part: Part, size: int, differing: int, squares: tuple[float, float, float], product: float) -> None:
    """Add a block of finite values: squares of reference, candidate and error, product of the first two."""
    part.finite += size
    part.mismatched += differing
    for total, value in zip((part.reference, part.candidate, part.error, part.product), (*squares, product), strict=True):
        total.add(value)


def _dot(left: Array, right: Array) -> float:
    """Sum of products, float64, in runs short enough for one thread."""
    whole = left.size // _RUN * _RUN
    total = 0.0
    if whole:
        total = float(np.matmul(left[:whole].reshape(-1, 1, _RUN), right[:whole].reshape(-1, _RUN, 1)).sum())
    return total + float(np.dot(left[whole:], right[whole:])) if whole < left.size else total


def _rough_dot(left: Array, right: Array) -> float:
    """Sum of products, float32: off by at most ``_ROUGH_RUN * 2 ** -24`` times the product of the norms, whatever the order."""
    whole = left.size // _ROUGH_RUN * _ROUGH_RUN
    runs = np.matmul(left[:whole].reshape(-1, 1, _ROUGH_RUN), right[:whole].reshape(-1, _ROUGH_RUN, 1))
    return float(runs.sum(dtype=np.float64)) + float(np.dot(left[whole:], right[whole:]))


def _single(value: Typed) -> Array:
    """Values as float32, which holds them."""
    values: Array = widen(value).astype(np.float32, copy=False)
    return values


def _room(length: int, dtype: Any) -> Array:
    """A buffer that starts on a cache line: vector instructions are twice as fast on it."""
    kind = np.dtype(dtype)
    raw = np.empty(length * kind.itemsize + _LINE, np.uint8)
    start = -raw.ctypes.data % _LINE
    return raw[start : start + length * kind.itemsize].view(kind)


def _cast(side: Array, room: Array) -> Array:
    if side.dtype == room.dtype:
        return side
    np.copyto(room[: side.size], side)
    return room[: side.size]


def _beyond(*sides: Array) -> bool:
    """Whether integers are among the values that float64 does not hold."""
    long = [side for side in sides if str(side.dtype) in _LONG]
    return any(int(side.max()) > _EXACT or int(side.min()) < -_EXACT for side in long)


def _difference(reference: Typed, candidate: Typed) -> Array:
    """Reference minus candidate, zero only where they are equal, though a side holds integers beyond 2**53."""
    (high, low), (other, rest) = _halves(reference), _halves(candidate)
    error: Array = (high - other) + (low - rest)
    return error


def _halves(value: Typed) -> tuple[Array, Array]:
    """Two float64 arrays that add up to the values exactly; the second is zero for values that float64 holds."""
    if value.dtype not in _LONG:
        return widen(value).astype(np.float64), np.zeros(value.array.size)
    side = value.array
    low = side & side.dtype.type(2**32 - 1)
    fits = (side <= _EXACT) if value.dtype == "uint64" else (side <= _EXACT) & (side >= -_EXACT)
    return np.where(fits, side, side - low).astype(np.float64), np.where(fits, 0, low).astype(np.float64)


def _disagreeing(part: Part, reference: Array, candidate: Array) -> Array:
    """Count NaN and infinities; returns where the sides differ (NaN on both sides does not)."""
    nan = np.isnan(reference), np.isnan(candidate)
    inf = np.isinf(reference) & ~nan[0], np.isinf(candidate) & ~nan[1]
    equal = reference == candidate
    part.nan += int(np.count_nonzero(nan[0] != nan[1]))
    part.inf += int(np.count_nonzero((inf[0] | inf[1]) & ~equal))
    part.nan_reference += int(np.count_nonzero(nan[0]))
    part.nan_candidate += int(np.count_nonzero(nan[1]))
    part.inf_reference += int(np.count_nonzero(inf[0]))
    part.inf_candidate += int(np.count_nonzero(inf[1]))
    differ: Array = ~(equal | (nan[0] & nan[1]))
    return differ


def _scale(side: Array) -> tuple[Array, int]:
    """Real values times a power of two whose squares neither overflow nor vanish, and that power; complex gives both parts."""
    if np.iscomplexobj(side):
        side = np.ascontiguousarray(side).view(np.float64)
    top = float(np.absolute(side).max())
    if top == 0.0 or 2.0**-300 < top < 2.0**300:
        return side, 0
    exponent = math.frexp(top)[1]
    return np.ldexp(side, -exponent), exponent


def _exceeding(error: Array, size: Array, tolerance: tuple[float, float]) -> int:
    """How many errors are greater than ``atol + rtol * |size|``."""
    allowed = np.absolute(size)
    allowed *= tolerance[1]
    allowed += tolerance[0]
    return int(np.count_nonzero(error > allowed))


def _offer(peak: Peak, values: Array, places: Array) -> None:
    at = int(values.argmax())
    if values[at] > peak.value:
        peak.offer(float(values[at]), int(places[at]))
