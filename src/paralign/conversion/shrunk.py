"""Which tensors are abnormally small in one of two trained checkpoints.

Weight decay keeps weights small. A parameter that decays in one training and not in the other (a wrong no-weight-decay group) ends
smaller there, by a factor that its fellows in the model do not share: the migration guides tell to look for that. The root mean
square of a tensor does not depend on its layout, and hardly on the seed.
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.conversion.spread import Spread


#: a group is told of from this factor on, a group of few tensors from the larger one on
FACTOR, FACTOR_OF_FEW = 1.1, 1.3

#: fewer tensors may be far off by chance
FEW = 4

#: how many standard errors from what is usual a group must be
ERRORS = 5.0

#: two trainings do not agree better than this, whatever a group of few alike tensors says
LEAST = 0.01

#: standard error of a median in units of that of the mean, for normal deviates
MEDIAN = 1.2533


@dataclass
class Group:
    """Tensors whose names differ only in numbers.

    Args:
        name: theirs, with ``{}`` for the numbers.
        tensors: how many there are.
        elements: in all of them.
        means: median of the means of each checkpoint's tensors.
        deviations: median of the standard deviations.
        factor: how much larger they are in the second checkpoint than in the first (median of the quotients of root mean squares).
        usual: the same of all tensors, larger ones counting more (by the root of their elements).
        smaller: ``first`` or ``second`` where they are abnormally small in one checkpoint, else ''.
    """

    name: str
    tensors: int = 0
    elements: int = 0
    means: tuple[float, float] = (0.0, 0.0)
    deviations: tuple[float, float] = (0.0, 0.0)
    factor: float = 1.0
    usual: float = 1.0
    smaller: str = ""


@dataclass
class _Members:
    """A group's tensors: how they are spread, and the logarithms of their factors."""

    kind: tuple[str, bool]
    spreads: list[tuple[Spread, Spread]] = field(default_factory=list)

    @property
    def factors(self) -> list[float]:
        return [math.log(second.size / first.size) for first, second in self.spreads]

    @property
    def scatter(self) -> tuple[float, int]:
        """The sum of squared distances from their mean, and how many of them are free."""
        factors = self.factors
        mean = statistics.fmean(factors)
        return sum((factor - mean) ** 2 for factor in factors), len(factors) - 1

    @property
    def weighed(self) -> list[tuple[float, float]]:
        return [(factor, math.sqrt(first.count)) for factor, (first, _) in zip(self.factors, self.spreads, strict=True)]

    def middle(self, figure: str) -> tuple[float, float]:
        """The medians of a figure of both checkpoints."""
        first, second = ([getattr(pair[side], figure) for pair in self.spreads] for side in (0, 1))
        return statistics.median(first), statistics.median(second)


def groups(tensors: Sequence[tuple[str, int, tuple[Spread, Spread]]]) -> list[Group]:
    """The groups among tensors, those first that one training made abnormally small.

    Then they are ordered by factor.

    A group stands out if its factor differs from what is usual by a tenth (of fewer than four tensors, by three tenths) and by five
    standard errors. These are reckoned from how the tensors of its kind (those of the same last name, or else all matrices or all
    vectors) scatter inside their groups: biases scatter more than the weights of norms.

    Args:
        tensors: name, number of axes, and how the values are spread in the first and in the second checkpoint.
    """
    found: dict[str, _Members] = {}
    for name, rank, spreads in tensors:
        if min(s.size for s in spreads) > 0 and min(s.std for s in spreads) > 0:
            kind = name.rpartition(".")[2], rank > 1
            found.setdefault(re.sub(r"\d+", "{}", name), _Members(kind)).spreads.append(spreads)
    results = []
    for name, members in found.items():
        others = [m for other, m in found.items() if other != name]
        results.append(_group(name, members, others))
    return sorted(results, key=lambda g: (not g.smaller, -abs(math.log(g.factor / g.usual))))


def _group(name: str, members: _Members, others: Sequence[_Members]) -> Group:
    count = len(members.spreads)
    everyone = [members, *others]
    factor = statistics.median(members.factors)
    usual = _weighted([pair for one in everyone for pair in one.weighed])
    shift = factor - usual
    smaller = ""
    if others:
        error = MEDIAN * max(LEAST, _pooled(_alike(members, everyone))) / math.sqrt(count)
        least = math.log(FACTOR_OF_FEW if count < FEW else FACTOR)
        if abs(shift) >= max(least, ERRORS * error):
            smaller = "second" if shift < 0 else "first"
    elements = sum(first.count for first, _ in members.spreads)
    return Group(name, count, elements, members.middle("mean"), members.middle("std"), math.exp(factor), math.exp(usual), smaller)


def _alike(members: _Members, everyone: Sequence[_Members]) -> list[_Members]:
    """Groups of the same kind; where those are few, all matrices or all vectors."""
    alike = [each for each in everyone if each.kind == members.kind]
    if sum(each.scatter[1] for each in alike) >= FEW:
        return alike
    return [each for each in everyone if each.kind[1] == members.kind[1]]


def _pooled(groups_: Sequence[_Members]) -> float:
    """The standard deviation of factors inside their groups."""
    squares, free = (sum(column) for column in zip(*(members.scatter for members in groups_), strict=True))
    return math.sqrt(squares / free) if free else 0.0


def _weighted(values: Sequence[tuple[float, float]]) -> float:
    """The median of values with weights; 0 of none."""
    half, so_far = sum(weight for _, weight in values) / 2, 0.0
    for value, weight in sorted(values):
        so_far += weight
        if so_far >= half:
            return value
    return 0.0
