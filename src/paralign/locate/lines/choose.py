"""From a guilty operation to the line that a porter has to look at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from paralign.adapters._kinds import MOVES
from paralign.locate.lines import element_order, idle_layer, missing_step, simple_values
from paralign.locate.lines import region as regions
from paralign.locate.lines.kinds import REGION_RULES, Kind, Region, classify, foreign, other_mask
from paralign.locate.lines.rule import Proposal, Rule, proposals
from paralign.locate.runs.construction import Passage, constructed, is_container_line
from paralign.locate.runs.counterparts import apart, is_telling, same_shape
from paralign.locate.runs.traverse import (
    CONTEXT,
    before_moves,
    common,
    computing,
    computing_users,
    inner_lines,
    parting,
    taken_besides,
    way_to,
)
from paralign.locate.source.statements import named_for
from paralign.locate.suspects.propose import Reason, results

if TYPE_CHECKING:
    from paralign.locate.formula.repair import Repair
    from paralign.locate.runs.dataflow import Operation, Value
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.types import Guilt


@dataclass(frozen=True)
class Fault:
    """What rules about a line are asked: a fault, its kind, the reference's operation concerned, and the candidate's."""

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
        return simple_values.input_line(self.operation, self.other) if self.kind is Kind.DIFFERENT else None

    @cached_property
    def construction(self) -> Passage | None:
        """The lines that constructed the operation's layer, where its arguments or its place in a container may be at fault."""
        by_layer = self.kind in (Kind.DIFFERENT, Kind.GIVEN) and self.simple_input is None
        if not by_layer and not is_container_line(self.judgement.candidate, self.operation):
            return None
        built = constructed(self.judgement.candidate, self.operation.module)
        return Passage(self.judgement, self.guilt, self.operation, built, by_construction=True, twin=self.other) if built else None

    @cached_property
    def call(self) -> Passage | None:
        """The lines that called an operation which makes something else of the same inputs."""
        stack = self.operation.stack
        return Passage(self.judgement, self.guilt, self.operation, stack) if stack and self.kind is Kind.DIFFERENT else None


@dataclass(frozen=True)
class MissingStep:
    """What rules about a missing step are asked: the reference's operation, the candidate's that goes on without it.

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
    """The candidate's line to look at first, as the strongest rule proposes it, and what the other rules propose.

    A layer of the framework that does something else with right inputs is wrong in how it was constructed; an operation that has
    other inputs than its counterpart is wrong where it is called; a missing one where its input was handed on too early.
    """
    if guilt.repair is not None:
        return proposals(REPAIR_RULES, guilt.repair) + candidate_lines(replace(guilt, repair=None))
    fault = Fault.of(guilt)
    found: list[Proposal[str]] = []
    if fault.kind is Kind.MISSING and fault.other is not None:
        found = _lacking_lines(guilt, fault.other, fault.operation)
    if fault.kind in (Kind.MISWIRED, Kind.REGION) and fault.operation.stack:
        wired = fault.kind is Kind.MISWIRED and fault.other is not None
        found = proposals(WIRED_RULES, Wired(guilt, fault.operation, fault.other)) if wired and fault.other else _region_lines(fault)
        return found + proposals((CALL_SITE,), fault)
    return found + proposals(OPERATION_RULES, fault)


def _lacking_lines(guilt: Guilt, missing: Operation, operation: Operation) -> list[Proposal[str]]:
    """The lines at which a step of the reference may be missing, of whose result the candidate's operation makes something else."""
    judgement, after = guilt.judgement, guilt.trial.due.maker
    if guilt.trial.why is Reason.END:
        return proposals(MISSING_AT_END_RULES, MissingStep(guilt, missing, operation, None))
    user = missing_step.taken_plainly(judgement, missing, operation)
    if user is not operation:
        after = next((u for v in missing.outputs for u in v.users if u.kind == user.kind), after)
    return proposals(MISSING_RULES, MissingStep(guilt, missing, user, after))


def _region_lines(fault: Fault) -> list[Proposal[str]]:
    """The lines of a region of which ``fault.operation`` is to be looked at first."""
    trial = fault.guilt.trial
    region = proposals(REGION_RULES, Region(fault.judgement, trial, fault.guilt.slices))
    singled_out = [Proposal(each.rule, each.answer.stack[0]) for each in region if each.answer.stack]
    return proposals(REGION_LINE_RULES, fault) + singled_out


def _numbers_of_region(fault: Fault) -> str | None:
    """What a region takes that was computed of numbers alone, where no other operation of it stands out."""
    trial = fault.guilt.trial
    return _of_numbers(fault.judgement, trial.region) if fault.operation is trial.suspect else None


def _module_chosen(asked: Wired) -> str | None:
    """Where its module was chosen, which decided on the parameters that an operation takes."""
    if all(not v.is_parameter for v in foreign(asked.judgement, asked.operation, asked.other)):
        return None
    return Passage(asked.judgement, asked.guilt, asked.operation, asked.operation.stack, alike=True).innermost


def _element_order(fault: Fault) -> str | None:
    """The line that brought elements into another order."""
    if fault.kind is not Kind.ORDER or not fault.operation.stack:
        return None
    return _as_listed(fault.operation, fault.other) or element_order.otherwise_shaped(fault.operation, fault.other)


def _input_shape(fault: Fault) -> str | None:
    """The line that gave an input another shape."""
    alike = fault.kind is Kind.DIFFERENT and fault.other is not None and fault.other.kind == fault.operation.kind
    return _laid_out(fault.operation, fault.other) if alike and fault.other is not None and fault.operation.stack else None


def _made_in_its_place(asked: Wired) -> str | None:
    """The line that made, for this operation alone, the value that it takes in place of the reference's."""
    if asked.other.kind != asked.operation.kind:
        return None
    return _made_for_it(asked.judgement, asked.operation, asked.other, asked.guilt.trial.due)


def _named_for_it(judgement: Judgement, operation: Operation, other: Operation) -> str | None:
    """The line that gave a value, which others rightly take, a further name for an operation that takes it in place of the reference's."""
    known = {v.digest for v in other.inputs}
    for value in operation.inputs:
        if judgement.is_established(value) and not any(p.digest in known for p in judgement.partners(value)):
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
    chosen, shared = (user, with_after) if with_after > with_before or besides else (maker, with_before)
    level = min(shared + 1, len(missing.stack))  # the missing operation may stand on the very line that calls the other
    return chosen.stack[max(0, min(len(chosen.stack) - level, len(chosen.stack) - 1))]


def _taken_without(judgement: Judgement, missing: Operation, user: Operation, after: Operation | None) -> tuple[Value | None, Value | None]:
    """What the missing operation takes in the reference, and the candidate's value that is handed on without the step."""
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
    """The line that computed, of numbers alone, what a region's first operation on right values takes beside these: a mask, a table.

    None where there is no such operation.
    """
    bare: set[Value] = set()
    for operation in region:
        if all(v in bare or (not is_telling(v) and judgement.is_right(v)) for v in operation.inputs):
            bare.update(operation.outputs)
            continue
        right = [v for v in operation.inputs if v not in bare and judgement.is_established(v)]
        numbers = next((v for v in operation.inputs if v in bare), None)
        if not right or numbers is None:
            return None
        maker = computing(numbers.maker)
        return maker.stack[0] if maker is not None and maker.stack else None
    last = computing(region[-1]) if region and all(v in bare for v in region[-1].outputs) else None
    return last.stack[0] if last is not None and last.stack else None


def _as_listed(operation: Operation, other: Operation | None) -> str | None:
    """The one line that made all that is put together, where it was made in that very order: that line decided on it."""
    if other is None or operation.kind != other.kind or operation.kind not in ("concatenate", "stack"):
        return None
    makers = [v.maker for v in operation.inputs if v.maker is not None]
    if len(makers) < max(2, len(operation.inputs)):
        return None
    lines = {maker.source for maker in makers}
    if len(lines) != 1 or operation.source in lines:
        return None
    orders = [maker.order for maker in makers]
    return lines.pop() if orders == sorted(set(orders)) else None


def _given_back(operation: Operation, missing: Operation, judgement: Judgement) -> str | None:
    """The candidate's line that gave back an output without what the reference does to it last."""
    if not operation.stack:
        return None
    before = _first_had(judgement, missing.inputs)
    shared = len(operation.stack) - 1
    if before is not None and before.maker is not None:
        shared = common(missing, before.maker)
    return operation.stack[max(0, len(operation.stack) - 1 - shared)]


def _made_for_it(judgement: Judgement, operation: Operation, other: Operation | None, due: Value) -> str | None:
    """The line that made the value which an operation takes in place of the reference's, where nothing else uses that value rightly.

    None where the value is right for others: then it was only taken at the wrong place.
    """
    way = [other] if other is not None else way_to(judgement, due, CONTEXT)
    if all(o.kind != operation.kind for o in way):
        return None
    taken = {v.digest for o in way for v in o.inputs}
    mask = next((m for v in way[0].inputs if (m := other_mask(operation, v)) is not None), None)
    source = computing(mask.maker) if mask is not None and not is_telling(mask) else None
    if source is not None and source.stack:
        return source.stack[0]
    for value in operation.inputs:
        strange = judgement.is_established(value) and not value.is_parameter
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
    taken = judgement.partners_of(operation.inputs)
    due = next((v for v in other.inputs if v.maker is not None and v not in taken), None) if other is not None else None
    maker = computing(due.maker if due is not None else None)
    if maker is None or other is None or due is None:
        return operation.stack[0]
    right = [u for v in judgement.backwards.equals(due) for u in computing_users(v) if any(judgement.is_right(o) for o in results(u))]
    arrived = max((common(operation, user) for user in right), default=0)  # so far it was handed on rightly
    shared = max(common(other, maker), arrived, _rightly_handed(judgement, operation, other))
    return operation.stack[min(len(operation.stack) - 1, max(0, len(operation.stack) - 1 - shared))]


#: lines that belong to one call of a module: the operation's, and that which calls the module
_OWN = 2


def _rightly_handed(judgement: Judgement, operation: Operation, other: Operation) -> int:
    """How many of its outermost lines an operation shares with one that rightly takes the value which is wrong for it.

    So far the value was handed on rightly. Where a loop calls one module after the other the lines are the same: then what is wrong is
    inside the loop, at the call of the module.
    """
    strange = [v for v in operation.inputs if not any(partner in other.inputs for partner in judgement.partners(v))]
    users = [u for v in strange for u in computing_users(v) if u is not operation and any(judgement.is_right(o) for o in results(u))]
    shared = [common(operation, user) - (_OWN if _called_again(operation, user) else 0) for user in users]
    return max(shared, default=0)


def _called_again(operation: Operation, user: Operation) -> bool:
    """Whether the same lines called two operations, as of two modules in a loop."""
    return operation.stack == user.stack and operation.module != user.module


def _placed(asked: MissingStep) -> str | None:
    mended = asked.guilt.mended or asked.judgement
    return missing_step.place(asked.judgement, mended, asked.step, asked.user, asked.after)


#: one change of the formula that makes its result the reference's
REPAIR_RULES: tuple[Rule[Repair, str], ...] = (
    Rule("formula-repair", "the step of a formula whose change makes its result right", lambda repair: repair.line),
)

#: where an operation is called, which is always known, unless it is the framework's own
CALL_SITE: Rule[Fault, str] = Rule("call-site", "where the operation is called", lambda f: next(iter(f.operation.stack), None))

#: lines of an operation that stands for one of the reference
OPERATION_RULES: tuple[Rule[Fault, str], ...] = (
    Rule(
        "construction-table",
        "the table that a loop takes a layer's argument from",
        lambda f: f.construction.table() if f.construction is not None else None,
    ),
    Rule(
        "construction-argument",
        "the call that gave a layer the argument that differs",
        lambda f: f.construction.argument() if f.construction is not None else None,
    ),
    Rule(
        "construction-bound",
        "where an argument was bound to what constructs the layer",
        lambda f: f.construction.bound() if f.construction is not None else None,
    ),
    Rule(
        "construction-site",
        "where the layer was constructed",
        lambda f: f.construction.innermost if f.construction is not None else None,
    ),
    Rule("element-order", "where elements were brought into another order", _element_order),
    Rule("input-shape", "where an input was given another shape", _input_shape),
    Rule("simple-input", "where a simple value was made or named", lambda f: f.simple_input if f.operation.stack else None),
    Rule(
        "own-module-setting",
        "where the user's module was constructed whose setting the line reads",
        lambda f: f.call.own_setting() if f.call is not None else None,
    ),
    Rule("call-not-shared", "the innermost line no right operation has passed", lambda f: f.call.innermost if f.call is not None else None),
    CALL_SITE,
)

#: lines of several operations that stand for others of the reference; see also ``kinds.REGION_RULES``
REGION_LINE_RULES: tuple[Rule[Fault, str], ...] = (
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
    Rule("end-given-back", "where the output is given back", lambda m: _given_back(m.user, m.step, m.judgement)),
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
    Rule("missing-handed-on", "where the value is handed on without the step", lambda m: _handed_on(m.judgement, m.step, m.user, m.after)),
)

#: where an operation takes another value than the reference's
WIRED_RULES: tuple[Rule[Wired, str], ...] = (
    Rule("module-chosen", "where the module was chosen that has other parameters", _module_chosen),
    Rule("value-made-for-it", "where the value was made, if nothing else rightly takes it", _made_in_its_place),
    Rule(
        "value-named-for-it",
        "where the value got the name by which it is taken",
        lambda w: _named_for_it(w.judgement, w.operation, w.other),
    ),
    Rule("value-handed-on", "where the operation or its module is given the value", lambda w: _called(w.judgement, w.operation, w.other)),
)
