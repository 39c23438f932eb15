"""A tensor's values in one short string, whatever their order: values that were only moved have digests that agree.

Three forms, all ``<kind>:<numbers>``:

``m1:size,rms,mean/rms,mean|x|/rms,m3,m4,min/rms,max/rms[,nan,+inf,-inf]``
    ``m3`` and ``m4`` are the means of ``(x/rms)**3`` and ``(x/rms)**4``: taken about zero, because moments about the mean
    magnify rounding without limit where values hardly vary. The last three are counts and stand only where one is not
    zero; all else is then over the finite elements. Of complex values the modulus is taken, except that ``mean`` is the
    mean of the real part.
``c1:size,value``
    every element is the same finite value (complex: ``c1:size,real,imaginary``).
``e1:0``
    no elements.

Integers beyond 2**53 are rounded to float64.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import Any, Iterator, List, Optional, Tuple, Union

import numpy as np

from paralign.dtypes import Typed, typed, widen
from paralign.errors import CaptureFormatError

#: elements that are widened at a time: half a megabyte of float64, so that the four sums run in cache
BLOCK = 1 << 16

#: a match of fewer elements than this is likely by chance
LEAST = 8

#: values that spread less than this share of their size are as good as constant
SPREAD = 1e-6

_LARGEST = sys.float_info.max
_MOMENTS, _COUNTS = 8, 3
_FORMS = {"m1": (_MOMENTS, _MOMENTS + _COUNTS), "c1": (2, 3), "e1": (1,)}


def moments(array: "Union[np.ndarray[Any, Any], Typed]") -> str:
    """The digest of an array of any shape, strides and supported type, or of a :class:`Typed` with raw bits.

    One pass in float64, in blocks (two where values are extreme, not finite or scattered in memory); extra memory is a few
    blocks whatever the size. Every number is within 1e-12 of the true one (relatively, where it exceeds one).

    Raises:
        UnsupportedTensor: elements that are no numbers.

    >>> moments(np.zeros((2, 3)))
    'c1:6,0.0'
    >>> agree(moments(np.arange(24.0)), moments(np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)), 1e-12)
    True
    """
    value = array if isinstance(array, Typed) else typed(array)
    if value.array.size == 0:
        return "e1:0"
    with np.errstate(all="ignore"):
        if value.array.dtype.kind == "c":
            return _of_complex(value)
        return _of_real(value)


def agree(a: str, b: str, tolerance: float) -> bool:
    """Whether two digests are those of the same values, each number within ``tolerance``.

    Sizes and counts of NaN and infinities must be equal; the root mean square is compared relatively, the others, which
    are multiples of it, relatively where they exceed one. A constant and values that hardly differ from it can agree.

    Raises:
        CaptureFormatError: a string that is no digest.

    >>> agree("c1:6,1.0", "c1:6,1.0000001", 1e-6), agree("c1:6,1.0", "c1:7,1.0", 1e-6)
    (True, False)
    """
    one, other = _full(a), _full(b)
    if one[0] != other[0] or one[_MOMENTS:] != other[_MOMENTS:]:
        return False
    if abs(one[1] - other[1]) > tolerance * max(one[1], other[1]):
        return False
    return all(abs(x - y) <= tolerance * max(1.0, abs(x), abs(y)) for x, y in zip(one[2:_MOMENTS], other[2:_MOMENTS]))


def is_evidence(digest: str) -> bool:
    """Whether a match of this digest says anything: constants and tensors of fewer than ``LEAST`` elements match by chance.

    >>> is_evidence(moments(np.arange(8.0))), is_evidence(moments(np.arange(7.0))), is_evidence(moments(np.ones(99)))
    (True, False, False)
    """
    if not digest.startswith("m1:"):
        numbers(digest)
        return False
    figures = numbers(digest)
    finite = figures[0] - sum(figures[_MOMENTS:])
    mean, low, high = figures[2], figures[6], figures[7]
    return finite >= LEAST and max(mean, low, high) - min(mean, low, high) > SPREAD


def size_and_rms(digest: str) -> Tuple[float, float]:
    """Two numbers that agreeing digests share, the second within the tolerance: what an index goes by.

    >>> size_and_rms("c1:6,-2.0")
    (6.0, 2.0)
    """
    full = _full(digest)
    return full[0], full[1]


@lru_cache(maxsize=1 << 16)
def numbers(digest: str) -> Tuple[float, ...]:
    """The numbers of a digest; the first is the size.

    Raises:
        CaptureFormatError: a string that is no digest.
    """
    kind, _, rest = digest.partition(":")
    parts = rest.split(",")
    try:
        found = tuple(float(part) for part in parts)
    except ValueError:
        found = ()
    if len(found) not in _FORMS.get(kind, ()) or not all(math.isfinite(x) for x in found):
        raise CaptureFormatError(
            f"{digest!r} is no digest of a tensor",
            where="field 'digest' of a record",
            hint="record the capture again with this version of paralign",
        )
    return found


@lru_cache(maxsize=1 << 16)
def _full(digest: str) -> Tuple[float, ...]:
    """A digest in the form ``m1`` with counts, so that constants can be compared with what is nearly constant."""
    figures = numbers(digest)
    if digest.startswith("m1:"):
        return figures if len(figures) > _MOMENTS else figures + (0.0,) * _COUNTS
    if digest.startswith("e1:"):
        return (0.0,) * (_MOMENTS + _COUNTS)
    size, real, imaginary = (*figures, 0.0)[:3]
    modulus = min(math.hypot(real, imaginary), _LARGEST)
    if modulus == 0.0:
        return (size,) + (0.0,) * (_MOMENTS + _COUNTS - 1)
    mean = real / modulus
    third = mean if len(figures) < len("cri") else 1.0  # of complex values all but the mean is of the modulus
    return (size, modulus, mean, 1.0, third, 1.0, third, third, 0.0, 0.0, 0.0)


def _blocks(value: Typed) -> "Iterator[np.ndarray[Any, Any]]":
    """The elements in memory order, a block at a time, as float64 or complex128."""
    wide = np.dtype("complex128" if value.array.dtype.kind == "c" else "float64")
    walk = np.nditer(value.array, flags=["external_loop", "buffered", "zerosize_ok"], order="K", buffersize=BLOCK)
    for block in walk:
        yield widen(Typed(np.asarray(block), value.dtype)).astype(wide, copy=False)


#: elements of the quick pass: small enough for the cache, large enough that Python's part is small
SHORT = 1 << 14

#: root mean squares between these raise to the fourth power without scaling
_MODERATE = (1e-60, 1e60)


def _quickly(value: Typed) -> Optional[str]:
    """The digest in one pass without scaling, for values that allow it: finite, of moderate size, contiguous; else None.

    No BLAS: its threads get in the way of the framework's.
    """
    flat = value.array.reshape(-1, order="A") if value.array.flags.forc else None
    if flat is None:
        return None
    block, square = np.empty(SHORT), np.empty(SHORT)
    parts: List[Tuple[float, ...]] = []
    low, high = math.inf, -math.inf
    for start in range(0, flat.size, SHORT):
        piece = widen(Typed(flat[start : start + SHORT], value.dtype))
        x, power = block[: piece.size], square[: piece.size]
        least, most = float(piece.min()), float(piece.max())
        if not (math.isfinite(least) and math.isfinite(most)):
            return None
        low, high = min(low, least), max(high, most)
        np.copyto(x, piece)
        np.abs(x, out=power)
        absolute = float(power.sum())
        np.multiply(x, x, out=power)
        cube, fourth = (float(np.einsum("i,i->", power, other)) for other in (x, power))
        parts.append((float(x.sum()), absolute, float(power.sum()), cube, fourth))
    if low == high:
        return f"c1:{flat.size},{low + 0.0!r}"
    sums = _Sums(flat.size, [0, 0, 0], 0.0)
    sums.low, sums.high, sums.parts, sums.exponent = low, high, parts, 0
    rms = math.sqrt(math.fsum(part[2] for part in parts) / flat.size)
    return sums.text() if _MODERATE[0] < rms < _MODERATE[1] else None


def _of_real(value: Typed) -> str:
    quick = _quickly(value)
    if quick is not None:
        return quick
    low, high = math.inf, -math.inf
    counts = [0, 0, 0]
    for block in _blocks(value):
        least, most = float(block.min()), float(block.max())
        if not (math.isfinite(least) and math.isfinite(most)):  # both are NaN where any element is
            kept = _finite(block, counts)
            if kept.size == 0:
                continue
            least, most = float(kept.min()), float(kept.max())
        low, high = min(low, least), max(high, most)
    if low == high and not any(counts):
        return f"c1:{value.array.size},{low + 0.0!r}"  # + 0.0: minus zero is zero
    sums = _Sums(value.array.size, counts, max(abs(low), abs(high)))
    for block in _blocks(value):
        scaled = (block[np.isfinite(block)] if any(counts) else block) * sums.factor
        sums.add(scaled, scaled)
    return sums.text()


def _of_complex(value: Typed) -> str:
    low, high = [math.inf, math.inf], [-math.inf, -math.inf]
    counts = [0, 0, 0]
    for block in _blocks(value):
        kept = _finite(block, counts)
        if kept.size:
            for part, figures in enumerate((kept.real, kept.imag)):
                low[part], high[part] = min(low[part], float(figures.min())), max(high[part], float(figures.max()))
    if low == high and not any(counts):
        return f"c1:{value.array.size},{low[0] + 0.0!r},{low[1] + 0.0!r}"
    sums = _Sums(value.array.size, counts, max(map(abs, low + high)))
    for block in _blocks(value):
        scaled = block[np.isfinite(block)] * sums.factor
        sums.add(np.abs(scaled), scaled.real)
    return sums.text()


def _finite(block: "np.ndarray[Any, Any]", counts: List[int]) -> "np.ndarray[Any, Any]":
    """The finite elements; NaN, plus and minus infinity are added to ``counts`` (a complex infinity has no sign: plus)."""
    nan = np.isnan(block)
    infinite = np.isinf(block) & ~nan
    minus = infinite & (block < 0) if block.dtype.kind == "f" else np.zeros_like(infinite)
    for slot, mask in enumerate((nan, infinite & ~minus, minus)):
        counts[slot] += int(np.count_nonzero(mask))
    kept: "np.ndarray[Any, Any]" = block[~(nan | infinite)]
    return kept


class _Sums:
    """Sums of powers, of elements scaled by a power of two near the largest: nothing overflows and the scaling is exact.

    A block is summed by numpy and the blocks exactly, so that the error does not grow with the number of blocks.
    """

    def __init__(self, size: int, counts: List[int], largest: float) -> None:
        self.size, self.counts = size, counts
        largest = largest if math.isfinite(largest) else 0.0  # nothing was finite
        self.exponent = min(max(math.frexp(largest)[1], -1000), 1000)
        self.factor = math.ldexp(1.0, -self.exponent)
        self.low, self.high = math.inf, -math.inf
        self.parts: List[Tuple[float, ...]] = []

    def add(self, scaled: "np.ndarray[Any, Any]", signed: "np.ndarray[Any, Any]") -> None:
        """Add finite elements, multiplied by ``factor``; ``signed`` are those of which the mean is taken."""
        if scaled.size == 0:
            return
        self.low, self.high = min(self.low, float(scaled.min())), max(self.high, float(scaled.max()))
        square = scaled * scaled
        self.parts.append(
            (
                float(signed.sum()),
                float(np.abs(scaled).sum()),
                float(square.sum()),
                float((square * scaled).sum()),
                float((square * square).sum()),
            )
        )

    def text(self) -> str:
        """The digest ``m1``."""
        tail = "".join(f",{count}" for count in self.counts) if any(self.counts) else ""
        finite = self.size - sum(self.counts)
        mean, absolute, square, cube, fourth = (math.fsum(column) / finite for column in zip(*self.parts)) if finite else (0.0,) * 5
        rms = math.sqrt(square)
        if rms == 0.0:
            return f"m1:{self.size}" + ",0.0" * (_MOMENTS - 1) + tail
        figures = (
            min(float(np.ldexp(rms, self.exponent)), _LARGEST),
            mean / rms,
            absolute / rms,
            cube / rms / rms / rms,
            fourth / square / square,
            self.low / rms,
            self.high / rms,
        )
        return f"m1:{self.size}," + ",".join(repr(figure + 0.0) for figure in figures) + tail
