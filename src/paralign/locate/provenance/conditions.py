"""Conditions that let the wrong things happen: what they choose is made of right values.

A condition that is evaluated again and again is compared as a whole: how it decided, turn by turn, of which operands. Its counterpart is
the reference's condition of the same operands, or a mask of them. With other decisions on the same operands a condition is at fault; with
one operand that is another, what made that is.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from paralign.locate.provenance.blame import Blamed, Search
from paralign.locate.provenance.counterparts import TELLING, doing, is_equal, origin
from paralign.locate.provenance.counts import COMPARISONS
from paralign.locate.provenance.selections import are_in, within
from paralign.locate.provenance.value_graph import SETTING, Seen
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from paralign.locate.provenance.value_graph import Expression, ValueGraph

    Numbers = npt.NDArray[np.float64]


class Sides(Protocol):
    """What both sides' programs recorded."""

    @property
    def reference(self) -> ValueGraph:
        """The expressions of the side that is trusted."""

    @property
    def candidate(self) -> ValueGraph:
        """The expressions of its port."""


#: the words for comparisons, as libraries share them
_COMPARING = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})

#: those that tell which of two is the greater one
_ORDERING = frozenset({"lt", "le", "gt", "ge"})

#: what Python asks of one object and another
_ASKING = frozenset({"In", "NotIn", "Is", "IsNot"})

#: what hands a decision on, or makes it of others
_COMBINING = frozenset({"And", "Or", "Not"})

#: kinds of expressions whose value stands there as it is
_WRITTEN = frozenset({"constant", SETTING})

#: what makes one decision of several, in the words of operators and of libraries
_JOINING = frozenset({"And", "Or", "logical_and", "logical_or"})

#: turns from which on two values alone tell one sequence from another
_LONG = 8

#: relative difference up to which two numbers are one
_SAME = 1e-5


@dataclass(frozen=True)
class Column:
    """What a condition compared at one place, turn by turn.

    Numbers, NaN for what is none, or texts.
    """

    numbers: Numbers
    texts: list[str | None]

    @classmethod
    def of(cls, expressions: Sequence[Expression]) -> Column:
        """The values of some expressions."""
        texts = [each.scalar if isinstance(each.scalar, str) else None for each in expressions]
        return cls(np.array([_number(each) for each in expressions], float), texts)

    @property
    def are_numbers(self) -> bool:
        """Whether all are numbers."""
        return not bool(np.isnan(self.numbers).any())

    def count(self, length: int) -> int:
        """How many different values the first ones are."""
        numbers = self.numbers[:length]
        return len(np.unique(numbers[~np.isnan(numbers)])) + len({text for text in self.texts[:length] if text is not None})

    def equal(self, other: Column) -> list[bool]:
        """In which turns both are one value."""
        length = min(self.numbers.size, other.numbers.size)
        same = np.isclose(self.numbers[:length], other.numbers[:length], rtol=_SAME, atol=1e-12)
        pairs = zip(same.tolist(), self.texts, other.texts, strict=False)
        return [is_one or (text is not None and text == theirs) for is_one, text, theirs in pairs]


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

    @property
    def decisions(self) -> list[bool]:
        """How it decided."""
        return [bool(each.scalar) for each in self.events]

    def column(self, place: int) -> Column:
        """What it compared, at one place."""
        if place not in self._columns:
            self._columns[place] = Column.of([compared(each)[place] for each in self.events])
        return self._columns[place]


@dataclass
class Masks:
    """All arrays of decisions that one comparison in the source made."""

    events: list[Expression]

    @property
    def first(self) -> Expression:
        """The first of them."""
        return self.events[0]

    @property
    def size(self) -> int:
        """How many decisions there are."""
        return sum(each.size for each in self.events)

    @property
    def holding(self) -> int:
        """How many of them hold."""
        return sum(round(each.rms**2 * each.size) for each in self.events)

    def numbers(self, place: int) -> Numbers | None:
        """The distinct numbers that were compared at a place."""
        parts = [compared(each)[place].numbers for each in self.events]
        known = [part for part in parts if part is not None]
        return np.unique(np.concatenate(known)) if len(known) == len(parts) else None


@dataclass(frozen=True)
class Fault:
    """A turn at which a condition decides otherwise than its counterpart.

    ``operand`` is what it compares there in place of the reference's, if that is another; None where the condition is at fault itself.
    """

    turn: Expression
    operand: Expression | None = None
    due: Expression | None = None


def is_part(each: Expression) -> bool:
    """Whether a decision is one of several that decide together."""
    users = reached([each], lambda e: e.users if e is each or e.is_copy else [])
    return any(user.label in _JOINING or doing(user) in _JOINING for user in users if user is not each)


@dataclass(frozen=True)
class Verdict:
    """Whether a condition's counterpart decides the same, and where it does not."""

    is_right: bool
    fault: Fault | None = None


def compared(each: Expression) -> list[Expression]:
    """The two operands of a comparison."""
    return [inner for role, inner in each.values if role != "function"]


def of_value(sides: Sides, root: Expression, found: Blamed | None) -> Blamed | None:
    """The condition at fault for a wrong value; ``found`` where none is known to be.

    Args:
        sides: what was recorded.
        root: the wrong value.
        found: the expression that is blamed so far.
    """
    deciding = _deciding(root)
    every = _turns(sides.candidate.expressions)
    own = [turns for turns in every if turns.site in deciding]
    if not own:
        return found
    known = Known(sides.reference.expressions, every)
    unknown: list[Turns] = []
    faults: list[Fault] = []
    for turns in own:
        verdict = known.of(turns)
        if verdict.fault is not None:
            faults.append(verdict.fault)
        elif not verdict.is_right and len(set(turns.decisions)) > 1:
            unknown.append(turns)
    if faults:
        return _blamed(sides, min(faults, key=lambda fault: fault.turn.number), found)
    strange = _strange_number(sides, unknown, root if found is None else found.expression)
    if strange is not None:
        return _blamed(sides, strange, found)
    chosen = _choice(sides, unknown, root)
    return found if chosen is None else Blamed(chosen, [chosen])


def _strange_number(sides: Sides, unknown: Sequence[Turns], blamed: Expression) -> Fault | None:
    """The one written number that right values are compared with, and the reference lacks."""
    seen, governing = Seen(sides.reference.expressions), _deciding(blamed)
    found = []
    for turns in unknown:
        for place in (0, 1):
            operand, column = compared(turns.first)[place], turns.column(1 - place)
            is_strange = turns.column(place).count(len(turns.events)) == 1 and _is_written(operand) and seen.has(operand) is False
            if is_strange and turns.site in governing and _are_seen(column, seen):
                found.append(Fault(turns.first, operand))
    return found[0] if len(found) == 1 else None


def _is_written(each: Expression) -> bool:
    """Whether a value stands in the source, or in a file of settings."""
    first = origin(each)
    return first.kind in _WRITTEN and each.mark[0] == "s"


def _are_seen(column: Column, seen: Seen) -> bool:
    """Whether the reference has most of some numbers."""
    numbers = np.unique(column.numbers[~np.isnan(column.numbers)])
    return numbers.size >= TELLING and 2 * sum(seen.has_numbers(number[None]) for number in numbers) > numbers.size


def _choice(sides: Sides, unknown: Sequence[Turns], root: Expression) -> Expression | None:
    """The one condition that chose an array's numbers, where the reference has some others."""
    known: dict[int, list[Expression]] = defaultdict(list)
    for each in sides.reference.expressions:
        if _is_table(each):
            known[each.size].append(each)
    sites = {turns.site: turns for turns in unknown}
    if not sites:
        return None
    found: dict[Expression, Turns] = {}
    for each in reached([root], lambda e: e.operands):
        if not _is_table(each) or not _gathers(each):
            continue
        gathered = reached([each], lambda e: [inner for inner in e.operands if _gathers(inner)])
        choosing = {turn.site for inner in gathered for turn in inner.conditions} & set(sites)
        if len(choosing) == 1 and _is_variant(each, known[each.size]):
            found[each] = sites[choosing.pop()]
    return found[min(found, key=lambda each: each.number)].first if found else None


def _is_table(each: Expression) -> bool:
    """Whether a value is a list or array of enough numbers to be told from others."""
    return each.mark[0] in ("a", "l") and each.numbers is not None and each.numbers.size >= TELLING


def _is_variant(each: Expression, known: Iterable[Expression]) -> bool:
    """Whether others have half of a value's numbers, and none has all of them."""
    if each.numbers is None:
        return False
    shared = 0
    for due in known:
        if due.numbers is None or is_equal(each, due):
            return False
        shared = max(shared, int(np.sum(are_in(each.numbers, due.numbers))))
    return 2 * shared >= each.numbers.size


def _gathers(each: Expression) -> bool:
    """Whether a value has no number that it does not take as it is."""
    if each.is_copy or each.kind in ("display", "change"):
        return True
    parts = [inner.numbers for _, inner in each.values if inner.numbers is not None]
    if each.numbers is None or not parts or each.kind not in ("call", "element"):
        return each.kind == "call" and each.numbers is not None and any(inner.kind == "change" for inner in each.operands)
    return within(each.numbers, np.unique(np.concatenate(parts)))


def _blamed(sides: Sides, fault: Fault, found: Blamed | None) -> Blamed | None:
    """What is at fault of a turn that decides otherwise."""
    if fault.operand is None:
        return Blamed(fault.turn, [fault.turn], fault.due)
    expressions = sides.reference.expressions
    blamed = Search(fault.operand, fault.due, Seen(expressions), expressions, own=sides.candidate.expressions).first()
    return blamed or found


def _deciding(root: Expression) -> set[int]:
    """The sites of all conditions that had a say in a value."""
    conditions = {each for inner in reached([root], lambda e: [*e.operands, *e.conditions]) for each in inner.conditions}
    return {each.site for each in reached(conditions, lambda e: e.operands if _hands_on(e) else [])}


def _hands_on(each: Expression) -> bool:
    """Whether a decision is made of other decisions."""
    return each.kind == "condition" or each.is_copy or (each.kind == "operation" and each.label in _COMBINING)


def _turns(expressions: Iterable[Expression]) -> list[Turns]:
    """The comparisons that made single decisions, in the order of the first ones."""
    found: dict[int, Turns] = {}
    for each in expressions:
        if _is_comparison(each) and isinstance(each.scalar, bool):
            found.setdefault(each.site, Turns(each.site)).events.append(each)
    return list(found.values())


def _masks(expressions: Iterable[Expression]) -> list[Masks]:
    """The comparisons that made arrays of decisions."""
    found: dict[int, list[Expression]] = defaultdict(list)
    for each in expressions:
        if _is_comparison(each) and each.mark[0] == "a" and each.numbers is not None and set(each.numbers.tolist()) <= {0.0, 1.0}:
            found[each.site].append(each)
    return [Masks(events) for events in found.values()]


def _is_comparison(each: Expression) -> bool:
    is_one = (each.kind == "operation" and each.label in COMPARISONS | _ASKING) or (each.kind == "call" and doing(each) in _COMPARING)
    return is_one and len(compared(each)) == 2  # noqa: PLR2004 - two operands


def _number(each: Expression) -> float:
    """A number that is compared; NaN for all else."""
    if isinstance(each.scalar, bool):
        return float(each.scalar)
    return float(each.numbers[0]) if each.numbers is not None and each.size == 1 else float("nan")


class Known:
    """The reference's decisions, one by one and in arrays.

    Args:
        reference: its expressions.
        candidate: the other side's conditions: what is the counterpart of one is none of another.
    """

    def __init__(self, reference: Sequence[Expression], candidate: Sequence[Turns]) -> None:
        turns, self._masks = _turns(reference), _masks(reference)
        ways = [way for own in candidate for due in turns for way in _beside(own, due) if way.is_right]
        self._right = {way.own.site for way in ways}
        self._others = [own for own in candidate if own.site not in self._right]
        taken = {way.due.site for way in ways}
        self._turns = [due for due in turns if due.site not in taken]

    def of(self, own: Turns) -> Verdict:
        """What is known of a condition."""
        if own.site in self._right:
            return Verdict(is_right=True)
        beside = _verdict([way for due in self._turns for way in _beside(own, due)])
        if beside.fault is not None and not self._is_exchanged(own, beside.fault):
            return beside
        return _verdict([AtOnce(own, due, crossed=crossed) for due in self._masks for crossed in (False, True)])

    def _is_exchanged(self, own: Turns, fault: Fault) -> bool:
        """Whether each side asks for both values, in conditions of another order."""
        if fault.operand is None or fault.due is None:
            return False
        due, taken = Column.of([fault.due]), Column.of([fault.operand])
        return _is_asked(due, (each for each in self._others if each is not own)) or _is_asked(taken, self._turns)


def _is_asked(value: Column, conditions: Iterable[Turns]) -> bool:
    """Whether one of some conditions compares with a value in all of its turns."""
    columns = [each.column(place) for each in conditions for place in (0, 1) if each.column(place).count(len(each.events)) == 1]
    return any(value.equal(column)[0] for column in columns)


def _asks_alike(own: Expression, due: Expression) -> bool:
    """Whether two comparisons are of one kind: which is greater, or whether both are one."""
    return (doing(own) in _ORDERING, own.label in _ASKING) == (doing(due) in _ORDERING, due.label in _ASKING)


def _beside(own: Turns, due: Turns) -> list[Beside]:
    """Two conditions, and the same with the operands of one exchanged."""
    return [Beside(own, due, crossed=crossed) for crossed in (False, True)]


def _verdict(ways: Sequence[Beside] | Sequence[AtOnce]) -> Verdict:
    """What the counterpart of the same operands says, or else one that shares an operand."""
    if any(way.is_right for way in ways):
        return Verdict(is_right=True)
    whole = [fault for way in ways if (fault := way.fault()) is not None]
    alike = [way for way in ways if _asks_alike(way.own.first, way.due.first)]
    parted = [fault for way in alike if (fault := way.fault_of_operand()) is not None]
    if whole:
        return Verdict(is_right=False, fault=whole[0])
    return Verdict(is_right=False, fault=parted[0] if len({fault.due for fault in parted}) == 1 else None)


class Beside:
    """A condition beside one of the reference's, turn by turn."""

    def __init__(self, own: Turns, due: Turns, *, crossed: bool) -> None:
        self.own, self.due = own, due
        places = (1, 0) if crossed else (0, 1)
        length = min(len(own.events), len(due.events))
        self._same = [own.column(place).equal(due.column(other)) for place, other in enumerate(places)]
        self._places = places
        self._agree = [one == other for one, other in zip(own.decisions, due.decisions, strict=False)]
        self._is_of_one_length = len(own.events) == len(due.events)
        self._length = length

    @property
    def is_right(self) -> bool:
        """Whether both decide the same, or always the opposite, of the same operands."""
        alike = len(set(self._agree)) == 1 and self._is_of_one_length
        return alike and all(all(same) for same in self._same) and self._is_telling((0, 1), self._length)

    @property
    def _parting(self) -> int | None:
        """The turn from which on the two are neither one condition nor opposites."""
        return next((n for n, agrees in enumerate(self._agree) if agrees != self._agree[0]), None)

    def _first_other(self) -> int:
        """The first turn that is decided otherwise."""
        return self._agree.index(False)

    def fault(self) -> Fault | None:
        """The first turn that is decided otherwise, of the same operands."""
        end = self._parting
        if end is None or not all(all(same[: end + 1]) for same in self._same) or not self._is_telling((0, 1), end + 1):
            return None
        place = self._first_other()
        return Fault(self.own.events[place], None, self.due.events[place])

    def fault_of_operand(self) -> Fault | None:
        """The first turn that is decided otherwise where one of its operands is another."""
        if False not in self._agree or (is_part(self.own.first) and not is_part(self.due.first)):
            return None
        end = self._first_other()
        for place in (0, 1):
            equal, other = self._same[place], self._same[1 - place]
            if all(equal[: end + 1]) and not other[end] and self._is_telling((place,), end + 1):
                turn = self.own.events[end]
                due = compared(self.due.events[end])[self._places[1 - place]]
                return Fault(turn, compared(turn)[1 - place], due)
        return None

    def _is_telling(self, places: Sequence[int], length: int) -> bool:
        """Whether operands are the same by no chance."""
        for place in places:
            column = self.own.column(place)
            if column.count(length) >= TELLING:
                return True
            whole = all(self._same[place]) and self._is_of_one_length and self._length >= _LONG
            if whole and column.count(self._length) > 1:
                return True
        return False


class AtOnce:
    """A condition beside masks of the reference's, all turns at once."""

    def __init__(self, own: Turns, due: Masks, *, crossed: bool) -> None:
        self.own, self.due = own, due
        places = (1, 0) if crossed else (0, 1)
        fits = len(own.events) == due.size
        self._same = [fits and _hold_one(own.column(place), due.numbers(other)) for place, other in enumerate(places)]
        self._places = places
        self._tells = [own.column(place).count(len(own.events)) >= TELLING for place in (0, 1)]
        holding = sum(own.decisions)
        self._decides_alike = holding in (due.holding, due.size - due.holding)

    @property
    def is_right(self) -> bool:
        """Whether both decide as often the same, or the opposite, of the same operands."""
        return all(self._same) and any(self._tells) and self._decides_alike

    def fault(self) -> Fault | None:
        """The first turn of a condition that decides otherwise of the same operands."""
        if not all(self._same) or not any(self._tells) or self._decides_alike:
            return None
        return Fault(self.own.first, None, self.due.events[0])

    def fault_of_operand(self) -> Fault | None:
        """The first turn, where the decisions and one operand are others."""
        for place in () if is_part(self.own.first) and not is_part(self.due.events[0]) else (0, 1):
            if self._same[place] and self._tells[place] and not self._same[1 - place] and not self._decides_alike:
                due = compared(self.due.events[0])[self._places[1 - place]]
                return Fault(self.own.first, compared(self.own.first)[1 - place], due)
        return None


def _hold_one(column: Column, numbers: Numbers | None) -> bool:
    """Whether some values are the distinct numbers of an array."""
    if numbers is None or not numbers.size or not column.are_numbers:
        return False
    own = np.unique(column.numbers)
    return within(own, numbers) and within(numbers, own)
