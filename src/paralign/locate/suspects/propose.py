"""Suspects: right inputs and wrong results; what the reference has in their place."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.locate.reaching import reached
from paralign.locate.runs.counterparts import SLIGHT, digests_of, is_telling, same_shape
from paralign.locate.runs.traverse import before_any_moves, computing_users, made_by, makers, taken_by, users_of, way_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement

#: operations behind a suspect that are searched for one that the reference has too
REACH = 400

#: reference operations that are followed from a suspect's inputs
CHAIN = 6


class Reason(Enum):
    """How the value that is put in place was found."""

    #: the same elements in the reference's order
    ORDER = "order"
    #: the reference's operation on the same values
    TWIN = "twin"
    #: what the reference hands to the operation that takes the value
    CONSUMER = "consumer"
    #: what that operation makes
    RESULT = "result"
    #: the nearest value
    ALIKE = "alike"
    #: the suspect's own input
    IDENTITY = "identity"
    #: what the reference makes of the input in more steps
    CHAIN = "chain"
    #: what it makes of the input, where both sides go on alike
    MEETING = "meeting"
    #: what only the reference has, of the shape of a constant
    CONSTANT = "constant"
    #: what the reference makes of an input of a layer first; several take that input, and what comes of them would not fit together if
    #: only one of them got it
    BEFORE = "before"
    #: an output
    OUTPUT = "output"
    #: an output that something is missing after
    END = "end"
    #: none was found
    NONE = "none"


@dataclass(eq=False)
class Trial:
    """An experiment: put the reference's ``due`` in place of the candidate's ``value``.

    ``suspect`` is the operation with right inputs that started it; ``region`` the operations whose results are wrong up to ``value``.
    ``why`` says how the due value was found.
    """

    suspect: Operation
    value: Value
    due: Value
    why: Reason
    twin: Operation | None = None
    region: list[Operation] = field(default_factory=list)


def suspects(judgement: Judgement) -> list[Operation]:
    """Operations of right inputs and wrong results behind a wrong output, likeliest first.

    Where no output is wrong: those of which the reference has the very twin, whose result is near but not the same.
    """
    if judgement.wrong_outputs():
        frontier = _frontier(judgement)
    else:
        frontier = [o for o in judgement.candidate.operations if differs_slightly(judgement, o)]
    if judgement.scale.thorough:  # small errors add up: the first of them made the others; what resembles nothing goes another way
        return sorted(frontier, key=lambda o: (not _is_slightly_wrong(judgement, o), o.order))
    return sorted(frontier, key=lambda o: (rank(judgement, o), o.order))


def _is_slightly_wrong(judgement: Judgement, operation: Operation) -> bool:
    """Whether a result of an operation is wrong, but near a value of the reference."""
    return any(v in judgement.wrong and judgement.error[v] <= SLIGHT for v in operation.outputs)


def _frontier(judgement: Judgement) -> list[Operation]:
    """Operations with right inputs that made an output wrong, disordered or idle."""
    carrying = judgement.carrying()
    orders = _disordering(judgement, carrying)
    frontier: list[Operation] = []
    for operation in carrying:
        if any(not judgement.is_right(v) and v.maker is not None for v in operation.inputs):
            continue
        # what takes elements in a wrong order is not to blame before what brought them into it
        if operation in orders or all(judgement.disorder(v) not in orders for v in operation.inputs):
            frontier.append(operation)
    frontier += [o for o in orders if o not in frontier]
    return frontier + [o for o in _idle_before(judgement, frontier) if o not in frontier]


def _disordering(judgement: Judgement, carrying: Iterable[Operation]) -> list[Operation]:
    """The operations that brought elements of right values into another order."""
    ends = [v for v in taken_by(carrying) if judgement.is_right(v)]
    ends += [second for _, second in judgement.wrong_outputs()]
    found: list[Operation] = []
    for operation in dict.fromkeys(map(judgement.disorder, ends)):
        if operation is None:
            continue
        if judgement.takes_right(operation):
            found.append(operation)
    return found


def _idle_before(judgement: Judgement, frontier: list[Operation]) -> list[Operation]:
    """The idle operations before suspects, where the reference's have an effect."""
    before = dict.fromkeys(before_any_moves(v) for v in taken_by(frontier) if judgement.is_right(v))
    return [maker for maker in makers(before) if is_idle(judgement, maker)]


def is_idle(judgement: Judgement, operation: Operation) -> bool:
    """Whether an operation has no effect, and its twin of the same kind has one."""
    if operation.kind in MOVES or len(operation.outputs) != 1 or not is_telling(operation.outputs[0]):
        return False
    if not any(_is_near(judgement, v, operation.outputs[0]) for v in operation.inputs):
        return False
    if any(v.is_parameter and judgement.is_right(v) for v in map(before_any_moves, operation.inputs)):
        return False  # a bias of zeros has no effect in either program
    counterpart = judgement.counterpart(operation)
    return counterpart is not None and all(map(judgement.lacking, counterpart.outputs))


def _is_near(judgement: Judgement, value: Value, other: Value) -> bool:
    """Whether two values hold the same, but for noise."""
    if value.digest is None or other.digest is None:
        return False
    if value.digest == other.digest:
        return True
    return digests.distance(value.digest, other.digest) <= judgement.scale.own * judgement.scale.floor


def differs_slightly(judgement: Judgement, operation: Operation) -> bool:
    """Whether an operation does nearly what its twin does, unseen in the outputs."""
    if operation.kind in MOVES or not judgement.takes_right(operation):
        return False
    wrong = [v for v in operation.outputs if v in judgement.wrong and v.users and is_telling(v)]
    if not wrong:
        return False
    counterpart = judgement.counterpart(operation)
    if counterpart is None or not judgement.same_inputs(operation, counterpart):
        return False
    return any(judgement.matches.nearest(v)[1] in counterpart.outputs for v in wrong)


def rank(judgement: Judgement, operation: Operation) -> int:
    """How likely a suspect is at fault, 0 the likeliest, by what the reference does."""
    if all(map(judgement.is_complement, operation.outputs)):
        return 4
    if any(map(judgement.disordered, operation.outputs)) or is_idle(judgement, operation):
        return 0
    twin = judgement.twin(operation)
    if twin is None or not any(map(judgement.lacking, twin.outputs)):
        return 3
    if twin.kind == operation.kind:
        return 0 if judgement.same_inputs(operation, twin) else 1
    return 2 if judgement.same_inputs(operation, twin) else 3


def trials(judgement: Judgement, suspect: Operation) -> Iterator[Trial]:
    """What may be due in a suspect's place, the nearest first, without regions."""
    seen: set[tuple[Value, Value]] = set()
    for trial in _trials(judgement, suspect):
        if (trial.value, trial.due) not in seen and fits(trial.value, trial.due):
            seen.add((trial.value, trial.due))
            yield trial


def _trials(judgement: Judgement, suspect: Operation) -> Iterator[Trial]:
    wrong = suspect.outputs if is_idle(judgement, suspect) else [v for v in suspect.outputs if v in judgement.wrong]
    for value in filter(judgement.disordered, suspect.outputs):
        yield from _by_order(judgement, suspect, value)
    twin, counterpart = judgement.twin(suspect), judgement.counterpart(suspect)
    found = list(_by_consumers(judgement, suspect))
    direct = [trial for trial in found if trial.value.maker is suspect]
    if counterpart is not None:
        yield from _by_twin(suspect, counterpart, wrong)
    yield from direct
    if twin is not None and counterpart is None:
        yield from _by_twin(suspect, twin, wrong)
    for value in wrong:
        near = judgement.matches.nearest(value)[1]
        if near is not None and judgement.lacking(near):
            yield Trial(suspect, value, near, Reason.ALIKE, near.maker)
    if counterpart is not None:
        yield from _by_inputs(judgement, suspect, counterpart)
    yield from _by_identity(judgement, suspect, wrong)
    yield from _by_chain(judgement, suspect, wrong)
    yield from _by_meeting(judgement, suspect)
    yield from (trial for trial in found if trial.value.maker is not suspect)
    yield from _by_constants(judgement, suspect)
    for first, second in judgement.wrong_outputs():
        yield Trial(suspect, second, first, Reason.OUTPUT, first.maker)


def _by_twin(suspect: Operation, twin: Operation, wrong: list[Value]) -> Iterator[Trial]:
    """The twin's results are due; also for what adds a parameter that the twin takes."""
    taken = {v.shape for v in twin.inputs if v.is_parameter} - {v.shape for v in suspect.inputs}
    if taken and len(wrong) == 1:
        for result in results(suspect)[1:]:
            if _adds_parameter(result, taken):
                yield Trial(suspect, result, twin.outputs[0], Reason.TWIN, twin)
    for value in wrong:
        same = [v for v in twin.outputs if v.place == value.place] + list(twin.outputs)
        for due in same[:2]:
            yield Trial(suspect, value, due, Reason.TWIN, twin)


def _adds_parameter(value: Value, shapes: set[tuple[int, ...]]) -> bool:
    """Whether a value was made with a parameter of one of some shapes."""
    if value.maker is None:
        return False
    given = map(before_any_moves, value.maker.inputs)
    return any(v.is_parameter and v.shape in shapes for v in given)


def _by_inputs(judgement: Judgement, suspect: Operation, twin: Operation) -> Iterator[Trial]:
    """What the reference's layer takes is due for all that take the candidate's input."""
    if not suspect.takes_parameter:
        return
    for value in suspect.inputs:
        if value in twin.inputs or not judgement.is_established(value) or len(computing_users(value)) <= 1:
            continue
        known = set(judgement.partners(value))
        for due in _others(judgement, suspect, twin):
            if judgement.lacking(due) and not known.isdisjoint(taken_by(way_to(judgement, due, CHAIN))):
                yield Trial(suspect, value, due, Reason.BEFORE, due.maker)


def _by_order(judgement: Judgement, suspect: Operation, value: Value) -> Iterator[Trial]:
    """The reference's order of the same elements, as the same kind of step made it first."""
    for due in sorted(judgement.partners(value), key=lambda p: p.maker is None or p.maker.kind != suspect.kind):
        if same_shape(due, value):
            yield Trial(suspect, value, due, Reason.ORDER, due.maker)


def _by_identity(judgement: Judgement, suspect: Operation, wrong: list[Value]) -> Iterator[Trial]:
    """A step that the reference does not have: its input is due in place of its result."""
    for value in wrong:
        for taken in suspect.inputs:
            if judgement.is_established(taken) and taken.shape == value.shape:
                for due in judgement.partners(taken)[:1]:
                    yield Trial(suspect, value, due, Reason.IDENTITY, due.maker)


def _by_consumers(judgement: Judgement, suspect: Operation) -> Iterator[Trial]:
    """Follow a suspect's wrong results to operations of which the reference has a twin."""
    todo = deque(suspect.outputs)
    seen: set[Operation] = set()
    while todo and len(seen) < REACH:
        value = todo.popleft()
        for user in value.users:
            if user in seen:
                continue
            seen.add(user)
            twin = judgement.counterpart(user)
            if twin is not None and value in judgement.wrong:
                for due in _others(judgement, user, twin):
                    yield Trial(suspect, value, due, Reason.CONSUMER, twin)
                for result in results(user):
                    yield Trial(suspect, result, twin.outputs[0], Reason.RESULT, twin)
            todo.extend(v for v in user.outputs if v in judgement.wrong)


def results(operation: Operation) -> list[Value]:
    """What an operation makes, and what is made of that with a parameter: a bias."""
    found = list(operation.outputs[:1])
    for user in users_of(operation.outputs):
        if user.takes_parameter or any(map(_is_moved_only, user.inputs)):
            found += user.outputs[:1]
    return found


def _is_moved_only(value: Value) -> bool:
    """Whether a value was moved from what was given, and not computed."""
    return value.maker is not None and value.maker.kind in MOVES and not is_computed(value)


def is_computed(value: Value) -> bool:
    """Whether a value was computed, not only moved, from what was given."""
    return before_any_moves(value).maker is not None


def _others(judgement: Judgement, user: Operation, twin: Operation) -> list[Value]:
    """The twin's inputs that the user does not take: one stands for a wrong input."""
    taken = digests_of(judgement.partners_of(filter(judgement.is_right, user.inputs)))
    return [v for v in twin.inputs if v.maker is not None and v.digest not in taken]


def _shared_inputs(judgement: Judgement, operation: Operation) -> list[Value]:
    """The reference's values that the established inputs of an operation are."""
    found: list[Value] = []
    for value in filter(judgement.is_established, operation.inputs):
        found += judgement.partners(value)
    return found


def _by_chain(judgement: Judgement, suspect: Operation, wrong: list[Value]) -> Iterator[Trial]:
    """Follow the reference from the suspect's inputs to a result of the same kind."""
    todo = deque((value, 0) for value in _shared_inputs(judgement, suspect))
    seen: set[Operation] = set()
    while todo:
        value, depth = todo.popleft()
        for user in value.users:
            if user in seen or depth >= CHAIN:
                continue
            seen.add(user)
            lacking = list(filter(judgement.lacking, user.outputs))
            if user.kind == suspect.kind and depth > 0:
                for due in lacking:
                    for value_ in wrong:
                        yield Trial(suspect, value_, due, Reason.CHAIN, user)
            todo.extend((v, depth + 1) for v in lacking)


def _by_meeting(judgement: Judgement, suspect: Operation) -> Iterator[Trial]:
    """Follow both sides from the same values to where they go on alike."""
    begun = set(_shared_inputs(judgement, suspect))
    theirs = _onward(begun, lambda v: judgement.lacking(v) and bool(v.shape))
    for value in _onward(set(suspect.outputs), lambda v: v in judgement.wrong):
        kinds = {u.kind for u in value.users} - MOVES
        for due in theirs:
            if due.shape == value.shape and kinds & {u.kind for u in due.users}:
                yield Trial(suspect, value, due, Reason.MEETING, due.maker)
                break


def _by_constants(judgement: Judgement, suspect: Operation) -> Iterator[Trial]:
    """Where a plain constant goes in on the way: what only the reference has of its shape."""
    takers = [suspect, *users_of(_onward(set(suspect.outputs), lambda v: v in judgement.wrong))]
    constants = reached(filter(_is_made_constant, taken_by(takers)), _constants_behind)
    for value in sorted(constants, key=lambda v: v.order):
        for due in judgement.reference.values.values():
            if due.maker is None or due.digest is None:
                continue
            if due.shape != value.shape or due.record.dtype != value.record.dtype:
                continue
            if not _is_constant(due) and not judgement.backwards.equals(due):
                yield Trial(suspect, value, due, Reason.CONSTANT, due.maker)


def _constants_behind(value: Value) -> Iterator[Value]:
    """The constants that a constant was made of, perhaps."""
    if value.maker is not None:
        yield from filter(_is_made_constant, value.maker.inputs)


def _is_made_constant(value: Value) -> bool:
    """Whether a value of several elements was made, and holds but simple numbers."""
    if value.maker is None:
        return False
    return value.size > 1 and _is_constant(value)


def _is_constant(value: Value) -> bool:
    return value.is_constant and not is_telling(value)


def _onward(begun: set[Value], follow: Callable[[Value], bool]) -> list[Value]:
    """What is made of values in a few steps, those first that are made first."""
    found = set(filter(follow, begun))
    front = begun
    for _ in range(CHAIN):
        made = {v for v in made_by(users_of(front)) if v not in found and follow(v)}
        found |= made
        front = made
    return sorted(found, key=lambda v: v.order)


def fits(value: Value, due: Value) -> bool:
    """Whether a reference's value fits a candidate's place: in elements, or in axes."""
    if value.maker is None or value.maker.written:
        return False
    if due.maker is not None and due.maker.written:
        return False
    if due.maker is None and not due.record.name:
        return False
    return value.size == due.size or len(value.shape) == len(due.shape)


def region(judgement: Judgement, suspect: Operation, value: Value) -> list[Operation]:
    """The operations with wrong results from a suspect to a value, in order."""
    if value.maker is suspect:
        return [suspect]
    found = reached(makers({value} & judgement.wrong), lambda operation: makers(judgement.wrong_inputs(operation)))
    return sorted(found, key=lambda o: o.order)
