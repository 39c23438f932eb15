"""The reference's expression that does the same with the same values, however written."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from paralign.adapters._kinds import common
from paralign.locate.provenance.values.seen_values import Seen
from paralign.locate.provenance.values.value_graph import COMMON, SAME_RMS
from paralign.worker.instrumentation.value_marks import order_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.locate.provenance.values.value_graph import Expression

#: distinct numbers of a value that was seen, from which on it is met by no chance
TELLING = 4

#: right evaluations of an expression that a wrong one is held against
ELSEWHERE = 8

#: operators whose operands may change places
EXCHANGEABLE = frozenset({"add", "multiply", "bitand", "bitor", "bitxor", "logical_and", "logical_or", "maximum", "minimum"})

#: what Python calls operators, by the common names of functions
_OPERATORS = {
    "Add": "add",
    "Sub": "subtract",
    "Mult": "multiply",
    "Div": "divide",
    "Pow": "power",
    "MatMult": "matmul",
    "USub": "negative",
    "BitAnd": "logical_and",
    "BitOr": "logical_or",
    "Invert": "logical_not",
    "Lt": "lt",
    "LtE": "le",
    "Gt": "gt",
    "GtE": "ge",
    "Eq": "eq",
    "NotEq": "ne",
}

#: roles in a call that are no operands
_CALLED = frozenset({"function"})

#: kinds of expressions that make something of operands
_MAKING = frozenset({"operation", "call", "item", "attribute", "element"})


def doing(each: Expression) -> str:
    """What an expression does, in a word that libraries share; '' where it makes nothing."""
    if each.kind not in _MAKING or each.is_copy:
        return ""
    if each.kind in ("item", "element"):
        return each.kind
    if each.kind == "attribute":
        return f".{each.label}"
    return _OPERATORS.get(each.label, common(each.label).lower())


def operands(each: Expression) -> list[tuple[str, Expression]]:
    """What an expression computes with, in the order in which it is written."""
    return [(role, inner) for role, inner in each.values if role not in _CALLED]


def way_back(each: Expression) -> list[Expression]:
    """A value and what handed it on, or made the same of it, back to what made it.

    A step that changes the shape, the type, or takes a part that is the whole, makes the same.
    """
    way = [each]
    while True:
        before = way[-1].values[0][1] if way[-1].is_copy else _unchanged(way[-1])
        if before is None or before in way:
            return way
        way.append(before)


def origin(each: Expression) -> Expression:
    """What made a value, as :func:`way_back` leads there."""
    return way_back(each)[-1]


def _unchanged(each: Expression) -> Expression | None:
    """The operand that an expression gives on with all of its elements."""
    if not doing(each) or each.numbers is None or each.size == 1:
        return None
    return next((inner for _, inner in operands(each) if inner.numbers is not None and is_equal(inner, each)), None)


def is_telling(each: Expression) -> bool:
    """Whether a value is met by no chance: many numbers, or one that is not common."""
    if each.numbers is None:
        return False
    return each.numbers.size >= TELLING or (each.size == 1 and float(each.numbers[0]) not in COMMON)


#: parts of names of functions that draw a random number
_DRAWING = ("rand", "normal", "uniform", "choice", "integers", "bernoulli", "poisson")


def is_drawn(each: Expression) -> bool:
    """Whether a value is one random number that a call drew."""
    word = each.word.lower()
    return each.kind == "call" and each.size == 1 and each.numbers is not None and any(part in word for part in _DRAWING)


def is_equal(one: Expression, other: Expression) -> bool | None:
    """Whether two values are the same but for their order; None where nobody can tell."""
    if one.numbers is not None and other.numbers is not None:
        if one.size != other.size or not math.isclose(one.rms, other.rms, rel_tol=SAME_RMS):
            return False
        return Seen([other]).has_numbers(one.numbers) and Seen([one]).has_numbers(other.numbers)
    if one.mark[0] == "s" and other.mark[0] == "s":
        return bool(one.mark[1] == other.mark[1])
    return None


def paired(each: Expression, twin: Expression) -> list[tuple[Expression, Expression]]:
    """The operands of two like expressions in pairs: by their names, else in their order."""
    own, theirs = operands(each), operands(twin)
    names = dict(theirs)
    if {role for role, _ in own} == set(names) and len(own) == len(names):
        pairs = [(inner, names[role]) for role, inner in own]
    else:
        pairs = [(inner, other) for (_, inner), (_, other) in zip(own, theirs, strict=False)]
    if doing(each) in EXCHANGEABLE and len(pairs) == 2 and len(own) == len(theirs) == 2:  # noqa: PLR2004 - two operands
        crossed = [(pairs[0][0], pairs[1][1]), (pairs[1][0], pairs[0][1])]
        return max(pairs, crossed, key=lambda way: sum(is_equal(*pair) is True for pair in way))
    return pairs


class Counterparts:
    """The reference's expressions, by what they do.

    Args:
        reference: all of them.
        candidate: the other side's: what they make has its counterpart already.
    """

    def __init__(self, reference: Iterable[Expression], candidate: Iterable[Expression]) -> None:
        self._numbers: np.ndarray | None = None
        self._of: dict[str, list[Expression]] = defaultdict(list)
        for each in reference:
            if each.numbers is not None:
                self._of[doing(each)].append(each)
        self._own: dict[int, list[Expression]] = defaultdict(list)
        self._candidate: dict[str, list[Expression]] = defaultdict(list)
        for each in candidate:
            if each.numbers is not None:
                self._own[each.size].append(each)
                self._candidate[doing(each)].append(each)

    def is_made(self, due: Expression) -> bool:
        """Whether the candidate has a value of the reference's too."""
        return any(is_equal(own, due) for own in self._own.get(due.size, ()))

    def first_made(self, due: Expression) -> int:
        """The number of the first of the candidate's values that are one of the reference's."""
        return min((own.number for own in self._own.get(due.size, ()) if is_equal(own, due)), default=-1)

    def alike(self, each: Expression) -> list[Expression]:
        """What the reference makes by such a step, with as many elements."""
        return [twin for twin in self._of.get(doing(each), ()) if doing(each) and twin.size == each.size]

    def of(self, each: Expression) -> Expression | None:
        """What does the same with a same telling value, and makes what the candidate lacks.

        Of several that of the same turn, where both sides do it as often; else None.
        """
        fitting = [twin for twin in self.alike(each) if _share_one(each, twin)]
        found = [twin for twin in fitting if not self.is_made(twin)]
        if found and all(is_equal(found[0], other) for other in found[1:]):
            return found[0]
        turns = [other for other in self._candidate[doing(each)] if other.source == each.source and other.size == each.size]
        return fitting[turns.index(each)] if len(turns) == len(fitting) and each in turns else None

    def right_elsewhere(self, each: Expression) -> Expression | None:
        """A right value that the same line makes of something else, where none is due here.

        None unless the line makes, apart from this one, all that the reference makes by such a step.
        """
        if not is_many(each):
            return None
        others = [own for own in self._candidate[doing(each)] if own.source == each.source and own is not each]
        right = []
        for due in self.alike(each):
            own = next((own for own in others if is_equal(own, due)), None)
            if own is None:
                return None
            right.append(own)
        return right[0] if right else None

    def numbers_right_elsewhere(self, each: Expression) -> list[Expression]:
        """Measured numbers of the reference that the same expression makes of something else."""
        if not _is_measured(each) or self._is_of_reference(each):
            return []
        others = [own for own in self._candidate[doing(each)] if own.site == each.site and own is not each]
        right = (own for own in others if _is_measured(own) and self._is_of_reference(own))
        return list(itertools.islice(right, ELSEWHERE))

    def has(self, each: Expression) -> bool:
        """Whether the reference has a value anywhere."""
        return any(is_equal(each, due) for made in self._of.values() for due in made if due.size == each.size)

    def _is_of_reference(self, each: Expression) -> bool:
        """Whether the reference has a number by itself."""
        if self._numbers is None:
            alone = [float(due.scalar) for made in self._of.values() for due in made if _is_measured(due)]
            self._numbers = np.unique(np.array(alone, float))
        if not self._numbers.size:
            return False
        own = float(each.scalar)
        place = int(np.searchsorted(self._numbers, own))
        near = self._numbers[max(0, place - 1) : place + 1]
        return any(math.isclose(float(number), own, rel_tol=SAME_RMS) for number in near)

    def beside(self, step: Expression, besides: Expression) -> list[Expression]:
        """The candidate's expressions that do what a step does, with one of its other operands."""
        others = [inner for _, inner in operands(step) if inner is not besides and is_many(inner)]
        return [each for each in self._candidate[doing(step)] if each.file and _takes_one(each, others)]


def _is_measured(each: Expression) -> bool:
    """Whether a value is one number that is not whole: two of them are not equal by chance."""
    return isinstance(each.scalar, float) and math.isfinite(each.scalar) and each.scalar != round(each.scalar)


def _share_one(each: Expression, twin: Expression) -> bool:
    """Whether two expressions take the same telling value at the same place."""
    return any(is_telling(own) and is_equal(own, other) for own, other in paired(each, twin))


def is_many(each: Expression) -> bool:
    """Whether a value has enough numbers to be met by no chance."""
    return each.numbers is not None and each.numbers.size >= TELLING


def _takes_one(each: Expression, values: Sequence[Expression]) -> bool:
    """Whether an expression takes one of some values."""
    return any(is_equal(inner, value) for _, inner in operands(each) for value in values)


def has_elements_of(one: Expression, other: Expression) -> bool:
    """Whether two lists or arrays of numbers have the same elements in the same order."""
    orders = [order_sums(each) for each in (one, other)]
    if one.size != other.size or one.size == 1 or orders[0] is None or orders[1] is None:
        return False
    return bool(np.allclose(orders[0], orders[1], rtol=SAME_RMS, atol=SAME_RMS))


def order_sums(each: Expression) -> list[float] | None:
    """The sums that tell the order of elements; None of what has none."""
    if each.mark[0] == "a":
        return list(each.mark[2])
    if each.mark[0] != "l" or each.numbers is None:
        return None
    return order_of(np.array(each.mark[1], float))
