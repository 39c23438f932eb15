"""Which kind of fault a guilty operation shows, and which operations it concerns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.lines import element_order, idle_layer
from paralign.locate.lines import region as regions
from paralign.locate.lines.rule import Rule, strongest
from paralign.locate.runs.counterparts import ALIKE, digests_of, is_telling, ordered_distance, same_shape
from paralign.locate.runs.traverse import CONTEXT, before_any_moves, computing, makers, taken_by, way_to
from paralign.locate.suspects.propose import Reason

if TYPE_CHECKING:
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.runs.slices import Slices
    from paralign.locate.suspects.propose import Trial
    from paralign.locate.types import Guilt

#: reference operations that are followed back from what is due
REACH = 400

#: steps that both sides take alike, of another value each, and that are followed back
ALIKE_STEPS = 8


class Kind(Enum):
    """What kind of fault a guilty operation shows."""

    #: the same inputs, another result
    DIFFERENT = "different"
    #: the reference does something with the inputs first
    MISSING = "missing"
    #: the reference uses the input as it is
    EXTRA = "extra"
    #: the reference takes another value, which the candidate has too
    MISWIRED = "miswired"
    #: several operations, none of which has a counterpart
    REGION = "region"
    #: a parameter, buffer or constant that the reference does not have
    GIVEN = "given"
    #: the right elements in another order
    ORDER = "order"


@dataclass(frozen=True)
class Region:
    """What rules about several operations are asked, of which one is at fault."""

    judgement: Judgement
    trial: Trial
    slices: Slices | None


def classify(guilt: Guilt) -> tuple[Kind, Operation | None, Operation]:
    """What kind of fault it is, the reference's operation concerned, and the candidate's."""
    trial, judgement = guilt.trial, guilt.judgement
    maker, twin = trial.value.maker or trial.suspect, trial.due.maker
    if guilt.repair is not None:
        return Kind.REGION, twin, guilt.repair.operation
    if trial.why is Reason.ORDER:
        return Kind.ORDER, twin, maker
    if trial.why in (Reason.BEFORE, Reason.END):
        return Kind.MISSING, _first_lacking(judgement, trial.due) or twin, trial.suspect if trial.why is Reason.BEFORE else maker
    turned = _turned(judgement, maker, twin)
    if turned is not None:
        return Kind.ORDER, twin, turned
    if _is_wrongly_given(judgement, trial, maker):
        return Kind.GIVEN, twin, maker
    return _of_region(judgement, trial, guilt.slices) if len(trial.region) > 1 else _of_operation(judgement, trial, maker)


def _is_wrongly_given(judgement: Judgement, trial: Trial, maker: Operation) -> bool:
    """Whether an operation takes what is given, and the reference does not have."""
    single = sum(o.kind not in MOVES for o in trial.region) <= 1
    for value in maker.inputs:
        first = before_any_moves(value) if single else value
        if first.maker is not None or judgement.is_right(first):
            continue
        if not judgement.leads_right(first, [maker]):
            return True
    return False


def _of_region(judgement: Judgement, trial: Trial, slices: Slices | None) -> tuple[Kind, Operation | None, Operation]:
    """The kind of fault of several operations of which one is at fault."""
    twin, maker = trial.due.maker, trial.value.maker or trial.suspect
    for operation in way_to(judgement, trial.due, len(trial.region) + CONTEXT):
        if idle_layer.idle_layer(judgement, operation, trial.suspect):
            return Kind.MISSING, operation, trial.suspect
    if not _in_one_layer(judgement, trial.region) and not _is_one(trial):
        return _of_steps(judgement, trial, slices)
    if twin is None:
        return Kind.DIFFERENT, twin, maker
    first = trial.suspect
    arranged = _otherwise_arranged(judgement, first, twin)
    if arranged is not None:
        return (*arranged, first)
    if first.kind == twin.kind and _lacked_inputs(judgement, first, twin):
        return _by_inputs(judgement, first, twin)
    return Kind.DIFFERENT, twin, first if _is_one(trial) else maker


def _lacked_inputs(judgement: Judgement, maker: Operation, twin: Operation) -> list[Value]:
    """The computed inputs of the reference's operation that the candidate has nowhere."""
    return [v for v in foreign(judgement, maker, twin) if v.maker is not None and judgement.lacking(v)]


def _of_steps(judgement: Judgement, trial: Trial, slices: Slices | None) -> tuple[Kind, Operation | None, Operation]:
    """The kind of fault of operations of several layers, and which of them is the likeliest."""
    pair = regions.of_one_layer(judgement, trial.region)
    if pair is not None:
        twin, maker = pair
        turned = _turned(judgement, maker, twin)
        return (Kind.ORDER, twin, turned) if turned is not None else (Kind.DIFFERENT, twin, maker)
    told = strongest(REGION_RULES, Region(judgement, trial, slices))
    return Kind.REGION, trial.due.maker, told.answer if told is not None else trial.suspect


def _of_operation(judgement: Judgement, trial: Trial, maker: Operation) -> tuple[Kind, Operation | None, Operation]:
    """The kind of fault of a single operation."""
    twin = trial.due.maker
    if trial.why is Reason.MEETING or maker.kind not in MOVES:
        twin = computing(twin)
    if not maker.random and not judgement.lacking(trial.due) and _takes(judgement, maker, trial.due):
        before = regions.done_before(judgement, maker, twin) if twin is not None else None
        return Kind.EXTRA, twin, before or maker
    if twin is None or maker.random:
        return Kind.DIFFERENT, twin, maker
    arranged = _otherwise_arranged(judgement, maker, twin)
    if arranged is not None:
        return (*arranged, maker)
    if judgement.same_inputs(maker, twin):
        return (Kind.MISSING if regions.comes_first(maker, twin) else Kind.DIFFERENT), twin, maker
    return _by_inputs(judgement, maker, twin)


def _turned(judgement: Judgement, maker: Operation, twin: Operation | None) -> Operation | None:
    """What brought the inputs of an operation into an order that its twin does not take."""
    if twin is None:
        return None
    for value in maker.inputs:
        if not judgement.disordered(value):
            continue
        if any(p in twin.inputs and same_shape(p, value) for p in judgement.partners(value)):
            return judgement.disorder(value)
    return None


def _otherwise_arranged(judgement: Judgement, maker: Operation, twin: Operation) -> tuple[Kind, Operation] | None:
    """The reference's reordering that an operation's inputs lack or have elsewhere.

    The candidate either lacks the step or has the elements in that order too, but takes them in another one. None where orders agree.
    """
    for value in filter(is_telling, maker.inputs):
        due = [p for p in judgement.partners(value) if p in twin.inputs]
        if not due or due[0].maker is None:
            continue
        if not all(_is_in_other_order(p, value) for p in due):
            continue
        kind = Kind.MISWIRED if _has_in_order(judgement, due[0], value) else Kind.MISSING
        return kind, due[0].maker
    return None


def _is_in_other_order(due: Value, value: Value) -> bool:
    """Whether elements are known to be in another order than the reference's."""
    far = ordered_distance(due, value)
    return far is not None and far > ALIKE


def _has_in_order(judgement: Judgement, due: Value, besides: Value) -> bool:
    """Whether the candidate has a reference's value in its order too, besides another."""
    for value in judgement.backwards.equals(due):
        far = ordered_distance(due, value)
        if value is not besides and far is not None and far <= ALIKE:
            return True
    return False


def _takes(judgement: Judgement, operation: Operation, due: Value) -> bool:
    """Whether an operation takes a value of the reference."""
    return due in judgement.partners_of(filter(judgement.is_right, operation.inputs))


def _by_inputs(judgement: Judgement, maker: Operation, twin: Operation) -> tuple[Kind, Operation | None, Operation]:
    """The kind of fault of an operation that takes other values than its twin."""
    lacked = _lacked_inputs(judgement, maker, twin)
    if lacked and twin.kind == maker.kind and other_mask(maker, lacked[0]) is not None:
        return Kind.MISWIRED, twin, maker
    if lacked:
        return _by_lacked(judgement, maker, twin, lacked[0])
    computing = [v for v in foreign(judgement, maker, twin) if v.maker is not None or v.is_parameter]
    return (Kind.MISWIRED if computing and twin.kind == maker.kind else Kind.DIFFERENT), twin, maker


def _by_lacked(judgement: Judgement, maker: Operation, twin: Operation, lacked: Value) -> tuple[Kind, Operation | None, Operation]:
    """The kind of fault of an operation whose twin takes a value that the candidate lacks."""
    first = _first_lacking(judgement, lacked)
    arranged = element_order.before(judgement, first)
    if arranged is not None:
        return (Kind.ORDER if arranged[2] else Kind.MISSING), *arranged[:2]
    told = regions.made_plain(judgement, maker, first) or regions.without_effect(judgement, first)
    if told is not None:
        return Kind.DIFFERENT, first, told
    if first is not None and first.module == twin.module in judgement.reference.kinds and maker.module in judgement.candidate.kinds:
        return Kind.DIFFERENT, twin, maker  # what a layer of the framework does first is no step of the program
    if twin.kind == maker.kind and _from_elsewhere(judgement, maker, twin, lacked):
        return (Kind.MISWIRED, *_where_it_enters(judgement, maker, twin)[::-1])
    return (Kind.MISWIRED if first is not None and _is_done(judgement, maker, first) else Kind.MISSING), first, maker


def _where_it_enters(judgement: Judgement, maker: Operation, twin: Operation) -> tuple[Operation, Operation]:
    """Back along steps that both sides take alike, to where their values part."""
    for _ in range(ALIKE_STEPS):
        due = _lacked_inputs(judgement, maker, twin)
        theirs = computing(due[0].maker) if due else None
        if theirs is None:
            break
        steps = map(computing, makers(_from_elsewhere(judgement, maker, twin, due[0])))
        step = next((each for each in steps if each is not None and each.kind == theirs.kind), None)
        if step is None or step.order >= maker.order or theirs.order >= twin.order:
            break
        maker, twin = step, theirs
    return maker, twin


def _from_elsewhere(judgement: Judgement, maker: Operation, twin: Operation, due: Value) -> list[Value]:
    """What an operation takes that has no part in making what is due there.

    Empty where it takes something that has: then a step is missing.
    """
    due_there = digests_of(twin.inputs)
    on_the_way = digests_of(taken_by(way_to(judgement, due, REACH)))
    found: list[Value] = []
    for value in maker.inputs:
        if value.maker is None or not judgement.is_established(value):
            continue
        digested = digests_of(judgement.partners(value))
        if digested & due_there:
            continue
        if digested & on_the_way:
            return []
        found.append(value)
    return found


def other_mask(operation: Operation, due: Value) -> Value | None:
    """The boolean mask that an operation takes in place of the reference's boolean mask."""
    if due.record.dtype != "bool":
        return None
    for v in operation.inputs:
        if v.record.dtype == "bool" and v.maker is not None:
            return v
    return None


def _is_done(judgement: Judgement, operation: Operation, lacked: Operation) -> bool:
    """Whether the candidate's module does the step too, but with another value."""
    if not operation.module or lacked.module != operation.module:
        return False
    for other in judgement.candidate.operations:
        if other.module != operation.module or other.kind != lacked.kind:
            continue
        if other.order < operation.order and other.stack[1:] == operation.stack[1:]:
            return True
    return False


def _in_one_layer(judgement: Judgement, region: list[Operation]) -> bool:
    """Whether all operations of a region belong to one layer of the framework."""
    modules = {operation.module for operation in region}
    return len(modules) == 1 and next(iter(modules)) in judgement.candidate.kinds


def _is_one(trial: Trial) -> bool:
    """Whether a region is one operation of the reference: a convolution and its bias."""
    if trial.why is not Reason.TWIN or trial.twin is None or trial.suspect not in trial.region:
        return False
    if trial.twin.kind != trial.suspect.kind:
        return False
    for operation in trial.region:
        if operation is trial.suspect or operation.kind in MOVES:
            continue
        if not any(before_any_moves(v).is_parameter for v in operation.inputs):
            return False
    return True


def foreign(judgement: Judgement, maker: Operation, twin: Operation) -> list[Value]:
    """Inputs of the reference's operation that the candidate's does not take."""
    known = digests_of(judgement.partners_of(maker.inputs))
    return [v for v in twin.inputs if is_telling(v) and v.digest not in known]


def _first_lacking(judgement: Judgement, value: Value) -> Operation | None:
    """The first operation on the way to a value that the candidate lacks.

    What makes the mask of an operation that takes the candidate's value beside it is part of that operation.
    """
    maker = value.maker
    while maker is not None:
        lacking = [each for each in maker.inputs if judgement.lacking(each)]
        if any(each.maker is not None and is_telling(each) for each in maker.inputs if each not in lacking):
            lacking = [each for each in lacking if each.record.dtype != "bool"]
        before = [each for each in makers(lacking) if each.kind != "fill"]
        if not before:
            return maker
        maker = before[0]
    return None


#: where several operations stand for others of the reference: which of them to look at first
REGION_RULES: tuple[Rule[Region, Operation], ...] = (
    Rule("region-idle", "what hands on to the region what it takes itself", lambda r: regions.idle(r.judgement, r.trial)),
    Rule("region-outgrown", "what repeats values against each other", lambda r: regions.outgrown(r.judgement, r.trial.region)),
    Rule(
        "region-slice",
        "the first of several parts of a value of the reference that is wrong",
        lambda r: r.slices.first_wrong(r.judgement, r.trial.region) if r.slices is not None else None,
    ),
    Rule(
        "region-likeliest",
        "what the reference does with the same values, with another result",
        lambda r: regions.likeliest(r.judgement, r.trial),
    ),
    Rule(
        "region-odd",
        "what takes a value or a number that the reference does not use there",
        lambda r: regions.odd(r.judgement, r.trial.region, r.trial.due),
    ),
)
