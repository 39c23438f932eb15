"""From a guilty operation to the line that a porter has to look at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.lines import element_order, idle_layer, missing_step, simple_values, unpacked
from paralign.locate.lines import region as regions
from paralign.locate.lines.kinds import REGION_RULES, Kind, Region, classify, foreign, other_mask
from paralign.locate.lines.rule import Proposal, Rule, proposals
from paralign.locate.runs import lengths
from paralign.locate.runs.construction import Passage, construction, is_container_line
from paralign.locate.runs.counterparts import apart, digests_of, is_telling, same_shape
from paralign.locate.runs.traverse import (
    CONTEXT,
    before_moves,
    common,
    computing,
    computing_users,
    first_wrong,
    inner_lines,
    made_by,
    makers,
    parting,
    taken_besides,
    taken_by,
    users_of,
    way_to,
)
from paralign.locate.source.call_arguments import differing
from paralign.locate.source.statements import listed_line, named_for
from paralign.locate.suspects.propose import Reason, results

if TYPE_CHECKING:
    from paralign.locate.formula.repair import Repair
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.types import Guilt


@dataclass(frozen=True)
class Fault:
    """What rules about a line are asked: a fault, its kind and both sides' operations."""

    guilt: Guilt
    kind: Kind
    other: Operation | None
    operation: Operation

    @classmethod
    def of(cls, guilt: Guilt) -> Fault:
        """A fault, classified."""
        return cls(guilt, *classify(guilt))

    @property
    def judgement(self) -> Judgement:
        """Of the run as it is."""
        return self.guilt.judgement

    @cached_property
    def simple_input(self) -> str | None:
        """The line that made a simple value which the operation takes in place of another one."""
        if self.kind is not Kind.DIFFERENT:
            return None
        return simple_values.input_line(self.operation, self.other)

    @cached_property
    def construction(self) -> Passage | None:
        """The lines that constructed an operation's layer, where that may be at fault."""
        by_layer = self.kind in (Kind.DIFFERENT, Kind.GIVEN) and self.simple_input is None
        if by_layer and lengths.are_missing(self.judgement, self.operation):
            return None
        if not by_layer and not is_container_line(self.judgement.candidate, self.operation):
            return None
        built = construction(self.judgement.candidate, self.operation)
        if not built:
            return None
        return Passage(self.judgement, self.guilt, self.operation, built, by_construction=True, twin=self.other)

    @cached_property
    def call(self) -> Passage | None:
        """The lines that called an operation which makes something else of the same inputs."""
        stack = self.operation.stack
        if self.kind is not Kind.DIFFERENT or not stack:
            return None
        return Passage(self.judgement, self.guilt, self.operation, stack)

    @cached_property
    def handed_in(self) -> Passage | None:
        """The lines that called an operation which takes elements in another order."""
        stack = self.operation.stack
        if self.kind is not Kind.ORDER or not stack:
            return None
        return Passage(self.judgement, self.guilt, self.operation, stack, alike=True, apart=True)


@dataclass(frozen=True)
class MissingStep:
    """What rules about a missing step are asked: the step, and what goes on without it.

    ``after`` is the reference's operation beside the candidate's.
    """

    guilt: Guilt
    step: Operation
    user: Operation
    after: Operation | None

    @property
    def judgement(self) -> Judgement:
        """Of the run as it is."""
        return self.guilt.judgement


@dataclass(frozen=True)
class Wired:
    """What rules about a value are asked that an operation takes in place of another one."""

    guilt: Guilt
    operation: Operation
    other: Operation

    @property
    def judgement(self) -> Judgement:
        """Of the run as it is."""
        return self.guilt.judgement


#: numbers that differ by less than this share are the same, stored in another precision
SAME = 1e-6


def candidate_lines(guilt: Guilt) -> list[Proposal[str]]:
    """The candidate's line to look at first, and what all other rules propose.

    A layer of the framework that does something else with right inputs is wrong in how it was constructed; an operation that has
    other inputs than its counterpart is wrong where it is called; a missing one where its input was handed on too early.
    """
    if guilt.repair is not None:
        return proposals(REPAIR_RULES, guilt.repair) + candidate_lines(replace(guilt, repair=None))
    fault = Fault.of(guilt)
    if fault.kind is Kind.MISSING and fault.other is not None:
        return _lacking_lines(guilt, fault.other, fault.operation) + proposals(OPERATION_RULES, fault)
    if not fault.operation.stack or fault.kind not in (Kind.MISWIRED, Kind.REGION):
        return proposals(OPERATION_RULES, fault)
    if fault.kind is Kind.MISWIRED and fault.other is not None:
        return proposals(WIRED_RULES, Wired(guilt, fault.operation, fault.other)) + proposals((CALL_SITE,), fault)
    return _region_lines(fault) + proposals((CALL_SITE,), fault)


def _lacking_lines(guilt: Guilt, missing: Operation, operation: Operation) -> list[Proposal[str]]:
    """The lines at which a step of the reference may be missing."""
    judgement, after = guilt.judgement, guilt.trial.due.maker
    if guilt.trial.why is Reason.END:
        return proposals(MISSING_AT_END_RULES, MissingStep(guilt, missing, operation, None))
    user = missing_step.taken_plainly(judgement, missing, operation)
    if user is not operation:
        alike = [each for each in users_of(missing.outputs) if each.kind == user.kind]
        after = alike[0] if alike else after
    return proposals(MISSING_RULES, MissingStep(guilt, missing, user, after))


def _region_lines(fault: Fault) -> list[Proposal[str]]:
    """The lines of a region of which ``fault.operation`` is to be looked at first."""
    trial = fault.guilt.trial
    region = proposals(REGION_RULES, Region(fault.judgement, trial, fault.guilt.slices))
    singled_out = [Proposal(each.rule, each.answer.stack[0]) for each in region if each.answer.stack]
    return proposals(REGION_LINE_RULES, fault) + singled_out


def _numbers_of_region(fault: Fault) -> str | None:
    """What a region takes that was computed of numbers alone, if nothing else stands out."""
    trial = fault.guilt.trial
    return _of_numbers(fault.judgement, trial.region) if fault.operation is trial.suspect else None


def _module_chosen(asked: Wired) -> str | None:
    """Where its module was chosen, which decided on the parameters that an operation takes."""
    if not any(v.is_parameter for v in foreign(asked.judgement, asked.operation, asked.other)):
        return None
    return Passage(asked.judgement, asked.guilt, asked.operation, asked.operation.stack, alike=True).innermost


def _element_order(fault: Fault) -> str | None:
    """The line that brought elements into another order."""
    if fault.kind is not Kind.ORDER or not fault.operation.stack:
        return None
    return _as_listed(fault.operation, fault.other) or element_order.otherwise_shaped(fault.operation, fault.other)


#: operations that take a list of values
_OF_LISTS = frozenset({"concatenate", "stack"})


def _listed_parts(fault: Fault) -> str | None:
    """The line that writes out the parts which an operation joins in another order."""
    if fault.operation.kind not in _OF_LISTS or fault.kind is not Kind.ORDER or not fault.operation.stack:
        return None
    return listed_line(fault.operation.stack[0])


#: operations that make of masked elements nothing, and of others as many shares
_OF_SHARES = frozenset({"softmax", "log_softmax"})


def _mask_behind(fault: Fault) -> str | None:
    """The line that made the mask behind shares that differ by nothing else.

    Masked elements do not count, so that a wrong mask leaves its result right. The same step with the same arguments makes something else
    of it all the same.
    """
    operation, other = fault.operation, fault.other
    if fault.kind is not Kind.DIFFERENT or operation.kind not in _OF_SHARES:
        return None
    if other is None or other.kind != operation.kind or differing(operation.arguments, other.arguments):
        return None
    for maker in map(computing, makers(operation.inputs)):
        if maker is None or maker.kind != "where":
            continue
        masks = [v for v in maker.inputs if v.record.dtype == "bool"]
        if len(masks) != 1:
            continue
        made = before_moves(masks[0], maker.source).maker
        if made is not None and made.stack:
            return made.stack[0]
    return None


def _input_shape(fault: Fault) -> str | None:
    """The line that gave an input another shape."""
    other = fault.other
    if fault.kind is not Kind.DIFFERENT or other is None or other.kind != fault.operation.kind or not fault.operation.stack:
        return None
    return _laid_out(fault.operation, other)


def _made_in_its_place(asked: Wired) -> str | None:
    """The line that made, for this operation alone, the value that it takes wrongly."""
    if asked.other.kind != asked.operation.kind:
        return None
    return _made_for_it(asked.judgement, asked.operation, asked.other, asked.guilt.trial.due)


def _named_for_it(judgement: Judgement, operation: Operation, other: Operation) -> str | None:
    """The line that gave a value a second name, by which an operation wrongly takes it."""
    if not operation.stack:
        return None
    known = digests_of(other.inputs)
    for value in operation.inputs:
        if not judgement.is_established(value) or not known.isdisjoint(digests_of(judgement.partners(value))):
            continue
        maker = before_moves(value, operation.source).maker
        if maker is None or not maker.stack:
            continue
        made, taken = inner_lines(maker, operation)
        line = named_for(taken, made)
        if line is not None:
            return line
    return None


def _handed_on(judgement: Judgement, missing: Operation, user: Operation, after: Operation | None) -> str | None:
    """The candidate's line that handed on a value without what the reference does to it first.

    The missing operation is placed in the reference by what its calls have in common with those of the operation before it; the
    candidate's line is at the same depth of its own calls.
    """
    before, value = _taken_without(judgement, missing, user, after)
    maker = None if value is None else computing(value.maker)
    other = None if before is None else computing(before.maker)
    if value is None or maker is None or not maker.stack or not user.stack:
        return user.source
    if other is None:
        return maker.stack[0]
    same_line_after = after is not None and missing.source == after.source and missing.source != other.source
    besides = same_line_after or taken_besides(judgement, value, user, missing)
    if maker.stack[1:] == user.stack[1:]:  # the step is missing in the very function that hands the value on
        return user.stack[0] if besides else maker.stack[0]
    with_before = common(missing, other)
    with_after = 0 if after is None else common(missing, after)
    if with_after > with_before or besides:
        return _outside(user, with_after, missing)
    return _outside(maker, with_before, missing)


def _outside(operation: Operation, shared: int, missing: Operation) -> str:
    """The line of an operation just inside the outermost ``shared`` lines."""
    level = min(shared + 1, len(missing.stack))
    return operation.stack[max(0, min(len(operation.stack) - level, len(operation.stack) - 1))]


def _taken_without(judgement: Judgement, missing: Operation, user: Operation, after: Operation | None) -> tuple[Value | None, Value | None]:
    """What the missing step takes, and the candidate's value that is handed on without it."""
    candidates = [v for v in user.inputs if v.maker is not None and judgement.is_established(v)]
    due = computing(after)
    taken = set() if due is None else {v.digest for v in due.inputs}
    candidates.sort(key=lambda v: any(p.digest in taken for p in judgement.partners(v)))  # what the reference does not take there first
    for value in candidates:
        for partner in judgement.partners(value):
            if partner in missing.inputs and partner.maker is not None:
                return partner, value
    before = _first_had(judgement, missing.inputs)
    given = [] if after is None else after.inputs
    for value in candidates:
        if judgement.partners_of([value]).isdisjoint(given):
            return before, value
    return before, candidates[0] if candidates else None


def _first_had(judgement: Judgement, values: list[Value]) -> Value | None:
    """The first computed value of the reference that the candidate has too; None without one."""
    for value in values:
        if value.maker is not None and not judgement.lacking(value):
            return value
    return None


def _of_numbers(judgement: Judgement, region: list[Operation]) -> str | None:
    """The line that computed, of numbers alone, what a region takes beside right values.

    None where there is no such operation.
    """
    bare: set[Value] = set()
    for operation in region:
        others = [v for v in operation.inputs if v not in bare]
        if all(judgement.is_right(v) and not is_telling(v) for v in others):
            bare.update(operation.outputs)
            continue
        numbers = [v for v in operation.inputs if v in bare]
        if not numbers or not any(map(judgement.is_established, others)):
            return None
        return _computed_at(numbers[0].maker)
    if not region or not bare.issuperset(region[-1].outputs):
        return None
    return _computed_at(region[-1])


def _computed_at(maker: Operation | None) -> str | None:
    """The line of what computed a value, moves looked through."""
    maker = computing(maker)
    return maker.source if maker is not None else None


def _as_listed(operation: Operation, other: Operation | None) -> str | None:
    """The one line that made all joined parts, in that very order."""
    if other is None or operation.kind != other.kind or operation.kind not in ("concatenate", "stack"):
        return None
    made_by = makers(operation.inputs)
    if len(made_by) < max(2, len(operation.inputs)):
        return None
    lines = {maker.source for maker in made_by}
    if len(lines) != 1 or operation.source in lines:
        return None
    orders = [maker.order for maker in made_by]
    return lines.pop() if orders == sorted(set(orders)) else None


def _made_for_it(judgement: Judgement, operation: Operation, other: Operation | None, due: Value) -> str | None:
    """The line that made the wrong value of an operation, if nothing else rightly uses it.

    None where the value is right for others: then it was only taken at the wrong place.
    """
    way = [other] if other is not None else way_to(judgement, due, CONTEXT)
    if operation.kind not in {o.kind for o in way}:
        return None
    plain_mask = _plain_mask(operation, way[0])
    if plain_mask is not None:
        return plain_mask
    if not operation.stack:
        return None
    taken = digests_of(taken_by(way))
    for value in operation.inputs:
        if value.maker is None or not judgement.is_established(value):
            continue
        if not taken.isdisjoint(digests_of(judgement.partners(value))):
            continue
        before = before_moves(value, operation.source)
        if before.maker is None or not before.maker.stack:
            continue
        if _is_wrongly_used(judgement, before):
            return parting(first_wrong(judgement, before.maker), operation)
    return None


def _is_wrongly_used(judgement: Judgement, value: Value) -> bool:
    """Whether all that is computed with a value is wrong, and something is."""
    users = [u for u in computing_users(value) if u.kind not in MOVES]
    return bool(users) and judgement.wrong.issuperset(made_by(users))


def _plain_mask(operation: Operation, other: Operation) -> str | None:
    """The line that computed the plain mask that an operation takes for another one."""
    for due in other.inputs:
        mask = other_mask(operation, due)
        if mask is not None:
            return None if is_telling(mask) else _computed_at(mask.maker)
    return None


def _laid_out(operation: Operation, other: Operation) -> str | None:
    """The line that gave a value of the right elements another shape.

    None where no input is so.
    """
    for value in operation.inputs:
        for partner in other.inputs:
            if value.shape == partner.shape or len(value.shape) != len(partner.shape):
                continue
            if not same_shape(value, partner) or apart(value, partner) > SAME:
                continue
            shaped = _first_so_shaped(value)
            if shaped.maker is not None and shaped.maker.stack:
                return shaped.maker.stack[0]
    return None


def _first_so_shaped(value: Value) -> Value:
    """A value as it was when it first had its shape."""
    while value.maker is not None and value.maker.inputs:
        before = value.maker.inputs[0]
        if before.shape != value.shape:
            break
        value = before
    return value


def _called(judgement: Judgement, operation: Operation, other: Operation | None) -> str:
    """The line at which an operation or its module is given another value.

    In the reference, the calls of the operation part somewhere from those that made the value that it takes; the candidate's line is at
    the same depth.
    """
    if other is None:
        return operation.stack[0]
    taken = judgement.partners_of(operation.inputs)
    lacked = [v for v in other.inputs if v.maker is not None and v not in taken]
    maker = computing(lacked[0].maker) if lacked else None
    if maker is None:
        return operation.stack[0]
    shared = max(common(other, maker), _rightly_handed(judgement, operation, other))
    for value in judgement.backwards.equals(lacked[0]):
        for user in computing_users(value):
            if any(map(judgement.is_right, results(user))):  # so far it was handed on rightly
                shared = max(shared, common(operation, user))
    return operation.stack[min(len(operation.stack) - 1, max(0, len(operation.stack) - 1 - shared))]


#: lines that belong to one call of a module: the operation's, and that which calls the module
_OWN = 2


def _rightly_handed(judgement: Judgement, operation: Operation, other: Operation) -> int:
    """How many outermost lines an operation shares with right users of its wrong value.

    So far the value was handed on rightly. Where a loop calls one module after the other the lines are the same: then what is wrong is
    inside the loop, at the call of the module.
    """
    shared = 0
    for value in operation.inputs:
        if not set(other.inputs).isdisjoint(judgement.partners(value)):
            continue
        for user in computing_users(value):
            if not _in_one_call(operation, user) and any(map(judgement.is_right, results(user))):
                inside = _OWN if _called_again(operation, user) else 0
                shared = max(shared, common(operation, user) - inside)
    return shared


def _in_one_call(operation: Operation, user: Operation) -> bool:
    """Whether one call of a module made both: what it was handed may be right elsewhere."""
    return user is operation or (bool(operation.module) and user.module == operation.module and user.stack[1:] == operation.stack[1:])


def _called_again(operation: Operation, user: Operation) -> bool:
    """Whether the same lines called two operations, as of two modules in a loop."""
    return operation.stack == user.stack and operation.module != user.module


def _placed(asked: MissingStep) -> str | None:
    mended = asked.guilt.mended or asked.judgement
    return _past_helper(asked, missing_step.place(asked.judgement, mended, asked.step, asked.user, asked.after))


def _past_helper(asked: MissingStep, line: str | None) -> str | None:
    """A line at which a step may be missing; of a helper that is right elsewhere, its call."""
    user = asked.user
    if not user.stack or line != user.stack[0]:
        return line
    return Passage(asked.judgement, asked.guilt, user, user.stack, alike=True, apart=True).unshared


#: one change of the formula that makes its result the reference's
REPAIR_RULES: tuple[Rule[Repair, str], ...] = (
    Rule("formula-repair", "the step of a formula whose change makes its result right", lambda repair: repair.line),
)

#: where an operation is called, which is always known, unless it is the framework's own
CALL_SITE: Rule[Fault, str] = Rule("call-site", "where the operation is called", lambda f: next(iter(f.operation.stack), None))

#: lines of an operation that stands for one of the reference
OPERATION_RULES: tuple[Rule[Fault, str], ...] = (
    Rule(
        "construction-argument",
        "the call that gave a layer the argument that differs",
        lambda f: f.construction.argument() if f.construction is not None else None,
    ),
    Rule(
        "construction-site",
        "where the layer was constructed",
        lambda f: f.construction.innermost if f.construction is not None else None,
    ),
    Rule("element-order", "where elements were brought into another order", _element_order),
    Rule("listed-parts", "the list of parts that are joined in another order", _listed_parts),
    Rule("input-shape", "where an input was given another shape", _input_shape),
    Rule("simple-input", "where a simple value was made or named", lambda f: f.simple_input if f.operation.stack else None),
    Rule("mask-behind", "what made the mask of elements that get no share", _mask_behind),
    Rule(
        "own-module-setting",
        "where the user's module was constructed whose setting the line reads",
        lambda f: f.call.own_setting() if f.call is not None else None,
    ),
    Rule("call-not-shared", "the innermost line no right operation has passed", lambda f: f.call.innermost if f.call is not None else None),
    Rule(
        "order-handed-in",
        "the innermost line by which no right operation came to take elements in another order",
        lambda f: f.handed_in.innermost if f.handed_in is not None else None,
    ),
    CALL_SITE,
)

#: lines of several operations that stand for others of the reference; see also ``kinds.REGION_RULES``
REGION_LINE_RULES: tuple[Rule[Fault, str], ...] = (
    Rule(
        "parts-named",
        "where parts of a tensor get each other's names",
        lambda f: unpacked.of_region(f.judgement, f.guilt.trial, f.operation),
    ),
    Rule(
        "value-made-for-region",
        "where a value was made that only the region takes",
        lambda f: _made_for_it(f.judgement, f.operation, None, f.guilt.trial.due),
    ),
    Rule("numbers-of-region", "where numbers were computed that the region takes", _numbers_of_region),
)

#: where a step of the reference is missing after all others
MISSING_AT_END_RULES: tuple[Rule[MissingStep, str], ...] = (
    Rule("end-placed", "between the counterparts of the reference's neighbouring operations", _placed),
)

#: where a step of the reference is missing before an operation
MISSING_RULES: tuple[Rule[MissingStep, str], ...] = (
    Rule(
        "missing-idle-layer",
        "a layer that is built and never called: beside its neighbours",
        lambda m: idle_layer.beside_idle_layer(m.judgement, m.step, m.user),
    ),
    Rule(
        "missing-elsewhere", "the candidate does the step at another place", lambda m: missing_step.elsewhere(m.judgement, m.step, m.user)
    ),
    Rule(
        "missing-unused",
        "what is made and never used: where it could be used first",
        lambda m: missing_step.left_unused(m.judgement, m.step),
    ),
    Rule(
        "missing-in-helper",
        "in the function that the neighbouring steps are in",
        lambda m: missing_step.in_helper(m.judgement, m.step, m.user),
    ),
    Rule(
        "missing-term", "a sum or product without one of its terms", lambda m: regions.without_term(m.judgement, m.user, m.guilt.trial.twin)
    ),
    Rule(
        "missing-simple-value",
        "a simple value in place of what the step makes",
        lambda m: simple_values.input_line(m.user, m.guilt.trial.twin, m.judgement.reference.operations),
    ),
    Rule(
        "missing-beside", "an operation that takes the step's other operand", lambda m: regions.beside(m.judgement, m.step, m.user, m.after)
    ),
    Rule("missing-placed", "between the counterparts of the reference's neighbouring operations", _placed),
    Rule(
        "missing-handed-on",
        "where the value is handed on without the step",
        lambda m: _past_helper(m, _handed_on(m.judgement, m.step, m.user, m.after)),
    ),
)

#: where an operation takes another value than the reference's
WIRED_RULES: tuple[Rule[Wired, str], ...] = (
    Rule(
        "parts-named-for-it",
        "where parts of a tensor get each other's names",
        lambda w: unpacked.line(w.judgement, [w.operation], [w.other]),
    ),
    Rule("module-chosen", "where the module was chosen that has other parameters", _module_chosen),
    Rule("value-made-for-it", "where the value was made, if nothing else rightly takes it", _made_in_its_place),
    Rule(
        "value-named-for-it",
        "where the value got the name by which it is taken",
        lambda w: _named_for_it(w.judgement, w.operation, w.other),
    ),
    Rule("value-handed-on", "where the operation or its module is given the value", lambda w: _called(w.judgement, w.operation, w.other)),
)
