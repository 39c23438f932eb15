"""Conditions that let the wrong things happen: what they choose is made of right values.

A condition that is evaluated again and again is compared as a whole: how it decided, turn by turn, of which operands. Its counterpart is
the reference's condition of the same operands, or a mask of them. With other decisions on the same operands a condition is at fault; with
one operand that is another, what made that is.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.search.decisions import Column, Masks, Turns, are_mostly_in, asks_alike, compared, masks_of, turns_of
from paralign.locate.provenance.search.selections import MANY, are_in, within
from paralign.locate.provenance.values.expression_counterparts import TELLING, doing, is_equal, origin
from paralign.locate.provenance.values.seen_values import Seen
from paralign.locate.provenance.values.value_graph import SETTING, Expression, Left
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: what hands a decision on, or makes it of others
_COMBINING = frozenset({"And", "Or", "Not"})

#: kinds of expressions whose value stands there as it is
_WRITTEN = frozenset({"constant", SETTING})

#: what makes one decision of several, in the words of operators and of libraries
_JOINING = frozenset({"And", "Or", "logical_and", "logical_or"})

#: turns from which on two values alone tell one sequence from another
_LONG = 8


@dataclass(frozen=True)
class Fault:
    """A turn at which a condition decides otherwise than its counterpart.

    ``is_of_all``: it stands for all turns: nobody knows which of them are decided otherwise.
    ``operand`` is what it compares there in place of the reference's, if that is another; None where the condition is at fault itself.
    """

    turn: Expression
    operand: Expression | None = None
    due: Expression | None = None
    is_of_all: bool = False


@dataclass
class WholeCondition(Blamed):
    """A condition at fault, of which no turn is known to be: ``expression`` is the first."""


def is_part(each: Expression) -> bool:
    """Whether a decision is one of several that decide together."""
    users = reached([each], lambda e: e.users if e is each or e.is_copy else [])
    return any(user.label in _JOINING or doing(user) in _JOINING for user in users if user is not each)


@dataclass(frozen=True)
class Verdict:
    """Whether a condition's counterpart decides the same, and where it does not."""

    is_right: bool
    fault: Fault | None = None


class Conditions:
    """The conditions of both sides' programs.

    Args:
        reference: the expressions of the side that is trusted.
        candidate: those of its port.
    """

    def __init__(self, reference: Sequence[Expression], candidate: Sequence[Expression]) -> None:
        self._reference, self._candidate = reference, candidate
        self._gathering: dict[Expression, bool] = {}
        self._variants: dict[Expression, bool] = {}

    @cached_property
    def _own(self) -> list[Turns]:
        return turns_of(self._candidate)

    @cached_property
    def _known(self) -> Known:
        return Known(self._reference, self._own)

    @cached_property
    def _seen(self) -> Seen:
        return Seen(self._reference)

    @cached_property
    def _tables(self) -> dict[int, list[Expression]]:
        """The reference's tables by their size."""
        found: dict[int, list[Expression]] = defaultdict(list)
        for each in filter(_is_table, self._reference):
            found[each.size].append(each)
        return found

    def of_value(self, root: Expression, found: Blamed | None) -> Blamed | None:
        """The condition at fault for a wrong value; ``found`` where none is known to be.

        Args:
            root: the wrong value.
            found: the expression that is blamed so far.
        """
        deciding = _deciding(root) if self._own else set()
        own = [turns for turns in self._own if turns.site in deciding]
        if not own:
            return found
        verdicts = [(turns, self._known.of(turns)) for turns in own]
        faults = [verdict.fault for _, verdict in verdicts if verdict.fault is not None]
        if faults:
            return self._blamed(min(faults, key=lambda fault: fault.turn.number), found)
        open_ones = [turns for turns, verdict in verdicts if not verdict.is_right]
        unknown = [turns for turns in open_ones if len(set(turns.decisions.tolist())) > 1 and turns.is_known]
        strange = self._strange_number(unknown, root if found is None else found.expression)
        if strange is not None:
            return self._blamed(strange, found)
        chosen = self._choice(unknown, root, None if found is None else found.expression)
        return found if chosen is None else WholeCondition(chosen, [chosen])

    def _blamed(self, fault: Fault, found: Blamed | None) -> Blamed | None:
        """What is at fault of a turn that decides otherwise."""
        if fault.operand is None:
            kind = WholeCondition if fault.is_of_all else Blamed
            return kind(fault.turn, [fault.turn], fault.due)
        blamed = Search(fault.operand, fault.due, self._seen, self._reference, own=self._candidate).first()
        return blamed or found

    def _strange_number(self, unknown: Sequence[Turns], blamed: Expression) -> Fault | None:
        """The one written number that right values are compared with, and the reference lacks."""
        seen, governing = self._seen, _deciding(blamed) if unknown else set()
        found = []
        for turns in unknown:
            if turns.site not in governing:
                continue
            for place in (0, 1):
                operand, column = compared(turns.first)[place], turns.column(1 - place)
                is_one = turns.column(place).count(len(turns.events)) == 1
                if is_one and _is_written(operand) and seen.has(operand) is False and are_mostly_in(column, seen.numbers, TELLING):
                    found.append(Fault(turns.first, operand))
        return found[0] if len(found) == 1 else None

    def _choice(self, unknown: Sequence[Turns], root: Expression, blamed: Expression | None) -> Expression | None:
        """The one condition that chose an array's numbers, where the reference has some others.

        None where what is blamed so far is part of what was gathered: then it is nearer.
        """
        sites = {turns.site: turns for turns in unknown}
        found: dict[Expression, Turns] = {}
        for each in self._gathered_tables(root) if sites else ():
            gathered = list(reached([each], lambda e: [inner for inner in e.operands if self._gathers(inner)]))
            choosing = _sites_of(gathered) & set(sites)
            if len(choosing) != 1 or not self._is_variant(each):
                continue
            parts = {inner for step in gathered for inner in (step, *step.operands)}
            if blamed in parts - {each}:
                return None
            found[each] = sites[choosing.pop()]
        return found[min(found, key=lambda each: each.number)].first if found else None

    def _gathered_tables(self, root: Expression) -> list[Expression]:
        """The tables behind a value that are made of numbers as they are; of very many the last.

        A list that grows is one of them when it is done.
        """
        found: list[Expression] = []
        for each in reached([root], lambda e: e.operands):
            if _is_table(each) and not _grows_on(each) and self._gathers(each):
                found.append(each)
            if len(found) == MANY:
                break
        return found

    def _gathers(self, each: Expression) -> bool:
        if each not in self._gathering:
            self._gathering[each] = _gathers(each)
        return self._gathering[each]

    def _is_variant(self, each: Expression) -> bool:
        """Whether the reference has half of a table's numbers, and nowhere all of them.

        Of very many of its size nothing is said.
        """
        if each not in self._variants:
            known = self._tables.get(each.size, [])
            self._variants[each] = len(known) <= MANY and _is_variant(each, known)
        return self._variants[each]


def _sites_of(gathered: Iterable[Expression]) -> set[int]:
    """The sites of the conditions that chose some values."""
    conditions = reached([one for each in gathered for one in each.conditions], lambda one: one.conditions if isinstance(one, Left) else [])
    return {one.site for one in conditions if isinstance(one, Expression)}


def _grows_on(each: Expression) -> bool:
    """Whether a list is changed later: what follows has all of it."""
    return any(user.kind == "change" and (role, each) in user.inputs for user in each.users for role in ("object", "self", "left"))


def _is_written(each: Expression) -> bool:
    """Whether a value stands in the source, or in a file of settings."""
    first = origin(each)
    return first.kind in _WRITTEN and each.mark[0] == "s"


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
    known = np.unique(np.concatenate(parts))
    return known.size > 0 and within(each.numbers, known)


def _deciding(root: Expression) -> set[int]:
    """The sites of all conditions that had a say in a value."""
    starts: list[Expression | Left] = [root]
    conditions = {one for each in reached(starts, lambda e: [*e.operands, *e.conditions]) for one in each.conditions}
    decisions = [one for one in conditions if isinstance(one, Expression)]
    return {each.site for each in reached(decisions, lambda e: e.operands if _hands_on(e) else [])}


def _hands_on(each: Expression) -> bool:
    """Whether a decision is made of other decisions."""
    return each.kind == "condition" or each.is_copy or (each.kind == "operation" and each.label in _COMBINING)


class Known:
    """The reference's decisions, one by one and in arrays.

    Args:
        reference: its expressions.
        candidate: the other side's conditions: what is the counterpart of one is none of another.
    """

    def __init__(self, reference: Sequence[Expression], candidate: Sequence[Turns]) -> None:
        turns, self._masks = turns_of(reference), masks_of(reference)
        alike: dict[bytes, list[Turns]] = defaultdict(list)
        for due in turns:
            alike[due.pattern].append(due)
        telling = [own for own in candidate if len(own.events) >= TELLING]  # the others are no counterparts, whatever they decide
        ways = [way for own in telling for due in alike.get(own.pattern, ()) for way in _beside(own, due) if way.is_right]
        self._right = {way.own.site for way in ways}
        self._others = [own for own in candidate if own.site not in self._right]
        taken = {way.due.site for way in ways}
        self._turns = [due for due in turns if due.site not in taken]
        self._verdicts: dict[int, Verdict] = {}

    @cached_property
    def _free(self) -> list[Masks]:
        """The masks of the reference that no condition is the counterpart of."""
        return [due for due in self._masks if not any(way.is_right for own in self._others for way in _at_once(own, due))]

    def of(self, own: Turns) -> Verdict:
        """What is known of a condition."""
        if own.site not in self._verdicts:
            self._verdicts[own.site] = self._verdict(own)
        return self._verdicts[own.site]

    def _verdict(self, own: Turns) -> Verdict:
        if own.site in self._right:
            return Verdict(is_right=True)
        beside = _verdict([way for due in self._turns for way in _beside(own, due)])
        if beside.fault is not None and not self._is_exchanged(own, beside.fault):
            return beside
        if any(way.is_right for due in self._masks for way in _at_once(own, due)):
            return Verdict(is_right=True)
        return _verdict([way for due in self._free for way in _at_once(own, due)])

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


def _beside(own: Turns, due: Turns) -> list[Beside]:
    """Two conditions, and the same with the operands of one exchanged."""
    return [Beside(own, due, crossed=crossed) for crossed in (False, True)]


def _at_once(own: Turns, due: Masks) -> list[AtOnce]:
    """A condition and as many decisions in masks, and the same with operands exchanged."""
    return [AtOnce(own, due, crossed=crossed) for crossed in (False, True)] if len(own.events) == due.size else []


def _verdict(ways: Sequence[Beside] | Sequence[AtOnce]) -> Verdict:
    """What the counterpart of the same operands says, or else one that shares an operand."""
    if any(way.is_right for way in ways):
        return Verdict(is_right=True)
    alike = [way for way in ways if asks_alike(way.own.first, way.due.first)]
    whole = [fault for way in alike if (fault := way.fault()) is not None]
    parted = [fault for way in alike if (fault := way.fault_of_operand()) is not None]
    if whole:
        return Verdict(is_right=False, fault=whole[0])
    return Verdict(is_right=False, fault=parted[0] if len({fault.due for fault in parted}) == 1 else None)


class Beside:
    """A condition beside one of the reference's, turn by turn."""

    def __init__(self, own: Turns, due: Turns, *, crossed: bool) -> None:
        self.own, self.due = own, due
        self._places = (1, 0) if crossed else (0, 1)
        self._length = min(len(own.events), len(due.events))
        self._is_of_one_length = len(own.events) == len(due.events)
        self._whole: dict[int, bool] = {}

    @cached_property
    def _agree(self) -> list[bool]:
        """In which turns both decide the same."""
        agree: list[bool] = (self.own.decisions[: self._length] == self.due.decisions[: self._length]).tolist()
        return agree

    def _is_same(self, place: int, length: int) -> bool:
        """Whether the first operands at a place are the same."""
        if length == self._length and place in self._whole:
            return self._whole[place]
        own, due = self.own.column(place), self.due.column(self._places[place])
        found = all(bool(np.all(own.equal(due, end))) for end in (min(1, length), length))
        if length == self._length:
            self._whole[place] = found
        return found

    def _is_other(self, place: int, turn: int) -> bool:
        """Whether the operands of one turn are known to differ."""
        own = Column.of([compared(self.own.events[turn])[place]])
        due = Column.of([compared(self.due.events[turn])[self._places[place]]])
        return own.are_known and due.are_known and not own.equal(due)[0]

    @property
    def is_right(self) -> bool:
        """Whether both decide the same, or always the opposite, of the same operands."""
        if not self._is_of_one_length or len(set(self._agree)) != 1:
            return False
        return all(self._is_same(place, self._length) for place in (0, 1)) and self._is_telling((0, 1), self._length)

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
        if end is None or not all(self._is_same(place, end + 1) for place in (0, 1)) or not self._is_telling((0, 1), end + 1):
            return None
        place = self._first_other()
        return Fault(self.own.events[place], None, self.due.events[place])

    def fault_of_operand(self) -> Fault | None:
        """The first turn that is decided otherwise where one of its operands is another."""
        if False not in self._agree or (is_part(self.own.first) and not is_part(self.due.first)):
            return None
        end = self._first_other()
        for place in (0, 1):
            if self._is_same(place, end + 1) and self._is_other(1 - place, end) and self._is_telling((place,), end + 1):
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
            whole = self._is_of_one_length and self._length >= _LONG and self._is_same(place, self._length)
            if whole and column.count(self._length) > 1:
                return True
        return False


class AtOnce:
    """A condition beside masks of the reference's, all turns at once."""

    def __init__(self, own: Turns, due: Masks, *, crossed: bool) -> None:
        self.own, self.due = own, due
        places = (1, 0) if crossed else (0, 1)
        fits = len(own.events) == due.size
        self._same = [fits and _are_one(own.column(place), due, other) for place, other in enumerate(places)]
        self._places = places
        self._tells = [own.column(place).count(len(own.events)) >= TELLING for place in (0, 1)]
        holding = int(own.decisions.sum())
        self._decides_alike = holding in (due.holding, due.size - due.holding)

    @property
    def is_right(self) -> bool:
        """Whether both decide as often the same, or the opposite, of the same operands."""
        return all(self._same) and any(self._tells) and self._decides_alike

    def fault(self) -> Fault | None:
        """The first turn of a condition that decides otherwise of the same operands."""
        if not all(self._same) or not any(self._tells) or self._decides_alike:
            return None
        return Fault(self.own.first, None, self.due.first, is_of_all=True)

    def fault_of_operand(self) -> Fault | None:
        """The first turn, where the decisions and one operand are others."""
        for place in () if is_part(self.own.first) and not is_part(self.due.events[0]) else (0, 1):
            if self._same[place] and self._tells[place] and not self._same[1 - place] and not self._decides_alike:
                due = compared(self.due.events[0])[self._places[1 - place]]
                return Fault(self.own.first, compared(self.own.first)[1 - place], due)
        return None


def _are_one(column: Column, masks: Masks, place: int) -> bool:
    """Whether some values are those that masks compare at a place, each as often."""
    numbers = masks.numbers(place)
    return numbers is not None and column.is_one_with(numbers, masks.rms(place))
