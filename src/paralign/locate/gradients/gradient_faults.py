"""Where gradients part: what comes in matches, what goes out does not.

The values of the forward pass say which gradients belong together. The search starts from wrong gradients of parameters and follows
the values towards the loss for as long as their gradients are wrong or not comparable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.locate.gradients.flow import Edges, cut, factor_of, multiplied
from paralign.locate.reaching import reached
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.judgement import OWN
from paralign.locate.runs.traverse import common, made_by, makers, users_of
from paralign.locate.source.call_arguments import differing_values
from paralign.locate.source.statements import custom_backward

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: gradients may differ by this share at least, and by some of the reference's own noise up to this share at most
LEAST, MOST = 5e-6, 1e-3

#: a gradient of which the reference itself knows less is not judged
UNKNOWN = 0.1

#: gradients of this share of the largest of a parameter are rounding, as that of a key's bias before a softmax is
VANISHING = 1e-11


class Wrong(Enum):
    """What is wrong with a gradient."""

    #: the one that comes in is right, the one that goes out is not
    DIFFERENT = "gradient"
    #: it is a multiple of the right one
    FACTOR = "factor"
    #: the value is cut off from what follows
    DETACHED = "detached"
    #: the parameter is frozen
    FROZEN = "frozen"
    #: one comes in and none goes out
    ABSENT = "no gradient"
    #: there is one, and none in the reference
    KEPT = "kept"


@dataclass(eq=False)
class Fault:
    """A wrong gradient with right gradients before it.

    ``value`` is the candidate's value whose gradient is wrong, ``due`` the reference's; ``operation`` is the candidate's operation at
    fault, None for a parameter that is frozen on one side. ``factor`` is the candidate's gradient as a multiple of the reference's,
    where it is one, ``scaled`` whether what the operation makes is a multiple of a value of the reference. ``cut`` is the reference's
    operation that lets no gradient through, where only the candidate has one, and ``beside`` the one before or after it in whose place
    ``operation`` stands. ``taker`` is what takes the value on, where the cut stands on a line between the two.
    """

    what: Wrong
    value: Value
    due: Value
    operation: Operation | None
    error: float
    factor: float | None = None
    cut: Operation | None = None
    beside: Operation | None = None
    taker: Operation | None = None
    scaled: bool = False
    confirmed: bool = False
    wrong_before: int = 0
    wrong_after: int | None = None


#: kinds of operations whose results may hold just what they take
HANDED_ON = MOVES | {"slice"}


class Gradients:
    """The gradients of a candidate's run, judged.

    Args:
        judgement: of the values of the forward pass.
        noise: number of a reference record -> how far the reference's gradient there is from itself.
        names: the candidate's parameters -> the reference's, where one became one.
    """

    def __init__(self, judgement: Judgement, noise: dict[int, float], names: dict[str, str]) -> None:
        self.judgement, self.noise = judgement, noise
        self._names = names
        given = {v.record.name: v for v in judgement.reference.values.values() if v.maker is None and v.is_parameter}
        self._parameters = given
        self._status: dict[Value, tuple[float | None, Value | None]] = {}
        self._useful = _ancestors(judgement.candidate.loss)
        self._edges = Edges(judgement, self._partners)
        sizes = [_rms(v) for v in given.values()]
        self._nothing = VANISHING * max(sizes, default=0.0)

    def status(self, value: Value) -> tuple[float | None, Value | None]:
        """How far a gradient is from the reference's (infinite if missing), and that value.

        0 for what is within noise, None where there is nothing to compare it with.
        """
        if value not in self._status:
            self._status[value] = self._compare(value)
        return self._status[value]

    def _compare(self, value: Value) -> tuple[float | None, Value | None]:
        """As :meth:`status`, computed."""
        kept = self.kept(value) if value.maker is None else None
        if kept is not None:
            return math.inf, kept
        partners = [p for p in self._computed(value) if p.gradient_digest is not None]
        if not partners:
            return None, None
        known = [p for p in partners if self._noise_of(p) < UNKNOWN]
        if not known or max(map(_rms, (value, *partners))) <= self._nothing:
            return 0.0, partners[0]
        mine = value.gradient_digest
        if mine is None:
            return (math.inf if self._lacks(value) else 0.0), known[0]
        distances = [(digests.distance(p.gradient_digest or "", mine), p) for p in known]
        far, partner = min(distances, key=lambda item: item[0])
        if far <= max(LEAST, min(MOST, OWN * self._noise_of(partner))):
            return 0.0, partner
        return (None, None) if self._is_part(value) else (far, partner)

    def _noise_of(self, value: Value) -> float:
        """How far the reference's gradient of a value is from itself."""
        return self.noise.get(value.record.id, 0.0)

    def _computed(self, value: Value) -> list[Value]:
        """A value's partners; where one on each side was computed, not moved, that one alone."""
        partners = self._partners(value)
        if not _is_computed(value):
            return partners
        computed = list(filter(_is_computed, partners))
        same = list(filter(_is_computed, self.judgement.backwards.equals(value)))
        return computed if len(computed) == 1 == len(same) else partners

    def _not_right(self, value: Value) -> bool:
        return value in self._useful and self.status(value)[0] != 0.0

    def _is_part(self, value: Value) -> bool:
        """Whether a value was moved from one that others take: its gradient is then a part."""
        if value.maker is None or _is_computed(value):
            return False
        for before in value.maker.inputs:
            if not self._holds_the_same(before, value):
                continue
            if len(self._useful_users(before)) > 1 or self._is_part(before):
                return True
        return False

    def _holds_the_same(self, one: Value, other: Value) -> bool:
        if one.digest is None or other.digest is None:
            return False
        return digests.distance(one.digest, other.digest) <= self.judgement.scale.equal

    def _useful_users(self, value: Value) -> list[Operation]:
        """The operations that take a value on the way to the loss."""
        return [user for user in value.users if not self._useful.isdisjoint(user.outputs)]

    def _takers(self, value: Value) -> list[tuple[Operation, Value]]:
        """The operations that compute with a value, and what they take of it, moved or not."""
        found: list[tuple[Operation, Value]] = []
        todo, seen = [value], {value}
        while todo:
            item = todo.pop(0)
            for user in self._useful_users(item):
                handed_on = self._handed_on(user, item)
                if not handed_on:
                    found.append((user, item))
                todo += [o for o in handed_on if o not in seen]
                seen.update(handed_on)
        return found

    def _handed_on(self, user: Operation, value: Value) -> list[Value]:
        """What an operation hands on of a value as it is, with its gradient."""
        if user.kind not in HANDED_ON or _is_custom(user):
            return []
        hooked = self.judgement.candidate.hooked
        return [o for o in user.outputs if o.record.id in hooked and self._holds_the_same(value, o)]

    def _lacks(self, value: Value) -> bool:
        """Whether a value lacks the gradient that the reference's counterpart has."""
        taken = [t for user in value.users for t in self._edges.taken(user, value)]
        if taken:
            return any(_rms(t) > 0.0 for t in taken)
        return all(_rms(p) > 0.0 for p in self._partners(value) if p.users)  # PyTorch puts copies by that nothing takes

    def _partners(self, value: Value) -> list[Value]:
        if value.maker is None and value.is_parameter:
            twin = self._parameter(value)
            return [] if twin is None else [twin]
        if not self.judgement.is_established(value):
            return []
        return [p for p in self.judgement.partners(value) if not p.is_parameter and p.size == value.size]

    def _parameter(self, value: Value) -> Value | None:
        """The reference's parameter that a parameter is, by name; else by its values."""
        twin = self._parameters.get(self._names.get(value.record.name, ""))
        if twin is not None or not is_telling(value):
            return twin
        same = [p for p in self.judgement.partners(value) if p.is_parameter]  # it was taken apart or put together
        return same[0] if len(same) == 1 else None

    def kept(self, value: Value) -> Value | None:
        """The reference's value where the candidate's has a gradient and the reference's has none."""
        if value.gradient is None or _rms(value) <= self._nothing:
            return None
        partners = self._partners(value)
        if not partners or any(p.gradient is not None for p in partners):
            return None
        return partners[0]

    def wrong_parameters(self) -> list[Value]:
        """The parameters whose gradients are wrong, missing, or one too many."""
        given = [v for v in self.judgement.candidate.values.values() if v.maker is None and v.is_parameter]
        return [v for v in given if self.status(v)[0]]

    def faults(self) -> list[Fault]:
        """Every wrong gradient with right gradients before it, the nearest to the loss first."""
        found: dict[Value, Fault] = {}
        starts: list[Value] = []
        for value in self.wrong_parameters():
            if self.kept(value) is not None:
                found.update(self._all_kept(value))
            else:
                starts.append(value)
        for value in reached(starts, self._worse):
            far, due = self.status(value)
            if not far or due is None:
                continue
            if not any(map(self._leads_on, self._worse(value))):
                found[value] = self._fault(value, due, far)
        return sorted(found.values(), key=lambda fault: -fault.value.order)

    def _worse(self, value: Value) -> list[Value]:
        """What is made of a value on the way to the loss whose gradient is not right."""
        return [made for made in self._onward(value) if self.status(made)[0] != 0.0]

    def _onward(self, value: Value) -> list[Value]:
        """What is made of a value on the way to the loss."""
        return [made for made in made_by(value.users) if made in self._useful]

    def _leads_on(self, value: Value) -> bool:
        """Whether a further gradient on the way is wrong, past what cannot be compared."""
        return any(self.status(each)[0] for each in reached([value], self._past_unknown))

    def _past_unknown(self, value: Value) -> list[Value]:
        """What is made of a value whose gradient cannot be compared; nothing of another one."""
        return self._onward(value) if self.status(value)[0] is None else []

    def _fault(self, value: Value, due: Value, far: float) -> Fault:
        """What is wrong with a gradient that has right gradients before it."""
        if value.record.name in self.judgement.candidate.frozen and value.maker is None:
            return Fault(Wrong.FROZEN, value, due, None, far)
        takers = self._takers(value)
        users = [user for user, _ in takers]
        ends = self._where_it_ends(value, users)
        if ends is not None:
            return Fault(Wrong.DETACHED, value, due, ends, far)
        if value.gradient is None:
            return Fault(Wrong.ABSENT, value, due, users[0] if users else value.maker, far)
        return self._one_too_many(value, due, takers) or self._wrong_backward(value, due, far, users)

    def _one_too_many(self, value: Value, due: Value, takers: list[tuple[Operation, Value]]) -> Fault | None:
        """The fault of a gradient to which something adds that the reference keeps out."""
        kept = self._kept_by(value, takers, due)
        if kept is not None:
            return kept
        for further in made_by(user for user, _ in takers):
            if self.kept(further) is not None:
                return next(iter(self._all_kept(further).values()))
        return None

    def _wrong_backward(self, value: Value, due: Value, far: float, users: list[Operation]) -> Fault:
        """The fault of a gradient that is a multiple, cut off further on, or another one."""
        factor = factor_of(due, value)
        if factor is not None:
            scaled = multiplied(self.judgement, value, factor, self._not_right)
            return Fault(Wrong.FACTOR, value, due, scaled or self._guilty(value, users), far, factor, scaled=scaled is not None)
        ends = None if self._cuts_there(due) else self._cut_behind(value)
        if ends is not None:
            return Fault(Wrong.DETACHED, value, due, ends, far)
        return Fault(Wrong.DIFFERENT, value, due, self._guilty(value, users), far)

    def _where_it_ends(self, value: Value, users: list[Operation]) -> Operation | None:
        """The operation of the candidate that cuts a value off from what follows."""
        if value.gradient is not None:
            return self._cutting(users)
        return cut(self.judgement.candidate, value, self._expects) or self._cut_behind(value)

    def _expects(self, value: Value) -> bool:
        """Whether a value has a gradient in the reference, as far as it is known there."""
        partners = self._partners(value)
        if not partners:
            return True
        return any(_rms(p) > self._nothing for p in partners)

    def _cutting(self, users: list[Operation]) -> Operation | None:
        """The operation that hands a value on without gradient, unlike the reference's."""
        graph = self.judgement.candidate
        for user in users:
            if user.kind != "copy":
                continue
            dead = [o for o in user.outputs if o in self._useful and o.record.id not in graph.hooked]
            if dead and not any(map(self._is_cut_too, dead)):
                return user
        return None

    def _cut_behind(self, value: Value) -> Operation | None:
        """The operation that cuts off what was computed with a value."""

        def without_gradient(each: Value) -> list[Value]:
            return [o for o in made_by(self._useful_users(each)) if o.gradient is None]

        for each in reached([value], without_gradient, nearest_first=True):
            ends = self._cutting(self._useful_users(each))
            if ends is not None:
                return ends
        return None

    def _cuts_there(self, due: Value) -> bool:
        """Whether the reference hands a value on without gradient anywhere."""
        return any(_hands_on_without(self.judgement.reference, user) for user in due.users)

    def _is_cut_too(self, value: Value) -> bool:
        """Whether the reference also hands a value on without gradient, as far as known."""
        if any(self._edges.live(user, value) for user in value.users):
            return False
        if any(self._edges.dead(user, value) is not None for user in value.users):
            return True
        hooked = self.judgement.reference.hooked
        return any(p.maker is not None and p.users and p.record.id not in hooked for p in self._partners(value))

    def _kept_by(self, value: Value, takers: list[tuple[Operation, Value]], due: Value) -> Fault | None:
        """The fault of a gradient that an operation lets through and its counterpart does not."""
        reference, candidate = self.judgement.reference, self.judgement.candidate
        if value.record.id not in candidate.hooked:
            return None
        for user, taken in takers:
            dead = self._edges.dead(user, taken)
            ends = cut(reference, dead, lambda _: True) if dead is not None else None
            if ends is None or all(o.gradient is None for o in user.outputs):
                continue
            begin = self._begin_behind(ends, value)
            if begin is not None:
                return Fault(Wrong.KEPT, value, due, begin, math.inf, cut=ends, beside=self._edges.counterpart(begin))
            hooked = makers(v for v in ends.inputs if v.record.id in reference.hooked)
            before = hooked[0] if hooked else None
            after = self._edges.counterpart(user)
            shared = common(ends, before) if before is not None else 0
            if value.maker is None or (after is not None and common(ends, after) > shared):
                return Fault(Wrong.KEPT, value, due, user, math.inf, cut=ends, beside=after)
            is_between = not any(other is not None and common(ends, other) == len(ends.stack) for other in (before, after))
            return Fault(Wrong.KEPT, value, due, value.maker, math.inf, cut=ends, beside=before, taker=user if is_between else None)
        return None

    def _begin_behind(self, ends: Operation, value: Value) -> Operation | None:
        """The one operation before a value whose counterpart takes what was cut."""
        before = reached(makers([value]), lambda operation: makers(v for v in operation.inputs if self.kept(v) is not None))
        twins = [(operation, self._edges.counterpart(operation)) for operation in before]
        found = [operation for operation, twin in twins if twin is not None and any(v.maker is ends for v in twin.inputs)]
        return found[0] if len(found) == 1 else None

    def _all_kept(self, value: Value) -> dict[Value, Fault]:
        """Where a gradient comes from that the reference has not: the last values with one."""
        due = self.kept(value)
        if due is not None and value.maker is None and due.record.name in self.judgement.reference.frozen:
            return {value: Fault(Wrong.KEPT, value, due, None, math.inf)}
        found: dict[Value, Fault] = {}
        seen: set[Value] = set()
        todo = [value]
        while todo:
            item = todo.pop()
            due = self.kept(item)
            if item in seen or due is None:
                continue
            seen.add(item)
            fault = self._kept_by(item, self._takers(item), due)
            worse = [o for o in self._onward(item) if self.kept(o) is not None]
            if fault is None and worse:
                todo += worse
                continue
            if fault is None:
                operation = item.maker or next(iter(self._useful_users(item)), None)
                fault = Fault(Wrong.KEPT, item, due, operation, math.inf, cut=self._reference_cut(item))
            found[item] = fault
        return found

    def _reference_cut(self, value: Value) -> Operation | None:
        """The reference's operation at which the gradient ends that the candidate lets through."""
        graph = self.judgement.reference
        hooked: list[Value] = []
        for partner in self._partners(value):
            if partner.record.id in graph.hooked:
                hooked.append(partner)
                continue
            ends = cut(graph, partner, lambda _: True)
            if ends is not None:
                return ends
        for user in users_of(hooked):
            if _hands_on_without(graph, user):
                return user
        return None

    def _guilty(self, value: Value, users: list[Operation]) -> Operation | None:
        """The likeliest of several operations that a wrong gradient comes from.

        A backward function of one's own comes first, or what takes the value where the reference has one.
        """
        custom = list(filter(_is_custom, users)) or self._behind_custom(value, users)
        if custom:
            return custom[-1]
        computing = [user for user in users if user.kind not in MOVES] or users
        other_kind: list[Operation] = []
        other_arguments: list[Operation] = []
        for user in computing:
            twin = self.judgement.counterpart(user)
            if twin is None:
                other_kind.append(user)
            elif told_otherwise(user, twin):
                other_arguments.append(user)
        likeliest = other_arguments or other_kind or computing
        return likeliest[-1] if likeliest else None

    def _behind_custom(self, value: Value, users: list[Operation]) -> list[Operation]:
        """What stands where the reference takes the result of a backward function of its own."""
        theirs = set(made_by(filter(_is_custom, users_of(self._partners(value)))))
        if not theirs:
            return []
        found: list[Operation] = []
        for user in users:
            counterpart = self._edges.counterpart(user)
            if counterpart is not None and not theirs.isdisjoint(counterpart.inputs):
                found.append(user)
        return found


def _is_custom(operation: Operation) -> bool:
    """Whether the line of an operation is in a backward function of the program's own."""
    return operation.source is not None and custom_backward(operation.source) is not None


def _hands_on_without(graph: Graph, operation: Operation) -> bool:
    """Whether an operation hands a value on without a place for its gradient."""
    if operation.kind != "copy":
        return False
    return any(made.record.id not in graph.hooked for made in operation.outputs)


def _is_computed(value: Value) -> bool:
    """Whether a value was computed, and not only handed on."""
    return value.maker is not None and value.maker.kind not in HANDED_ON


def told_otherwise(operation: Operation, twin: Operation) -> bool:
    """Whether two operations of one kind differ in an argument of both frameworks."""
    return bool(differing_values(operation.arguments, twin.arguments))


def _rms(value: Value) -> float:
    """The root mean square of a value's gradient, 0 without one."""
    digest = value.gradient_digest
    return 0.0 if digest is None else digests.size_and_rms(digest)[1]


def _ancestors(value: Value | None) -> set[Value]:
    """A value and all that it was computed of."""
    starts = [value] if value is not None else []
    return set(reached(starts, lambda each: each.maker.inputs if each.maker is not None else ()))
