"""Whether two sets of drawn numbers have one law, without scipy.

Tests of ranks and of distribution functions.

Draws of one seed may depend on one another (orthogonal matrices, copies); seeds do not. Figures of whole seeds are therefore compared by
ranks, and the number of elements that a pooled test counts is divided by what the spread between seeds shows of such dependence.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: terms of Kolmogorov's series: the 100th is below 1e-300 wherever the sum is not 1
TERMS = 100

#: below this its sum is 1 in double precision
CERTAIN = 0.2


def kolmogorov(distance: float, size: float) -> float:
    """The probability of an empirical distribution at least so far from its law.

    ``size`` is the number of draws.

    The limit of Kolmogorov (1933) and Smirnov (1948) with the correction for finite samples of Stephens (1970), as in Press et al.,
    *Numerical Recipes*, section 14.3. For two samples ``size`` is ``n m / (n + m)``.
    """
    root = math.sqrt(size)
    scaled = (root + 0.12 + 0.11 / root) * distance if size > 0 else 0.0
    if scaled < CERTAIN:
        return 1.0
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, TERMS))
    return min(1.0, max(0.0, 2 * math.fsum(terms)))


def distance(one: Array, other: Array) -> float:
    """The greatest distance of two empirical distribution functions (Smirnov)."""
    one, other = np.sort(one), np.sort(other)
    both = np.concatenate([one, other])
    first, second = (np.searchsorted(side, both, side="right") / len(side) for side in (one, other))
    return float(np.abs(first - second).max(initial=0.0))


def rank_sum(one: Array, other: Array) -> float:
    """The two-sided probability of ranks so unequal (Mann & Whitney 1947).

    By the normal limit with the correction for ties.
    """
    n, m = len(one), len(other)
    both = np.concatenate([one, other])
    _, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    total = n + m
    variance = n * m / 12 * (total + 1 - float((counts**3 - counts).sum()) / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    apart = abs(float(ranks[:n].sum()) - n * (total + 1) / 2) - 0.5
    return math.erfc(max(0.0, apart) / math.sqrt(2 * variance))


def extreme_run(one: Array, other: Array) -> float:
    """The two-sided probability of so many greatest values of one side alone.

    After Tukey 1959.
    """
    p = 1.0
    for first, second in ((one, other), (other, one)):
        run, n, m = int((first > second.max(initial=-np.inf)).sum()), len(first), len(second)
        chance = float(math.prod((n - i) / (n + m - i) for i in range(run)))
        p = min(p, 2 * chance)
    return min(1.0, p)


def dependence(samples: Array) -> float:
    """How much more small and great values vary from seed to seed than independent draws.

    Their shares are compared; the result is at least 1.

    Args:
        samples: shape ``(seeds, elements)``.
    """
    seeds, count = samples.shape
    if seeds < 2 or count < 2:  # noqa: PLR2004 - a spread needs two
        return 1.0
    ratios = []
    for share in (0.25, 0.5, 0.75):
        below = (samples <= np.quantile(samples, share)).mean(axis=1)
        whole = float(below.mean())
        if 0 < whole < 1:
            ratios.append(float(below.var(ddof=1)) * count / (whole * (1 - whole)))
    return max(1.0, float(np.mean(ratios))) if ratios else 1.0


def same_law(one: Array, other: Array) -> tuple[float, float]:
    """The distance of two pooled samples, and its probability where both have one law.

    Each has shape ``(seeds, elements)``.
    """
    apart = distance(one.reshape(-1), other.reshape(-1))
    sizes = [side.size / dependence(side) for side in (one, other)]
    return apart, kolmogorov(apart, sizes[0] * sizes[1] / (sizes[0] + sizes[1]))
