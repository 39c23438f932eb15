"""From a wrong value back to the first expression that is wrong of right operands."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance import counterpart_operand, crossed_names, other_operand, other_rows, same_work
from paralign.locate.provenance.chosen_places import Places
from paralign.locate.provenance.counterparts import SAME_RMS, TELLING, Counterparts, doing, has_elements_of, is_drawn, is_equal, origin
from paralign.locate.provenance.counts import COMPARISONS, Counts, is_count
from paralign.locate.provenance.loop_series import LoopSeries
from paralign.locate.provenance.readings import is_from_file, is_length, setting_of, stored_in, taken_as
from paralign.locate.provenance.selections import Selections, arrays_of
from paralign.locate.provenance.value_graph import COMMON, READINGS, SETTING, SHORT, Seen, Texts, behind
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from paralign.locate.provenance.value_graph import Expression

#: operators whose operands may change places
_EXCHANGEABLE = frozenset({"Add", "Mult", "BitAnd", "BitOr", "BitXor"})

#: roles in a call that are no arguments
_CALLED = frozenset({"self", "function"})

#: kinds of expressions whose result is as wrong as what they take
_FAITHFUL = frozenset({"operation", "call"})


@dataclass
class Blamed:
    """An expression at fault, what led from it to the wrong value, and the reference's.

    ``placed``: it is right by itself, and not what the reference takes there. ``due``: what made the reference's value in place of the
    wrong one that the search began with, where that is known. ``note``: what is said of it, '' for what is said of any expression.
    """

    expression: Expression
    chain: list[Expression] = field(default_factory=list)
    reference: Expression | None = None
    placed: bool = False
    due: Expression | None = None
    note: str = ""

    @property
    def is_table(self) -> bool:
        """Whether what is wrong has many numbers: a few may be another way to write a step."""
        last = self.chain[-1] if self.chain else self.expression
        return last.numbers is not None and last.numbers.size >= TELLING

    @property
    def source(self) -> str:
        """The line to look at."""
        return self.expression.source


class Search:
    """One wrong value of the candidate beside the reference's.

    Args:
        candidate: the wrong value.
        reference: its counterpart; None where it is not known, then ``seen`` has all that the reference made.
        seen: what counts as right; by default what the counterpart was made of.
        defaults: the reference's expressions, among which are the defaults of its functions.
        excused: values of the candidate that are right: an expression that made the same for them is not at fault.
        sound: expressions of the candidate that are right whatever the counterpart was made of.
        own: the candidate's expressions, where right operands are compared with what the reference takes in their place.
    """

    def __init__(
        self,
        candidate: Expression,
        reference: Expression | None,
        seen: Seen | None = None,
        defaults: Sequence[Expression] = (),
        *,
        excused: Sequence[Expression] = (),
        sound: Iterable[Expression] = (),
        own: Sequence[Expression] = (),
    ) -> None:
        self._own = own
        self._draws: dict[str, list[Expression]] = {}
        for each in filter(is_drawn, defaults):
            self._draws.setdefault(doing(each), []).append(each)
        self._known: Counterparts | None = None
        self._whole: dict[Expression, bool] = {}
        self._is_evident = False  # once a counterpart showed an operand to be wrong, what it leads to besides excuses nothing
        self.root, self.reference, self.defaults = candidate, reference, defaults
        self.seen = seen or Seen(behind(reference) if reference is not None else ())
        self._sound = set(sound)
        self._right: dict[Expression, bool | None] = dict.fromkeys(self._sound, True)
        self._excused: dict[Expression, bool] = {}
        self._strict: set[Expression] = set()
        behind_wrong = set(behind(candidate)) if excused else set()
        self._led = {_known(e) for root in excused for e in _decisive(root, behind_wrong) if e.kind in _FAITHFUL and not _is_simple(e)}
        self._counts = Counts(defaults)
        self._selections: Selections | None = None
        self._places: Places | None = None
        self._series: LoopSeries | None = None
        self._texts = Texts(defaults if candidate.numbers is not None else ())  # to which a number leads only by what they choose
        self._led_by_numbers = {_known(e) for root in excused for e in reached([root], _not_compared) if e.kind in _FAITHFUL}

    def is_right(self, each: Expression) -> bool | None:
        """Whether a value is the reference's; None where that cannot be told."""
        if each not in self._right:
            found = self._texts.has(each) or self.seen.has(each)
            drawn = self._drawn_behind(each)
            if drawn is not None:
                found = any(is_equal(drawn, other) for other in self._draws[doing(drawn)])
            elif is_count(each):
                found = self._counts.is_right(each) if found else self._counts.lacks(each)
            self._right[each] = found
        return self._right[each]

    def _drawn_behind(self, each: Expression) -> Expression | None:
        """The draw that made a number, if the reference draws so too: one of its is due."""
        first = origin(each)
        while (inner := _only_operand(first)) is not None:
            first = origin(inner)
        return first if is_drawn(first) and doing(first) in self._draws else None

    def is_excused(self, each: Expression) -> bool:
        """Whether a value led to a right result of many numbers: written in another way only.

        What was made of it is walked with a list, not by calls of itself: chains of a whole network are longer than Python's stack.
        """
        known = self._excused_at_once(each)
        if known is not None:
            return known
        self._excused[each] = False
        waiting = [(each, iter(each.users))]
        while waiting:
            value, users = waiting[-1]
            user = next(users, None)
            if user is None:
                waiting.pop()
                continue
            excused = False if is_length(value, user) else self._excuses(user)
            if excused is None:
                self._excused[user] = False
                waiting.append((user, iter(user.users)))
            elif excused:
                self._excused.update((waits, True) for waits, _ in waiting)
                return True
        return False

    def _excused_at_once(self, each: Expression) -> bool | None:
        """Whether a value is excused; None where what was made of it has to be asked."""
        if is_count(each) and self._right.get(each) is False and _known(each) not in self._led_by_numbers:
            return False  # whether numbers are greater than others says little of them
        if self._is_evident:
            return False
        if each.numbers is not None and not {_known(each), _known(_stripped(each))}.isdisjoint(self._led):
            return True
        return self._excused.get(each)

    def _excuses(self, user: Expression) -> bool | None:
        """Whether what was made of a value is right with many numbers, or known to lead to that.

        None where what was made of it has to be asked.
        """
        if user is self.root:
            return False
        if not user.is_copy:
            if user.kind not in _FAITHFUL or _is_simple(user):
                return False
            if self._shows(user):
                return True
        return self._excused_at_once(user)

    def _shows(self, each: Expression) -> bool:
        return each.numbers is not None and each.numbers.size >= TELLING and bool(self.is_right(each))

    def first(self) -> Blamed | None:
        """The expression at fault; None where nothing of the user's own led to the value."""
        if self.root.size > 1 and self.root.numbers is not None and self.is_right(self.root) and self.root.mark[0] == "a":
            return self._first_disordered()
        chain: list[Expression] = []
        each, due, seen = self.root, self.reference, {self.root}
        while True:
            chain.append(each)
            inner, beside = self._wrong_input(each, due)
            placed = self._placed(each, due, inner)
            if placed is not None:
                return Blamed(placed, [placed, *chain[::-1]], beside, placed=True)
            due = beside
            if inner is None or inner in seen:
                return self._handed_over(_blamed(each, chain, due))
            seen.add(inner)
            each = inner

    def _handed_over(self, found: Blamed | None) -> Blamed | None:
        """The call that gives a helper another of its parameters, where that explains it."""
        if found is None or not self._own:
            return found
        call = crossed_names.place(found.chain, self._own, lambda number: self.seen.has_numbers(np.array([number])))
        return found if call is None else Blamed(call, [call, *found.chain], found.reference, placed=True)

    def _placed(self, each: Expression, due: Expression | None, inner: Expression | None) -> Expression | None:
        """Where a right operand of ``each`` became another one than the reference takes."""
        if not self._own or each.is_copy or (inner is not None and not (_is_telling(inner) and self.is_right(inner))):
            return None
        known = self._counterparts()
        rows = other_rows.place(each, known, self._own)
        return rows or other_operand.place(each, due, known)

    def _counterparts(self) -> Counterparts:
        if self._known is None:
            self._known = Counterparts(self.defaults, self._own)
        return self._known

    def _unlike_counterpart(self, each: Expression, due: Expression | None) -> list[tuple[Expression, Expression | None]]:
        """The one operand that seems right, and that the reference does not take there."""
        apart = counterpart_operand.differing(each, due, self._counterparts()) if self._own else None
        if apart is None:
            return []
        is_right = self.is_right(apart.own) is not False or _known(apart.own) in self._led
        if not apart.is_only_ordered and is_right and self._is_made_as_a_whole(apart.own):
            return []
        self._is_evident = True
        return [(apart.own, apart.due)]

    def _is_made_as_a_whole(self, each: Expression) -> bool:
        """Whether the reference has a value with all of its elements, or it is one number.

        Few common numbers stand in many lists: 0, 0.5 and 1 say nothing of a list of these.
        """
        if each.size == 1:
            return True
        alike = [other for other in self.defaults if other.size == each.size and is_equal(each, other)]
        if each.mark[0] == "a" and each.numbers is not None and COMMON.issuperset(each.numbers.tolist()):
            return any(other.mark[0] == "a" and not counterpart_operand.has_other_order(each, other) for other in alike)
        return bool(alike)

    def _wrong_input(self, each: Expression, due: Expression | None) -> tuple[Expression | None, Expression | None]:
        """What is wrong of what a wrong value was made of, and the reference's counterpart."""
        due = None if due is None else _stripped(due)
        if each.is_copy:
            return (None if self._is_call_at_fault(each) else each.values[0][1]), due
        same = _same_number(each)
        if same is not None and (self.is_right(same) is False or (due is not None and is_equal(same, due) is False)):
            return same, due
        setting = setting_of(each)
        if setting is not None:
            return (None if self._is_written_alike(setting) else setting), setting_of(due) or due
        stored = stored_in(each)
        return (stored, due) if stored is not None else self._wrong_operand(each, due)

    def _wrong_operand(self, each: Expression, due: Expression | None) -> tuple[Expression | None, Expression | None]:
        """As :meth:`_wrong_input`, of a value that something made."""
        known = [(role, inner) for role, inner in _numbered(each.values) if inner.kind != "input"]
        if self._is_wrong_part(each):
            known = [(role, inner) for role, inner in known if role != "object"]
        if not known or (each.kind in READINGS and each.mark[0] == "s" and each.numbers is not None and self.seen.has(each)):
            return None, due  # what an object holds besides that number is no part of it
        converted = _converted(each, known)
        if converted is not None:
            return converted, _unconverted(due)
        wrong, doubtful = self._wrong_of(known, self._beside(each, due))
        if each.kind == "item" and wrong and all(_are_places(inner) for inner, _ in wrong):
            wrong, doubtful = [], wrong  # each side may take its parts by places of its own
        wrong = wrong or self._of_right_ones(each, known, due) or doubtful
        if not any(inner.numbers is not None or self._has_wrong_number(inner) for inner, _ in wrong):
            unseen = self._unseen_number(each, known)
            if unseen is not None or not wrong:
                return unseen, due
        if any(_lacks_an_operand(each, inner, twin) or self._lacks_a_step(inner, twin) for inner, twin in wrong):
            return None, due
        if len(wrong) == 1:
            return wrong[0]
        return min(wrong, key=lambda pair: self._plainness(pair[0]))

    def _of_right_ones(
        self, each: Expression, known: Sequence[tuple[str, Expression]], due: Expression | None
    ) -> list[tuple[Expression, Expression | None]]:
        """The operand at fault of those that all seem right, with its counterpart."""
        found = self._in_other_order(known) or self._otherwise_selected(each)
        found = found or self._unlike_counterpart(each, due) or self._otherwise_taken(each)
        return found or self._of_strange_series(each)

    def _lacks_a_step(self, inner: Expression, twin: Expression | None) -> bool:
        """Whether an operand is a plain number of which the reference computes its own.

        ``step`` for ``step + 1``.
        """
        leaf = inner
        while leaf.is_copy:
            leaf = leaf.values[0][1]
        if leaf.kind in ("operation", "call"):
            return False
        while twin is not None and twin.is_copy:
            twin = twin.values[0][1]
        if twin is None or twin.kind != "operation" or inner.mark[0] != "s" or not self.is_right(inner):
            return False
        return any(is_equal(inner, before) for _, before in twin.values)

    def _plainness(self, each: Expression) -> tuple[bool, bool, bool, bool, int]:
        """The order in which wrong operands are looked at: numbers, files' ones, the first.

        One of the numbers that stand everywhere tells less than a list with a wrong array, and what the reference makes for something else
        less than what it makes nowhere.
        """
        if each not in self._whole:
            self._whole[each] = bool(self._own) and _is_telling(each) and self._is_made_as_a_whole(each)
        is_made = self._whole[each]
        has_no_number = each.numbers is None and not self._holds_wrong_array(each)
        return _is_simple(each), is_made, has_no_number, not is_from_file(each), each.number

    def _holds_wrong_array(self, each: Expression) -> bool:
        """Whether a list or the like holds an array that the reference has nowhere."""
        return each.kind == "display" and any(inner.mark[0] == "a" and self.is_right(inner) is False for _, inner in each.values)

    def _wrong_of(
        self, known: Sequence[tuple[str, Expression]], beside: Mapping[str, Expression]
    ) -> tuple[list[tuple[Expression, Expression | None]], list[tuple[Expression, Expression | None]]]:
        """The wrong operands with their counterparts; apart, counts made of something wrong."""
        wrong: list[tuple[Expression, Expression | None]] = []
        doubtful: list[tuple[Expression, Expression | None]] = []
        for role, inner in known:
            twin = beside.get(role)
            verdict = self.is_right(inner) if twin is None or inner in self._sound else is_equal(inner, twin)
            is_known = verdict is not None or not is_count(inner)
            if verdict is None:
                verdict = not self._has_wrong_behind(inner)
            if not verdict and not self.is_excused(inner):
                (wrong if is_known else doubtful).append((inner, twin))
        return wrong, doubtful

    def _in_other_order(self, known: Sequence[tuple[str, Expression]]) -> list[tuple[Expression, Expression | None]]:
        """The one short list whose elements the reference has only in another order.

        Names of classes, say, in which a place is looked up.
        """
        lists = [inner for _, inner in known if _is_short_list(inner)]
        found = [inner for inner in lists if self._orders.get(_elements(inner)) and not self._has_order(inner)]
        return [(found[0], None)] if len(found) == 1 else []

    def _has_order(self, each: Expression) -> bool:
        return [*map(repr, each.mark[1])] in self._orders[_elements(each)]

    @cached_property
    def _orders(self) -> dict[tuple[str, ...], list[list[str]]]:
        """The elements of the reference's short lists -> the orders in which it has them."""
        found: dict[tuple[str, ...], list[list[str]]] = {}
        for each in filter(_is_short_list, self.defaults):
            orders = found.setdefault(_elements(each), [])
            order = [*map(repr, each.mark[1])]
            if order not in orders:
                orders.append(order)
        return found

    def _otherwise_selected(self, each: Expression) -> list[tuple[Expression, Expression | None]]:
        """The one array of which the reference has some more or fewer numbers.

        Other rows of a table, say.

        Only where what was made of it is not the reference's either.
        """
        if each.numbers is None:
            return []
        if self._selections is None:
            self._selections = Selections(self.defaults)
        if self.seen.has(each) is not False and (not self._selections.is_strange(each) or self._selections.is_other_choice(each)):
            return []
        found = [inner for inner in arrays_of(each) if self._selections.is_cut_wrongly(inner)]
        return [(found[0], None)] if len({inner.source for inner in found}) == 1 else []

    def _otherwise_taken(self, each: Expression) -> list[tuple[Expression, Expression | None]]:
        """What chose the places at which right numbers were taken, where others are due."""
        if not self._own or each.numbers is None:
            return []
        if self._places is None:
            self._places = Places(self.defaults, self._own)
        chosen = self._places.chosen_wrongly(each)
        return [(chosen, None)] if chosen is not None else []

    def _of_strange_series(self, each: Expression) -> list[tuple[Expression, Expression | None]]:
        """The operand that a loop makes one by one, and that is no array of the reference's."""
        if not self._own:
            return []
        if self._series is None:
            self._series = LoopSeries(self.defaults, self._own)
        strange = self._series.strange(each)
        return [] if strange is None else [(strange, None)]

    def _is_wrong_part(self, each: Expression) -> bool:
        """Whether a wrong part was cut out of something that holds the right part."""
        held = taken_as(each, "object") if each.kind == "item" else None
        due = None if self.reference is None else self.reference.numbers
        if held is None or held.numbers is None or each.numbers is None or due is None or due.size < TELLING:
            return False
        return bool(np.isin(due, held.numbers).all()) and not bool(np.isin(due, each.numbers).all())

    def _is_call_at_fault(self, each: Expression) -> bool:
        """Whether a call wrongly leaves an argument to a default that is right for others."""
        if each.kind != "omitted":
            return False
        default = each.values[0][1]
        elsewhere = any(user.source != each.source for user in default.users)
        return elsewhere and any(e.kind == "default" and e.mark == default.mark for e in self.defaults)

    def _unseen_number(self, each: Expression, known: Sequence[tuple[str, Expression]]) -> Expression | None:
        """The one common number that what is right here was not made of."""
        if each.kind != "call" and each not in self._strict:
            return None
        seen = Seen(behind(self.reference)) if self.reference is not None else self.seen
        unseen: list[Expression] = []
        for role, inner in known:
            if role not in _CALLED and _is_simple(inner) and inner.numbers is not None and not seen.has_numbers(inner.numbers):
                unseen.append(inner)
        if len(unseen) != 1:
            return None
        self._strict.add(unseen[0])
        return unseen[0]

    def _is_written_alike(self, setting: Expression) -> bool:
        """Whether the reference's files have the entry too: then another should be taken."""
        return any(e.kind == SETTING and e.label == setting.label and e.mark == setting.mark for e in self.defaults)

    def _has_wrong_number(self, each: Expression) -> bool:
        """Whether a number is wrong in an object; a text may be a side's own name."""
        return any(e.numbers is not None and self.is_right(e) is False and not self.is_excused(e) for e in behind(each))

    def _has_wrong_behind(self, each: Expression) -> bool:
        """Whether something is wrong in an object that cannot be compared itself."""
        made_of = [e for e in behind(each) if e.kind != "input"]
        return any(self.is_right(e) is False and not self.is_excused(e) and not self._is_part_of_text(e) for e in made_of)

    def _is_part_of_text(self, each: Expression) -> bool:
        """Whether a text is a part of a right one: how a path is put together."""
        if not isinstance(each.scalar, str):
            return False
        return any(isinstance(user.scalar, str) and bool(self.is_right(user)) for user in each.users)

    def _beside(self, each: Expression, due: Expression | None) -> dict[str, Expression]:
        """The operands of the reference's expression, by role, where it is the same operation."""
        if due is None:
            return {}
        alike = same_work.beside(each, due) if self._own and (due.kind != each.kind or _word(due) != _word(each)) else {}
        if alike or due.kind != each.kind:
            return alike
        theirs, own = dict(_numbered(due.values)), dict(_numbered(each.values))
        if each.kind == "call" and _word(due) != _word(each):  # StepLR and StepDecay: arguments of one name
            return {role: inner for role, inner in theirs.items() if role in own and not role.isdecimal() and role not in _CALLED}
        if _word(due) != _word(each) or set(theirs) != set(own):
            return {}
        if each.label in _EXCHANGEABLE and set(own) == {"left", "right"}:
            crossed = [is_equal(own["left"], theirs["right"]), is_equal(own["right"], theirs["left"])]
            straight = [is_equal(own[role], theirs[role]) for role in ("left", "right")]
            if crossed.count(True) > straight.count(True):
                return {"left": theirs["right"], "right": theirs["left"]}
        return theirs

    def _first_disordered(self) -> Blamed | None:
        """The first expression with right numbers in an order that the reference has nowhere."""
        led = self._led_to(self.root)
        wrong = {e for e in led if _is_telling(e) and not self.seen.has_ordered(e) and not counterpart_operand.is_repeated(e)}
        firsts = [e for e in led if e in wrong and not e.is_copy and wrong.isdisjoint({*self._led_to(e)} - {e})]
        operands = [inner for e in firsts for _, inner in e.values]
        if len({e.source for e in firsts}) != 1 or not any(map(self._is_ordered, operands)):
            return None
        for inner in operands:
            if inner.mark[0] == "s" and self.is_right(inner) is False:
                return Search(inner, None, self.seen, self.defaults).first()
        put = _put_in(firsts[0])
        if put is not None:
            return Blamed(put, [put, firsts[0]], placed=True)
        handed = _handed_on(firsts[0])
        if handed is not None:
            return Blamed(handed, [handed, firsts[0]], placed=True)
        return _blamed(firsts[0], [firsts[0]], None)

    def _led_to(self, root: Expression) -> list[Expression]:
        """A value and what it was made of, up to right numbers and right orders."""
        return list(reached([root], lambda each: each.operands if each is root or not self._is_settled(each) else []))

    def _is_settled(self, each: Expression) -> bool:
        """Whether a value is a right number, or many in their right order."""
        if _is_telling(each):
            return self.seen.has_ordered(each)
        return each.mark[0] == "s" and bool(self.is_right(each))

    def _is_ordered(self, each: Expression) -> bool:
        """Whether an operand, or each part of a list, is in an order of the reference's."""
        parts = [inner for _, inner in each.values] if each.kind == "display" else [each]
        return all(_is_telling(e) and self.seen.has_ordered(e) for e in parts)


def _is_short_list(each: Expression) -> bool:
    """Whether a value is a list of a few plain values, of which not all are the same."""
    if each.mark[0] != "l" or not 1 < len(each.mark[1]) <= SHORT:
        return False
    return len(set(_elements(each))) > 1


def _elements(each: Expression) -> tuple[str, ...]:
    """What a list holds, in whatever order."""
    return tuple(sorted(map(repr, each.mark[1])))


def _same_number(each: Expression) -> Expression | None:
    """The one number that a call only gives another type: ``float(x)``, ``x.item()``."""
    given = [inner for role, inner in each.values if role != "function"]
    if each.kind != "call" or len(given) != 1 or given[0].mark[0] != "s" or each.mark[0] != "s":
        return None
    if given[0].numbers is None or each.numbers is None or not is_equal(given[0], each):
        return None
    is_whole = float(each.numbers[0]) == round(float(each.numbers[0]))
    return given[0] if not is_whole or np.array_equal(given[0].numbers, each.numbers) else None  # ``int(x)`` is more than another type


def _stripped(due: Expression) -> Expression:
    """What made a value, before it was handed on or given another type."""
    before: Expression | None = due
    while before is not None:
        due, before = before, before.values[0][1] if before.is_copy else _same_number(before)
    return due


def _unconverted(due: Expression | None) -> Expression | None:
    """What the reference's value was before it was only given another form."""
    while due is not None and due.is_copy:
        due = due.values[0][1]
    return due if due is None else _converted(due, _numbered(due.values)) or due


def _handed_on(each: Expression) -> Expression | None:
    """What made the elements that a call only gives another type; None of all other calls.

    ``np.asarray(ids)`` is as wrong as ``ids``.
    """
    made: Expression | None = None
    while each.kind == "call":
        same = [inner for role, inner in each.values if role not in _CALLED and has_elements_of(inner, each)]
        if len(same) != 1:
            break
        each = made = origin(same[0])
    return made if made is not None and made.file and made.kind in (*_FAITHFUL, "item", "display") else None


def _put_in(changed: Expression) -> Expression | None:
    """What made the elements that fill an array, in an order that is right elsewhere."""
    value = taken_as(changed, "value") if changed.kind == "change" else None
    if value is None or value.numbers is None or not _is_telling(value) or changed.numbers is None:
        return None
    is_all = bool(np.isin(changed.numbers, [*value.numbers, 0.0]).all())
    made = origin(value)
    return made if is_all and made.file and made.kind in (*_FAITHFUL, "item") else None


def _blamed(each: Expression, chain: list[Expression], due: Expression | None) -> Blamed | None:
    """The last of a chain that stands in a file of the user's."""
    while chain and (not chain[-1].file or each.kind == "input"):
        chain.pop()
        each = chain[-1] if chain else each
    return Blamed(each, chain[::-1], due) if chain else None


def _decisive(root: Expression, shared: Collection[Expression]) -> list[Expression]:
    """A right value and what decided on it: zero is zero times anything.

    A part of a container says nothing of it where another part (it is ``shared``) leads to what is wrong.
    """

    def decided(each: Expression) -> list[Expression]:
        if not each.is_copy and _is_simple(each):
            return []
        return [inner for _, inner in each.inputs if inner not in shared or not _is_part(each, inner)]

    return list(reached([root], decided))


def _is_part(each: Expression, container: Expression) -> bool:
    """Whether a value is only a part of what it was taken from."""
    return each.kind in ("element", "item") and container.mark[0] in ("a", "l") and container.size > each.size


def _are_places(each: Expression) -> bool:
    """Whether an index is made of whole numbers alone."""
    if each.kind == "display":
        return all(_are_places(inner) for _, inner in each.values)
    return is_count(each) or isinstance(each.scalar, int)


def _is_telling(each: Expression) -> bool:
    """Whether the order of an array's or list's elements tells something."""
    if each.mark[0] not in ("a", "l") or each.numbers is None:
        return False
    return each.numbers.size >= TELLING or (each.numbers.size > 1 and each.size >= 2 * TELLING)


def _only_operand(each: Expression) -> Expression | None:
    """What a call like ``int(x)`` gives another type."""
    return _converted(each, each.values) if each.kind == "call" and each.values else None


def _converted(each: Expression, known: Sequence[tuple[str, Expression]]) -> Expression | None:
    """What a simple number is only another form of.

    ``float(x)`` or ``x.item()`` is as wrong as ``x``.
    """
    given = [inner for role, inner in known if role != "function"]
    if each.kind != "call" or len(given) != 1 or given[0].numbers is None or each.numbers is None:
        return None
    if not _is_simple(each) and not is_drawn(given[0]):
        return None
    return given[0] if given[0].size == 1 and np.array_equal(given[0].numbers, each.numbers) else None


def _numbered(values: Sequence[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    """What an expression takes, roles that occur again told apart: ``x[a:b, c:d]``."""
    count: Counter[str] = Counter()
    found = []
    for role, inner in values:
        count[role] += 1
        found.append((role if count[role] == 1 else f"{role} {count[role]}", inner))
    return found


def _not_compared(each: Expression) -> Sequence[Expression]:
    """What a value was made of, but not what was only compared."""
    return () if _is_simple(each) or each.label in COMPARISONS else each.operands


def _is_simple(each: Expression) -> bool:
    """Whether a value is a number that any other operands might have given too."""
    return each.mark[0] == "s" and each.scalar in COMMON


def _known(each: Expression) -> tuple[str, str, str, str]:
    """What tells that an expression made the same once more."""
    return each.source, each.kind, each.label, str(each.mark[:3])


def _lacks_an_operand(each: Expression, inner: Expression, twin: Expression | None) -> bool:
    """Whether a constant lacks one operation with another number: ``total`` for ``total - 4``."""
    leaf = inner
    while leaf.is_copy:
        leaf = leaf.values[0][1]
    own, due = _one_number(leaf), None if twin is None else _one_number(twin)
    if leaf.values or own is None or due is None:
        return False
    for other in behind(each):
        if other.mark[0] != "s" or other.kind == "input" or other.numbers is None or _is_simple(other) or other.scalar in (own, due):
            continue
        number = float(other.scalar)
        made = (own + number, own - number, own * number, own / number)
        if any(math.isclose(result, due, rel_tol=SAME_RMS) for result in made):
            return True
    return False


def _one_number(each: Expression) -> float | None:
    """The number that a value of one number holds."""
    return float(each.numbers[0]) if each.numbers is not None and each.numbers.size == 1 else None


def _word(each: Expression) -> str:
    """What an operation is called, without the library's name."""
    return each.label.rpartition(".")[2]
