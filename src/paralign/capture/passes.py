"""The numbers of a tensor's digest, from a few passes over its values.

How the passes are made is the framework's: an adapter computes them on the tensor's own device (:class:`Passes`), numpy in blocks of
float64. What is made of them, and its error, is the same for all.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from paralign.dtypes import Typed, widen

try:
    from typing import Protocol
except ImportError as missing:  # pragma: no cover - Python 3.7 and older
    raise ImportError("paralign's worker needs Python 3.8 or newer") from missing

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
else:
    Array = "numpy.ndarray"

#: where the mean excess is taken, as multiples of the root mean square; that over zero goes into the mean modulus
LEVELS = (-1.0, 1.0)

#: elements that numpy widens at a time: small enough for the cache, large enough that Python's part is small
BLOCK = 1 << 14

#: largest moduli between these powers of two raise to the fourth power without scaling
_MODERATE = (-10, 20)

#: the exponents of the factors that float64 can hold, and of what they leave of the smallest numbers
_FURTHEST = 1000

_LARGEST = sys.float_info.max


class Figures(NamedTuple):
    """The numbers of a digest, over the finite elements.

    All but the first two are of elements divided by ``rms``.

    ``mean``, ``absolute``, ``fourth`` are the means of ``x``, ``abs(x)``, ``x**4``; ``excess`` those of
    ``max(x - level, 0)`` for each of ``LEVELS``, or none in digests of older captures. ``counts`` are those of NaN, plus and minus
    infinity, which ``size`` includes.
    """

    size: float
    rms: float
    mean: float = 0.0
    absolute: float = 0.0
    fourth: float = 0.0
    low: float = 0.0
    high: float = 0.0
    excess: Tuple[float, ...] = (0.0,) * len(LEVELS)
    counts: Tuple[float, ...] = (0.0, 0.0, 0.0)

    def moments(self) -> Tuple[float, ...]:
        """What digests of all forms have besides ``rms``."""
        return (self.mean, self.absolute, self.fourth, self.low, self.high)

    def shares(self) -> Tuple[float, ...]:
        """What stands between ``rms`` and ``counts``, in the order in which it is written."""
        return (*self.moments(), *self.excess)

    def level_mean(self) -> float:
        """The mean of what ``excess`` is taken of.

        Of complex elements these are the moduli, while ``mean`` is that of the real parts.
        """
        return self.absolute if self.low >= 0 else self.mean


class Passes(Protocol):
    """Sums over all elements of a tensor of real numbers, in any order.

    ``factor`` is a power of two, ``2.0**-reach`` to ``2.0**reach``, that brings the largest modulus between 0.5 and 1; or one.
    """

    size: int
    reach: int

    def survey(self) -> Tuple[float, float, Optional[Sequence[float]]]:
        """The least and the greatest element, and ``powers(1.0)`` where that costs no pass.

        Something is not finite where an element is not.
        """

    def powers(self, factor: float) -> Sequence[float]:
        """The sums of ``x``, ``x**2``, ``x**4`` of ``x = element * factor``.

        Where elements are complex, that of their moduli follows.
        """

    def excess(self, factor: float, thresholds: Sequence[float]) -> Sequence[float]:
        """The sum of ``max(element * factor - threshold, 0)`` for each threshold.

        Thresholds are in ascending order.
        """


def measured(
    passes: Passes, low: float, high: float, plain: Optional[Sequence[float]] = None, counts: Sequence[float] = (0.0, 0.0, 0.0)
) -> Optional[Figures]:
    """The figures of elements whose extremes are known, finite and not equal.

    ``plain`` are ``powers(1.0)``, where they are known; ``counts`` are of the elements that the passes leave out.

    None where the passes do not reach values of this size, or meet one that is not finite. The numbers are as exact as the passes'
    sums, relatively to the sums of the moduli.
    """
    exponent = math.frexp(max(abs(low), abs(high)))[1]
    exponent = 0 if _MODERATE[0] <= exponent <= _MODERATE[1] else min(max(exponent, -_FURTHEST), _FURTHEST)
    if abs(exponent) > passes.reach:
        return None
    factor, size = math.ldexp(1.0, -exponent), passes.size
    totals = plain if plain is not None and factor == 1.0 else passes.powers(factor)
    if not all(math.isfinite(total) for total in totals):
        return None
    mean, square, fourth, *moduli = (total / size for total in totals)
    rms, average = math.sqrt(square), moduli[0] if moduli else mean
    low, high = low * factor, high * factor
    levels = [LEVELS[0] * rms, 0.0, LEVELS[1] * rms]
    inside = [level for level in levels if low < level < high]
    found = dict(zip(inside, passes.excess(factor, inside) if inside else ()))
    below, above_zero, above = (found[x] / size if x in found else average - x if x <= low else 0.0 for x in levels)
    return Figures(
        float(size + sum(counts)),
        min(float(np.ldexp(rms, exponent)), _LARGEST),
        mean / rms,
        (2 * above_zero - average) / rms,
        fourth / square / square,
        low / rms,
        high / rms,
        (below / rms, above / rms),
        tuple(map(float, counts)),
    )


class HostPasses:
    """Passes of numpy, in blocks, each widened to float64.

    Extra memory is a few blocks whatever the size.

    Of complex elements the modulus is taken, except for the sum of ``x``, which is that of the real parts. Elements that are not
    finite are left out and counted. A block is summed by numpy and the blocks exactly, so that the error does not grow with their number.
    """

    reach = _FURTHEST

    def __init__(self, value: Typed) -> None:
        self.value = value
        self.counts = [0, 0, 0]
        self._kept: Optional[List[Array]] = None
        self.parts: List[Tuple[float, float]] = []  #: least and greatest of the elements, or of their real and imaginary parts
        self._survey()
        self.size = value.array.size - sum(self.counts)

    def constant(self) -> bool:
        """Whether all elements are finite and equal."""
        if any(self.counts):
            return False
        return all(low == high for low, high in self.parts)

    def extremes(self) -> Tuple[float, float]:
        """The least and the greatest; of the moduli, where elements are complex.

        There must be an element that is finite.
        """
        if len(self.parts) == 1:
            return self.parts[0]
        moduli = [np.abs(block) for block in self._finite()]
        return min(float(block.min()) for block in moduli), min(max(float(block.max()) for block in moduli), _LARGEST)

    def survey(self) -> Tuple[float, float, Optional[Sequence[float]]]:
        """See :class:`Passes`."""
        return (*self.extremes(), None)

    def powers(self, factor: float) -> Sequence[float]:
        """See :class:`Passes`."""
        parts = []
        for block in self._finite():
            scaled = block if factor == 1.0 else block * factor
            x = scaled if scaled.dtype.kind == "f" else np.abs(scaled)
            square = x * x
            fourth = float(np.einsum("i,i->", square, square))  # no BLAS: its threads get in the way
            moduli = () if x is scaled else (float(x.sum()),)
            parts.append((float(scaled.real.sum()), float(square.sum()), fourth, *moduli))
        return [math.fsum(column) for column in zip(*parts)]

    def excess(self, factor: float, thresholds: Sequence[float]) -> Sequence[float]:
        """See :class:`Passes`."""
        parts = []
        for block in self._finite():
            scaled = block if factor == 1.0 else block * factor
            x = scaled if scaled.dtype.kind == "f" else np.abs(scaled)
            parts.append([float(np.maximum(x - threshold, 0.0).sum()) for threshold in thresholds])
        return [math.fsum(column) for column in zip(*parts)]

    def _survey(self) -> None:
        low, high = [math.inf, math.inf], [-math.inf, -math.inf]
        is_complex = self.value.array.dtype.kind == "c"
        for block in self._blocks():
            views = (block.real, block.imag) if is_complex else (block,)
            found = [(float(view.min()), float(view.max())) for view in views]
            if not all(math.isfinite(value) for pair in found for value in pair):  # both are NaN where any element is
                kept = self._count(block)
                views = (kept.real, kept.imag) if is_complex else (kept,)
                found = [(float(view.min()), float(view.max())) for view in views] if kept.size else []
            for part, (least, most) in enumerate(found):
                low[part], high[part] = min(low[part], least), max(high[part], most)
        self.parts = list(zip(low, high))[: 2 if is_complex else 1]

    def _count(self, block: Array) -> Array:
        """The finite elements; NaN, plus and minus infinity are counted.

        A complex infinity has no sign: it counts as plus.
        """
        nan = np.isnan(block)
        infinite = np.isinf(block) & ~nan
        minus = infinite & (block < 0) if block.dtype.kind == "f" else np.zeros_like(infinite)
        for slot, mask in enumerate((nan, infinite & ~minus, minus)):
            self.counts[slot] += int(np.count_nonzero(mask))
        kept: Array = block[~(nan | infinite)]
        return kept

    def _finite(self) -> Iterator[Array]:
        """The finite elements, a block at a time, as float64 or complex128; no block is empty."""
        wide = np.dtype("complex128" if self.value.array.dtype.kind == "c" else "float64")
        if self._kept is not None:
            yield from self._kept
            return
        for block in self._blocks():
            kept = block[np.isfinite(block)] if any(self.counts) else block
            if kept.size:
                kept = kept.astype(wide, copy=False)
                if kept.size == self.value.array.size:
                    self._kept = [kept]  # small enough for one block: not widened again in every pass
                yield kept

    def _blocks(self) -> Iterator[Array]:
        """The elements in memory order, a block at a time."""
        array = self.value.array
        if array.flags.forc:
            flat = array.reshape(-1, order="A")
            for start in range(0, flat.size, BLOCK):
                yield widen(Typed(flat[start : start + BLOCK], self.value.dtype))
            return
        for block in np.nditer(array, flags=["external_loop", "buffered", "zerosize_ok"], order="K", buffersize=BLOCK):
            yield widen(Typed(np.asarray(block), self.value.dtype))
