"""Numbers that a loop makes one by one, beside arrays that the reference makes at once.

One of them is found nearly anywhere; all of them together are an array of the reference's, or none.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.values.expression_counterparts import TELLING, origin
from paralign.locate.provenance.values.seen_values import SAME
from paralign.worker.instrumentation.value_marks import order_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from paralign.locate.provenance.values.value_graph import Expression

    Numbers = npt.NDArray[np.float64]

#: turns of a loop from which on its numbers tell something together
TURNS = 8


class LoopSeries:
    """The series of numbers that the candidate's expressions make, turn by turn.

    Args:
        reference: the reference's expressions.
        own: the candidate's.
    """

    def __init__(self, reference: Sequence[Expression], own: Sequence[Expression]) -> None:
        self._reference, self._own = reference, own

    def strange(self, each: Expression) -> Expression | None:
        """The one operand whose series the reference lacks, beside one that it has as an array.

        Args:
            each: what is made of them, wrongly although each number is the reference's.
        """
        taken = [origin(inner) for inner in each.operands]
        beside = [origin(inner) for user in each.users for inner in user.operands]
        lengths = {self._turns(inner) for inner in (*taken, *beside) if self._is_whole(inner)}
        lacking = [inner for inner in taken if self._is_whole(inner) is False]
        found = [inner for inner in lacking if self._turns(inner) in lengths]
        return found[0] if len(found) == 1 else None

    def _turns(self, each: Expression) -> int:
        """How often the line of an expression was evaluated."""
        return len(self._series[each.site])

    def _is_whole(self, each: Expression) -> bool | None:
        """Whether the reference has all numbers of a series in an array for each run of the loop.

        None of what is no series.
        """
        series = self._series.get(each.site, [])
        if each.mark[0] != "s" or len(series) < TURNS or len(set(series)) < TELLING:
            return None
        return any(self._is_made_of(series, size) for size in self._arrays if size >= TURNS and len(series) % size == 0)

    def _is_made_of(self, series: Sequence[float], size: int) -> bool:
        runs = [_order(series[begin : begin + size]) for begin in range(0, len(series), size)]
        return all(bool(np.isclose(self._arrays[size], run, rtol=SAME, atol=SAME).all(axis=1).any()) for run in runs)

    @cached_property
    def _series(self) -> dict[int, list[float]]:
        """Site -> the numbers that it makes."""
        return _series_of(self._own)

    @cached_property
    def _arrays(self) -> dict[int, Numbers]:
        """Size -> what tells the reference's arrays, lists and own series of it, in their order."""
        found: dict[int, list[list[float]]] = defaultdict(list)
        for each in self._reference:
            if each.mark[0] == "a":
                found[each.size].append(list(each.mark[2]))
            elif each.mark[0] == "l" and each.numbers is not None:
                found[each.size].append(_order(each.mark[1]))
        for series in _series_of(self._reference).values():
            found[len(series)].append(_order(series))
        return {size: np.array(orders) for size, orders in found.items()}


def _order(numbers: Sequence[float]) -> list[float]:
    """What tells numbers in their order."""
    return list(order_of(np.array(numbers, float)))


def _series_of(expressions: Iterable[Expression]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for each in expressions:
        if each.kind in ("operation", "call") and isinstance(each.scalar, (int, float)) and not isinstance(each.scalar, bool):
            found[each.site].append(float(each.scalar))
    return found
