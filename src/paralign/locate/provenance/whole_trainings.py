"""Which expression of a whole training, ``train(log)``, made its first wrong step wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.locate.provenance import optimizer_settings, own_steps, tracing_back
from paralign.locate.provenance.blame import Blamed, is_equal
from paralign.locate.provenance.value_graph import Seen, SeenApart
from paralign.locate.source.call_arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.value_graph import Expression, ValueGraph
    from paralign.model import Divergence

    Ends = tuple[Expression | None, Expression | None]

#: the part of a program that is recorded
PART = "train"

#: what is said of an optimizer of which no setting is known to be wrong
UPDATE = "gradients and rates of the steps are the reference's, what this optimizer makes of them is not"

#: names of what clears gradients
CLEARING = frozenset({"zero_grad", "clear_grad", "clear_gradients"})

#: share of the largest gradient below which one may be rounding alone
ROUNDING = 1e-5

#: relative difference up to which two rates are one
SAME_RATE = 1e-6


@dataclass
class Wrong:
    """What is at fault, and what is said of it; '' for what is said of any expression."""

    blamed: Blamed
    note: str = ""


def follow(
    context: Context,
    divergence: Divergence,
    values: tuple[dict[str, Capture], dict[str, Capture]],
    names: tuple[Sequence[str], Sequence[str]],
    figures: Sequence[str],
    steps: int,
) -> None:
    """Name the expression of the candidate's training that makes its first wrong step wrong, where there is one.

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
    if found is not None:
        tracing_back.name(divergence, found.blamed, found.note)


def first_wrong(sides: Sides, names: Sequence[tuple[str, str]], figures: Sequence[str], steps: int) -> Wrong | None:
    """The expression at fault in the first step that has something wrong: a rate, a figure, a gradient, or what the update makes.

    All of a step is made of what the steps before it left, which is right.
    """
    if _rates_differ(sides):
        return _of_rates(sides)
    seen = SeenApart(sides.reference.expressions)
    for step in range(steps):
        wrong = _wrong(seen, [_told(sides, step, figure) for figure in figures])
        if wrong:
            return _lacking_mode(sides, step) or _plain(own_steps.most_blamed(sides, seen, wrong))
        wrong = _wrong(seen, _audible(_roots(sides, f"gradient:{step}", names)))
        if wrong:
            return _plain(own_steps.most_blamed(sides, seen, wrong)) or _of_gradients(sides, seen, step)
        wrong = _wrong(seen, _roots(sides, f"after:{step}", names))
        if wrong:
            return _plain(own_steps.most_blamed(sides, seen, wrong)) or _of_update(sides, seen)
    return None


def _plain(found: Blamed | None) -> Wrong | None:
    return None if found is None else Wrong(found)


def _roots(sides: Sides, kind: str, names: Sequence[tuple[str, str]]) -> list[Ends]:
    return [(sides.candidate.root(f"{kind}:{own}"), sides.reference.root(f"{kind}:{due}")) for due, own in names]


def _wrong(seen: Seen, pairs: Sequence[Ends]) -> list[tuple[Expression, Expression | None]]:
    """Those that are not their counterparts; where these are not known, those that the reference has nowhere."""
    known = [(own, due, seen.has(own) if due is None else is_equal(own, due)) for own, due in pairs if own is not None]
    return [(own, due) for own, due, right in known if right is False]


def _audible(pairs: Sequence[Ends]) -> list[Ends]:
    """Gradients that are more than what rounding leaves of zero, as that of a bias before a normalisation is."""
    sizes = [max((each.rms for each in pair if each is not None and each.mark[0] == "a"), default=0.0) for pair in pairs]
    return [pair for pair, size in zip(pairs, sizes, strict=True) if size > ROUNDING * max(sizes)]


def _told(sides: Sides, step: int, figure: str) -> Ends:
    """What made a figure that the log of each side is told in a step."""
    found: list[Expression | None] = []
    for graph in (sides.candidate, sides.reference):
        given = [e for call in _of_step(graph, step) if own_steps.is_step(call) for role, e in call.inputs if role == figure]
        found.append(given[-1] if given else None)
    return found[0], found[1]


def _of_step(graph: ValueGraph, step: int) -> list[Expression]:
    """The calls of a step."""
    part = graph.expressions[graph.place(f"begin:{step}") or 0 : graph.place(f"begin:{step + 1}")]
    return [e for e in part if e.kind == "call"]


# -- rates ---------------------------------------------------------------------------------------------------------------------------


def _rates_differ(sides: Sides) -> bool:
    """Whether the optimizers have other rates in some step that both sides made."""
    pairs = zip(sides.candidate.rates, sides.reference.rates, strict=False)
    return any(all(abs(a - b) > SAME_RATE * abs(b) for b in due) for own, due in pairs for a in own)


def _of_rates(sides: Sides) -> Wrong | None:
    return _advanced_again(sides) or _plain(
        optimizer_settings.of_factor(sides)
        or optimizer_settings.of_rates(sides)
        or optimizer_settings.of_setting(sides, optimizer_settings.RATES)
        or optimizer_settings.of_building(sides)
        or optimizer_settings.of_computing(sides)
    )


def _advanced_again(sides: Sides) -> Wrong | None:
    """The last call of ``step`` where the candidate makes more of them than the reference: a schedule that is advanced twice."""
    own, due = (
        [e for e in _of_step(graph, 0) if own_steps.is_step(e) and not any(role == "samples" for role, _ in e.inputs)]
        for graph in (sides.candidate, sides.reference)
    )
    told = f"{len(own)} calls of step in a step of the training, {len(due)} in the reference's"
    return Wrong(Blamed(own[-1], [own[-1]]), told) if len(own) > len(due) > 0 else None


# -- figures -------------------------------------------------------------------------------------------------------------------------


def _lacking_mode(sides: Sides, step: int) -> Wrong | None:
    """The candidate's last call of ``train``, where the reference calls it before a step once more and the candidate does not."""
    calls = [[e for e in _of_step(graph, step - 1) if _is_mode(e)] for graph in (sides.candidate, sides.reference)] if step else [[], []]
    if not calls[1] or calls[0]:
        return None
    before = [e for e in sides.candidate.expressions[: sides.candidate.place(f"begin:{step}")] if e.kind == "call" and _is_mode(e)]
    told = f"the last time that the model is put into train mode before step {step}; the reference does it once more"
    return Wrong(Blamed(before[-1], [before[-1]], calls[1][-1]), told) if before else None


def _is_mode(call: Expression) -> bool:
    """Whether a call puts a model into train mode."""
    return call.label.rpartition(".")[2] == "train" and bool(call.file)


# -- gradients -----------------------------------------------------------------------------------------------------------------------


def _of_gradients(sides: Sides, seen: Seen, step: int) -> Wrong | None:
    """What changes gradients of a right loss: a bound, a call that is missing before the update, gradients of the step before."""
    return _plain(own_steps.other_argument(sides) or own_steps.strange_number(sides, seen)) or _lacking_call(sides, step)


def _lacking_call(sides: Sides, step: int) -> Wrong | None:
    """The candidate's update, where the reference's step has one call that changes gradients, or clears them, and the candidate's none."""
    calls = [_changing(graph, step and step - 1) for graph in (sides.candidate, sides.reference)]
    lacking = [calls[1][word] for word in calls[1] if word not in calls[0]]
    updates = [e for e in _of_step(sides.candidate, step and step - 1) if own_steps.is_step(e) and e.file]
    if len(lacking) != 1 or not updates:
        return None
    word = lacking[0].label.rpartition(".")[2]
    told = f"in a step with this update the reference calls {word} ({lacking[0].source}), the candidate nothing of the kind"
    return Wrong(Blamed(updates[0], [updates[0]], lacking[0]), told)


def _changing(graph: ValueGraph, step: int) -> dict[str, Expression]:
    """The calls of a step that change gradients in place, by what they do: functions named with an underscore, and those that clear."""
    found = {}
    for each in _of_step(graph, step):
        word = each.label.rpartition(".")[2]
        if each.file and (word.endswith("_") or word in CLEARING):
            found["clear" if word in CLEARING else word] = each
    return found


# -- updates -------------------------------------------------------------------------------------------------------------------------


def _of_update(sides: Sides, seen: Seen) -> Wrong | None:
    """Where the optimizer is built, if right gradients and rates make a wrong update: the number that is wrong there, else the call."""
    found = optimizer_settings.of_building(sides) or _strange_setting(sides, seen) or _lacking_setting(sides)
    built = sides.candidate.root("optimizer")
    if found is not None or built is None or not built.file:
        return _plain(found)
    return Wrong(Blamed(built, [built], sides.reference.root("optimizer")), UPDATE)


def _strange_setting(sides: Sides, seen: Seen) -> Blamed | None:
    """The one number that is written where the candidate's optimizer is built, and that the reference has nowhere."""
    strange = {e.source: e for e in _written(sides.candidate) if seen.has(e) is False}
    return Blamed(each := next(iter(strange.values())), [each]) if len(strange) == 1 else None


def _lacking_setting(sides: Sides) -> Blamed | None:
    """What the candidate gives in place of the one number of the reference's building that it has nowhere itself, under the same name."""
    seen = Seen(sides.candidate.expressions)
    lacking = [e for e in _written(sides.reference) if seen.has(e) is False]
    roles = {role for e in lacking for user in e.users for role, inner in user.inputs if inner is e and not role.isdecimal()}
    if len({e.scalar for e in lacking}) != 1 or not roles:
        return None
    taken = [inner for e in _built(sides.candidate) for role, inner in e.inputs if role in roles and is_number(inner.scalar) and inner.file]
    return Blamed(taken[0], [taken[0]], lacking[0]) if len({e.source for e in taken}) == 1 else None


def _built(graph: ValueGraph) -> list[Expression]:
    """What was made between the model and the first step."""
    return graph.expressions[(graph.place("model") or 0) + 1 : graph.place("step:0")]


def _written(graph: ValueGraph) -> list[Expression]:
    """The numbers that are written there."""
    return [e for e in _built(graph) if e.kind in tracing_back.WRITTEN and is_number(e.scalar)]
