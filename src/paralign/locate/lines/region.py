"""Which of several operations that stand for others of the reference deserves to be looked at first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.gradients.flow import factor_of
from paralign.locate.runs.construction import is_container_line
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.traverse import CONTEXT, before_any_moves, computing, makers_of, way_to
from paralign.locate.source.statements import function_of
from paralign.locate.suspects.propose import is_idle, rank

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.suspects.propose import Trial


def likeliest(judgement: Judgement, trial: Trial) -> Operation | None:
    """The operation of a region that is the likeliest by what the reference does with the same values; None where nothing tells.

    The first that the reference does too, with another result. In a loss of which all gradients are the reference's times a number: the
    last, as what comes after has no part in the gradients' proportions.
    """
    suspect = trial.suspect
    if suspect in trial.region and rank(judgement, suspect) == 0:
        return suspect
    if judgement.candidate.loss is not None and trial.due is judgement.reference.loss and _is_scaled(judgement, trial.region):
        computing = [o for o in trial.region if o.kind not in MOVES]
        return computing[-1] if computing else None
    return None


def of_one_layer(judgement: Judgement, region: list[Operation]) -> tuple[Operation, Operation] | None:
    """The first operation of a region that makes something else than the reference's with the same parameters and inputs; that one first.

    The two are the same layer, otherwise constructed: what comes of it may fit nowhere, so that only a later value can be put in place.
    """
    for operation in region:
        twin = judgement.twin(operation)
        if twin is None or twin.kind != operation.kind or not all(judgement.is_right(v) for v in operation.inputs):
            continue
        taken = judgement.partners_of(operation.inputs)
        foreign = [v for v in twin.inputs if v not in taken and is_telling(v)]
        layered = any(v.is_parameter for v in operation.inputs) and all(v.is_parameter for v in foreign)
        other_size = operation.outputs[0].size != twin.outputs[0].size  # a bias may be added by a step of its own
        right = any(v in judgement.partners(o) for o in operation.outputs for v in twin.outputs)
        if layered and (other_size or (judgement.same_inputs(operation, twin) and not right)):
            return twin, operation
    return None


def busiest(judgement: Judgement, trial: Trial) -> Operation | None:
    """The first operation of the line of a loss's formula where most of it is computed; None where the region does not end in a loss.

    Of a formula in place of one operation of the reference nothing is known but that it is wrong somewhere.
    """
    if trial.due is not judgement.reference.loss or trial.due is None:
        return None
    computing = [o for o in trial.region if o.kind not in MOVES and o.source is not None]
    counts = Counter(o.source for o in computing)
    return max(computing, key=lambda o: (counts[o.source], -o.order), default=None)


def idle(judgement: Judgement, trial: Trial) -> Operation | None:
    """The operation that hands on to a region what it takes, where the reference's makes something else of it; None without one."""
    before = [before_any_moves(v).maker for o in trial.region for v in o.inputs if judgement.is_right(v)]
    return next((o for o in (trial.suspect, *before) if o is not None and is_idle(judgement, o)), None)


def outgrown(judgement: Judgement, region: list[Operation]) -> Operation | None:
    """The operation of a region that repeats values against each other, so that more come of it than the reference ever has there."""
    sizes = {v.size for v in judgement.reference.values.values()}
    before = [v.maker for o in region for v in o.inputs if v.maker is not None and v.maker not in region]  # right, but for the number
    for operation in (*before, *region):
        taken = [v.size for v in operation.inputs]
        made = operation.outputs[0].size
        if any(v in judgement.wrong and v.size not in sizes for v in operation.inputs):  # too many came in
            continue
        if operation.kind in REPEATING and taken and made > max(taken) and made not in sizes:
            return operation
    return None


def without_term(judgement: Judgement, user: Operation, twin: Operation | None) -> str | None:
    """The line of an operation, where the reference's joins in something that was not made of what the operation takes; None elsewhere."""
    if twin is None or twin.kind != user.kind or user.kind not in JOINING:
        return None
    taken = judgement.partners_of(user.inputs)
    known = all(judgement.is_established(v) for v in user.inputs)  # else something stands in the term's place
    if not known or not any(v in taken for v in twin.inputs):
        return None
    todo = [v for v in twin.inputs if v not in taken and judgement.lacking(v)]
    seen = set(todo)
    while todo:
        maker = todo.pop().maker
        if maker is None:
            continue
        others = [v for v in maker.inputs if judgement.lacking(v)]
        if any(v in taken for v in maker.inputs) and (maker.kind not in JOINING or maker.stack != twin.stack or not others):
            return None
        todo += [v for v in others if v not in seen]
        seen.update(others)
    return user.source if seen else None


def made_plain(judgement: Judgement, operation: Operation, lacked: Operation | None) -> Operation | None:
    """What made a plain value, of numbers alone, of which the reference's operation makes another one: of other numbers, perhaps.

    Or, of the values that the reference's takes, few simple numbers, which are found everywhere and count as right.
    """
    if lacked is None:
        return None
    if any(is_telling(v) for v in lacked.inputs):
        shape, same = lacked.outputs[0].shape, [own for v in lacked.inputs for own in judgement.backwards.equals(v)]
        plain = [u for u in _made_of(same, lacked.kind, shape) if u.order < operation.order]
        due = _made_of([p for v in same for p in judgement.partners(v)], lacked.kind, shape)
        return plain[0] if plain and not due else None
    makers = [computing(v.maker) for v in operation.inputs if not is_telling(v)]
    return next((m for m in makers if m is not None and m.kind == lacked.kind and not any(is_telling(v) for v in m.inputs)), None)


def _made_of(values: list[Value], kind: str, shape: tuple[int, ...]) -> list[Operation]:
    """The operations of a kind that make plain values of a shape out of some values."""
    users = dict.fromkeys(u for v in values for u in v.users if u.kind == kind and u.outputs[0].shape == shape)
    return [u for u in users if not any(is_telling(v) for v in u.outputs)]


def without_effect(judgement: Judgement, lacked: Operation | None) -> Operation | None:
    """What stands where the reference does what is lacking, and hands on what it takes; None where nothing does."""
    alike = (o for o in judgement.candidate.operations if lacked is not None and o.kind == lacked.kind)
    return next((o for o in alike if judgement.twin(o) is lacked and is_idle(judgement, o)), None)


def odd(judgement: Judgement, region: list[Operation], due: Value) -> Operation | None:
    """The operation of a region that stands out: it takes a value that the reference does not use on the same way, or a number.

    None where none does.
    """
    way = way_to(judgement, due, len(region) + CONTEXT)
    taken = {v for operation in way for v in operation.inputs}
    digested = {v.digest for v in taken}
    for operation in region:
        for value in operation.inputs:
            if judgement.is_established(value) and not value.is_parameter:
                partners = judgement.partners(value)
                if partners and not any(p in taken or p.digest in digested for p in partners):
                    return operation
    known = {n for o in way for n in numbers(o.arguments)} | {n for v in taken for n in constant(v)}
    for operation in region:
        own = numbers(operation.arguments) | {number for v in operation.inputs for number in constant(v)}
        strange = {n for n in own if not any(abs(n - k) <= STORED * max(abs(n), abs(k)) for k in known)}
        if known and any(not (n * 2).is_integer() for n in strange):
            return operation
    return _used_otherwise(judgement, region, way)


def _used_otherwise(judgement: Judgement, region: list[Operation], way: list[Operation]) -> Operation | None:
    """The operation of a region that does something else with a value that comes in on the way than the reference does."""
    begun = set(region[0].inputs)
    for operation in region[1:]:
        for value in operation.inputs:
            if value in begun or value.is_parameter or not judgement.is_established(value):
                continue
            users = [o for o in way if any(p in o.inputs for p in judgement.partners(value))]
            if users and all(o.kind != operation.kind for o in users):
                return operation
    return None


def numbers(arguments: dict[str, object]) -> set[float]:
    """The numbers among the arguments of an operation, those in lists too."""
    found: set[float] = set()
    for value in arguments.values():
        items = value if isinstance(value, list) else [value]
        found.update(float(item) for item in items if isinstance(item, (int, float)) and not isinstance(item, bool))
    return found


def constant(value: Value) -> list[float]:
    """The number that a constant tensor of one element holds."""
    if value.digest is not None and value.digest.startswith("c1:1,"):
        return [float(value.digest.split(",")[1])]
    return []


def done_before(judgement: Judgement, maker: Operation, twin: Operation) -> Operation | None:
    """Where a step is one too many, but the reference has just done the very same: the step before that stands for it; None elsewhere.

    A factor that is there twice may be taken off in either place, and the one that stands where the reference's stands is right.
    """
    if twin.kind != maker.kind or twin.numbers != maker.numbers or not maker.numbers:
        return None
    todo, seen = list(maker.inputs), set(maker.inputs)
    while todo and len(seen) < FOLLOWED:
        operation = todo.pop(0).maker
        if operation is None:
            continue
        if operation.kind == maker.kind and operation.numbers == maker.numbers and any(v in judgement.wrong for v in operation.outputs):
            return operation
        fresh = [v for v in operation.inputs if v not in seen]
        seen.update(fresh)
        todo += fresh
    return None


def comes_first(maker: Operation, twin: Operation) -> bool:
    """Whether the reference takes steps of the same kind with other numbers before the one that an operation stands for."""
    wanted, step = maker.numbers, twin
    if twin.kind != maker.kind or not wanted or twin.numbers == wanted:
        return False
    for _ in range(STEPS):
        following = next((u for v in step.outputs for u in v.users if u.kind == maker.kind), None)
        if following is None or not following.numbers:
            return False
        if following.numbers == wanted:
            return True
        step = following
    return False


def beside(judgement: Judgement, missing: Operation, user: Operation, after: Operation | None) -> str | None:
    """The candidate's line that does what else the reference does in the line of a missing operation; None where that is not one line.

    The candidate's function may lie deeper in calls than the reference's: ``user`` takes in it what ``after`` takes in the reference.
    """
    if is_container_line(judgement.reference, missing):  # each layer of it is a step of its own
        return None
    depth, found = len(missing.stack), set()
    level = max(1, len(user.stack) - len(after.stack) + depth) if after is not None and after.stack else depth
    inner: dict[Operation, bool] = {}  # what is done in that line itself, and whether it comes right before or after
    for other in judgement.reference.operations:
        if other is missing or other.kind in MOVES or other.stack[-depth:] != missing.stack:
            continue
        follows = any(v in missing.outputs for v in other.inputs)
        makers = _makers(judgement, other) + (_idle(user, other.kind) if other.stack == missing.stack and follows else [])
        found |= {maker.stack[-level] for maker in makers if len(maker.stack) >= level}
        if other.stack == missing.stack and _owner(judgement.reference, other) == _owner(judgement.reference, missing):
            near = follows or any(v in missing.inputs for v in other.outputs)
            inner.update({maker: near or inner.get(maker, False) for maker in makers if maker.source is not None})
    within = {maker.source or "" for maker in inner}
    if len(inner) > 1 and len({function_of(line) for line in within}) == 1:  # several steps of that line, deeper in calls perhaps
        within = within if len(within) == 1 else {maker.source or "" for maker, near in inner.items() if near}
        return within.pop() if len(within) == 1 else None
    return found.pop() if len(found) == 1 else None


def _makers(judgement: Judgement, other: Operation) -> list[Operation]:
    """What makes in the candidate what an operation of the reference makes: its like, or else another that computes."""
    computing = [m for m in makers_of(judgement, other.outputs) if m.kind not in MOVES]
    return [m for m in computing if m.kind == other.kind] or computing


def _owner(graph: Graph, operation: Operation) -> str:
    """The module whose code an operation is in: of a layer of the framework the one that holds it."""
    return operation.module.rpartition(".")[0] if operation.module in graph.kinds else operation.module


def _idle(user: Operation, kind: str) -> list[Operation]:
    """The steps of a kind that hand on, as it came, what an operation takes: a mask of ones, a factor of one."""
    found = []
    for value in user.inputs:
        maker = value.maker
        while maker is not None and (same := [v for v in maker.inputs if v.digest == value.digest]):
            found += [maker] if maker.kind == kind else []
            maker = same[0].maker
    return found


def _is_scaled(judgement: Judgement, region: list[Operation]) -> bool:
    """Whether the gradients of all that a region takes are the reference's times one number other than one."""
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
    inside = {v for o in region for v in o.outputs}
    taken = {v for o in region for v in o.inputs} - inside
    return {v for v in taken if judgement.is_established(v)}


def _first_factor(value: Value, partners: list[Value]) -> float | None:
    """By which number a value's gradient is that of one of its partners; None where it is a multiple of none."""
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

#: values before a step that are searched for another one like it
FOLLOWED = 48

#: numbers that differ by less than this share are the same, stored in another precision
STORED = 1e-6

#: numbers that differ by less than this share are the same
SAME = 1e-5
