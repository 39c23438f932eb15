"""Whether two groups of runs end alike.

Welch's test, equivalence within a margin, and what so few runs could have shown.

Equivalence is shown by two one-sided tests (Schuirmann 1987): the difference is proven to lie above minus the margin and below the margin.
Quantiles come from scipy, which is an extra: ``pip install "paralign[train]"``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import EnvironmentUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

#: share of wrong statements that each one-sided test allows
LEVEL = 0.05

#: share of right ports that may be called wrong, in each direction
ACCUSED = 0.005

#: share of cases in which a difference (or equivalence) that is there should be seen
POWER = 0.8

#: runs a side beyond which nobody trains to prove a margin
MANY = 10_000


@dataclass(frozen=True)
class Equivalence:
    """What two groups of figures say of the difference of their means.

    All is in the figures' own units.

    Args:
        means: of the reference and the candidate.
        spreads: standard deviations between runs; NaN for a single run.
        counts: runs a side.
        margin: the difference that is allowed.
        error: standard error of the difference of the means; NaN where a side has one run, or the spread is zero on both.
        low: lower end of the confidence interval of candidate minus reference, at ``1 - 2 * LEVEL``.
        high: upper end of it.
        sure: half the width of the interval at ``1 - 2 * ACCUSED``, which has to lie beyond the margin where a port is called wrong.
        smallest: the smallest true difference that these runs would have shown (two-sided at ``LEVEL``) with probability ``POWER``.
        needed: runs a side of such spread that prove equality within the margin with probability ``POWER``; None beyond ``MANY``.
    """

    means: tuple[float, float]
    spreads: tuple[float, float]
    counts: tuple[int, int]
    margin: float
    error: float
    low: float
    high: float
    sure: float
    smallest: float
    needed: int | None

    @property
    def gap(self) -> float:
        """Candidate minus reference."""
        return self.means[1] - self.means[0]

    @property
    def known(self) -> bool:
        """Whether the spread between runs is known."""
        return math.isfinite(self.error)

    def within(self, better: str = "") -> bool:
        """Whether the difference is proven to be within the margin.

        Args:
            better: ``higher`` or ``lower``: only the worse direction counts; '' for both.
        """
        above, below = self.low > -self.margin, self.high < self.margin
        if not self.known:
            return False
        if better:
            return above if better == "higher" else below
        return above and below

    def beyond(self, better: str = "") -> bool:
        """Whether the difference is proven to be larger than the margin.

        In the worse direction, where one is told.
        """
        lower, higher = self.gap + self.sure < -self.margin, self.gap - self.sure > self.margin
        if not self.known:
            return False
        if better:
            return lower if better == "higher" else higher
        return lower or higher


def equivalence(reference: Sequence[float], candidate: Sequence[float], margin: float) -> Equivalence:
    """Compare the means of two groups of runs by Welch's t.

    Args:
        reference: one figure a run.
        candidate: the same.
        margin: difference that is allowed, in the figures' units.

    Raises:
        EnvironmentUnavailable: scipy is not installed.

    >>> found = equivalence([0.80, 0.81, 0.79], [0.80, 0.80, 0.81], 0.05)
    >>> found.within(), found.beyond(), found.needed
    (True, False, 2)
    """
    sides = [np.asarray(side, np.float64) for side in (reference, candidate)]
    counts = len(sides[0]), len(sides[1])
    means = float(sides[0].mean()), float(sides[1].mean())
    spreads = tuple(_spread(side) for side in sides)
    parts = [spread**2 / count for spread, count in zip(spreads, counts, strict=True)]
    variance = sum(parts)
    if not variance > 0:  # NaN too: one run, or runs that are all the same
        return Equivalence(means, (spreads[0], spreads[1]), counts, margin, math.nan, math.nan, math.nan, math.nan, math.nan, None)
    law = student()
    error = math.sqrt(variance)
    freedom = variance**2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    gap, width = means[1] - means[0], float(law.ppf(1 - LEVEL, freedom)) * error
    smallest = float(law.ppf(1 - LEVEL / 2, freedom) + law.ppf(POWER, freedom)) * error
    needed = _needed((spreads[0] ** 2 + spreads[1] ** 2) / 2, margin)
    sure = float(law.ppf(1 - ACCUSED, freedom)) * error
    return Equivalence(means, (spreads[0], spreads[1]), counts, margin, error, gap - width, gap + width, sure, smallest, needed)


def _spread(side: Any) -> float:
    """The standard deviation; 0 for equal figures, whatever their mean is rounded to."""
    return math.nan if len(side) < 2 else float(side.std(ddof=1)) if (side != side[0]).any() else 0.0  # noqa: PLR2004 - a spread needs two


def _needed(variance: float, margin: float) -> int | None:
    """Runs a side that prove equality within a margin, where the means are equal.

    Chow, Shao & Wang 2008, section 3.2.3.
    """
    law, count = student(), 2
    while count <= MANY:
        freedom = 2 * (count - 1)
        reach = float(law.ppf(1 - LEVEL, freedom) + law.ppf((1 + POWER) / 2, freedom)) * math.sqrt(2 * variance / count)
        if reach <= margin:
            return count
        count = count + 1 if count < 100 else int(count * 1.05)  # noqa: PLR2004 - to the run where it matters
    return None


def parted(reference: Any, candidate: Any, level: float = LEVEL) -> tuple[int | None, list[float]]:
    """The first column in which two groups of curves part beyond their own spread.

    Holm's correction (1979) keeps the probability of one false alarm over all columns at ``level``.

    Args:
        reference: shape ``(runs, places)``, NaN where a run has no value.
        candidate: the same, with as many places.
        level: see above.

    Returns:
        The column (None where none is), and the probability of each column's gap by chance; NaN where the spread is unknown.

    Raises:
        EnvironmentUnavailable: scipy is not installed.
    """
    chances = [_chance(first, second) for first, second in zip(np.asarray(reference).T, np.asarray(candidate).T, strict=True)]
    known = sorted((chance, column) for column, chance in enumerate(chances) if not math.isnan(chance))
    significant = []
    for rank, (chance, column) in enumerate(known):
        if chance > level / (len(known) - rank):
            break
        significant.append(column)
    return min(significant, default=None), chances


def _chance(one: Any, other: Any) -> float:
    sides = [side[np.isfinite(side)] for side in (one, other)]
    if min(map(len, sides)) < 2:  # noqa: PLR2004 - a spread needs two
        return math.nan
    parts = [_spread(side) ** 2 / len(side) for side in sides]
    gap, variance = float(sides[1].mean() - sides[0].mean()), sum(parts)
    if variance == 0:
        return math.nan
    freedom = variance**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    return float(2 * student().sf(abs(gap) / math.sqrt(variance), freedom))


def paired(differences: Sequence[float]) -> tuple[float, float, float]:
    """The mean of differences, and the interval at ``1 - 2 * LEVEL`` that it lies in.

    The ends are NaN for a single one.

    >>> paired([0.5, 0.5, 0.5])
    (0.5, 0.5, 0.5)
    """
    values = np.asarray(differences, np.float64)
    mean, spread = float(values.mean()), _spread(values)
    if not spread > 0:
        return mean, mean + 0 * spread, mean + 0 * spread
    width = student().ppf(1 - LEVEL, len(values) - 1) * spread / math.sqrt(len(values))
    return mean, mean - width, mean + width


def spreads_apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The probability by chance of spreads that differ as these do (two-sided F test).

    Args:
        one: at least two figures.
        other: the same.

    >>> round(spreads_apart([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]), 3)
    1.0
    """
    first, second = (_spread(np.asarray(side, np.float64)) ** 2 for side in (one, other))
    if first == second:
        return 1.0
    if min(first, second) == 0:
        return 0.0
    below = student().below(first / second, len(one) - 1, len(other) - 1)
    return 2 * min(below, 1 - below)


class Student:
    """Student's t, by ``scipy.special``: importing ``scipy.stats`` takes seconds."""

    def __init__(self, special: Any) -> None:
        self._special = special

    def ppf(self, share: float, freedom: float) -> float:
        """The quantile."""
        return float(self._special.stdtrit(freedom, share))

    def sf(self, value: float, freedom: float) -> float:
        """The probability of more."""
        return float(self._special.stdtr(freedom, -value))

    def below(self, ratio: float, above: float, under: float) -> float:
        """The probability of a smaller ratio of two variances (Fisher's F).

        ``above`` and ``under`` are their degrees of freedom.
        """
        return float(self._special.fdtr(above, under, ratio))


def student() -> Student:
    """Student's t.

    Raises:
        EnvironmentUnavailable: scipy is not installed.
    """
    try:
        from scipy import special
    except ImportError as missing:
        raise EnvironmentUnavailable(
            "comparing several runs needs scipy, which is not installed beside paralign", hint='pip install "paralign[train]"'
        ) from missing
    return Student(special)
