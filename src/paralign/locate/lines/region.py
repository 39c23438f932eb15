"""Which of several operations of a region deserves to be looked at first."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from paralign.adapters._kinds import MOVES
from paralign.locate.gradients.flow import factor_of
from paralign.locate.reaching import reached
from paralign.locate.runs.construction import calling_module, is_container_line
from paralign.locate.runs.counterparts import digests_of, is_telling
from paralign.locate.runs.traverse import CONTEXT, before_any_moves, computing, made_by, makers, makers_of, taken_by, users_of, way_to
from paralign.locate.source.call_arguments import is_number
from paralign.locate.source.statements import function_of
from paralign.locate.suspects.propose import is_idle, rank

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.suspects.propose import Trial


def likeliest(judgement: Judgement, trial: Trial) -> Operation | None:
    """A region's likeliest operation, by what the reference does with the same values.

    The first that the reference does too, with another result. In a loss of which all gradients are the reference's times a number: the
    last, as what comes after has no part in the gradients' proportions.
    """
    suspect = trial.suspect
    if suspect in trial.region and rank(judgement, suspect) == 0:
        return suspect
    is_loss = judgement.candidate.loss is not None and trial.due is judgement.reference.loss
    if not is_loss or not _is_scaled(judgement, trial.region):
        return None
    computing = [o for o in trial.region if o.kind not in MOVES]
    return computing[-1] if computing else None


def of_one_layer(judgement: Judgement, region: list[Operation]) -> tuple[Operation, Operation] | None:
    """The first pair of one layer's operations whose results differ; the reference's first.

    The two are the same layer, otherwise constructed: what comes of it may fit nowhere, so that only a later value can be put in place.
    """
    for operation in region:
        twin = judgement.counterpart(operation)
        if twin is None or not judgement.takes_right(operation):
            continue
        if _is_same_layer(judgement, operation, twin) and _makes_something_else(judgement, operation, twin):
            return twin, operation
    return None


def _is_same_layer(judgement: Judgement, operation: Operation, twin: Operation) -> bool:
    """Whether two operations take parameters, and only parameters are foreign.

    Parameters may be arranged before they are taken.
    """
    if not any(before_any_moves(v).is_parameter for v in operation.inputs):
        return False
    taken = judgement.partners_of(operation.inputs)
    foreign = [v for v in twin.inputs if v not in taken and is_telling(v)]
    return all(before_any_moves(v).is_parameter for v in foreign)


def _makes_something_else(judgement: Judgement, operation: Operation, twin: Operation) -> bool:
    """Whether results differ in size, or in value although the inputs are the same."""
    if operation.outputs[0].size != twin.outputs[0].size:
        return True
    return judgement.same_inputs(operation, twin) and judgement.partners_of(operation.outputs).isdisjoint(twin.outputs)


def idle(judgement: Judgement, trial: Trial) -> Operation | None:
    """The idle operation before a region, where the reference's has an effect."""
    right = filter(judgement.is_right, taken_by(trial.region))
    for operation in (trial.suspect, *makers(map(before_any_moves, right))):
        if is_idle(judgement, operation) and not _is_idle_and_right(judgement, operation):
            return operation
    return None


def _is_idle_and_right(judgement: Judgement, operation: Operation) -> bool:
    """Whether the same step, just as idle, leads to right results at another call."""
    for other in judgement.candidate.operations:
        if other is operation or (other.kind, other.source) != (operation.kind, operation.source) or not is_idle(judgement, other):
            continue
        if any(judgement.leads_right(value, ()) for value in other.outputs):
            return True
    return False


def outgrown(judgement: Judgement, region: list[Operation]) -> Operation | None:
    """The operation that repeats values against each other, more than the reference has."""
    sizes = {v.size for v in judgement.reference.values.values()}
    before = [maker for maker in makers(taken_by(region)) if maker not in region]  # right, but for the number
    for operation in (*before, *region):
        if operation.kind not in REPEATING or not operation.inputs:
            continue
        if any(v.size not in sizes for v in judgement.wrong_inputs(operation)):  # too many came in
            continue
        made = operation.outputs[0].size
        if made > max(v.size for v in operation.inputs) and made not in sizes:
            return operation
    return None


def without_term(judgement: Judgement, user: Operation, twin: Operation | None) -> str | None:
    """The line of an operation whose counterpart joins in a term of its own."""
    if twin is None or twin.kind != user.kind or user.kind not in JOINING:
        return None
    if not all(map(judgement.is_established, user.inputs)):  # something stands in the term's place
        return None
    taken = judgement.partners_of(user.inputs)
    terms = [v for v in twin.inputs if v not in taken and judgement.lacking(v)]
    if not terms or taken.isdisjoint(twin.inputs):
        return None
    for maker in reached(makers(terms), lambda o: makers(filter(judgement.lacking, o.inputs))):
        if taken.isdisjoint(maker.inputs):
            continue
        joins_there_too = maker.kind in JOINING and maker.stack == twin.stack and any(map(judgement.lacking, maker.inputs))
        if not joins_there_too:
            return None
    return user.source


def made_plain(judgement: Judgement, operation: Operation, lacked: Operation | None) -> Operation | None:
    """What made a plain value of numbers alone, where the reference makes another.

    Or, of the values that the reference's takes, few simple numbers, which are found everywhere and count as right.
    """
    if lacked is None:
        return None
    if any(map(is_telling, lacked.inputs)):
        return _made_plain_of_same(judgement, operation, lacked)
    for value in operation.inputs:
        maker = None if is_telling(value) else computing(value.maker)
        if maker is not None and maker.kind == lacked.kind and not any(map(is_telling, maker.inputs)):
            return maker
    return None


def _made_plain_of_same(judgement: Judgement, operation: Operation, lacked: Operation) -> Operation | None:
    """What makes plain values of the same inputs, where the reference makes none of them."""
    same = [own for v in lacked.inputs for own in judgement.backwards.equals(v)]
    due = [partner for v in same for partner in judgement.partners(v)]
    if _plainly_made(lacked, due):
        return None
    for user in _plainly_made(lacked, same):
        if user.order < operation.order:
            return user
    return None


def _plainly_made(lacked: Operation, values: list[Value]) -> list[Operation]:
    """The operations like a lacking one that make plain values of its result's shape."""
    found: list[Operation] = []
    for user in dict.fromkeys(users_of(values)):
        is_alike = user.kind == lacked.kind and user.outputs[0].shape == lacked.outputs[0].shape
        if is_alike and not any(map(is_telling, user.outputs)):
            found.append(user)
    return found


def without_effect(judgement: Judgement, lacked: Operation | None) -> Operation | None:
    """What stands where the reference does what is lacking, and hands on what it takes."""
    if lacked is None:
        return None
    for operation in judgement.candidate.operations:
        if operation.kind != lacked.kind or judgement.twin(operation) is not lacked:
            continue
        if is_idle(judgement, operation):
            return operation
    return None


def odd(judgement: Judgement, region: list[Operation], due: Value) -> Operation | None:
    """The operation that takes a value or number that the reference does not use there.

    None where none does.
    """
    way = way_to(judgement, due, len(region) + CONTEXT)
    return _with_odd_value(judgement, region, taken_by(way)) or _with_odd_number(region, way) or _used_otherwise(judgement, region, way)


def _with_odd_value(judgement: Judgement, region: list[Operation], taken: list[Value]) -> Operation | None:
    """The first operation that takes an established value foreign to the reference's way."""
    digested = digests_of(taken)
    for operation in region:
        for value in operation.inputs:
            if value.is_parameter or not judgement.is_established(value):
                continue
            partners = judgement.partners(value)
            if partners and digested.isdisjoint(digests_of(partners)):
                return operation
    return None


def _with_odd_number(region: list[Operation], way: list[Operation]) -> Operation | None:
    """The first operation with a number, no simple one, that the reference does not take."""
    known = {number for operation in way for number in _numbers_taken(operation)}
    if not known:
        return None
    for operation in region:
        for number in _numbers_taken(operation):
            if (number * 2).is_integer():
                continue
            if not any(abs(number - k) <= STORED * max(abs(number), abs(k)) for k in known):
                return operation
    return None


def _numbers_taken(operation: Operation) -> set[float]:
    """The numbers among what an operation takes, arguments and constants."""
    return numbers(operation.arguments).union(*(constant(v) for v in operation.inputs))


def _used_otherwise(judgement: Judgement, region: list[Operation], way: list[Operation]) -> Operation | None:
    """The operation that does with a value what the reference does not do with it."""
    begun = set(region[0].inputs)
    for operation in region[1:]:
        for value in operation.inputs:
            if value in begun or value.is_parameter or not judgement.is_established(value):
                continue
            partners = set(judgement.partners(value))
            kinds = {o.kind for o in way if not partners.isdisjoint(o.inputs)}
            if kinds and operation.kind not in kinds:
                return operation
    return None


def numbers(arguments: dict[str, Any]) -> set[float]:
    """The numbers among the arguments of an operation, those in lists too."""
    found: set[float] = set()
    for value in arguments.values():
        items = value if isinstance(value, list) else [value]
        found.update(float(item) for item in items if is_number(item))
    return found


def constant(value: Value) -> list[float]:
    """The number that a constant tensor of one element holds."""
    if value.digest is not None and value.digest.startswith("c1:1,"):
        return [float(value.digest.split(",")[1])]
    return []


def done_before(judgement: Judgement, maker: Operation, twin: Operation) -> Operation | None:
    """The same step done before, where one is too many and the reference does it there.

    A factor that is there twice may be taken off in either place, and the one that stands where the reference's stands is right.
    """
    if twin.kind != maker.kind or twin.numbers != maker.numbers or not maker.numbers:
        return None
    before = reached(makers(maker.inputs), lambda o: makers(o.inputs), nearest_first=True)
    for operation in islice(before, FOLLOWED):
        if operation.kind == maker.kind and operation.numbers == maker.numbers and not judgement.wrong.isdisjoint(operation.outputs):
            return operation
    return None


def comes_first(maker: Operation, twin: Operation) -> bool:
    """Whether the reference first takes steps of the kind with other numbers."""
    wanted, step = maker.numbers, twin
    if twin.kind != maker.kind or not wanted or twin.numbers == wanted:
        return False
    for _ in range(STEPS):
        alike = [user for user in users_of(step.outputs) if user.kind == maker.kind]
        if not alike or not alike[0].numbers:
            return False
        step = alike[0]
        if step.numbers == wanted:
            return True
    return False


def beside(judgement: Judgement, missing: Operation, user: Operation, after: Operation | None) -> str | None:
    """The one line that does what else the reference does in the missing step's line.

    The candidate's function may lie deeper in calls than the reference's: ``user`` takes in it what ``after`` takes in the reference.
    """
    if is_container_line(judgement.reference, missing):  # each layer of it is a step of its own
        return None
    depth = len(missing.stack)
    level = depth
    if after is not None and after.stack:
        level = max(1, len(user.stack) - len(after.stack) + depth)
    lines: set[str] = set()
    inner: dict[str, bool] = {}  # lines of what is done in that line itself, and whether it comes right before or after
    steps: set[Operation] = set()
    for other in judgement.reference.operations:
        if other is missing or other.kind in MOVES or other.stack[-depth:] != missing.stack:
            continue
        follows = not set(missing.outputs).isdisjoint(other.inputs)
        stand_ins = _makers(judgement, other)
        if other.stack == missing.stack and follows:
            stand_ins += _idle(user, other.kind)
        lines |= {maker.stack[-level] for maker in stand_ins if len(maker.stack) >= level}
        if other.stack != missing.stack or calling_module(judgement.reference, other) != calling_module(judgement.reference, missing):
            continue
        near = follows or not set(missing.inputs).isdisjoint(other.outputs)
        for maker in stand_ins:
            if maker.source is not None:
                steps.add(maker)
                inner[maker.source] = near or inner.get(maker.source, False)
    if len(steps) > 1 and len(set(map(function_of, inner))) == 1:  # several steps of that line, deeper in calls perhaps
        lines = {line for line, near in inner.items() if near or len(inner) == 1}
    return lines.pop() if len(lines) == 1 else None


def _makers(judgement: Judgement, other: Operation) -> list[Operation]:
    """What makes what a reference's operation makes: its like, or else what computes."""
    computing = [m for m in makers_of(judgement, other.outputs) if m.kind not in MOVES]
    return [m for m in computing if m.kind == other.kind] or computing


def _idle(user: Operation, kind: str) -> list[Operation]:
    """The steps of a kind without effect before an operation: a mask or factor of ones."""
    found: list[Operation] = []
    for value in user.inputs:
        maker = value.maker
        while maker is not None:
            same = [v for v in maker.inputs if v.digest == value.digest]
            if not same:
                break
            if maker.kind == kind:
                found.append(maker)
            maker = same[0].maker
    return found


def _is_scaled(judgement: Judgement, region: list[Operation]) -> bool:
    """Whether the gradients that a region takes are a multiple of the reference's."""
    factors = []
    for value in _taken_from_outside(judgement, region):
        partners = [p for p in judgement.partners(value) if p.gradient is not None]
        if value.gradient is None or not partners:
            continue
        factor = _first_factor(value, partners)
        if factor is None:
            return False
        factors.append(factor)
    if not factors:
        return False
    is_one_number = max(factors) - min(factors) <= SAME * abs(factors[0])
    return is_one_number and abs(factors[0] - 1) > SAME


def _taken_from_outside(judgement: Judgement, region: list[Operation]) -> set[Value]:
    """The established values that a region takes and does not make itself."""
    taken = set(taken_by(region)) - set(made_by(region))
    return set(filter(judgement.is_established, taken))


def _first_factor(value: Value, partners: list[Value]) -> float | None:
    """By which number a value's gradient is that of one of its partners."""
    for partner in partners:
        factor = factor_of(partner, value)
        if factor is not None:
            return factor
    return None


#: operations that join a term or a factor to what there is
JOINING = ("add", "subtract", "multiply", "divide")

#: operations that repeat a smaller value for a greater one
REPEATING = ("view", "add", "subtract", "multiply", "divide", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "where")

#: steps of one kind that are followed
STEPS = 4

#: operations before a step that are searched for another one like it
FOLLOWED = 48

#: numbers that differ by less than this share are the same, stored in another precision
STORED = 1e-6

#: numbers that differ by less than this share are the same
SAME = 1e-5
