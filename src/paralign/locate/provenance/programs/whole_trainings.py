"""Which expression of a whole training, ``train(log)``, made its first wrong step wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.programs import own_steps
from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.settings import optimizer_settings
from paralign.locate.provenance.values.expression_counterparts import is_equal
from paralign.locate.provenance.values.seen_values import Seen, SeenApart
from paralign.locate.source.call_arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression, ValueGraph
    from paralign.model import Divergence

    Ends = tuple[Expression | None, Expression | None]

#: the part of a program that is recorded
PART = "train"

#: what is said of an optimizer of which no setting is known to be wrong
UPDATE = "gradients and rates of the steps are the reference's, what this optimizer makes of them is not"

#: the same, where one side bounds its gradients before the update and the other within it
BOUNDED = "rates of the steps are the reference's, what this optimizer makes of the gradients is not"

#: names of what clears gradients
CLEARING = frozenset({"zero_grad", "clear_grad", "clear_gradients"})

#: share of the largest gradient below which one may be rounding alone
ROUNDING = 1e-5

#: relative difference up to which two factors of gradients are one
SAME_SCALE = 1e-3

#: relative difference up to which two rates are one
SAME_RATE = 1e-6


def follow(
    context: Context,
    divergence: Divergence,
    values: tuple[dict[str, Capture], dict[str, Capture]],
    names: tuple[Sequence[str], Sequence[str]],
    figures: Sequence[str],
    steps: int,
) -> None:
    """Name the expression that makes a training's first wrong step wrong.

    Args:
        context: the check.
        divergence: what is named so far.
        values: initial weights and batches, the reference's and the candidate's.
        names: of the tensors that are looked at after each step, the reference's and the candidate's; in the same order.
        figures: that are wrong.
        steps: up to the first wrong one, which is among them.
    """
    sides = tracing_back.recorded(context, PART, values, steps=steps, names=names)
    found = None if sides is None else first_wrong(sides, list(zip(*names, strict=True)), figures, steps)
    tracing_back.name(divergence, found)


def first_wrong(sides: Sides, names: Sequence[tuple[str, str]], figures: Sequence[str], steps: int) -> Blamed | None:
    """The expression at fault in the first step that has something wrong.

    A rate, a figure, a gradient, or what the update makes.

    All of a step is made of what the steps before it left, which is right. Gradients of which the updates make the same are passed over.
    """
    rates = _first_rates(sides)
    if rates is not None:
        return _of_rates(sides, rates)
    seen = SeenApart(sides.reference.expressions)
    apart = _bounds_within(sides.candidate) != _bounds_within(sides.reference)
    silent: set[tuple[str, str]] = set()
    for step in range(steps):
        wrong = _wrong(seen, [_told(sides, step, figure) for figure in figures])
        if wrong:
            return _lacking_mode(sides, step) or own_steps.most_blamed(sides, seen, wrong)
        silent |= _silent(_roots(sides, f"gradient:{step}", names), names)
        heard = [pair for pair in names if pair not in silent]
        gradients, moved = _roots(sides, f"gradient:{step}", heard), _wrong(seen, _roots(sides, f"after:{step}", heard))
        wrong = [] if apart or not moved else _wrong(seen, gradients)
        if wrong:
            return own_steps.most_blamed(sides, seen, wrong) or _of_gradients(sides, seen, step, gradients)
        if moved:
            found = own_steps.most_blamed(sides, seen, moved) or (_lacking_call(sides, step, bounds=False) if apart else None)
            return found or _of_update(sides, seen, BOUNDED if apart else UPDATE)
    return None


def _roots(sides: Sides, kind: str, names: Sequence[tuple[str, str]]) -> list[Ends]:
    return [(sides.candidate.root(f"{kind}:{own}"), sides.reference.root(f"{kind}:{due}")) for due, own in names]


def _wrong(seen: Seen, pairs: Sequence[Ends]) -> list[tuple[Expression, Expression | None]]:
    """Those that are not their counterparts, or that the reference has nowhere.

    The latter where counterparts are not known.
    """
    known = [(own, due, seen.has(own) if due is None else is_equal(own, due)) for own, due in pairs if own is not None]
    return [(own, due) for own, due, right in known if right is False]


def _silent(gradients: Sequence[Ends], names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Tensors whose gradients are what rounding leaves of zero.

    That of a bias before a normalisation is, and Adam makes a motion of it.
    """
    sizes: dict[tuple[str, str], float] = {}
    for name, pair in zip(names, gradients, strict=True):
        known = [each.rms for each in pair if each is not None and each.mark[0] == "a"]
        if known:
            sizes[name] = max(known)
    most = max(sizes.values(), default=0.0)
    return {name for name, size in sizes.items() if size <= ROUNDING * most}


def _told(sides: Sides, step: int, figure: str) -> Ends:
    """What made a figure that the log of each side is told in a step."""
    found: list[Expression | None] = []
    for graph in (sides.candidate, sides.reference):
        logged = filter(own_steps.is_step, _calls(graph, [step]))
        given = [each for call in logged for role, each in call.inputs if role == figure]
        found.append(given[-1] if given else None)
    return found[0], found[1]


def _calls(graph: ValueGraph, steps: Iterable[int]) -> list[Expression]:
    """The calls of some steps, in whatever file they stand."""
    return [each for step in steps for each in graph.in_step(step) if each.kind == "call"]


def _user_calls(graph: ValueGraph, steps: Iterable[int]) -> list[Expression]:
    """The calls of some steps that stand in the user's files."""
    return [each for each in _calls(graph, steps) if each.file]


# -- rates ---------------------------------------------------------------------------------------------------------------------------


def _first_rates(sides: Sides) -> int | None:
    """The first step that both sides made for which the optimizers have other rates."""
    for step, (own, due) in enumerate(zip(sides.candidate.rates, sides.reference.rates, strict=False)):
        if any(all(abs(a - b) > SAME_RATE * abs(b) for b in due) for a in own):
            return step
    return None


def _of_rates(sides: Sides, step: int) -> Blamed | None:
    return (
        _advanced_again(sides, step)
        or optimizer_settings.of_factor(sides)
        or optimizer_settings.of_rates(sides)
        or optimizer_settings.of_setting(sides, optimizer_settings.RATES)
        or optimizer_settings.of_building(sides)
        or optimizer_settings.of_computing(sides)
    )


def _advanced_again(sides: Sides, until: int) -> Blamed | None:
    """The last extra call of ``step`` in the first step with more of them than due.

    Steps before ``until`` are looked at.

    A schedule is advanced twice then, or where the reference accumulates gradients.
    """
    for step in range(until or 1):
        own, due = (_updates(graph, [step]) for graph in (sides.candidate, sides.reference))
        if len(own) > len(due):
            told = f"{len(own)} calls of step in a step of the training, {len(due)} in the reference's"
            return Blamed(own[-1], [own[-1]], note=told)
    return None


# -- figures -------------------------------------------------------------------------------------------------------------------------


def _lacking_mode(sides: Sides, step: int) -> Blamed | None:
    """The candidate's last call of ``train``, where only the reference calls it again."""
    if not step:
        return None
    own, due = (list(filter(_is_mode, graph.in_step(step - 1))) for graph in (sides.candidate, sides.reference))
    if own or not due:
        return None
    before = list(filter(_is_mode, sides.candidate.expressions[: sides.candidate.place(f"begin:{step}")]))
    if not before:
        return None
    told = f"the last time that the model is put into train mode before step {step}; the reference does it once more"
    return Blamed(before[-1], [before[-1]], due[-1], note=told)


def _is_mode(each: Expression) -> bool:
    """Whether a call puts a model into train mode."""
    return each.is_own_call and each.word == "train"


# -- gradients -----------------------------------------------------------------------------------------------------------------------


def _bounds_within(graph: ValueGraph) -> bool:
    """Whether the optimizer is built with what bounds gradients."""
    return any(optimizer_settings.bounds_gradients(e) for e in graph.building())


def _of_gradients(sides: Sides, seen: Seen, step: int, gradients: Sequence[Ends]) -> Blamed | None:
    """What changes gradients of a right loss.

    A bound, a call missing before the update, gradients of the step before, a factor.
    """
    early = own_steps.early_update(sides.candidate.in_step(step), sides.reference.in_step(step))
    found = early or own_steps.other_argument(sides) or own_steps.strange_number(sides, seen)
    return found or _lacking_call(sides, step) or _of_scale(sides, step, gradients)


def _lacking_call(sides: Sides, step: int, *, bounds: bool = True) -> Blamed | None:
    """The candidate's update, where it lacks a call that changes or clears gradients.

    Looked at is what was done since the update before, that one's step included; ``bounds``, whether clipping counts.
    """
    first = max((n for n in range(step) if _updates(sides.candidate, [n])), default=0)
    steps = range(first, step + 1)
    updates = _updates(sides.candidate, steps)
    lacking = _only_lacking(_changing(sides.candidate, steps), _changing(sides.reference, steps), bounds=bounds)
    if lacking is None or not updates:
        return None
    told = f"in a step with this update the reference calls {lacking.word} ({lacking.source}), the candidate nothing of the kind"
    return Blamed(updates[0], [updates[0]], lacking, note=told)


def _only_lacking(own: Mapping[str, Expression], due: Mapping[str, Expression], *, bounds: bool) -> Expression | None:
    """The one call that only the reference makes; of several, the one named after gradients."""
    lacking = [call for word, call in due.items() if word not in own and (bounds or "clip" not in call.label)]
    if len(lacking) != 1:
        lacking = [call for call in lacking if "grad" in call.word]
    return lacking[0] if len(lacking) == 1 else None


def _updates(graph: ValueGraph, steps: Iterable[int]) -> list[Expression]:
    """The calls of some steps that advance an optimizer, or a schedule."""
    return [call for call in _user_calls(graph, steps) if own_steps.is_step(call) and not _logs(call)]


def _logs(call: Expression) -> bool:
    """Whether a call ``step`` is that of the log, which is told the number of samples."""
    return any(role == "samples" for role, _ in call.inputs)


def _changing(graph: ValueGraph, steps: Iterable[int]) -> dict[str, Expression]:
    """The calls that change gradients in place, by what they do.

    Functions named with an underscore, and those that clear.
    """
    found = {}
    for call in _user_calls(graph, steps):
        if call.word in CLEARING:
            found["clear"] = call
        elif call.word.endswith("_"):
            found[call.word] = call
    return found


def _of_scale(sides: Sides, step: int, gradients: Sequence[Ends]) -> Blamed | None:
    """The candidate's last call of ``backward``, where all gradients have one factor."""
    factor = _one_factor(gradients)
    called = [call for call in _user_calls(sides.candidate, range(step + 1)) if call.word == "backward"]
    if factor is None or not called:
        return None
    told = f"the gradients of this loss are {factor:.6g} times the reference's, all of them: a division or factor that only one side has"
    return Blamed(called[-1], [called[-1]], note=told)


def _one_factor(gradients: Sequence[Ends]) -> float | None:
    """How many times the reference's all gradients are; None where they differ, and of 1."""
    factors = [own.rms / due.rms for own, due in gradients if own is not None and due is not None and due.rms > 0]
    if not factors or max(factors) > min(factors) * (1 + SAME_SCALE):
        return None
    return None if abs(factors[0] - 1) < SAME_SCALE else factors[0]


# -- updates -------------------------------------------------------------------------------------------------------------------------


def _of_update(sides: Sides, seen: Seen, told: str) -> Blamed | None:
    """Where the optimizer is built, if right gradients and rates make a wrong update.

    The number that is wrong there, else the call.
    """
    found = optimizer_settings.of_building(sides) or _strange_setting(sides, seen) or _lacking_setting(sides)
    built = sides.candidate.root("optimizer")
    if found is not None or built is None or not built.file:
        return found
    return Blamed(built, [built], sides.reference.root("optimizer"), note=told)


def _strange_setting(sides: Sides, seen: Seen) -> Blamed | None:
    """The one number in the optimizer's building that the reference has nowhere."""
    strange = {e.source: e for e in _written(sides.candidate) if seen.has(e) is False}
    return Blamed(each := next(iter(strange.values())), [each]) if len(strange) == 1 else None


def _lacking_setting(sides: Sides) -> Blamed | None:
    """What the candidate gives in place of the reference's one number that it lacks.

    Under the same name.
    """
    seen = Seen(sides.candidate.expressions)
    lacking = [e for e in _written(sides.reference) if seen.has(e) is False]
    if len({e.scalar for e in lacking}) != 1:
        return None
    roles = {role for each in lacking for role in _names_given(each)}
    taken = [each for role, each in _numbers_given(sides.candidate) if role in roles]
    if len({each.source for each in taken}) != 1:
        return None
    return Blamed(taken[0], [taken[0]], lacking[0])


def _names_given(number: Expression) -> set[str]:
    """The names under which a number is given to what takes it."""
    return {role for user in number.users for role, inner in user.inputs if inner is number and not role.isdecimal()}


def _numbers_given(graph: ValueGraph) -> list[tuple[str, Expression]]:
    """The user's numbers that the optimizer's building takes, with their names there."""
    given = [pair for each in graph.building() for pair in each.inputs]
    return [(role, each) for role, each in given if is_number(each.scalar) and each.file]


def _written(graph: ValueGraph) -> list[Expression]:
    """The numbers that are written down in the optimizer's building."""
    return [e for e in graph.building() if e.kind in tracing_back.WRITTEN and is_number(e.scalar)]
