"""A tensor's values in one short string, whatever their order.

Values that were only moved have digests that agree.

Five forms, all ``<kind>:<numbers>``:

``m3:size,rms,mean/rms,mean|x|/rms,fourth,min/rms,max/rms,e1,e2[,nan,+inf,-inf]``
    ``fourth`` is the mean of ``(x/rms)**4``: taken about zero, because moments about the mean magnify rounding without limit where
    values hardly vary. ``e1`` and ``e2`` are the mean excess over ``LEVELS``, the means of
    ``max(x/rms - level, 0)``; :func:`quantile` reads bounds of quantiles off them. (A quantile itself costs a sort, and the count
    of a histogram's bin jumps when rounding moves an element over its edge; an excess moves no further than the elements do.)
    The last three are counts and stand only where one is not zero; all else is then over the finite elements. Of complex values
    the modulus is taken, except that ``mean`` is the mean of the real part.
``m2:``, ``m1:``
    captures of older versions, which are read and compared by what they have in common with new ones: with the mean of
    ``(x/rms)**3`` before ``fourth``, and ``m1`` without ``e1`` and ``e2``.
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
from typing import Any, Iterator, Optional, Tuple, Union

import numpy as np

from paralign.capture.passes import LEVELS, Figures, HostPasses, Passes, measured
from paralign.dtypes import Typed, typed
from paralign.errors import CaptureFormatError

#: a match of fewer elements than this is likely by chance
LEAST = 8

#: the digest of a tensor without elements
EMPTY = "e1:0"

#: values that spread less than this share of their size are as good as constant
SPREAD = 1e-6

_LARGEST = sys.float_info.max
_MOMENTS, _COUNTS = 7, 3

#: form -> how many numbers stand before the counts
_MEASURED = {"m3": _MOMENTS + len(LEVELS), "m2": _MOMENTS + 1 + len(LEVELS), "m1": _MOMENTS + 1}
_FORMS = {**{form: (count, count + _COUNTS) for form, count in _MEASURED.items()}, "c1": (2, 3), "e1": (1,)}

#: where older forms have the mean of cubes
_CUBES = 4


def moments(array: "Union[np.ndarray[Any, Any], Typed]") -> str:
    """The digest of an array of any supported type, or of a :class:`Typed` with raw bits.

    Shape and strides may be any.

    Three passes in float64, in blocks; extra memory is a few blocks whatever the size. Every number is within 1e-12 of the true
    one (relatively, where it exceeds one).

    Raises:
        UnsupportedTensor: elements that are no numbers.

    >>> moments(np.zeros((2, 3)))
    'c1:6,0.0'
    >>> agree(moments(np.arange(24.0)), moments(np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)), 1e-12)
    True
    """
    value = array if isinstance(array, Typed) else typed(array)
    if value.array.size == 0:
        return EMPTY
    with np.errstate(all="ignore"):
        passes = HostPasses(value)
        if passes.constant():
            return constant(passes.size, *(low for low, _ in passes.parts))
        low, high = passes.extremes() if passes.size else (0.0, 0.0)
        found = measured(passes, low, high, counts=passes.counts) if max(abs(low), abs(high)) else None
    return written(found or Figures(float(value.array.size), 0.0, counts=tuple(map(float, passes.counts))))


def constant(size: int, *value: float) -> str:
    """The digest of ``size`` elements of one finite value.

    Where it is complex, its real and imaginary part.
    """
    return f"c1:{size}," + ",".join(repr(part + 0.0) for part in value)  # + 0.0: minus zero is zero


def written(known: Figures) -> str:
    """The digest ``m3`` of figures."""
    tail = "".join(f",{count:.0f}" for count in known.counts) if any(known.counts) else ""
    return f"m3:{known.size:.0f}," + ",".join(repr(float(x) + 0.0) for x in (known.rms, *known.shares())) + tail


def digested(passes: Passes) -> Optional[str]:
    """The digest of a tensor whose passes an adapter makes.

    None where elements are not finite or beyond the passes' reach.

    The tensor has elements, and they are real.
    """
    low, high, plain = passes.survey()
    if not (math.isfinite(low) and math.isfinite(high)) or math.frexp(max(abs(low), abs(high)))[1] > passes.reach:
        return None
    if low == high:
        return constant(passes.size, low)
    found = measured(passes, low, high, plain)
    return None if found is None else written(found)


def distance(one: str, other: str, *, sized: bool = True) -> float:
    """The largest difference of the numbers of two digests.

    Infinite where sizes or counts of NaN and infinities differ.

    The root mean square is compared relatively, the others, which are multiples of it, relatively where they exceed one. What only
    one of the digests has (an ``m1`` has no excess) is not compared. A constant and values that hardly differ from it are near.

    Args:
        one: a digest.
        other: another.
        sized: whether the number of elements counts: values that are repeated as a whole have the figures of what they repeat.

    Raises:
        CaptureFormatError: a string that is no digest.

    >>> distance("c1:6,1.0", "c1:6,1.5"), distance("c1:6,1.0", "c1:7,1.0")
    (0.3333333333333333, inf)
    """
    if one == other:
        numbers(one)
        return 0.0
    first, second = figures(one), figures(other)
    if first.counts != second.counts or (sized and first.size != second.size):
        return math.inf
    largest = max(first.rms, second.rms)
    found = abs(first.rms - second.rms) / largest if largest else 0.0
    for x, y in zip(first.shares(), second.shares()):
        found = max(found, abs(x - y) / max(1.0, abs(x), abs(y)))
    return found


def agree(one: str, other: str, tolerance: float) -> bool:
    """Whether two digests are of the same values: their distance is within ``tolerance``.

    See :func:`distance`.

    Raises:
        CaptureFormatError: a string that is no digest.

    >>> agree("c1:6,1.0", "c1:6,1.0000001", 1e-6), agree("c1:6,1.0", "c1:7,1.0", 1e-6)
    (True, False)
    """
    first, second = figures(one), figures(other)
    if first.size != second.size or abs(first.rms - second.rms) > tolerance * max(first.rms, second.rms):
        return False  # what tells most tensors apart, before the rest is looked at
    return distance(one, other) <= tolerance


def is_evidence(digest: str) -> bool:
    """Whether a match of this digest says anything.

    Constants and tensors of fewer than ``LEAST`` elements match by chance.

    >>> is_evidence(moments(np.arange(8.0))), is_evidence(moments(np.arange(7.0))), is_evidence(moments(np.ones(99)))
    (True, False, False)
    """
    if not digest.startswith("m"):
        numbers(digest)
        return False
    known = figures(digest)
    telling = (known.mean, known.low, known.high)
    return known.size - sum(known.counts) >= LEAST and max(telling) - min(telling) > SPREAD


def quantile(digest: str, share: float) -> Tuple[float, float]:
    """Bounds of the value below which ``share`` of the finite elements lie.

    In the elements' own units; of complex ones the modulus counts.

    Between two levels the mean excess falls by the share of elements above, averaged over the levels between: a share of which one
    level has more and the other less. Exact for constants; NaN where nothing is finite.

    Args:
        digest: of any form; an ``m1`` knows the least, the greatest and what lies above zero.
        share: 0 to 1.

    Raises:
        CaptureFormatError: a string that is no digest.

    >>> low, high = quantile(moments(np.arange(1001.0)), 0.5)
    >>> low <= 500 <= high
    True
    """
    known = figures(digest)
    if not known.size - sum(known.counts):
        return math.nan, math.nan
    low, high = known.low, known.high
    points = sorted({(low, known.level_mean() - low), (high, 0.0), *_inner(known)})
    for (left, more), (right, less) in zip(points, points[1:]):
        above = (more - less) / (right - left)  # at most the share above ``left``, at least that above ``right``
        if above - _ROUNDING / (right - left) > 1.0 - share:
            low = max(low, left)
        if above + _ROUNDING / (right - left) < 1.0 - share:
            high = min(high, right)
    return low * known.rms, high * known.rms


def size_and_rms(digest: str) -> Tuple[float, float]:
    """Two numbers that agreeing digests share, by which an index goes.

    The second is shared within the tolerance.

    >>> size_and_rms("c1:6,-2.0")
    (6.0, 2.0)
    """
    known = figures(digest)
    return known.size, known.rms


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
def figures(digest: str) -> Figures:
    """A digest of any form as figures.

    Constants can then be compared with what is nearly constant.

    Raises:
        CaptureFormatError: a string that is no digest.
    """
    found = numbers(digest)
    if digest.startswith("m"):
        end = _MEASURED[digest[:2]]
        counts = found[end:] or (0.0,) * _COUNTS
        kept = found[:end] if digest.startswith("m3") else (*found[:_CUBES], *found[_CUBES + 1 : end])
        size, rms, mean, absolute, fourth, low, high = kept[:_MOMENTS]
        return Figures(size, rms, mean, absolute, fourth, low, high, kept[_MOMENTS:], counts)
    if digest.startswith("e1:"):
        return Figures(0.0, 0.0)
    size, real, imaginary = (*found, 0.0)[:3]
    modulus = min(math.hypot(real, imaginary), _LARGEST)
    if modulus == 0.0:
        return Figures(size, 0.0)
    mean = real / modulus
    value = mean if len(found) < len("cri") else 1.0  # of complex values all but the mean is of the modulus
    return Figures(size, modulus, mean, 1.0, 1.0, value, value, tuple(max(value - level, 0.0) for level in LEVELS))


#: what the rounding of a float32 tensor's figures may come to
_ROUNDING = 1e-6


def _inner(known: Figures) -> Iterator[Tuple[float, float]]:
    """Levels strictly between the extremes, and the mean excess over each.

    That over zero follows from ``mean`` and ``absolute``.
    """
    for level, excess in (*zip(LEVELS, known.excess), (0.0, (known.absolute + known.mean) / 2)):
        if known.low < level < known.high:
            yield level, excess
