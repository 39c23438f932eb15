"""Whether a series grows: the median slope of all pairs, and how surely it does.

Theil and Sen; Mann and Kendall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

#: probability of a growth that is none, beyond which nothing is called growing: one false alarm in a thousand series
CHANCE = 1e-3


@dataclass(frozen=True)
class Trend:
    """A series' growth.

    Args:
        slope: median growth of one step, in the series' unit.
        least: the slope that 95 % of the pairs reach.
        chance: how probable so steady a growth is where there is none.
        late: slope of the second half; a memory that fills up and stays has none there.
    """

    slope: float
    least: float
    chance: float
    late: float

    def grows(self, smallest: float) -> bool:
        """Whether it grows surely, by at least so much a step, and to the end."""
        return self.chance < CHANCE and self.slope >= smallest and self.late >= smallest / 2


def trend(series: Sequence[float]) -> Trend:
    """The growth of a series of at least 8 values.

    >>> trend([1, 2, 3, 4, 5, 6, 7, 8]).slope
    1.0
    """
    values = np.asarray(series, np.float64)
    slopes = _slopes(values)
    if len(slopes) == 0:
        return Trend(0.0, 0.0, 1.0, 0.0)
    late = _slopes(values[len(values) // 2 :])
    return Trend(float(np.median(slopes)), float(np.quantile(slopes, 0.05)), _chance(values), float(np.median(late)) if len(late) else 0.0)


def _slopes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    first, second = np.triu_indices(len(values), 1)
    return np.asarray((values[second] - values[first]) / (second - first))


def _chance(values: np.ndarray[Any, Any]) -> float:
    """The one-sided probability of Mann and Kendall's test, ties counted.

    By the normal approximation, from 8 values on good enough.
    """
    count = len(values)
    first, second = np.triu_indices(count, 1)
    score = float(np.sign(values[second] - values[first]).sum())
    ties = np.unique(values, return_counts=True)[1]
    variance = (count * (count - 1) * (2 * count + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0 or score <= 0:
        return 1.0
    return 0.5 * math.erfc((score - 1) / math.sqrt(2 * variance))
