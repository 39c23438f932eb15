"""From a guilty operation to the line that a porter has to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate import regions
from paralign.locate.matching import ALIKE, apart, is_telling, ordered_distance, same_shape
from paralign.locate.paths import before_moves, common, computing, computing_users, parting, way_to

if TYPE_CHECKING:
    from paralign.locate.graph import Graph, Operation, Value
    from paralign.locate.judgement import Judgement
    from paralign.locate.replay import Guilt
    from paralign.locate.search import Trial

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
    if trial.why == "order":
        return ORDER, twin, maker
    if trial.why == "end":
        return MISSING, _first_lacking(judgement, trial.due) or twin, maker
    turned = _turned(judgement, maker, twin)
    if turned is not None:
        return ORDER, twin, turned
    if any(not judgement.is_right(v) and v.maker is None for v in maker.inputs):
        return GIVEN, twin, maker
    return _of_region(judgement, trial) if len(trial.region) > 1 else _of_operation(judgement, trial, maker)


def _of_region(judgement: Judgement, trial: Trial) -> tuple[str, Operation | None, Operation]:
    """The kind of fault of several operations of which one is at fault."""
    twin, maker = trial.due.maker, trial.value.maker or trial.suspect
    if not _in_one_layer(judgement, trial.region):
        told = regions.likeliest(judgement, trial) or odd(judgement, trial.region, trial.due) or regions.busiest(judgement, trial)
        return REGION, twin, told or trial.suspect
    arranged = _otherwise_arranged(judgement, trial.suspect, twin) if twin is not None else None
    return (DIFFERENT, twin, maker) if arranged is None else (*arranged, trial.suspect)


def _of_operation(judgement: Judgement, trial: Trial, maker: Operation) -> tuple[str, Operation | None, Operation]:
    """The kind of fault of a single operation."""
    twin = computing(trial.due.maker) if trial.why == "meeting" else trial.due.maker
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
        first = _first_lacking(judgement, lacked[0])
        return (MISWIRED if first is not None and _is_done(judgement, maker, first) else MISSING), first, maker
    computing = [v for v in foreign if v.maker is not None or v.record.role == "parameter"]
    return (MISWIRED if computing and twin.kind == maker.kind else DIFFERENT), twin, maker


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


def odd(judgement: Judgement, region: list[Operation], due: Value) -> Operation | None:
    """The operation of a region that stands out: it takes a value that the reference does not use on the same way, or a number.

    None where none does.
    """
    way = way_to(judgement, due, len(region) + CONTEXT)
    taken = {v for operation in way for v in operation.inputs}
    digested = {v.digest for v in taken}
    for operation in region:
        for value in operation.inputs:
            if judgement.is_right(value) and is_telling(value) and value.record.role != "parameter":
                partners = judgement.partners(value)
                if partners and not any(p in taken or p.digest in digested for p in partners):
                    return operation
    known = {n for o in way for n in _numbers(o.arguments)} | {n for v in taken for n in _constant(v)}
    for operation in region:
        own = _numbers(operation.arguments) | {number for v in operation.inputs for number in _constant(v)}
        strange = {n for n in own if not any(abs(n - k) <= SAME * max(abs(n), abs(k)) for k in known)}
        if known and any(not (n * 2).is_integer() for n in strange):
            return operation
    return _used_otherwise(judgement, region, way)


def _used_otherwise(judgement: Judgement, region: list[Operation], way: list[Operation]) -> Operation | None:
    """The operation of a region that does something else with a value that comes in on the way than the reference does."""
    begun = set(region[0].inputs)
    for operation in region[1:]:
        for value in operation.inputs:
            if value in begun or value.record.role == "parameter" or not (judgement.is_right(value) and is_telling(value)):
                continue
            users = [o for o in way if any(p in o.inputs for p in judgement.partners(value))]
            if users and all(o.kind != operation.kind for o in users):
                return operation
    return None


#: numbers that differ by less than this share are the same, stored in another precision
SAME = 1e-6

#: reference operations beyond the size of the region that are searched for its numbers
CONTEXT = 8


def _numbers(arguments: dict[str, object]) -> set[float]:
    found: set[float] = set()
    for value in arguments.values():
        items = value if isinstance(value, list) else [value]
        found.update(float(item) for item in items if isinstance(item, (int, float)) and not isinstance(item, bool))
    return found


def _constant(value: Value) -> list[float]:
    """The number that a constant tensor of one element holds."""
    if value.digest is not None and value.digest.startswith("c1:1,"):
        return [float(value.digest.split(",")[1])]
    return []


def candidate_line(guilt: Guilt, what: str, other: Operation | None, operation: Operation) -> tuple[str | None, tuple[str, ...]]:
    """The candidate's line to look at first, and further lines that led to the operation.

    A layer of the framework that does something else with right inputs is wrong in how it was constructed; an operation that has
    other inputs than its twin is wrong where it is called; a missing one where its input was handed on too early.
    """
    judgement = guilt.judgement
    if what == MISSING and other is not None:
        ended = guilt.trial.why == "end"
        line = _given_back(operation, other, judgement) if ended else _elsewhere(judgement, other, operation)
        line = line or (None if ended else regions.beside(judgement, other))
        line = line or _handed_on(judgement, other, operation, guilt.trial.due.maker)
        if line is not None:
            return line, operation.stack
    if what in (MISWIRED, REGION) and operation.stack:
        return _wire(guilt, operation, other if what == MISWIRED else None), operation.stack
    built = (
        constructed(judgement.candidate, operation.module) if what in (DIFFERENT, GIVEN) or _is_container_line(judgement, operation) else ()
    )
    if built:
        first = _not_exonerated(judgement, guilt, operation, built, by_construction=True)
        return first, tuple(dict.fromkeys([*built, *operation.stack]))
    if not operation.stack:
        return None, ()
    found: str | None = operation.stack[0]
    if what == ORDER:
        found = _as_listed(operation, other) or found
    elif what == DIFFERENT:
        found = _laid_out(operation, other) if other is not None and other.kind == operation.kind else None
        found = found or _not_exonerated(judgement, guilt, operation, operation.stack, by_construction=False)
    return found, operation.stack


def _wire(guilt: Guilt, operation: Operation, other: Operation | None) -> str:
    """The line that handed an operation another value than the reference's; of a region, where there is no such operation, its own."""
    judgement = guilt.judgement
    if other is None:
        told = operation is not guilt.trial.suspect  # something speaks for this operation of the region
        made = _made_for_it(judgement, operation, None, guilt.trial.due)
        return made or (None if told else _of_numbers(judgement, guilt.trial.region)) or operation.stack[0]
    if any(v.record.role == "parameter" for v in _foreign(judgement, operation, other)):
        # which parameters it takes was decided where its module was chosen
        return _not_exonerated(judgement, guilt, operation, operation.stack, by_construction=False, alike=True)
    made = _made_for_it(judgement, operation, other, guilt.trial.due) if other.kind == operation.kind else None
    return made or _called(judgement, operation, other)


def constructed(graph: Graph, module: str) -> tuple[str, ...]:
    """The lines that constructed a module, where it is a layer of the framework; those of what it is a copy inside of, else none."""
    if module not in graph.kinds:
        return ()
    path = module
    while path:
        if path in graph.built:
            return tuple(graph.built[path])
        path = path.rpartition(".")[0]
        if path and path not in graph.kinds and path in graph.built:
            return ()
    return tuple(graph.built.get("", ()))


def own_line(graph: Graph, operation: Operation) -> str | None:
    """The line that an operation is known by: where its layer was constructed, or where it is called."""
    lines = constructed(graph, operation.module)
    return lines[0] if lines else operation.source


def reference_line(graph: Graph, operation: Operation | None, *, built: bool) -> str | None:
    """The reference's line beside: where its layer was constructed, or where the operation is called."""
    if operation is None:
        return None
    return own_line(graph, operation) if built else operation.source


def _is_container_line(judgement: Judgement, operation: Operation) -> bool:
    """Whether the innermost line of a layer's operation runs several layers at once, as that of a Sequential does."""
    if operation.module not in judgement.candidate.kinds or operation.source is None:
        return operation.module in judgement.candidate.kinds
    modules = {o.module for o in judgement.candidate.operations if o.source == operation.source and o.stack == operation.stack}
    return len(modules) > 1 and any(m != operation.module and m.rpartition(".")[0] == operation.module.rpartition(".")[0] for m in modules)


def _not_exonerated(
    judgement: Judgement, guilt: Guilt, operation: Operation, lines: tuple[str, ...], *, by_construction: bool, alike: bool = False
) -> str:
    """The innermost line that no right operation of the same kind, but with other arguments (``alike``: or with any), has passed as well.

    Where one has, by the same lines within, the arguments come from further out: a helper that is used with right and with wrong ones.
    """
    guilty = {o.number for o in (operation, *guilt.repeats)} | guilt.replaced
    others = [
        (each.candidate, o)
        for each in dict.fromkeys((judgement, guilt.mended or judgement))
        for o in each.candidate.operations
        if o.kind == operation.kind and o.number not in guilty and all(each.is_right(v) for v in (*o.inputs, *o.outputs))
        if alike or o.arguments != operation.arguments
    ]
    ways = {constructed(graph, o.module) if by_construction else o.stack for graph, o in others}
    for depth, line in enumerate(lines, 1):
        if all(way[:depth] != lines[:depth] for way in ways):
            return line
    return lines[0]


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
    if maker is None or not maker.stack:
        return user.source
    if other is None:
        return maker.stack[0]
    same_line_after = after is not None and missing.source == after.source and missing.source != other.source
    besides = same_line_after or (value is not None and _taken_besides(judgement, value, user, missing))
    if maker.stack[1:] == user.stack[1:]:  # the step is missing in the very function that hands the value on
        return user.stack[0] if besides else maker.stack[0]
    with_before, with_after = common(missing, other), common(missing, after) if after is not None else 0
    chosen, shared = (user, with_after) if with_after > with_before or besides else (maker, with_before)
    level = min(shared + 1, len(missing.stack))  # the missing operation may stand on the very line that calls the other
    return chosen.stack[max(0, min(len(chosen.stack) - level, len(chosen.stack) - 1))]


def _taken_besides(judgement: Judgement, value: Value, user: Operation, missing: Operation) -> bool:
    """Whether others take a value as in the reference, a residual: it was handed on rightly, and the step is missing later."""
    kinds = {o.kind for o in computing_users(value) if o is not user and o.kind not in MOVES}
    theirs = {o.kind for p in judgement.partners(value) for o in computing_users(p) if o is not missing}
    return bool(kinds & theirs)


def _elsewhere(judgement: Judgement, missing: Operation, user: Operation) -> str | None:
    """The line that does something else with what the missing operation takes besides: there the step is done, but at the wrong place.

    None where the value is used as the reference uses it, or not at all.
    """
    taken = {p for v in user.inputs for p in judgement.partners(v)}
    for due in missing.inputs:
        if due in taken or due.maker is None or not is_telling(due):
            continue
        todo = list(judgement.backwards.equals(due))
        for value in todo:
            for other in value.users:
                made = [v for v in other.outputs if v.users] or other.outputs[:1]  # not what a normalisation notes besides
                if all(judgement.is_right(v) for v in made):
                    todo += made if len(todo) < CONTEXT else []
                elif other is not user and other.stack and other.stack[1:] == user.stack[1:]:
                    return other.stack[0]
    return None


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
    return None


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
        if maker is not None and maker.stack and users and all(v in judgement.wrong for u in users for v in u.outputs):
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
    if maker is None or other is None:
        return operation.stack[0]
    return operation.stack[min(len(operation.stack) - 1, max(0, len(operation.stack) - 1 - common(other, maker)))]
