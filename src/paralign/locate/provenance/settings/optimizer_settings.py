"""Which expression made a setting of an optimizer or a schedule's rate wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.settings.ruling_schedule import of_name, of_number, of_ruling
from paralign.locate.provenance.settings.schedule_times import of_counting, of_times
from paralign.locate.provenance.tracing_back import STEPS, WRITTEN, behind_all, is_close, name, recorded, wrong_itself
from paralign.locate.provenance.values.expression_counterparts import doing, is_equal, origin, paired
from paralign.locate.provenance.values.readings import setting_of
from paralign.locate.provenance.values.seen_values import Seen, SeenApart
from paralign.locate.provenance.values.value_graph import COMMON, SETTING
from paralign.locate.reaching import reached
from paralign.locate.source.call_arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from paralign.context import Context
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression, ValueGraph
    from paralign.model import Divergence

#: what a call of an optimizer may name its rate, or its schedule
RATES = ("lr", "learning_rate")

#: how names of what an optimizer is built with begin that bounds gradients
BOUNDS = "ClipGrad"


def follow_rates(context: Context, divergence: Divergence | None) -> None:
    """Name the expression that made a schedule's rates wrong."""
    searches = (of_counting, of_factor, of_rates, of_times, of_name, _of_rate_setting, of_number, of_building, of_computing, of_ruling)
    _follow(context, divergence, searches)


def _of_rate_setting(sides: Sides) -> Blamed | None:
    return of_setting(sides, RATES)


def follow_setting(context: Context, divergence: Divergence | None, words: Sequence[str]) -> None:
    """Name the expression that made a setting wrong, known by some names."""
    _follow(context, divergence, (lambda sides: of_setting(sides, words), of_building, of_computing))


def follow_computing(context: Context, divergence: Divergence | None) -> None:
    """Name the line whose formula makes a setting of groups wrong, where there is one."""
    _follow(context, divergence, (of_computing,))


def _follow(context: Context, divergence: Divergence | None, searches: Iterable[Callable[[Sides], Blamed | None]]) -> None:
    """Name what the first search finds in both optimizers' building and schedules."""
    sides = recorded(context, "optimizer", steps=STEPS) if divergence is not None else None
    if sides is None:
        return
    for search in searches:
        found = search(sides)
        if found is not None:
            name(divergence, found)
            return


def of_computing(sides: Sides) -> Blamed | None:
    """The one line of the building that makes of right values what the reference has not.

    For settings that a formula makes for each group of parameters. None where there are several such lines.
    """
    seen = Seen(sides.reference.building(), [rate for rates in sides.reference.rates for rate in rates])
    wrong: list[Expression] = []
    for each in sides.candidate.building():
        is_formula = each.kind == "operation" and is_number(each.scalar) and bool(each.file)
        if is_formula and not seen.has(each) and all(seen.has(inner) for _, inner in each.values):
            wrong.append(each)
    return Blamed(wrong[0], [wrong[0]]) if len({e.source for e in wrong}) == 1 else None


def of_setting(sides: Sides, words: Sequence[str]) -> Blamed | None:
    """The expression that made a setting of an optimizer wrong.

    A schedule, a clipping rule or a penalty is looked into: what it was constructed of.

    Args:
        sides: what was recorded of the optimizer's construction.
        words: what the setting may be called.
    """
    wrong, twin = _given_setting(sides.candidate, words), _given_setting(sides.reference, words)
    scheduler = sides.reference.root("scheduler")
    known = behind_all(each for each in (_constructed(sides.reference, words), scheduler) if each is not None)
    if wrong is None and twin is not None:
        return _without(sides.candidate, words)
    if wrong is None or not known or (twin is not None and is_equal(wrong, twin)):
        return None
    if wrong.is_object:  # what a schedule is made of, the other side's may take when it is advanced
        known += sides.reference.expressions[(sides.reference.place("step:0") or 0) + 1 :]
        if wrong.uncopied.kind == "call" and scheduler is not None:
            twin = scheduler  # a schedule: the reference's is an object of its own
    rates = [rate for held in sides.reference.rates for rate in held] if words == RATES else []
    found = wrong_itself(sides, Search(wrong, twin, Seen(known, rates), sides.reference.expressions).first())
    if found is None or (found.expression.numbers is None and found.expression.scalar is None):
        return None
    return found


def _without(graph: ValueGraph, words: Sequence[str]) -> Blamed | None:
    """The optimizer's construction, where nothing in the building names a setting."""
    root = graph.root("optimizer")
    if root is None or root.kind != "call" or not root.file:
        return None
    named = any(each.scalar in words for each in graph.building() if isinstance(each.scalar, str))
    given = any(each.kind == "call" and _takes(each, words) for each in graph.building())
    return None if named or given else Blamed(root, [root])


def _given_setting(graph: ValueGraph, words: Sequence[str]) -> Expression | None:
    """What the optimizer's construction is given under one of some names."""
    root = _constructed(graph, words)
    given = [] if root is None else [each for role, each in root.inputs if role in words]
    return given[0] if len(given) == 1 else None


def _constructed(graph: ValueGraph, words: Sequence[str]) -> Expression | None:
    """The call that constructed the optimizer, or the last before it that takes the setting."""
    root = graph.root("optimizer")
    if root is None or _takes(root, words):
        return root
    for each in reversed(graph.expressions[(graph.place("model") or 0) + 1 : root.number]):
        if each.kind == "call" and each.is_object and _takes(each, words):
            return each
    return root


def _takes(call: Expression, words: Sequence[str]) -> bool:
    return any(role in words for role, _ in call.inputs)


def of_building(sides: Sides) -> Blamed | None:
    """The one number in the building that stands in place of one of the reference's.

    For optimizers that are put together in classes of the user's own. None unless each side has one number that the other has not.
    """
    both = ([e for e in graph.building() if not _is_bound(e)] for graph in (sides.candidate, sides.reference))
    own, theirs = (_with_settings(expressions) for expressions in both)
    wrong, due = _written_alone(own, theirs), _written_alone(theirs, own)
    if len(wrong) != 1 or len(due) != 1:
        return None
    return Blamed(wrong[0], wrong, due[0])


def _is_bound(expression: Expression) -> bool:
    """Whether a number bounds gradients and nothing else.

    The other side may do that in its training loop.
    """
    return bool(expression.users) and all(bounds_gradients(user) for user in expression.users)


def bounds_gradients(expression: Expression) -> bool:
    """Whether this makes what an optimizer bounds gradients with."""
    return expression.kind == "call" and expression.word.startswith(BOUNDS)


def _with_settings(expressions: list[Expression]) -> list[Expression]:
    """Some expressions, and the entries of files that were read for them."""
    entries = [inner for each in expressions for _, inner in each.inputs if inner.kind == SETTING]
    return [*expressions, *entries]


def _written_alone(expressions: Iterable[Expression], others: Iterable[Expression]) -> list[Expression]:
    """The numbers written among some expressions, one for each place, that others do not have."""
    seen = Seen(others)
    found: dict[tuple[str, Any], Expression] = {}
    for each in expressions:
        if each.kind in WRITTEN and each.numbers is not None and not seen.has(each):
            found[each.source, each.scalar] = each
    return list(found.values())


def of_rates(sides: Sides) -> Blamed | None:
    """The expression that made the first differing learning rate wrong.

    A schedule's own function may give the rate itself or a factor of it.
    """
    graph, reference = sides.candidate, sides.reference
    steps = range(min(len(graph.rates), len(reference.rates)))
    differing = [step for step in steps if not _are_close(graph.rates[step], reference.rates[step])]
    step = next((n for n in differing if n), None)
    if step is None:
        return None
    end, due = _ends_of_rate(sides, step)
    if end is None:
        return None
    now = reference.in_schedule_step(step)
    again = {each.source for each in now}  # lines of the schedule: what they made at the first step is right there alone
    settings = [each for each in behind_all(reference.roots(("optimizer", "scheduler"))) if each.source not in again]
    seen = SeenApart([*settings, *now, *behind_all([due] if due is not None else [])])
    is_setting = differing[0] == 0  # the first rate is one, but for a schedule that computes it
    if is_setting and (seen.has(end) is not False or end.kind not in ("operation", "return")):
        return None
    right: list[Expression] = []
    for number in steps[1:]:
        if _are_close(graph.rates[number], reference.rates[number]):
            rate = _rate(graph, graph.in_schedule_step(number), graph.rates[number][0])
            right += [rate] if rate is not None else []
    found = Search(end, due, seen, reference.expressions, excused=right).first()
    if found is None:
        return None
    taken = _other_taken(end, due) if due is not None and found.source == end.source else None
    return _other_number(found.expression, now) or taken or found


def _other_taken(end: Expression, due: Expression) -> Blamed | None:
    """What made the one number that a line takes from elsewhere, and not the reference's.

    However both lines compute: all else that they take is equal, and some of it is no small number.
    """
    own, theirs = _from_elsewhere(end), _from_elsewhere(due)
    alone = [each for each in own if not any(is_equal(each, other) for other in theirs)]
    lacked = [other for other in theirs if not any(is_equal(each, other) for each in own)]
    shared = [each for each in own if each not in alone and each.scalar not in COMMON]
    if len(alone) != 1 or len(lacked) != 1 or not shared:
        return None
    made = origin(alone[0])
    made = setting_of(made) or made
    return Blamed(made, [made, end], origin(lacked[0])) if made.file else None


def _from_elsewhere(end: Expression) -> list[Expression]:
    """The numbers that an expression's line takes of other lines, each once."""
    found: dict[Any, Expression] = {}
    for each in reached([end], lambda e: [inner for _, inner in e.values if inner.source == end.source]):
        for _, inner in each.values:
            if inner.source != end.source and is_number(inner.scalar):
                found.setdefault(inner.scalar, inner)
    return list(found.values())


def _other_number(found: Expression, reference: Sequence[Expression]) -> Blamed | None:
    """What made the one number that an operator takes in place of the reference's.

    Told by another operand that both have: a power of the same base. By itself a small number is right: it occurs anywhere.
    """
    of_line = reached([found], lambda each: [inner for _, inner in each.values if inner.source == found.source])
    twins = [each for each in reference if each.kind == "operation"]
    for each in of_line:
        if each.kind != "operation" or any(doing(each) == doing(twin) and is_equal(each, twin) for twin in twins):
            continue
        for twin in twins:
            made = _made_otherwise(each, twin)
            if made is not None and made.source != found.source:  # what the line itself made leads on to what it takes
                return Blamed(made, [made, each], twin)
    return None


def _made_otherwise(each: Expression, twin: Expression) -> Expression | None:
    """What made the one operand that is not its twin's, where another one is."""
    if doing(twin) != doing(each):
        return None
    pairs = paired(each, twin)
    apart = [own for own, due in pairs if is_equal(own, due) is False]
    alike = [own for own, due in pairs if is_equal(own, due) and own.scalar not in COMMON]
    made = origin(apart[0]) if len(apart) == 1 and alike else None
    return made if made is not None and made.file and made.kind in ("operation", "call") else None


def _wrong_rates(own: Sequence[float], due: Sequence[float]) -> list[tuple[float, float | None]]:
    """A step's rates that are not the reference's, each with the one that stands in its place.

    Groups stand in an order of their own on each side: where both have as many different rates, they are told by size.
    """
    ours, theirs = sorted(set(own)), sorted(set(due))
    if len(ours) != len(theirs):
        return [(rate, None) for rate in dict.fromkeys(own) if not any(is_close(rate, other) for other in due)]
    twins = dict(zip(ours, theirs, strict=True))
    return [(rate, twins[rate]) for rate in dict.fromkeys(own) if not is_close(rate, twins[rate])]


def _made_rate(graph: ValueGraph, step: int, rate: float) -> Expression | None:
    """What made one of a step's rates, or its factor."""
    return _rate(graph, graph.in_schedule_step(step), rate) or _factor(graph, step, graph.rates[step].index(rate))


def _ends_of_rate(sides: Sides, step: int) -> tuple[Expression | None, Expression | None]:
    """What made the first wrong rate of a step, and what made the reference's."""
    own, due = sides.candidate.rates[step], sides.reference.rates[step]
    for rate, twin in _wrong_rates(own, due):
        end = _made_rate(sides.candidate, step, rate)
        if end is not None:
            others = [twin] if twin is not None else [rate for rate, _ in _wrong_rates(due, own)]
            return end, next(filter(None, (_made_rate(sides.reference, step, other) for other in others)), None)
    return None, None


def of_factor(sides: Sides) -> Blamed | None:
    """The expression that made the factor of one group's rates wrong."""
    until = _steps_in_part_right(sides)
    own, due = ([rates[:until] for rates in _of_groups(graph)] for graph in (sides.candidate, sides.reference))
    factor = _wrong_factor(own, due) if until else None
    if factor is None or factor in COMMON:
        return None
    alike: Expression | None = None
    for each in sides.candidate.building():
        if is_number(each.scalar) and is_close(float(each.scalar), factor) and each.kind != "input" and not each.is_copy:
            alike = each
    if alike is None:
        return None
    seen = Seen(sides.reference.building())
    if seen.has(alike):  # a right number that stands for another thing there: a rate in place of a factor
        return Blamed(alike, [alike]) if alike.kind == "operation" else None
    return wrong_itself(sides, Search(alike, None, seen, sides.reference.expressions).first())


def _steps_in_part_right(sides: Sides) -> int:
    """The first steps in which a group has a rate of the reference's.

    A schedule past its end may go on otherwise.
    """
    count = 0
    for own, due in zip(sides.candidate.rates, sides.reference.rates, strict=False):
        if not any(is_close(a, b) for a in own for b in due):
            break
        count += 1
    return count


def _of_groups(graph: ValueGraph) -> list[tuple[float, ...]]:
    """The rates of each group, step by step; empty where groups come or go."""
    is_even = len({len(rates) for rates in graph.rates}) == 1
    return list(zip(*graph.rates, strict=True)) if is_even else []


def _wrong_factor(groups: list[tuple[float, ...]], reference: list[tuple[float, ...]]) -> float | None:
    """By how much the wrong groups' rates are those of a right group."""
    right = [own for own in groups if any(_are_one(own, due) for due in reference)]
    wrong = {own for own in groups if own not in right and any(_ratio(own, due) for due in reference)}
    if len(wrong) != 1 or not right:
        return None
    return _ratio(wrong.pop(), right[0])


def _are_one(own: Sequence[float], due: Sequence[float]) -> bool:
    return len(own) == len(due) and all(map(is_close, own, due))


def _ratio(own: Sequence[float], due: Sequence[float]) -> float | None:
    """By how much each rate of a group is that of another."""
    ratios = [a / b for a, b in zip(own, due, strict=False) if a and b]
    return ratios[0] if ratios and all(math.isclose(ratio, ratios[0], rel_tol=1e-5) for ratio in ratios) else None


def _rate(graph: ValueGraph, expressions: list[Expression], rate: float) -> Expression | None:
    """The last expression of a step that is the rate, else the rate over a given number."""
    given = [each.scalar for root in graph.roots(("optimizer", "scheduler")) for _, each in root.inputs]
    for value in (rate, *(rate / number for number in given if is_number(number) and number)):
        for each in reversed(expressions):
            if is_number(each.scalar) and is_close(float(each.scalar), value) and not _is_read(each):
                return each
    return None


def _is_read(each: Expression) -> bool:
    """Whether a value was given, or asked of an object: ``optimizer.get_lr()``."""
    if each.kind == "call":
        return all(inner.is_object for _, inner in each.inputs)
    return each.kind == "input"


def _factor(graph: ValueGraph, step: int, index: int) -> Expression | None:
    """The last expression that grew in a step as a group's rate did."""
    before, now = (graph.rates[n][index] for n in (step - 1, step))
    if not before or is_close(before, now):
        return None
    earlier = {(e.source, e.kind, e.label): float(e.scalar) for e in graph.in_schedule_step(step - 1) if is_number(e.scalar)}
    for each in reversed(graph.in_schedule_step(step)):
        if not is_number(each.scalar) or each.kind in ("input", "constant"):
            continue
        was = earlier.get((each.source, each.kind, each.label))
        if was and is_close(float(each.scalar) / was, now / before):
            return each
    return None


def _are_close(own: Sequence[float], due: Sequence[float]) -> bool:
    """Whether each rate of the candidate's groups is one of the reference's."""
    return all(any(is_close(a, b) for b in due) for a in own)
