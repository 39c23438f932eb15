"""From a wrong value back to the first expression that is wrong of right operands."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.provenance.search import (
    compared_operands,
    counterpart_operand,
    crossed_names,
    other_operand,
    other_rows,
    same_work,
    shared_files,
)
from paralign.locate.provenance.search.blamed import Blamed, blamed
from paralign.locate.provenance.search.chosen_places import Places
from paralign.locate.provenance.search.loop_series import LoopSeries
from paralign.locate.provenance.search.other_codes import Codes
from paralign.locate.provenance.search.selections import Selections, arrays_of
from paralign.locate.provenance.search.wrong_order import WrongOrder
from paralign.locate.provenance.values.casts import (
    CALLED,
    FAITHFUL,
    before_copies_and_casts,
    before_last_call,
    cast_number,
    number_before_call,
    number_before_cast,
)
from paralign.locate.provenance.values.counts import Counts, is_count, is_counted
from paralign.locate.provenance.values.expression_counterparts import TELLING, Counterparts, doing, is_drawn, is_equal, origin
from paralign.locate.provenance.values.expression_traits import (
    are_whole_numbers,
    deciding,
    has_telling_order,
    identity,
    is_common_number,
    is_short_list,
    lacks_an_operand,
    numbered_roles,
    sorted_elements,
    uncompared_operands,
)
from paralign.locate.provenance.values.readings import is_from_file, is_length, setting_of, stored_in, taken_as
from paralign.locate.provenance.values.seen_values import Seen, Texts
from paralign.locate.provenance.values.value_graph import COMMON, READINGS, SETTING, behind
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from paralign.locate.provenance.values.value_graph import Expression

#: how far apart numbers may be that float32 alone makes differ, relative to the greatest
NEAR = 1e-3

#: operators whose operands may change places
_EXCHANGEABLE = frozenset({"Add", "Mult", "BitAnd", "BitOr", "BitXor"})


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
        self._led = {
            identity(e) for root in excused for e in deciding(root, behind_wrong) if e.kind in FAITHFUL and not is_common_number(e)
        }
        self._counts = Counts(defaults)
        self._selections: Selections | None = None
        self._places: Places | None = None
        self._series: LoopSeries | None = None
        self._texts = Texts(defaults if candidate.numbers is not None else ())  # to which a number leads only by what they choose
        self._led_by_numbers = {identity(e) for root in excused for e in reached([root], uncompared_operands) if e.kind in FAITHFUL}

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

    def _is_right_in_order(self, each: Expression) -> bool:
        """Whether a value was compared and is the reference's, its elements in their order."""
        if self.is_right(each) is not True:
            return False
        return each.mark[0] not in ("a", "l") or each.size == 1 or each in self._sound or self.seen.has_ordered(each)

    def _drawn_behind(self, each: Expression) -> Expression | None:
        """The draw that made a number, if the reference draws so too: one of its is due."""
        first = origin(each)
        while (inner := cast_number(first)) is not None:
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
            excused = False if is_length(value, user) or is_counted(value, user) else self._excuses(user)
            if excused is None:
                self._excused[user] = False
                waiting.append((user, iter(user.users)))
            elif excused:
                self._excused.update((waits, True) for waits, _ in waiting)
                return True
        return False

    def _excused_at_once(self, each: Expression) -> bool | None:
        """Whether a value is excused; None where what was made of it has to be asked."""
        if is_count(each) and self._right.get(each) is False and identity(each) not in self._led_by_numbers:
            return False  # whether numbers are greater than others says little of them
        if self._is_evident:
            return False
        if each.numbers is not None and not {identity(each), identity(before_copies_and_casts(each))}.isdisjoint(self._led):
            return True
        return self._excused.get(each)

    def _excuses(self, user: Expression) -> bool | None:
        """Whether what was made of a value is right with many numbers, or known to lead to that.

        None where what was made of it has to be asked.
        """
        if user is self.root:
            return False
        if not user.is_copy:
            if user.kind not in FAITHFUL or is_common_number(user):
                return False
            if self._shows(user):
                return True
        return self._excused_at_once(user)

    def _shows(self, each: Expression) -> bool:
        return each.numbers is not None and each.numbers.size >= TELLING and bool(self.is_right(each))

    def first(self) -> Blamed | None:
        """The expression at fault; None where nothing of the user's own led to the value."""
        found = self._first()
        if found is not None and not found.placed:
            found.is_alone = compared_operands.are_right(
                found.expression, self._beside(found.expression, found.reference), self._is_right_in_order
            )
        return found

    def _first(self) -> Blamed | None:
        if self.root.size > 1 and self.root.numbers is not None and self.is_right(self.root) and self.root.mark[0] == "a":
            return self._first_in_other_order()
        chain: list[Expression] = []
        each, due, seen = self.root, self.reference, {self.root}
        while True:
            chain.append(each)
            inner, beside = self._wrong_input(each, due)
            placed = self._placed(each, due, inner)
            if placed is not None:
                led = [placed, *chain[::-1]]
                return Blamed(shared_files.place(led, self.defaults) or placed, led, beside, placed=True)
            due = beside
            if inner is None or inner in seen:
                return self._handed_over(blamed(each, chain, due))
            seen.add(inner)
            each = inner

    def _first_in_other_order(self) -> Blamed | None:
        """The first expression with right numbers in an order that the reference has nowhere."""
        order = WrongOrder(self.root, self.seen, self.is_right)
        firsts = order.firsts()
        if not firsts:
            return None
        number = order.wrong_number(firsts)
        return order.blamed(firsts[0]) if number is None else Search(number, None, self.seen, self.defaults).first()

    def _handed_over(self, found: Blamed | None) -> Blamed | None:
        """The call that gives a helper another of its parameters, where that explains it."""
        if found is None or not self._own:
            return found
        taken = shared_files.place(found.chain, self.defaults)
        if taken is not None:
            return Blamed(taken, [taken, *found.chain], found.reference, placed=True)
        call = crossed_names.place(found.chain, self._own, lambda number: self.seen.has_numbers(np.array([number])))
        return found if call is None else Blamed(call, [call, *found.chain], found.reference, placed=True)

    def _placed(self, each: Expression, due: Expression | None, inner: Expression | None) -> Expression | None:
        """Where an operand of ``each`` became another one than the reference takes."""
        if not self._own or each.is_copy:
            return None
        known = self._counterparts()
        rows = other_rows.place(each, known, self._own)
        is_right = inner is None or (has_telling_order(inner) and self.is_right(inner))
        return rows or (other_operand.place(each, due, known) if is_right else None)

    def _counterparts(self) -> Counterparts:
        if self._known is None:
            self._known = Counterparts(self.defaults, self._own)
        return self._known

    def _unlike_counterpart(self, each: Expression, due: Expression | None) -> list[tuple[Expression, Expression | None]]:
        """The one operand that seems right, and that the reference does not take there."""
        apart = counterpart_operand.differing(each, due, self._counterparts()) if self._own else None
        if apart is None:
            return []
        is_right = self.is_right(apart.own) is not False or identity(apart.own) in self._led
        if not apart.is_only_ordered and is_right and self._is_made_as_a_whole(apart.own):
            return []
        if identity(apart.own) in self._led and _are_near(apart.own, apart.due):
            return []  # a stage found right what it led to: rounding alone lies between
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
        due = None if due is None else before_copies_and_casts(due)
        if each.is_copy:
            return (None if self._is_call_at_fault(each) else each.values[0][1]), due
        same = number_before_cast(each)
        if same is not None and (self.is_right(same) is False or (due is not None and is_equal(same, due) is False)):
            return same, due
        setting = setting_of(each)
        if setting is not None:
            return (None if self._is_written_alike(setting) else setting), setting_of(due) or due
        stored = stored_in(each)
        return (stored, due) if stored is not None else self._wrong_operand(each, due)

    def _wrong_operand(self, each: Expression, due: Expression | None) -> tuple[Expression | None, Expression | None]:
        """As :meth:`_wrong_input`, of a value that something made."""
        known = [(role, inner) for role, inner in numbered_roles(each.values) if inner.kind != "input"]
        if self._is_wrong_part(each):
            known = [(role, inner) for role, inner in known if role != "object"]
        if not known or (each.kind in READINGS and each.mark[0] == "s" and each.numbers is not None and self.seen.has(each)):
            return None, due  # what an object holds besides that number is no part of it
        converted = number_before_call(each, known)
        if converted is not None:
            return converted, before_last_call(due)
        wrong, doubtful = self._wrong_of(known, self._beside(each, due))
        if each.kind == "item" and wrong and all(are_whole_numbers(inner) for inner, _ in wrong):
            wrong, doubtful = [], wrong  # each side may take its parts by places of its own
        wrong = wrong or self._of_right_ones(each, known, due) or doubtful
        if not any(inner.numbers is not None or self._has_wrong_number(inner) for inner, _ in wrong):
            unseen = self._unseen_number(each, known)
            if unseen is not None or not wrong:
                return unseen, due
        if any(lacks_an_operand(each, inner, twin) or self._lacks_a_step(inner, twin) for inner, twin in wrong):
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
        return found or self._of_strange_series(each) or self._otherwise_coded(each)

    def _lacks_a_step(self, inner: Expression, twin: Expression | None) -> bool:
        """Whether an operand is a plain number of which the reference computes its own.

        ``step`` for ``step + 1``.
        """
        if inner.uncopied.kind in ("operation", "call") or twin is None:
            return False
        twin = twin.uncopied
        if twin.kind != "operation" or inner.mark[0] != "s" or not self.is_right(inner):
            return False
        return any(is_equal(inner, before) for _, before in twin.values)

    def _plainness(self, each: Expression) -> tuple[bool, bool, bool, bool, int]:
        """The order in which wrong operands are looked at: numbers, files' ones, the first.

        One of the numbers that stand everywhere tells less than a list with a wrong array, and what the reference makes for something else
        less than what it makes nowhere.
        """
        if each not in self._whole:
            self._whole[each] = bool(self._own) and has_telling_order(each) and self._is_made_as_a_whole(each)
        is_made = self._whole[each]
        has_no_number = each.numbers is None and not self._holds_wrong_array(each)
        return is_common_number(each), is_made, has_no_number, not is_from_file(each), each.number

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
        lists = [inner for _, inner in known if is_short_list(inner)]
        found = [inner for inner in lists if self._orders.get(sorted_elements(inner)) and not self._has_order(inner)]
        return [(found[0], None)] if len(found) == 1 else []

    def _has_order(self, each: Expression) -> bool:
        return [*map(repr, each.mark[1])] in self._orders[sorted_elements(each)]

    @cached_property
    def _orders(self) -> dict[tuple[str, ...], list[list[str]]]:
        """The elements of the reference's short lists -> the orders in which it has them."""
        found: dict[tuple[str, ...], list[list[str]]] = {}
        for each in filter(is_short_list, self.defaults):
            orders = found.setdefault(sorted_elements(each), [])
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

    def _otherwise_coded(self, each: Expression) -> list[tuple[Expression, Expression | None]]:
        """The operand whose few numbers stand otherwise in the reference's arrays of its size."""
        if not self._own:
            return []
        found = self._codes.made_otherwise(each)
        return [] if found is None or self._leads_to_known(found) else [(found, None)]

    @cached_property
    def _codes(self) -> Codes:
        """The arrays of few numbers that the reference has."""
        return Codes(self.defaults)

    def _leads_to_known(self, each: Expression) -> bool:
        """Whether something that the reference has as a whole was made of a value."""
        made = reached(each.users, lambda e: [] if e is self.root or (e.kind not in FAITHFUL and not e.is_copy) else e.users)
        return any(self._shows(e) and not self._codes.is_strange(e) for e in made if not e.is_copy and e.kind in FAITHFUL)

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
            if role not in CALLED and is_common_number(inner) and inner.numbers is not None and not seen.has_numbers(inner.numbers):
                unseen.append(inner)
        if len(unseen) != 1:
            return None
        self._strict.add(unseen[0])
        return unseen[0]

    def _is_written_alike(self, setting: Expression) -> bool:
        """Whether the reference's files have the entry too: then another should be taken.

        Where its own place there, in tables or a list of as many, has another value, that counts.
        """
        entries = [e for e in self.defaults if e.kind == SETTING and e.label == setting.label]
        if setting.turn is not None and any(e.turn == setting.turn and e.mark != setting.mark for e in entries):
            return False
        return any(e.mark == setting.mark for e in entries)

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
        alike = same_work.beside(each, due) if self._own and (due.kind != each.kind or due.word != each.word) else {}
        if alike or due.kind != each.kind:
            return alike
        theirs, own = dict(numbered_roles(due.values)), dict(numbered_roles(each.values))
        if each.kind == "call" and due.word != each.word:  # StepLR and StepDecay: arguments of one name
            return {role: inner for role, inner in theirs.items() if role in own and not role.isdecimal() and role not in CALLED}
        if due.word != each.word or set(theirs) != set(own):
            return {}
        if each.label in _EXCHANGEABLE and set(own) == {"left", "right"}:
            crossed = [is_equal(own["left"], theirs["right"]), is_equal(own["right"], theirs["left"])]
            straight = [is_equal(own[role], theirs[role]) for role in ("left", "right")]
            if crossed.count(True) > straight.count(True):
                return {"left": theirs["right"], "right": theirs["left"]}
        return theirs


def _are_near(one: Expression, other: Expression | None) -> bool:
    """Whether two values have the same numbers but for what float32 makes of a long way."""
    if other is None or one.numbers is None or other.numbers is None or one.numbers.shape != other.numbers.shape:
        return False
    far = NEAR * max(float(np.max(np.abs(other.numbers), initial=0.0)), 1e-30)
    return bool(np.all(np.abs(one.numbers - other.numbers) <= far))
