"""Ask both sides how they came to a wrong value, and name the expression of the candidate's that made it wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paralign.adapters._kinds import common_argument
from paralign.errors import WorkerFailed
from paralign.locate.lines.rule import ablated
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.blame import TELLING, Blamed, Search, is_equal
from paralign.locate.provenance.blame_in_words import said, value_of
from paralign.locate.provenance.value_graph import COMMON, READINGS, SETTING, Seen, ValueGraph, behind, of_numbers_alone
from paralign.locate.source import call_arguments
from paralign.locate.source.call_arguments import is_number
from paralign.model import LineProposal
from paralign.run.recorder import both
from paralign.worker.protocol import Provenance

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.provenance.value_graph import Expression
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

#: kinds of expressions whose value stands there as it is
WRITTEN = frozenset({"constant", SETTING})

#: what a call of an optimizer may name its rate, or its schedule
RATES = ("lr", "learning_rate")


@dataclass(frozen=True)
class Sides:
    """What both sides' rewritten programs recorded."""

    reference: ValueGraph
    candidate: ValueGraph


def recorded(
    context: Context,
    part: str,
    values: dict[str, Capture] | None = None,
    *,
    paths: Sequence[str] = (),
    steps: int = 0,
    names: tuple[Sequence[str], Sequence[str]] = ((), ()),
    split: str = "",
    number: int = 0,
) -> Sides | None:
    """Both sides' expressions while a part of their programs runs; None where a side cannot be run so.

    Args:
        context: the check.
        part: ``model``, ``optimizer``, ``metric``, ``infer``, ``train_step``, ``dataset`` or ``loader``.
        values: captures that the part takes.
        paths: of ``infer``.
        steps: of ``optimizer``: how far its schedule is followed; of ``train_step``: how many.
        names: of ``train_step``: the tensors that are looked at, the reference's and the candidate's.
        split: of ``dataset`` and ``loader``.
        number: of the sample or batch there.
    """
    if RULE in ablated():
        return None
    orders = [Provenance(part, list(paths), steps, list(held), split, number) for held in names]
    try:
        captures = both(
            lambda: context.reference.record(f"provenance-{part}", orders[0], values),
            lambda: context.candidate.record(f"provenance-{part}", orders[1], values),
        )
    except WorkerFailed as failure:
        context.untraced[failure.side or "program"] = f"{failure.type}: {failure.message}"
        return None
    answers = [Provenance.answer(capture) for capture in captures]
    for side, answer in zip(("reference", "candidate"), answers, strict=True):
        if answer.failed:
            context.untraced[side] = answer.failed
        elif answer.exhausted:
            context.untraced[side] = f"only the first {answer.exhausted} were kept"
    if any(answer.failed or not answer.values for answer in answers):
        return None
    return Sides(*(ValueGraph.of(capture) for capture in captures))


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
    led = [root for name in right if (root := sides.candidate.root(name)) is not None]
    return _wrong_itself(sides, Search(wrong, due, defaults=sides.reference.expressions, excused=led).first())


def of_operation(
    sides: Sides, operations: tuple[Operation, Operation], *, built: bool, sound: Mapping[str, Collection[float]] | None = None
) -> Blamed | None:
    """The expression that made an argument of an operation, or of the layer that does it, other than the reference's.

    Args:
        sides: what was recorded of construction and a pass.
        operations: the candidate's and the reference's.
        built: whether the arguments are those of the layer's construction.
        sound: line of the candidate -> numbers that right operations there take as the reference's do: these are right.

    Returns:
        None where the call leaves an argument to the framework, or several are at fault.
    """
    wrong = differing_values(operations[0].arguments, operations[1].arguments)
    calls = [_calls(graph, operation, built=built) for graph, operation in zip((sides.candidate, sides.reference), operations, strict=True)]
    found = {}
    right = _made_of(sides.candidate, sound or {})
    for own, theirs in wrong:
        inner, due = (_holding(held, value) for held, value in zip(calls, (own, theirs), strict=True))
        if inner is None:  # left to a default of the framework's: then that is what differs
            return None
        known = behind(due) if due is not None else [e for call in calls[1] for e in behind(call)]
        blamed = _wrong_itself(sides, Search(inner, due, Seen(known), sides.reference.expressions, sound=right).first())
        if blamed is not None:
            found[blamed.source] = blamed
    return next(iter(found.values())) if len(found) == 1 else None


def _wrong_itself(sides: Sides, found: Blamed | None) -> Blamed | None:
    """What is blamed, but for a number that is only taken at a wrong place: the reference writes it as often.

    Then what computes with it is at fault; None where that is the operation itself.
    """
    each = found.expression if found is not None else None
    if each is None or not is_number(each.scalar) or each.scalar in COMMON or not (each.kind in WRITTEN or each.kind in READINGS):
        return found
    if each.kind == SETTING and any(e.kind == SETTING for e in sides.reference.expressions):
        return found  # the search has looked for the entry in the reference's files
    written = [_origins(graph, each.scalar) for graph in (sides.candidate, sides.reference)]
    return _taking(found) if found is not None and 0 < written[0] <= written[1] else found


def _taking(found: Blamed) -> Blamed | None:
    """The first number that was computed with what is blamed; None where none was."""
    computed = [e for e in found.chain[1:] if not e.is_copy and e.kind in ("operation", "call") and is_number(e.scalar)]
    return Blamed(computed[0], found.chain[found.chain.index(computed[0]) :]) if computed else None


def _origins(graph: ValueGraph, number: float) -> int:
    """In how many places a number is written; one where it was only read from an object. What is computed is written nowhere."""
    alike = [e for e in graph.expressions if is_number(e.scalar) and not e.is_copy and _is_close(float(e.scalar), number)]
    written = {(e.source, e.label) for e in alike if e.kind in WRITTEN}
    return len(written) or int(any(e.kind in READINGS for e in alike))


def of_computing(sides: Sides) -> Blamed | None:
    """The one line of the candidate's building whose result the reference has nowhere, although it has all that goes in.

    For settings that a formula makes for each group of parameters. None where there are several such lines.
    """
    parts = [graph.expressions[(graph.place("model") or 0) + 1 : graph.place("step:0")] for graph in (sides.candidate, sides.reference)]
    seen = Seen(parts[1])
    computed = [e for e in parts[0] if e.kind == "operation" and is_number(e.scalar) and e.file]
    wrong = [e for e in computed if not seen.has(e) and all(seen.has(inner) for _, inner in e.values)]
    return Blamed(wrong[0], [wrong[0]]) if len({e.source for e in wrong}) == 1 else None


def _made_of(graph: ValueGraph, numbers: Mapping[str, Collection[float]]) -> set[Expression]:
    """What calls in some lines take that is one of the line's numbers, and the numbers that it was made of."""
    found: set[Expression] = set()
    for call in graph.expressions:
        known = numbers.get(call.source, ()) if call.kind in ("call", "operation") and not call.is_copy else ()
        for role, each in call.inputs if known else ():
            if role not in ("self", "function") and any(_is(each, number) for number in known):
                found |= {made for made in behind(each) if is_number(made.scalar)}
    return found


def differing_values(candidate: Mapping[str, Any], reference: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The values of arguments that both have under one name, and that differ: the candidate's and the reference's.

    A number that each has beside those, as operators have, stands for the other's.
    """
    names = [{common_argument(name) for name in each} for each in (candidate, reference)]
    alone = [
        [value for name, value in own.items() if common_argument(name) not in others and is_number(value)]
        for own, others in zip((candidate, reference), names[::-1], strict=True)
    ]
    pairs = list(zip(*alone, strict=True)) if len(alone[0]) == len(alone[1]) == 1 else []
    return call_arguments.differing_values(candidate, reference) + [
        (own, due) for own, due in pairs if not call_arguments.is_equal(own, due)
    ]


def _calls(graph: ValueGraph, operation: Operation, *, built: bool) -> list[Expression]:
    """The calls that give an operation its arguments: the one that constructed the layer, or those in the operation's line."""
    if built:
        made = graph.root(f"module:{operation.module}")
        return [made] if made is not None else []
    return [e for e in graph.expressions if e.kind in ("call", "operation") and not e.is_copy and e.source == operation.source]


def _holding(calls: Iterable[Expression], value: Any) -> Expression | None:
    """The argument of some calls that has a value; None where none has."""
    inner = (each for call in calls for role, each in call.inputs if role not in ("self", "function"))
    return next((each for each in inner if _is(each, value)), None)


def _is(each: Expression, value: Any) -> bool:
    """Whether an expression has a value; a list of equal numbers is as good as the number."""
    if isinstance(value, str):
        return bool(each.scalar == value)
    numbers = value if isinstance(value, (list, tuple)) else [value]
    if each.mark[0] not in ("s", "l") or each.numbers is None or not numbers or not all(is_number(n) for n in numbers):
        return False
    own = each.mark[1] if each.mark[0] == "l" else [each.mark[1]]
    same = len(own) == len(numbers) or len({*own}) == len({*numbers}) == 1
    return same and all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-30) for a, b in zip(own, numbers, strict=False))


def of_lines(sides: Sides, lines: Iterable[str]) -> Blamed | None:
    """The expression that made wrong what some lines compute with, of numbers alone: the reference computes with it nowhere.

    None where all of it is the reference's, or there are several of several lines.

    Args:
        sides: what was recorded of construction and a pass.
        lines: of operations at fault, each ``file:line``.
    """
    seen = Seen(of_numbers_alone(sides.reference.expressions))
    bare, wanted = set(of_numbers_alone(sides.candidate.expressions)), set(lines)
    found: dict[str, Blamed] = {}
    for each in sides.candidate.expressions:
        taken = each.values if each.source in wanted and not each.is_copy and each not in bare else []
        for inner in (i for _, i in taken if i in bare and i.numbers is not None and _is_strange(i, seen)):
            blamed = Search(inner, None, seen, sides.reference.expressions).first()
            if blamed is not None:
                found.setdefault(blamed.source, blamed)
    return next(iter(found.values())) if len(found) == 1 else None


def _is_strange(each: Expression, seen: Seen) -> bool:
    """Whether the reference has a value nowhere, or an array of its numbers in another order only."""
    if is_number(each.scalar) and each.scalar < MASKED:
        return False
    disordered = each.mark[0] == "a" and each.numbers is not None and each.numbers.size >= TELLING and not seen.has_ordered(each)
    return not seen.has(each) or disordered


def of_number(sides: Sides, line: str, number: float) -> Blamed | None:
    """The expression that made a number which a line computes with; None where it takes no such number.

    Args:
        sides: what was recorded of construction and a pass.
        line: ``file:line`` of the computation.
        number: the wrong one.
    """
    users = [e for e in sides.candidate.expressions if e.source == line and not e.is_copy]
    wrong = next((inner for each in users for _, inner in each.values if _is(inner, number)), None)
    if wrong is None:
        return None
    found = Search(wrong, None, Seen(of_numbers_alone(sides.reference.expressions)), sides.reference.expressions).first()
    return _wrong_itself(sides, found)


def of_setting(sides: Sides, words: Sequence[str]) -> Blamed | None:
    """The expression that made a setting of an optimizer wrong; None where its constructor is not given the setting.

    A schedule, a clipping rule or a penalty is looked into: what it was constructed of.

    Args:
        sides: what was recorded of the optimizer's construction.
        words: what the setting may be called.
    """
    roots = [[_constructed(graph, words), graph.root("scheduler")] for graph in (sides.candidate, sides.reference)]
    wrong, due = ([e for root in held[:1] if root is not None for role, e in root.inputs if role in words] for held in roots)
    known = [e for root in roots[1] if root is not None for e in behind(root)]
    if len(wrong) != 1 or not known:
        return None
    if wrong[0].mark[0] == "k":  # what a schedule is made of, the other side's may take when it is advanced
        known += sides.reference.expressions[(sides.reference.place("step:0") or 0) + 1 :]
    twin = due[0] if len(due) == 1 else None
    if twin is not None and is_equal(wrong[0], twin):
        return None
    if _origin(wrong[0]).kind == "call" and roots[1][1] is not None and wrong[0].mark[0] == "k":
        twin = roots[1][1]  # a schedule: the reference's is an object of its own
    rates = [rate for held in sides.reference.rates for rate in held] if words == RATES else []
    found = _wrong_itself(sides, Search(wrong[0], twin, Seen(known, rates), sides.reference.expressions).first())
    return found if found is not None and (found.expression.numbers is not None or found.expression.scalar is not None) else None


def _origin(each: Expression) -> Expression:
    """What made a value that was handed on."""
    while each.is_copy:
        each = each.values[0][1]
    return each


def _constructed(graph: ValueGraph, words: Sequence[str]) -> Expression | None:
    """The call that constructed the optimizer; of one that holds another, the last call before it that takes the setting."""
    root = graph.root("optimizer")
    if root is None or any(role in words for role, _ in root.inputs):
        return root
    built = graph.expressions[(graph.place("model") or 0) + 1 : root.number]
    taking = [e for e in built if e.kind == "call" and e.mark[0] == "k" and any(role in words for role, _ in e.inputs)]
    return taking[-1] if taking else root


def of_building(sides: Sides) -> Blamed | None:
    """The one number that building the candidate's optimizer and schedule takes in place of one of the reference's.

    For optimizers that are put together in classes of the user's own. None unless each side has one number that the other has not.
    """
    graphs = sides.candidate, sides.reference
    parts = [graph.expressions[(graph.place("model") or 0) + 1 : graph.place("step:0")] for graph in graphs]
    parts = [[*part, *(inner for e in part for _, inner in e.inputs if inner.kind == SETTING)] for part in parts]
    strange = []
    for own, other in (parts, parts[::-1]):
        seen = Seen(other)
        strange.append([e for e in own if e.kind in WRITTEN and e.numbers is not None and not seen.has(e)])
    alone = [{(e.source, e.scalar): e for e in held} for held in strange]
    if any(len(held) != 1 for held in alone):
        return None
    wrong, due = (next(iter(held.values())) for held in alone)
    return Blamed(wrong, [wrong], due)


def of_rates(sides: Sides) -> Blamed | None:
    """The expression that made the first learning rate wrong in which both sides' schedules differ; None where none is the user's.

    A schedule's own function may give the rate itself or a factor of it.
    """
    rates = sides.candidate.rates, sides.reference.rates
    differing = [n for n, (own, due) in enumerate(zip(*rates, strict=False)) if not _are_close(own, due)]
    step = next((n for n in differing if n), None)
    if step is None:
        return None
    is_setting = differing[0] == 0  # the first rate is one, but for a schedule that computes it
    graphs = sides.candidate, sides.reference
    alone = [[r for r in rates[n][step] if not any(_is_close(r, o) for o in rates[1 - n][step])] for n in (0, 1)]
    ends = [
        _rate(graph, graph.of_step(step), own[0]) or _factor(graph, step, graph.rates[step].index(own[0])) if own else None
        for graph, own in zip(graphs, alone, strict=True)
    ]
    settings = [e for name in ("optimizer", "scheduler") if (root := sides.reference.root(name)) is not None for e in behind(root)]
    if ends[0] is None:
        return None
    seen = Seen([*settings, *sides.reference.of_step(step), *(behind(ends[1]) if ends[1] is not None else ())])
    if is_setting and (seen.has(ends[0]) is not False or ends[0].kind not in ("operation", "return")):
        return None
    right = [_rate(graphs[0], graphs[0].of_step(n), rates[0][n][0]) for n in range(1, len(rates[0])) if _is_step_right(rates, n)]
    return Search(ends[0], ends[1], seen, sides.reference.expressions, excused=[e for e in right if e is not None]).first()


def of_factor(sides: Sides) -> Blamed | None:
    """The expression that made the factor of one group's rates wrong; None where the schedule itself differs, or several factors do."""
    rates = [
        list(zip(*side.rates, strict=True)) if len({len(r) for r in side.rates}) == 1 else [] for side in (sides.candidate, sides.reference)
    ]
    right = [own for own in rates[0] if any(_are_one(own, due) for due in rates[1])]
    wrong = [own for own in rates[0] if own not in right and any(_ratio(own, due) for due in rates[1])]
    factor = _ratio(wrong[0], right[0]) if right and len({*wrong}) == 1 else None
    if factor is None or factor in COMMON:
        return None
    graph = sides.candidate
    built = graph.expressions[(graph.place("model") or 0) + 1 : graph.place("step:0")]
    alike = [e for e in built if is_number(e.scalar) and _is_close(float(e.scalar), factor) and e.kind != "input" and not e.is_copy]
    if not alike:
        return None
    theirs = sides.reference
    seen = Seen(theirs.expressions[(theirs.place("model") or 0) + 1 : theirs.place("step:0")])
    if seen.has(alike[-1]):  # a right number that stands for another thing there: a rate in place of a factor
        return Blamed(alike[-1], [alike[-1]]) if alike[-1].kind == "operation" else None
    return _wrong_itself(sides, Search(alike[-1], None, seen, theirs.expressions).first())


def _are_one(own: Sequence[float], due: Sequence[float]) -> bool:
    return len(own) == len(due) and all(map(_is_close, own, due))


def _ratio(own: Sequence[float], due: Sequence[float]) -> float | None:
    """By how much each rate of a group is that of another; None where it is not by the same throughout."""
    ratios = [a / b for a, b in zip(own, due, strict=False) if a and b]
    return ratios[0] if ratios and all(math.isclose(ratio, ratios[0], rel_tol=1e-5) for ratio in ratios) else None


def _is_step_right(rates: tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]], step: int) -> bool:
    return step < len(rates[1]) and _are_close(rates[0][step], rates[1][step])


def follow_rates(context: Context, divergence: Divergence | None) -> None:
    """Name the expression that made a schedule's rates wrong: in a function that the schedule calls, else among what it was built of."""
    sides = recorded(context, "optimizer", steps=STEPS) if divergence is not None else None
    if sides is not None:
        name(divergence, of_factor(sides) or of_rates(sides) or of_setting(sides, RATES) or of_building(sides) or of_computing(sides))


def follow_computing(context: Context, divergence: Divergence | None) -> None:
    """Name the line whose formula makes a setting of groups wrong, where there is one: no choice among right settings then."""
    sides = recorded(context, "optimizer", steps=STEPS) if divergence is not None else None
    if sides is not None:
        name(divergence, of_computing(sides))


def _rate(graph: ValueGraph, expressions: list[Expression], rate: float) -> Expression | None:
    """The last expression of a step that is the rate, else the last that is the rate over a number which the optimizer was given."""
    base = [e.scalar for name in ("optimizer", "scheduler") if (root := graph.root(name)) is not None for _, e in root.inputs]
    wanted = [rate, *(rate / b for b in base if is_number(b) and b)]
    for value in wanted:
        found = [e for e in expressions if is_number(e.scalar) and _is_close(float(e.scalar), value) and not _is_read(e)]
        if found:
            return found[-1]
    return None


def _is_read(each: Expression) -> bool:
    """Whether a value was given, or asked of an object: ``optimizer.get_lr()``."""
    return each.kind == "input" or (each.kind == "call" and all(inner.mark[0] == "k" for _, inner in each.inputs))


def _factor(graph: ValueGraph, step: int, index: int) -> Expression | None:
    """The last expression of a step that grew since the step before as a group's rate did: the group's own factor is not the schedule's."""
    before, now = (graph.rates[n][index] for n in (step - 1, step))
    if not before or _is_close(before, now):
        return None
    earlier = {(e.source, e.kind, e.label): float(e.scalar) for e in graph.of_step(step - 1) if is_number(e.scalar)}
    numbers = [e for e in graph.of_step(step) if is_number(e.scalar) and e.kind not in ("input", "constant")]
    grown = [e for e in numbers if (was := earlier.get((e.source, e.kind, e.label))) and _is_close(float(e.scalar) / was, now / before)]
    return grown[-1] if grown else None


def _are_close(own: Sequence[float], due: Sequence[float]) -> bool:
    """Whether each rate of the candidate's groups is one of the reference's; groups may be cut in other ways."""
    return all(any(_is_close(a, b) for b in due) for a in own)


def _is_close(own: float, due: float) -> bool:
    """Whether two rates are one, as the stages judge them: constants are kept in float32."""
    return math.isclose(own, due, rel_tol=1e-6, abs_tol=1e-12)


def name(divergence: Divergence | None, found: Blamed | None, note: str = "") -> None:
    """Name the expression as the line of a divergence, with what led from it to the wrong value.

    ``note`` stands in place of what is said of the expression.
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
    divergence.notes.append(note or said(found))
