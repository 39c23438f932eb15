"""Ask both sides how a wrong value was made, and name the expression at fault."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from paralign.adapters._kinds import common_argument
from paralign.errors import WorkerFailed
from paralign.locate.lines.rule import ablated
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.blame_in_words import said, value_of
from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.search.deciding_conditions import Conditions
from paralign.locate.provenance.values.expression_counterparts import TELLING, Counterparts, is_equal
from paralign.locate.provenance.values.readings import is_part_of_path
from paralign.locate.provenance.values.seen_masks import SeenMasks
from paralign.locate.provenance.values.seen_values import Seen, SeenApart
from paralign.locate.provenance.values.value_graph import COMMON, READINGS, SAME_RMS, SETTING, ValueGraph, behind, of_numbers_alone
from paralign.locate.reaching import reached
from paralign.locate.source import call_arguments
from paralign.locate.source.call_arguments import is_number
from paralign.model import LineProposal, Point
from paralign.run.recorder import both
from paralign.worker.protocol import Provenance

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.provenance.values.value_graph import Expression
    from paralign.locate.runs.dataflow import Operation
    from paralign.model import Divergence

#: the id of the rule in ``report.json``
RULE = "provenance"

#: stands for a rule where a stage named a line itself
STAGE = "stage"

#: numbers below this only mask: how low they are is for a softmax the same
MASKED = -5000.0

#: lines of a chain that are kept
CHAIN = 8

#: steps of a schedule that are looked at: an optimizer that is not stepped costs nothing but the recording
STEPS = 64

#: axes of the operation that a layer along one axis runs as
TWO = 2

#: what changes nothing along an axis, by the common name of an argument
_NEUTRAL = {"padding": 0, "stride": 1, "dilation": 1}

#: kinds of expressions whose value stands there as it is
WRITTEN = frozenset({"constant", SETTING})

#: kinds of expressions that compute something
COMPUTING = frozenset({"call", "operation"})


@dataclass(frozen=True)
class Sides:
    """What both sides' rewritten programs recorded."""

    reference: ValueGraph
    candidate: ValueGraph

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions of both."""
        return Conditions(self.reference.expressions, self.candidate.expressions)

    @cached_property
    def counterparts(self) -> Counterparts:
        """What the reference does with the same values as the candidate."""
        return Counterparts(self.reference.expressions, self.candidate.expressions)

    def beside(self, found: Blamed, due: Expression | None) -> Expression | None:
        """What the reference does in place of what is blamed.

        Else what made the value that is due in the end.
        """
        return self.counterparts.of(found.expression) or due


def recorded(
    context: Context,
    part: str,
    values: dict[str, Capture] | tuple[dict[str, Capture], dict[str, Capture]] | None = None,
    *,
    paths: Sequence[str] = (),
    steps: int = 0,
    names: tuple[Sequence[str], Sequence[str]] = ((), ()),
    split: str = "",
    number: int = 0,
) -> Sides | None:
    """Both sides' expressions while a part of their programs runs; None if it cannot.

    Args:
        context: the check.
        part: ``model``, ``optimizer``, ``metric``, ``infer``, ``train_step``, ``train``, ``dataset`` or ``loader``.
        values: captures that the part takes; a pair where each side takes its own.
        paths: of ``infer``.
        steps: of ``optimizer``: how far its schedule is followed; of ``train_step`` and ``train``: how many.
        names: of ``train_step`` and ``train``: the tensors that are looked at, the reference's and the candidate's.
        split: of ``dataset`` and ``loader``.
        number: of the sample or batch there.
    """
    if RULE in ablated() or not context.explains:
        return None
    orders = [Provenance(part, list(paths), steps, list(held), split, number) for held in names]
    given = values if isinstance(values, tuple) else (values, values)
    try:
        captures = both(
            lambda: context.reference.record(f"provenance-{part}", orders[0], given[0]),
            lambda: context.candidate.record(f"provenance-{part}", orders[1], given[1]),
        )
    except WorkerFailed as failure:
        context.untraced[failure.side or "program"] = f"{failure.type}: {failure.message}"
        return None
    whole = True
    for side, capture in zip(("reference", "candidate"), captures, strict=True):
        answer = Provenance.answer(capture)
        if answer.failed:
            context.untraced[side] = answer.failed
        elif answer.exhausted:
            context.untraced[side] = f"only the first {answer.exhausted} were kept"
        whole = whole and bool(answer.values) and not answer.failed
    return Sides(*(ValueGraph.of(capture) for capture in captures)) if whole else None


def of_value(sides: Sides, candidate: str, reference: str, right: Iterable[str] = ()) -> Blamed | None:
    """The expression that made a root of the candidate's wrong; None where none is known.

    Args:
        sides: what was recorded.
        candidate: the root's name.
        reference: that of its counterpart.
        right: names of roots of the candidate that are right: what led to them is.
    """
    wrong, due = sides.candidate.root(candidate), sides.reference.root(reference)
    if wrong is None or due is None:
        return None
    led = sides.candidate.roots(right)
    found = Search(wrong, due, defaults=sides.reference.expressions, excused=led, own=sides.candidate.expressions).first()
    blamed = sides.conditions.of_value(wrong, wrong_itself(sides, found))
    if blamed is not None:
        blamed.due = sides.beside(blamed, due)
    return blamed


def of_root(sides: Sides, candidate: str) -> Blamed | None:
    """The expression that made a root of the candidate's wrong, without a counterpart.

    What the reference has computed anywhere is right. None unless the expression computes of right arrays.
    """
    wrong, seen = sides.candidate.root(candidate), SeenApart(sides.reference.expressions)
    if wrong is None:
        return None
    found = Search(wrong, None, seen, sides.reference.expressions, own=sides.candidate.expressions).first()
    if found is None or found.expression is wrong or found.expression.kind not in COMPUTING:
        return None
    is_of_right = all(seen.has(inner) for _, inner in found.expression.values if inner.mark[0] == "a")
    return found if is_of_right else None


def of_operation(
    sides: Sides,
    operations: tuple[Operation, Operation],
    *,
    built: bool,
    sound: Mapping[str, Collection[float]] | None = None,
    passed: Collection[str] = (),
) -> Blamed | None:
    """The expression that made an argument of an operation or its layer wrong.

    Args:
        sides: what was recorded of construction and a pass.
        operations: the candidate's and the reference's.
        built: whether the arguments are those of the layer's construction.
        sound: line of the candidate -> numbers that right operations there take as the reference's do: these are right.
        passed: lines of the candidate by which right operations came to the same call.

    Returns:
        None where the call leaves an argument to the framework, or several are at fault.
    """
    calls = _calls(sides.candidate, operations[0], built=built)
    reference_calls = _calls(sides.reference, operations[1], built=built)
    right = _made_of(sides.candidate, sound or {})
    found: dict[str, Blamed] = {}
    for argument, own, theirs in _differing_arguments(operations[0].arguments, operations[1].arguments):
        inner = _holding(calls, own) or _along_one_axis(calls, argument, own)
        due = _holding(reference_calls, theirs) or _along_one_axis(reference_calls, argument, theirs)
        if inner is None:  # left to a default of the framework's: then that is what differs
            return None
        seen = Seen(behind_all(reference_calls if due is None else [due]))
        blamed = Search(inner, due, seen, sides.reference.expressions, sound=right).first()
        blamed = _left_out(blamed, operations[0].stack, passed) or wrong_itself(sides, blamed)
        if blamed is not None:
            found[blamed.source] = blamed
    return next(iter(found.values())) if len(found) == 1 else None


def _left_out(found: Blamed | None, own: Collection[str], passed: Collection[str]) -> Blamed | None:
    """The call that leaves out what is blamed, where the default is right for others.

    Args:
        found: what is blamed.
        own: the lines that led to the operation at fault.
        passed: those that led to right ones.
    """
    for each in found.chain if found is not None else ():
        calls = [user for user in each.values[0][1].users if user.kind == "omitted"] if each.kind == "omitted" else []
        here = [call for call in calls if call.source in own]
        if here and found is not None and any(call.source in passed and call.source not in own for call in calls):
            return Blamed(here[0], [here[0]], found.reference)
    return None


def behind_all(roots: Iterable[Expression]) -> list[Expression]:
    """Some values and all that they were made of."""
    return [each for root in roots for each in behind(root)]


def wrong_itself(sides: Sides, found: Blamed | None) -> Blamed | None:
    """What is blamed; what computes with it, where it is only taken at a wrong place.

    Then what computes with it is at fault; None where that is the operation itself.
    """
    if found is None:
        return None
    each = found.expression
    if not is_number(each.scalar) or each.scalar in COMMON or each.kind not in WRITTEN | READINGS:
        return found
    if each.kind == SETTING and any(e.kind == SETTING for e in sides.reference.expressions):
        return found  # the search has looked for the entry in the reference's files
    own, theirs = (_origins(graph, each.scalar) for graph in (sides.candidate, sides.reference))
    return _taking(found) if 0 < own <= theirs else found


def _taking(found: Blamed) -> Blamed | None:
    """The first number that was computed with what is blamed; None where none was."""
    for place, each in enumerate(found.chain):
        if place and not each.is_copy and each.kind in COMPUTING and is_number(each.scalar):
            return Blamed(each, found.chain[place:])
    return None


def _origins(graph: ValueGraph, number: float) -> int:
    """In how many places a number is written; one where it was only read."""
    alike = [e for e in graph.expressions if is_number(e.scalar) and not e.is_copy and is_close(float(e.scalar), number)]
    written = {(e.source, e.label) for e in alike if e.kind in WRITTEN}
    return len(written) or int(any(e.kind in READINGS for e in alike))


def _made_of(graph: ValueGraph, numbers: Mapping[str, Collection[float]]) -> set[Expression]:
    """The numbers that some lines take, and the numbers that these were made of."""
    found: set[Expression] = set()
    for call in graph.expressions:
        known = numbers.get(call.source)
        if not known or call.kind not in COMPUTING or call.is_copy:
            continue
        for each in _arguments(call):
            if any(_is(each, number) for number in known):
                found |= {made for made in behind(each) if is_number(made.scalar)}
    return found


def _arguments(call: Expression) -> list[Expression]:
    """What a call is given, but for the object and the function."""
    return [each for role, each in call.inputs if role not in ("self", "function")]


def differing_values(candidate: Mapping[str, Any], reference: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The differing values of arguments that both have, the candidate's first.

    A number that each has beside those, as operators have, stands for the other's.
    """
    return [(own, due) for _, own, due in _differing_arguments(candidate, reference)]


def _differing_arguments(candidate: Mapping[str, Any], reference: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """As :func:`differing_values`, behind common names; '' for a number alone."""
    found = call_arguments.differing_arguments(candidate, reference)
    own, theirs = _numbers_alone(candidate, reference), _numbers_alone(reference, candidate)
    if len(own) == len(theirs) == 1 and not call_arguments.is_equal(own[0], theirs[0]):
        found = [*found, ("", own[0], theirs[0])]
    return found


def _numbers_alone(arguments: Mapping[str, Any], others: Mapping[str, Any]) -> list[Any]:
    """The numbers among arguments that others do not have under the same name."""
    known = {common_argument(name) for name in others}
    return [value for name, value in arguments.items() if is_number(value) and common_argument(name) not in known]


def _calls(graph: ValueGraph, operation: Operation, *, built: bool) -> list[Expression]:
    """The calls that give an operation its arguments: at its line, or building its layer."""
    if built:
        return graph.roots([f"module:{operation.module}"])
    return [e for e in graph.expressions if e.kind in COMPUTING and not e.is_copy and e.source == operation.source]


def _holding(calls: Iterable[Expression], value: Any) -> Expression | None:
    """The argument of some calls that has a value; None where none has."""
    for call in calls:
        for each in _arguments(call):
            if _is(each, value):
                return each
    return None


def _along_one_axis(calls: Iterable[Expression], argument: str, value: Any) -> Expression | None:
    """The argument that a layer along one axis is given, whose operation runs along two.

    The first of its two numbers is then the one that changes nothing.
    """
    neutral = _NEUTRAL.get(argument)
    if neutral is None or not isinstance(value, (list, tuple)) or len(value) != TWO or value[0] != neutral:
        return None
    for call in calls:
        for role, each in call.inputs:
            if common_argument(role) == argument and _is(each, value[1]):
                return each
    return None


def _is(each: Expression, value: Any) -> bool:
    """Whether an expression has a value; a list of equal numbers is as good as the number."""
    if isinstance(value, str):
        return bool(each.scalar == value)
    numbers = value if isinstance(value, (list, tuple)) else [value]
    if each.mark[0] not in ("s", "l") or each.numbers is None or not numbers or not all(map(is_number, numbers)):
        return False
    own = each.mark[1] if each.mark[0] == "l" else [each.mark[1]]
    if len(own) != len(numbers) and not len({*own}) == len({*numbers}) == 1:
        return False
    return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-30) for a, b in zip(own, numbers, strict=False))


def of_lines(sides: Sides, lines: Iterable[str], numbers: Iterable[float] = (), held: Sequence[tuple[int, float]] = ()) -> Blamed | None:
    """The expression, of numbers alone, that made wrong what some lines compute with.

    None where all of it is the reference's, or there are several of several lines.

    Args:
        sides: what was recorded of construction and a pass.
        lines: of operations at fault, each ``file:line``.
        numbers: that the reference's operations take, and its program may never write.
        held: size and root mean square of the candidate's parameters: they are no numbers of the program's.
    """
    seen = SeenMasks(of_numbers_alone(sides.reference.expressions), numbers)
    bare, wanted = set(of_numbers_alone(sides.candidate.expressions, held)), set(lines)
    found: dict[str, Blamed] = {}
    for each in sides.candidate.expressions:
        if each.source not in wanted or each.is_copy or each in bare:
            continue
        for _, inner in each.values:
            if inner not in bare or inner.numbers is None or not _is_strange(inner, seen):
                continue
            blamed = Search(inner, None, seen, sides.reference.expressions).first()
            if blamed is not None:
                found.setdefault(blamed.source, blamed)
    return next(iter(found.values())) if len(found) == 1 else None


def of_given(sides: Sides, lines: tuple[str, str], known: tuple[int, float]) -> Blamed | None:
    """The expression that made an array wrong which a line computes with.

    None unless the reference's line computes with just one other array of that size.

    Args:
        sides: what was recorded of construction and a pass.
        lines: of the candidate's operation and of the reference's.
        known: the array's size and root mean square.
    """
    size, rms = known
    own = [each for each in _arrays_at(sides.candidate, lines[0], size) if math.isclose(each.rms, rms, rel_tol=SAME_RMS)]
    due = [each for each in _arrays_at(sides.reference, lines[1], size) if not own or is_equal(each, own[-1]) is False]
    if not own or len({(each.rms, *each.mark[2][1:]) for each in due}) != 1:
        return None
    return Search(own[-1], due[-1], defaults=sides.reference.expressions, own=sides.candidate.expressions).first()


def _arrays_at(graph: ValueGraph, line: str, size: int) -> list[Expression]:
    """The arrays of a size that expressions of a line take."""
    taken = [inner for each in graph.expressions if each.source == line and not each.is_copy for _, inner in each.values]
    return [inner for inner in taken if inner.mark[0] == "a" and inner.numbers is not None and inner.size == size]


def _is_strange(each: Expression, seen: Seen) -> bool:
    """Whether the reference has a value nowhere, or only in another order."""
    if is_number(each.scalar) and each.scalar < MASKED:
        return False
    if not seen.has(each):
        return True
    is_long_array = each.mark[0] == "a" and each.numbers is not None and each.numbers.size >= TELLING
    return is_long_array and not seen.has_ordered(each)


def of_number(sides: Sides, line: str, number: float) -> Blamed | None:
    """The expression that made a number which a line computes with.

    Args:
        sides: what was recorded of construction and a pass.
        line: ``file:line`` of the computation.
        number: the wrong one.
    """
    for each in sides.candidate.expressions:
        if each.source != line or each.is_copy:
            continue
        for _, inner in each.values:
            if _is(inner, number):
                seen = Seen(of_numbers_alone(sides.reference.expressions))
                found = Search(inner, None, seen, sides.reference.expressions).first()
                if found is not None and is_part_of_path(found.expression) and Seen(sides.reference.expressions).has(inner):
                    return None  # a number that the reference has too: from which file each side reads it is its own matter
                if found is not None and _is_taken_wrongly(sides, found.expression, line):
                    return None  # nor is a helper wrong whose number the reference has: the line that takes it is
                return wrong_itself(sides, found)
    return None


def _is_taken_wrongly(sides: Sides, found: Expression, line: str) -> bool:
    """Whether a helper's number is right, and the line that takes it is not.

    The reference has it too, and other lines take it besides.
    """
    if found.kind not in COMPUTING or not is_number(found.scalar) or found.scalar in COMMON or found.source == line:
        return False
    if not any(each.scalar == found.scalar for each in sides.reference.expressions):
        return False
    same = [each for each in sides.candidate.expressions if (each.site, each.source) == (found.site, found.source)]
    again = [each for each in same if each.scalar == found.scalar]

    return any(taker.source not in (line, found.source) for each in again for taker in _takers(each))


def _takers(each: Expression) -> list[Expression]:
    """What computes with a value, also after it was handed on as it is."""
    handed_on = reached([each], lambda value: [user for user in value.users if user.is_copy])
    return [user for value in handed_on for user in value.users if not user.is_copy]


def is_close(own: float, due: float) -> bool:
    """Whether two rates are one, as the stages judge them: constants are kept in float32."""
    return math.isclose(own, due, rel_tol=1e-6, abs_tol=1e-12)


def name(divergence: Divergence | None, found: Blamed | None, note: str = "") -> None:
    """Name the expression as a divergence's line, with what led on to the wrong value.

    ``note`` stands in place of what is said of the expression. The reference's place is told too, where it was not known.
    """
    if divergence is None or divergence.candidate is None or found is None:
        return
    point = divergence.candidate
    if not divergence.proposals and point.source:
        divergence.proposals.append(LineProposal(divergence.rule or STAGE, point.source))
    before = [line for line in (point.source, *point.lines) if line]
    lines = dict.fromkeys([each.source for each in found.chain if each.file][:CHAIN] + before)
    point.source, point.code = found.source, code_at(found.source)
    point.lines = [line for line in lines if line != found.source]
    divergence.rule, divergence.value = RULE, value_of(found)
    divergence.proposals.insert(0, LineProposal(RULE, found.source))
    divergence.notes.append(note or found.note or said(found))
    if divergence.reference is None or not divergence.reference.source:
        set_reference(divergence, found)


def set_reference(divergence: Divergence, found: Blamed) -> None:
    """Name what the reference has in place of what is blamed, if that is known."""
    due = found.reference or found.due
    if due is None or not due.file or divergence.candidate is None:
        return
    divergence.reference = divergence.reference or Point(divergence.candidate.name, divergence.candidate.op)
    divergence.reference.source, divergence.reference.code = due.source, code_at(due.source)
