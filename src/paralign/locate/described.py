"""Faults as they are reported: both sides' points, and the line of the strongest rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from paralign.locate import other_axis
from paralign.locate.gradients import line as gradient_lines
from paralign.locate.gradients.gradient_faults import LEAST, Wrong
from paralign.locate.gradients.gradient_faults import Fault as GradientFault
from paralign.locate.lines import region as regions
from paralign.locate.lines.choose import Fault, candidate_lines
from paralign.locate.lines.kinds import Kind
from paralign.locate.lines.number_lines import NUMBER_RULES, Numbers
from paralign.locate.lines.rule import proposals
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance import blame_in_words, tracing_back
from paralign.locate.runs import construction as built_at
from paralign.locate.runs import lengths
from paralign.locate.runs.counterparts import is_telling
from paralign.locate.runs.judgement import FLOOR, Judgement
from paralign.locate.runs.traverse import CONTEXT, makers, way_to
from paralign.locate.source.argument_names import named
from paralign.model import Divergence, LineProposal, Point

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.locate.laboratory.watched import Watched
    from paralign.locate.lines.rule import Proposal
    from paralign.locate.provenance.search.blamed import Blamed
    from paralign.locate.runs.dataflow import Graph, Operation
    from paralign.locate.types import Guilt
    from paralign.model import Point as PointType

#: the id of the rule that chooses a line for a wrong gradient
GRADIENT = "gradient-line"

#: factors that tell nothing
COMMON = frozenset({0.0, 1.0, -1.0})

#: matches that are shown before a divergence
CHAIN = 5

#: lines of the steps of a region that a report keeps: more than a screen of code is no place to look at
STEPS = 20


def gradient_divergence(fault: GradientFault, judgement: Judgement) -> Divergence:
    """A fault of a gradient as it is reported."""
    reference, candidate = _gradient_points(fault, judgement)
    said = {
        Wrong.DIFFERENT: "the gradient that comes in is right, the one that goes out is not",
        Wrong.FACTOR: f"the gradient that goes out is {fault.factor or 0.0:.6g} times the reference's",
        Wrong.DETACHED: "the gradient ends here: the value is cut off from what follows (detach, stop_gradient, no_grad)",
        Wrong.FROZEN: "the parameter is frozen here and trained in the reference",
        Wrong.ABSENT: "a gradient comes in and none goes out",
        Wrong.KEPT: "there is a gradient here, and none in the reference, which cuts the value off or keeps the parameter as it is",
    }[fault.what]
    notes = [said, f"parameters whose gradients are wrong: {fault.wrong_before}"]
    if fault.wrong_after is not None:
        notes[-1] += f"; with the reference's gradient in its place: {fault.wrong_after}"
    line = _line(candidate)
    return Divergence(
        reference,
        candidate,
        confirmed=fault.confirmed,
        what=fault.what.value,
        rule=GRADIENT,
        proposals=[] if line is None else [LineProposal(GRADIENT, line)],
        error_before=0.0,
        error=fault.error,
        noise=LEAST,
        notes=notes,
    )


def _gradient_points(fault: GradientFault, judgement: Judgement) -> tuple[PointType | None, PointType | None]:
    """The reference's point of a wrong gradient, and the candidate's."""
    operation = fault.operation
    if operation is None:
        ours, theirs = gradient_lines.of_parameter(fault, judgement)
        return _parameter_point(fault.due.record.name, theirs), _parameter_point(fault.value.record.name, ours)
    found = gradient_lines.of_operation(fault, operation, judgement)
    candidate = _point(judgement.candidate, operation, next(iter(found), None), found)
    twin = fault.cut or judgement.twin(operation)
    if twin is None:
        return None, candidate
    due = gradient_lines.of_cut(twin)
    return _point(judgement.reference, twin, next(iter(due), None), due), candidate


def _parameter_point(name: str, lines: tuple[str, ...]) -> PointType:
    """The point of a parameter, at the first of some lines."""
    line = next(iter(lines), None)
    return Point(name, "parameter", line, code_at(line), list(lines[1:]))


def _line(point: PointType | None) -> str | None:
    """The line of a point, where there is one."""
    return None if point is None else point.source


def merged(found: list[Divergence]) -> list[Divergence]:
    """The divergences, those of the same kind at the same line of the candidate as one."""
    kept: dict[tuple[str, str], Divergence] = {}
    for number, each in enumerate(found):
        first = kept.setdefault((each.what, _line(each.candidate) or f"unknown {number}"), each)
        if first is not each:
            first.repeats += 1 + each.repeats
            first.error_after = each.error_after
    return list(kept.values())


def divergence(guilt: Guilt, watched: Watched | None = None) -> Divergence:
    """A fault as it is reported.

    Args:
        guilt: the fault.
        watched: may be asked how numbers were made that enter it, and which of the user's expressions made a wrong value.
    """
    fault = Fault.of(guilt)
    said = candidate_lines(guilt)
    traced: Blamed | None = None
    if watched is not None and said:
        numbers = Numbers(fault, watched)
        said = proposals(NUMBER_RULES, numbers) + said
        fault = numbers.seen
        if said[0].rule == tracing_back.RULE:
            traced = numbers.traced
    judgement, operation = guilt.judgement, fault.operation
    source, rule = (said[0].answer, said[0].rule) if said else (None, "")
    built = built_at.construction(judgement.candidate, operation)
    errors = [judgement.error[v] for v in operation.inputs if judgement.is_right(v)]
    chain = _chain(judgement, operation)
    due = built_at.reference_line(judgement.reference, fault.other, built=source in built)
    notes = _notes(guilt, fault.kind, fault.other)
    if lengths.are_missing(judgement, operation):
        notes.append(lengths.SAID)
    if traced is not None:
        notes.append(blame_in_words.said(traced))
    return Divergence(
        _point(judgement.reference, fault.other, due, ()),
        _point(judgement.candidate, operation, source, _further(fault, said, built, traced)),
        inputs_agree=fault.kind != Kind.GIVEN,
        last_agreeing=chain[-1] if chain else None,
        confirmed=guilt.confirmed and not _is_done_too(fault),
        what=fault.kind.value,
        rule=rule,
        proposals=[LineProposal(each.rule, each.answer) for each in said],
        error_before=max(filter(math.isfinite, errors), default=0.0),
        error=guilt.error,
        error_after=guilt.after,
        noise=max(FLOOR, judgement.scale.floor),
        repeats=len(guilt.repeats),
        chain=chain,
        notes=notes,
        region=_region(guilt)[:STEPS] if fault.kind == Kind.REGION else [],
        hidden=guilt.hidden,
        value=blame_in_words.value_of(traced) if traced is not None else None,
        axis=other_axis.of_operations(judgement, fault.operation, fault.other),
        relation=_related(guilt),
    )


def _is_done_too(fault: Fault) -> bool:
    """Whether the reference takes a step that seems to be extra, on its way to the same value.

    Then that value came to be the same without the step by something that is wrong before it.
    """
    if fault.kind is not Kind.EXTRA:
        return False
    before = makers(filter(fault.judgement.is_right, fault.operation.inputs))
    if _does_one(before, fault.operation):
        return False  # the candidate has done that step already: this one is a second
    return _does_one(way_to(fault.judgement, fault.guilt.trial.due, CONTEXT), fault.operation)


def _does_one(steps: Iterable[Operation], operation: Operation) -> bool:
    """Whether one of some steps is of the kind of another one, with one of its numbers."""
    numbers = _taken(operation) - COMMON
    return any(step.kind == operation.kind and not numbers.isdisjoint(_taken(step)) for step in steps)


def _taken(operation: Operation) -> set[float]:
    """The numbers that an operation takes, as arguments or as constants."""
    found = set(operation.numbers)
    for value in operation.inputs:
        found.update(regions.constant(value))
    return found


def _further(fault: Fault, said: Sequence[Proposal[str]], built: tuple[str, ...], traced: Blamed | None) -> tuple[str, ...]:
    """The lines that led to a fault, beside the one that is named first."""
    lines: list[str] = []
    if traced is not None:
        lines += [each.source for each in traced.chain if each.file]
        lines += [each.answer for each in said[1:2]]
    if any(each.answer in built for each in said[:2]):
        lines += built
    return tuple(dict.fromkeys([*lines, *fault.operation.stack]))


def _point(graph: Graph, operation: Operation | None, source: str | None, further: Sequence[str]) -> PointType | None:
    if operation is None:
        return None
    layer = graph.kinds.get(operation.module)
    op = f"{operation.op} ({layer})" if layer else operation.op
    return Point(
        operation.module,
        op,
        source,
        code_at(source),
        [line for line in further if line != source],
        named(operation.op, operation.arguments),
    )


def _chain(judgement: Judgement, operation: Operation) -> list[str]:
    """What matched on the way to an operation, the nearest last."""
    found: list[Operation] = []
    todo = list(filter(judgement.is_right, operation.inputs))
    while todo and len(found) < CHAIN:
        value = max(todo, key=lambda v: v.order)
        todo.remove(value)
        maker = value.maker
        if maker is None or maker in found:
            continue
        if is_telling(value):
            found.append(maker)
        todo += filter(judgement.is_right, maker.inputs)
    return [_said(o) for o in sorted(found, key=lambda o: o.order)]


def _said(operation: Operation) -> str:
    return "  ".join(filter(None, (operation.module, operation.op, operation.source)))


def _related(guilt: Guilt) -> str:
    """The change that makes the result the reference's, or how it comes from it."""
    if guilt.repair is not None:
        return f"with one change the result is the reference's: {guilt.repair.what}"
    return guilt.relation


def _region(guilt: Guilt) -> list[str]:
    """The lines of the steps of which a wrong value is made, in the order in which they ran."""
    return list(dict.fromkeys(o.source for o in guilt.trial.region if o.source))


def _notes(guilt: Guilt, what: Kind, other: Operation | None) -> list[str]:
    said = {
        Kind.DIFFERENT: "right inputs, another result",
        Kind.MISSING: f"the reference does something first that is missing here: {_said(other)}" if other else "",
        Kind.EXTRA: "the reference goes on with the input as it is: this step is not there",
        Kind.ORDER: "the right elements, in another order",
        Kind.MISWIRED: "the reference takes another value here",
        Kind.GIVEN: "a parameter, buffer or constant that goes in is none of the reference's",
        Kind.REGION: f"computed in other steps than the reference's (why may be one that is missing, or a value handed in){_steps(guilt)}",
    }[what]
    notes = list(filter(None, (said, _related(guilt))))
    if not guilt.confirmed:
        notes.append("suspected: no run with a value of the reference in its place could confirm it")
    if not guilt.seen:
        notes.append("the outputs of this run do not show it beyond their noise; others may")
    if guilt.repeats:
        places = ", ".join(dict.fromkeys(o.module or "the model itself" for o in guilt.repeats[:3]))
        notes.append(f"the same at {len(guilt.repeats)} more places: {places}{' …' if len(guilt.repeats) > 3 else ''}")  # noqa: PLR2004 - a few suffice
    return notes


def _steps(guilt: Guilt) -> str:
    """The lines of the steps at fault, as the end of a sentence; '' where none is known."""
    lines = _region(guilt)
    return f", by these: {_first_lines(lines)}" if lines else ""


def _first_lines(lines: list[str]) -> str:
    """The first of some lines, and how many more there are."""
    said = ", ".join(lines[:CHAIN])
    if len(lines) > CHAIN:
        said += f" and {len(lines) - CHAIN} more"
    return said
