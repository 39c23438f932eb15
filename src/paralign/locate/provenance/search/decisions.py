"""Comparisons in a program's source, each with all the decisions that it made."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.provenance.search.selections import are_in, within
from paralign.locate.provenance.values.counts import COMPARISONS
from paralign.locate.provenance.values.expression_counterparts import doing
from paralign.locate.provenance.values.value_graph import GREATEST, SAME_RMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from paralign.locate.provenance.values.value_graph import Expression

    Numbers = npt.NDArray[np.float64]
    Decisions = npt.NDArray[np.bool_]

#: the words for comparisons, as libraries share them
_COMPARING = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})

#: those that tell which of two is the greater one
_ORDERING = frozenset({"lt", "le", "gt", "ge"})

#: what Python asks of one object and another
_ASKING = frozenset({"In", "NotIn", "Is", "IsNot"})

#: relative difference up to which two numbers are one, and what is no further from zero than zero is
_SAME, _NOUGHT = 1e-5, 1e-12

#: digits to which the numbers of a list that is compared are told
_DIGITS = 6


@dataclass(frozen=True)
class Column:
    """What a condition compared at one place, turn by turn.

    ``numbers`` are NaN for what is none; ``tokens`` tell plain values that are no number, ``None`` for all else.
    """

    numbers: Numbers
    tokens: npt.NDArray[np.object_]

    @classmethod
    def of(cls, expressions: Sequence[Expression]) -> Column:
        """The values of some expressions."""
        tokens = np.empty(len(expressions), object)
        tokens[:] = [_token(each) for each in expressions]
        return cls(np.array([_number(each) for each in expressions], float), tokens)

    @property
    def are_numbers(self) -> bool:
        """Whether all are numbers."""
        return not bool(np.isnan(self.numbers).any())

    @property
    def are_known(self) -> bool:
        """Whether each can be told from others: objects and whole arrays cannot."""
        return not bool(np.any(np.isnan(self.numbers) & (self.tokens == None)))  # noqa: E711 - of each element

    def count(self, length: int) -> int:
        """How many different values the first ones are."""
        numbers = self.numbers[:length]
        return len(np.unique(numbers[~np.isnan(numbers)])) + len({token for token in self.tokens[:length] if token is not None})

    def equal(self, other: Column, length: int | None = None) -> Decisions:
        """In which of the first turns both are one value."""
        end = min(self.numbers.size, other.numbers.size) if length is None else length
        same = np.isclose(self.numbers[:end], other.numbers[:end], rtol=_SAME, atol=_NOUGHT)
        tokens = self.tokens[:end]
        alike: Decisions = same | ((tokens == other.tokens[:end]) & (tokens != None))  # noqa: E711 - of each element
        return alike.astype(bool)

    def is_one_with(self, numbers: Numbers | None, rms: float) -> bool:
        """Whether the values are the distinct numbers of arrays, and have their root mean square."""
        if numbers is None or not numbers.size or not self.are_numbers:
            return False
        with np.errstate(over="ignore"):
            size = math.sqrt(float(np.mean(self.numbers**2)))
        own = np.unique(self.numbers)
        return math.isclose(size, rms, rel_tol=SAME_RMS, abs_tol=_NOUGHT) and within(own, numbers) and within(numbers, own)


def _number(each: Expression) -> float:
    """A number that is compared; NaN for all else."""
    if isinstance(each.scalar, bool):
        return float(each.scalar)
    return float(each.numbers[0]) if each.numbers is not None and each.size == each.numbers.size == 1 else float("nan")


def _token(each: Expression) -> str | None:
    """A plain value that is no number, as a text; None of a number, an array, an object."""
    if each.mark[0] not in ("s", "l") or not math.isnan(_number(each)):
        return None
    held = each.mark[1]
    return repr(list(map(_rounded, held)) if each.mark[0] == "l" else held)


def _rounded(value: Any) -> Any:
    """A number as both sides have it, whatever its type; all else as it is."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= GREATEST
    return f"{float(value):.{_DIGITS}g}" if is_number else repr(value)


@dataclass
class Turns:
    """All decisions of one comparison in the source, in their order."""

    site: int
    events: list[Expression] = field(default_factory=list)
    _columns: dict[int, Column] = field(default_factory=dict)

    @property
    def first(self) -> Expression:
        """The first of them."""
        return self.events[0]

    @cached_property
    def decisions(self) -> Decisions:
        """How it decided."""
        return np.array([bool(each.scalar) for each in self.events])

    @property
    def pattern(self) -> bytes:
        """How it decided, the same of the opposite condition."""
        return bytes(self.decisions ^ self.decisions[0])

    @property
    def is_known(self) -> bool:
        """Whether all that it compared can be told from other values."""
        return self.column(0).are_known and self.column(1).are_known

    def column(self, place: int) -> Column:
        """What it compared, at one place."""
        if place not in self._columns:
            self._columns[place] = Column.of([compared(each)[place] for each in self.events])
        return self._columns[place]


@dataclass
class Masks:
    """All arrays of decisions that one comparison in the source made."""

    events: list[Expression]
    _numbers: dict[int, Numbers | None] = field(default_factory=dict)

    @property
    def first(self) -> Expression:
        """The first of them."""
        return self.events[0]

    @cached_property
    def size(self) -> int:
        """How many decisions there are."""
        return sum(each.size for each in self.events)

    @cached_property
    def holding(self) -> int:
        """How many of them hold."""
        return sum(round(each.rms**2 * each.size) for each in self.events)

    def numbers(self, place: int) -> Numbers | None:
        """The distinct numbers that were compared at a place."""
        if place not in self._numbers:
            parts = [compared(each)[place].numbers for each in self.events]
            known = [part for part in parts if part is not None]
            self._numbers[place] = np.unique(np.concatenate(known)) if len(known) == len(parts) else None
        return self._numbers[place]

    def rms(self, place: int) -> float:
        """The root mean square of the numbers that were compared at a place.

        Each counts as often as it was compared.
        Of operands whose :meth:`numbers` are known.
        """
        total = sum(compared(each)[place].rms ** 2 * each.size for each in self.events)
        return math.sqrt(total / max(1, self.size))


def are_mostly_in(column: Column, numbers: Numbers, least: int) -> bool:
    """Whether more than half of a column's numbers are among others, of at least so many."""
    own = np.unique(column.numbers[~np.isnan(column.numbers)])
    return own.size >= least and numbers.size > 0 and 2 * int(np.sum(are_in(own, numbers))) > own.size


def compared(each: Expression) -> list[Expression]:
    """The two operands of a comparison."""
    return [inner for role, inner in each.values if role != "function"]


def asks_alike(own: Expression, due: Expression) -> bool:
    """Whether two comparisons are of one kind: which is greater, or whether both are one."""
    return (doing(own) in _ORDERING, own.label in _ASKING) == (doing(due) in _ORDERING, due.label in _ASKING)


def turns_of(expressions: Iterable[Expression]) -> list[Turns]:
    """The comparisons that made single decisions, in the order of the first ones."""
    found: dict[int, Turns] = {}
    for each in expressions:
        if isinstance(each.scalar, bool) and _is_comparison(each):
            found.setdefault(each.site, Turns(each.site)).events.append(each)
    return list(found.values())


def masks_of(expressions: Iterable[Expression]) -> list[Masks]:
    """The comparisons that made arrays of decisions."""
    found: dict[int, list[Expression]] = defaultdict(list)
    for each in expressions:
        if each.mark[0] == "a" and each.numbers is not None and _is_comparison(each) and set(each.numbers.tolist()) <= {0.0, 1.0}:
            found[each.site].append(each)
    return [Masks(events) for events in found.values()]


def _is_comparison(each: Expression) -> bool:
    is_one = (each.kind == "operation" and each.label in COMPARISONS | _ASKING) or (each.kind == "call" and doing(each) in _COMPARING)
    return is_one and len(compared(each)) == 2  # noqa: PLR2004 - two operands
