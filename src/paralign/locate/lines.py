"""From a guilty operation to the line that a porter has to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate import arrangement, placing, plain, regions
from paralign.locate.built import constructed, is_container_line, not_exonerated
from paralign.locate.matching import ALIKE, apart, is_telling, ordered_distance, same_shape
from paralign.locate.paths import (
    CONTEXT,
    before_any_moves,
    before_moves,
    common,
    computing,
    computing_users,
    inner_lines,
    parting,
    taken_besides,
    way_to,
)
from paralign.locate.search import results
from paralign.locate.written import named_for

if TYPE_CHECKING:
    from paralign.locate.graph import Operation, Value
    from paralign.locate.guilt import Guilt
    from paralign.locate.judgement import Judgement
    from paralign.locate.search import Trial
    from paralign.locate.slices import Slices

#: what kind of fault a guilty operation shows
DIFFERENT, MISSING, EXTRA, MISWIRED, REGION, GIVEN, ORDER = "different", "missing", "extra", "miswired", "region", "given", "order"


def classify(guilt: Guilt) -> tuple[str, Operation | None, Operation]:
    """What kind of fault it is, the reference's operation concerned, and the candidate's.

    ``different``: the same inputs, another result. ``missing``: the reference does something with the inputs first. ``extra``: the
    reference uses the input as it is. ``miswired``: the reference takes another value, which the candidate has too. ``given``: a
    parameter, buffer or constant that the reference does not have. ``region``: several operations, none of which has a twin.
    ``order``: the right elements in another order.
    """
    trial, judgement = guilt.trial, guilt.judgement
    maker, twin = trial.value.maker or trial.suspect, trial.due.maker
    if guilt.repair is not None:
        return REGION, twin, guilt.repair.operation
    if trial.why == "order":
        return ORDER, twin, maker
    if trial.why in ("before", "end"):
        return MISSING, _first_lacking(judgement, trial.due) or twin, trial.suspect if trial.why == "before" else maker
    turned = _turned(judgement, maker, twin)
    if turned is not None:
        return ORDER, twin, turned
    single = sum(o.kind not in MOVES for o in trial.region) <= 1
    for value in maker.inputs:
        first = before_any_moves(value) if single else value
        if first.maker is None and not judgement.is_right(first):
            return GIVEN, twin, maker
    return _of_region(judgement, trial, guilt.slices) if len(trial.region) > 1 else _of_operation(judgement, trial, maker)


def _of_region(judgement: Judgement, trial: Trial, slices: Slices | None) -> tuple[str, Operation | None, Operation]:
    """The kind of fault of several operations of which one is at fault."""
    twin, maker = trial.due.maker, trial.value.maker or trial.suspect
    way = way_to(judgement, trial.due, len(trial.region) + CONTEXT)
    idle = next((o for o in way if placing.idle_layer(judgement, o, trial.suspect)), None)
    if idle is not None:
        return MISSING, idle, trial.suspect
    if not (_in_one_layer(judgement, trial.region) or _is_one(trial)):
        return _of_steps(judgement, trial, slices)
    if twin is None:
        return DIFFERENT, twin, maker
    arranged = _otherwise_arranged(judgement, trial.suspect, twin)
    if arranged is not None:
        return (*arranged, trial.suspect)
    first = trial.suspect
    if first.kind == twin.kind and any(judgement.lacking(v) for v in _foreign(judgement, first, twin) if v.maker is not None):
        return _by_inputs(judgement, first, twin)
    return DIFFERENT, twin, first if _is_one(trial) else maker


def _of_steps(judgement: Judgement, trial: Trial, slices: Slices | None) -> tuple[str, Operation | None, Operation]:
    """The kind of fault of operations of several layers, and which of them is the likeliest."""
    pair = regions.of_one_layer(judgement, trial.region)
    if pair is not None:
        return (DIFFERENT, *pair)
    told = regions.idle(judgement, trial) or regions.outgrown(judgement, trial.region)
    told = told or (slices.first_wrong(judgement, trial.region) if slices is not None else None)
    told = told or regions.likeliest(judgement, trial)
    told = told or regions.odd(judgement, trial.region, trial.due) or regions.busiest(judgement, trial)
    return REGION, trial.due.maker, told or trial.suspect


def _of_operation(judgement: Judgement, trial: Trial, maker: Operation) -> tuple[str, Operation | None, Operation]:
    """The kind of fault of a single operation."""
    twin = computing(trial.due.maker) if trial.why == "meeting" or maker.kind not in MOVES else trial.due.maker
    if not maker.random and not judgement.lacking(trial.due) and _takes(judgement, maker, trial.due):
        before = regions.done_before(judgement, maker, twin) if twin is not None else None
        return EXTRA, twin, before or maker
    if twin is None or maker.random:
        return DIFFERENT, twin, maker
    arranged = _otherwise_arranged(judgement, maker, twin)
    if arranged is not None:
        return (*arranged, maker)
    if judgement.same_inputs(maker, twin):
        return (MISSING if regions.comes_first(maker, twin) else DIFFERENT), twin, maker
    return _by_inputs(judgement, maker, twin)


def _turned(judgement: Judgement, maker: Operation, twin: Operation | None) -> Operation | None:
    """What brought elements, which the twin takes in their order, into another before a guilty operation; None without such a thing."""
    for value in maker.inputs:
        due = any(p in twin.inputs and same_shape(p, value) for p in judgement.partners(value)) if twin is not None else False
        if due and judgement.disordered(value):
            return judgement.disorder(value)
    return None


def _otherwise_arranged(judgement: Judgement, maker: Operation, twin: Operation) -> tuple[str, Operation] | None:
    """What the reference does to the elements that an operation takes as they are, so that the twin has them in another order.

    The candidate either lacks the step or has the elements in that order too, but takes them in another one. None where orders agree.
    """
    for value in maker.inputs:
        due = [p for p in judgement.partners(value) if p in twin.inputs and is_telling(value)]
        far = [ordered_distance(p, value) for p in due]
        if not far or any(each is None or each <= ALIKE for each in far) or due[0].maker is None:
            continue
        alike = (v for v in judgement.backwards.equals(due[0]) if v is not value)
        has = any(each is not None and each <= ALIKE for each in (ordered_distance(due[0], v) for v in alike))
        return (MISWIRED if has else MISSING), due[0].maker
    return None


def _takes(judgement: Judgement, operation: Operation, due: Value) -> bool:
    """Whether an operation takes a value of the reference."""
    return any(due in judgement.partners(v) for v in operation.inputs if judgement.is_right(v))


def _by_inputs(judgement: Judgement, maker: Operation, twin: Operation) -> tuple[str, Operation | None, Operation]:
    """The kind of fault of an operation that takes other values than its twin."""
    foreign = _foreign(judgement, maker, twin)
    lacked = [v for v in foreign if judgement.lacking(v) and v.maker is not None]
    if lacked and twin.kind == maker.kind and _other_mask(maker, lacked[0]) is not None:
        return MISWIRED, twin, maker
    if lacked:
        return _by_lacked(judgement, maker, twin, lacked[0])
    computing = [v for v in foreign if v.maker is not None or v.record.role == "parameter"]
    return (MISWIRED if computing and twin.kind == maker.kind else DIFFERENT), twin, maker


def _by_lacked(judgement: Judgement, maker: Operation, twin: Operation, lacked: Value) -> tuple[str, Operation | None, Operation]:
    """The kind of fault of an operation whose twin takes a value that the candidate lacks."""
    first = _first_lacking(judgement, lacked)
    arranged = arrangement.before(judgement, first)
    if arranged is not None:
        return (ORDER if arranged[2] else MISSING), *arranged[:2]
    told = regions.made_plain(judgement, maker, first) or regions.without_effect(judgement, first)
    if told is not None:
        return DIFFERENT, first, told
    if first is not None and first.module == twin.module in judgement.reference.kinds and maker.module in judgement.candidate.kinds:
        return DIFFERENT, twin, maker  # what a layer of the framework does first is no step of the program
    if twin.kind == maker.kind and _from_elsewhere(judgement, maker, twin, lacked):
        return (MISWIRED, *_where_it_enters(judgement, maker, twin)[::-1])
    return (MISWIRED if first is not None and _is_done(judgement, maker, first) else MISSING), first, maker


def _where_it_enters(judgement: Judgement, maker: Operation, twin: Operation) -> tuple[Operation, Operation]:
    """Back along steps that both sides take alike, one of the right value and one of another: where they come to take these."""
    for _ in range(ALIKE_STEPS):
        due = [v for v in _foreign(judgement, maker, twin) if judgement.lacking(v) and v.maker is not None]
        strange = _from_elsewhere(judgement, maker, twin, due[0]) if due else []
        theirs = computing(due[0].maker) if due else None
        ours = [o for o in (computing(v.maker) for v in strange) if o is not None and theirs is not None and o.kind == theirs.kind]
        if not ours or theirs is None or ours[0].order >= maker.order or theirs.order >= twin.order:
            break
        maker, twin = ours[0], theirs
    return maker, twin


def _from_elsewhere(judgement: Judgement, maker: Operation, twin: Operation, due: Value) -> list[Value]:
    """What an operation takes that has no part in what the reference makes of its own to come to what is due there.

    Empty where it takes something that has: then a step is missing.
    """
    due_there, on_the_way = {v.digest for v in twin.inputs}, {v.digest for o in way_to(judgement, due, REACH) for v in o.inputs}
    taken = [v for v in maker.inputs if v.maker is not None and judgement.is_right(v) and is_telling(v)]
    known = [(v, {p.digest for p in judgement.partners(v)}) for v in taken]
    foreign = [(v, digested) for v, digested in known if not digested & due_there]
    return [] if any(digested & on_the_way for _, digested in foreign) else [v for v, _ in foreign]


def _other_mask(operation: Operation, due: Value) -> Value | None:
    """The mask of booleans that an operation takes in place of the reference's; None where it takes none, or the reference's is no mask."""
    masks = [v for v in operation.inputs if v.record.dtype == "bool" and v.maker is not None]
    return masks[0] if masks and due.record.dtype == "bool" else None


def _is_done(judgement: Judgement, operation: Operation, lacked: Operation) -> bool:
    """Whether the candidate's module does what the reference's does, but with another value: then it was given the wrong one."""
    if not operation.module:
        return False
    alike = [o for o in judgement.candidate.operations if o.module == operation.module and o.kind == lacked.kind and o is not operation]
    return lacked.module == operation.module and any(o.order < operation.order and o.stack[1:] == operation.stack[1:] for o in alike)


def _in_one_layer(judgement: Judgement, region: list[Operation]) -> bool:
    """Whether all operations of a region belong to one layer of the framework."""
    modules = {operation.module for operation in region}
    return len(modules) == 1 and next(iter(modules)) in judgement.candidate.kinds


def _is_one(trial: Trial) -> bool:
    """Whether a region is one operation of the reference, after which only a parameter is joined: a convolution, and its bias."""
    after = [o for o in trial.region if o is not trial.suspect and o.kind not in MOVES]
    given = [any(before_any_moves(v).record.role == "parameter" for v in o.inputs) for o in after]
    alike = trial.twin is not None and trial.suspect in trial.region and trial.twin.kind == trial.suspect.kind
    return trial.why == "twin" and alike and all(given)


def _foreign(judgement: Judgement, maker: Operation, twin: Operation) -> list[Value]:
    """Inputs of the reference's operation that the candidate's does not take."""
    known = {p for v in maker.inputs for p in judgement.partners(v)}
    digested = {p.digest for p in known}
    return [v for v in twin.inputs if is_telling(v) and v not in known and v.digest not in digested]


def _first_lacking(judgement: Judgement, value: Value) -> Operation | None:
    """The first operation on the way to a value that the candidate lacks."""
    maker = value.maker
    while maker is not None:
        before = next((v for v in maker.inputs if judgement.lacking(v) and v.maker is not None and v.maker.kind != "fill"), None)
        if before is None:
            return maker
        maker = before.maker
    return None


#: reference operations that are followed back from what is due
REACH = 400

#: steps that both sides take alike, of another value each, and that are followed back
ALIKE_STEPS = 8

#: numbers that differ by less than this share are the same, stored in another precision
SAME = 1e-6


def candidate_line(guilt: Guilt, what: str, other: Operation | None, operation: Operation) -> tuple[str | None, tuple[str, ...]]:
    """The candidate's line to look at first, and further lines that led to the operation.

    A layer of the framework that does something else with right inputs is wrong in how it was constructed; an operation that has
    other inputs than its twin is wrong where it is called; a missing one where its input was handed on too early.
    """
    judgement = guilt.judgement
    if guilt.repair is not None:
        return guilt.repair.line, operation.stack
    if what == MISSING and other is not None:
        line = _lacking_line(guilt, other, operation)
        if line is not None:
            return line, operation.stack
    if what in (MISWIRED, REGION) and operation.stack:
        return _wire(guilt, operation, other if what == MISWIRED else None), operation.stack
    taken = plain.input_line(operation, other) if what == DIFFERENT else None
    by_layer = (taken is None and what in (DIFFERENT, GIVEN)) or is_container_line(judgement.candidate, operation)
    built = constructed(judgement.candidate, operation.module) if by_layer else ()
    if built:
        first = not_exonerated(judgement, guilt, operation, built, by_construction=True, twin=other)
        return first, tuple(dict.fromkeys([*built, *operation.stack]))
    if not operation.stack:
        return None, ()
    found: str | None = operation.stack[0]
    if what == ORDER:
        found = _as_listed(operation, other) or arrangement.otherwise_shaped(operation, other) or found
    elif what == DIFFERENT:
        found = _laid_out(operation, other) if other is not None and other.kind == operation.kind else None
        found = found or taken or not_exonerated(judgement, guilt, operation, operation.stack, by_construction=False)
    return found, operation.stack


def _lacking_line(guilt: Guilt, missing: Operation, operation: Operation) -> str | None:
    """The line at which a step of the reference is missing, of whose result the candidate's operation makes something else."""
    judgement, ended, after = guilt.judgement, guilt.trial.why == "end", guilt.trial.due.maker
    if ended:
        line = placing.place(judgement, guilt.mended or judgement, missing, operation, None)
        return line or _given_back(operation, missing, judgement)
    user = placing.taken_plainly(judgement, missing, operation)
    if user is not operation:
        after = next((u for v in missing.outputs for u in v.users if u.kind == user.kind), after)
    line = placing.beside_idle_layer(judgement, missing, user) or placing.elsewhere(judgement, missing, user)
    line = line or placing.left_unused(judgement, missing) or placing.in_helper(judgement, missing, user)
    line = line or regions.without_term(judgement, user, guilt.trial.twin)
    line = line or plain.input_line(user, guilt.trial.twin, judgement.reference.operations)
    line = line or regions.beside(judgement, missing, user, after)
    line = line or placing.place(judgement, guilt.mended or judgement, missing, user, after)
    return line or _handed_on(judgement, missing, user, after)


def _wire(guilt: Guilt, operation: Operation, other: Operation | None) -> str:
    """The line that handed an operation another value than the reference's; of a region, where there is no such operation, its own."""
    judgement = guilt.judgement
    if other is None:
        told = operation is not guilt.trial.suspect  # something speaks for this operation of the region
        made = _made_for_it(judgement, operation, None, guilt.trial.due)
        return made or (None if told else _of_numbers(judgement, guilt.trial.region)) or operation.stack[0]
    if any(v.record.role == "parameter" for v in _foreign(judgement, operation, other)):
        # which parameters it takes was decided where its module was chosen
        return not_exonerated(judgement, guilt, operation, operation.stack, by_construction=False, alike=True)
    made = _made_for_it(judgement, operation, other, guilt.trial.due) if other.kind == operation.kind else None
    return made or _named_for_it(judgement, operation, other) or _called(judgement, operation, other)


def _named_for_it(judgement: Judgement, operation: Operation, other: Operation) -> str | None:
    """The line that gave a value, which others rightly take, a further name for an operation that takes it in place of the reference's."""
    known = {v.digest for v in other.inputs}
    for value in operation.inputs:
        if judgement.is_right(value) and is_telling(value) and not any(p.digest in known for p in judgement.partners(value)):
            maker = before_moves(value, operation.source).maker
            ends = inner_lines(maker, operation) if maker is not None and maker.stack and operation.stack else None
            line = named_for(ends[1], ends[0]) if ends is not None else None
            if line is not None:
                return line
    return None


def _handed_on(judgement: Judgement, missing: Operation, user: Operation, after: Operation | None) -> str | None:
    """The candidate's line that handed on a value without what the reference does to it first.

    The missing operation is placed in the reference by what its calls have in common with those of the operation before it; the
    candidate's line is at the same depth of its own calls.
    """
    candidates = [v for v in user.inputs if v.maker is not None and judgement.is_right(v) and is_telling(v)]
    due = computing(after)
    taken = {v.digest for v in due.inputs} if due is not None else set()
    candidates.sort(key=lambda v: any(p.digest in taken for p in judgement.partners(v)))  # what the reference does not take there first
    ends = [(p, v) for v in candidates for p in judgement.partners(v) if p in missing.inputs and p.maker is not None]
    before, value = ends[0] if ends else (next((v for v in missing.inputs if v.maker is not None and not judgement.lacking(v)), None), None)
    if value is None:
        given = after.inputs if after is not None else []
        strange = [v for v in candidates if not any(p in given for p in judgement.partners(v))]
        value = next(iter(strange or candidates), None)
    maker = computing(value.maker if value is not None else None)
    other = computing(before.maker if before is not None else None)
    if maker is None or not maker.stack or not user.stack:
        return user.source
    if other is None:
        return maker.stack[0]
    same_line_after = after is not None and missing.source == after.source and missing.source != other.source
    besides = same_line_after or (value is not None and taken_besides(judgement, value, user, missing))
    if maker.stack[1:] == user.stack[1:]:  # the step is missing in the very function that hands the value on
        return user.stack[0] if besides else maker.stack[0]
    with_before, with_after = common(missing, other), common(missing, after) if after is not None else 0
    chosen, shared = (user, with_after) if with_after > with_before or besides else (maker, with_before)
    level = min(shared + 1, len(missing.stack))  # the missing operation may stand on the very line that calls the other
    return chosen.stack[max(0, min(len(chosen.stack) - level, len(chosen.stack) - 1))]


def _of_numbers(judgement: Judgement, region: list[Operation]) -> str | None:
    """The line that computed, of numbers alone, what a region's first operation on right values takes beside these: a mask, a table.

    None where there is no such operation.
    """
    bare: set[Value] = set()
    for operation in region:
        if all(v in bare or (not is_telling(v) and judgement.is_right(v)) for v in operation.inputs):
            bare.update(operation.outputs)
            continue
        right = [v for v in operation.inputs if v not in bare and judgement.is_right(v) and is_telling(v)]
        numbers = next((v for v in operation.inputs if v in bare), None)
        if not right or numbers is None:
            return None
        maker = computing(numbers.maker)
        return maker.stack[0] if maker is not None and maker.stack else None
    last = computing(region[-1]) if region and all(v in bare for v in region[-1].outputs) else None
    return last.stack[0] if last is not None and last.stack else None


def _as_listed(operation: Operation, other: Operation | None) -> str | None:
    """The one line that made all that is put together, where it was made in that very order: that line decided on it."""
    makers = [v.maker for v in operation.inputs if v.maker is not None]
    if (
        other is None
        or operation.kind != other.kind
        or operation.kind not in ("concatenate", "stack")
        or len(makers) < len(operation.inputs)
    ):
        return None
    lines = {maker.source for maker in makers}
    in_order = [m.order for m in makers] == sorted({m.order for m in makers})
    return next(iter(lines)) if len(lines) == 1 and len(makers) > 1 and in_order and operation.source not in lines else None


def _given_back(operation: Operation, missing: Operation, judgement: Judgement) -> str | None:
    """The candidate's line that gave back an output without what the reference does to it last."""
    before = next((v.maker for v in missing.inputs if v.maker is not None and not judgement.lacking(v)), None)
    shared = common(missing, before) if before is not None else len(operation.stack) - 1
    if not operation.stack:
        return None
    return operation.stack[max(0, len(operation.stack) - 1 - shared)]


def _made_for_it(judgement: Judgement, operation: Operation, other: Operation | None, due: Value) -> str | None:
    """The line that made the value which an operation takes in place of the reference's, where nothing else uses that value rightly.

    None where the value is right for others: then it was only taken at the wrong place.
    """
    way = [other] if other is not None else way_to(judgement, due, CONTEXT)
    if all(o.kind != operation.kind for o in way):
        return None
    taken = {v.digest for o in way for v in o.inputs}
    mask = next((m for v in way[0].inputs if (m := _other_mask(operation, v)) is not None), None)
    source = computing(mask.maker) if mask is not None and not is_telling(mask) else None
    if source is not None and source.stack:
        return source.stack[0]
    for value in operation.inputs:
        strange = judgement.is_right(value) and is_telling(value) and value.record.role != "parameter"
        if not strange or value.maker is None or any(p.digest in taken for p in judgement.partners(value)):
            continue
        before = before_moves(value, operation.source)
        users = [u for u in computing_users(before) if u.kind not in MOVES]
        maker = before.maker
        known = maker is not None and maker.stack and operation.stack
        if maker is not None and known and users and all(v in judgement.wrong for u in users for v in u.outputs):
            return parting(maker, operation)
    return None


def _laid_out(operation: Operation, other: Operation) -> str | None:
    """The line that gave a value of the right elements another shape than the reference's operation takes it in, so that it acts elsewhere.

    None where no input is so.
    """
    for value in operation.inputs:
        for partner in other.inputs:
            alike = len(value.shape) == len(partner.shape) and same_shape(value, partner) and apart(value, partner) <= SAME
            if not alike or value.shape == partner.shape:
                continue
            while value.maker is not None and value.maker.inputs and value.maker.inputs[0].shape == value.shape:
                value = value.maker.inputs[0]  # noqa: PLW2901 - the same shape one step before
            if value.maker is not None and value.maker.stack:
                return value.maker.stack[0]
    return None


def _called(judgement: Judgement, operation: Operation, other: Operation | None) -> str:
    """The line at which an operation, or the module that it belongs to, is given another value than the reference's.

    In the reference, the calls of the operation part somewhere from those that made the value that it takes; the candidate's line is at
    the same depth.
    """
    taken = {p for v in operation.inputs for p in judgement.partners(v)}
    due = next((v for v in other.inputs if v.maker is not None and v not in taken), None) if other is not None else None
    maker = computing(due.maker if due is not None else None)
    if maker is None or other is None or due is None:
        return operation.stack[0]
    right = [u for v in judgement.backwards.equals(due) for u in computing_users(v) if any(judgement.is_right(o) for o in results(u))]
    arrived = max((common(operation, user) for user in right), default=0)  # so far it was handed on rightly
    shared = max(common(other, maker), arrived)
    return operation.stack[min(len(operation.stack) - 1, max(0, len(operation.stack) - 1 - shared))]
