"""What the pass over one pair of tensors keeps.

Counts, sums that neither overflow nor vanish, and greatest values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

import numpy as np


@dataclass
class Sum:
    """A sum of non-negative float64 terms, kept apart by binary exponent.

    Squares of 1e-300 or 1e300 can be added.
    """

    terms: dict[int, float] = field(default_factory=dict)

    def add(self, value: float, exponent: int = 0) -> None:
        """Add ``value * 2 ** exponent``."""
        self.terms[exponent] = self.terms.get(exponent, 0.0) + value

    def merge(self, other: Sum) -> None:
        """Add all terms of another sum."""
        for exponent, value in other.terms.items():
            self.add(value, exponent)

    def split(self) -> tuple[float, int]:
        """The sum as ``(value, exponent)``; ``(0.0, 0)`` where it is zero."""
        present = {exponent: value for exponent, value in self.terms.items() if value != 0.0}
        if not present:
            return 0.0, 0
        top = max(present)
        return math.fsum(math.ldexp(value, exponent - top) for exponent, value in sorted(present.items())), top


@dataclass
class Peak:
    """The greatest value seen and the least flat index that has it; -1 where there is none."""

    value: float = 0.0
    at: int = -1

    def offer(self, value: float, at: int) -> None:
        """Take the value if it is greater, or as great and further to the front."""
        if value > self.value or (value == self.value and 0 <= at < self.at):
            self.value, self.at = value, at


@dataclass
class Part:
    """What one stretch of the pass came to.

    Parts are merged in the order of the data, whichever thread made them.

    ``finite`` counts elements that are finite on both sides; the sums are over these: squares of the reference, the
    candidate and the error, products of reference and candidate, absolute errors. ``ulp`` is the greatest distance.
    """

    finite: int = 0
    mismatched: int = 0
    exceeding: int = 0
    nan: int = 0
    inf: int = 0
    nan_reference: int = 0
    nan_candidate: int = 0
    inf_reference: int = 0
    inf_candidate: int = 0
    reference: Sum = field(default_factory=Sum)
    candidate: Sum = field(default_factory=Sum)
    error: Sum = field(default_factory=Sum)
    product: Sum = field(default_factory=Sum)
    absolute: Sum = field(default_factory=Sum)
    max_abs: Peak = field(default_factory=Peak)
    max_rel: Peak = field(default_factory=Peak)
    ulp: float = 0.0

    def merge(self, later: Part) -> None:
        """Add what a later stretch came to."""
        for name in _NAMES:
            mine, other = getattr(self, name), getattr(later, name)
            if isinstance(mine, Sum):
                mine.merge(other)
            elif isinstance(mine, Peak):
                mine.offer(other.value, other.at)
            else:
                setattr(self, name, max(mine, other) if name == "ulp" else mine + other)


_NAMES = tuple(f.name for f in fields(Part))


def scaled(value: float, exponent: int) -> float:
    """``value * 2 ** exponent``, infinite or zero where float64 ends."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(np.float64(value), exponent))


def root(total: Sum, count: int = 1) -> float:
    """Square root of a sum of squares over ``count``."""
    value, exponent = total.split()
    if exponent % 2:
        value, exponent = value * 2.0, exponent - 1
    return scaled(math.sqrt(value / count), exponent // 2)


def quotient(upper: Sum, lower: Sum) -> float:
    """Square root of the quotient of two sums of squares; positive wherever ``upper`` is."""
    (above, up), (below, down) = upper.split(), lower.split()
    (above, more), (below, less) = math.frexp(above), math.frexp(below)  # else the quotient itself may overflow
    exponent = up + more - down - less
    ratio = above / below
    if exponent % 2:
        ratio, exponent = ratio * 2.0, exponent - 1
    return max(scaled(math.sqrt(ratio), exponent // 2), _LEAST if above else 0.0)


_LEAST = float(np.finfo(np.float64).smallest_subnormal)
