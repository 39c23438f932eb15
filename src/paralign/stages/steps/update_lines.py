"""Where an update goes wrong: the line that sets the term, or the operation of a step of the user's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paralign.errors import WorkerFailed
from paralign.locate.optimizer import identify, read_config, setting_lines, watched_steps
from paralign.locate.optimizer import term_causes as causes
from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.group_choice import Choice
from paralign.model import DIVERGED, Divergence, Pair, Point, StageResult
from paralign.worker.protocol import Stepping, Update, built_of
from paralign.worker.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.locate.optimizer.identify import Difference, Known
    from paralign.locate.optimizer.update_rules import Terms, Trace
    from paralign.stages.steps.equal_gradients import Experiment

#: rounding of a parameter in a step, in float64
ROUNDING = 1e-14


@dataclass(frozen=True)
class Explained:
    """What is known of the steps: what each parameter did, the errors up to which that counts as the same, the first cause."""

    traces: dict[str, Trace]
    limits: dict[str, float]
    blamed: Difference | None
    reference: Terms | None


def divergence_of(found: list[Difference], wrong: list[Pair], experiment: Experiment, context: Context) -> Divergence | None:
    """The parameter that is furthest off among those of the first cause, between the lines that set the term."""
    judged = [p for p in wrong if p.verdict == DIVERGED]
    if not judged:
        return None
    blamed = next((d for d in found if d.terms[0] != "inherent"), None)
    members = judged if blamed is None else [p for p in judged if p.reference is not None and p.reference.name in blamed.parameters]
    pair = max(members or judged, key=lambda p: p.ratio or 0.0)
    term = blamed_term(blamed, experiment)
    ends = []
    records = pair.reference, pair.candidate
    weights = context.artifacts.get("weights", (None, None))
    for capture, record, state in zip((experiment.reference, experiment.candidate), records, weights, strict=True):
        answer, name = Update.answer(capture), record.name if record is not None else ""
        built = built_of(state).get(name.rpartition(".")[0], ()) if state is not None else ()
        own = answer.optimizer["parameters"].get(name, {}).get("rate", 1.0) != 1.0 and len(answer.optimizer["groups"]) == 1
        varies = _varies(experiment, blamed, own=own) if term == "rates" else False
        source = setting_lines.term_line(answer, term, next(iter(built), None), varies=varies)
        ends.append(Point(name, answer.optimizer["class"], source, setting_lines.code_at(source)))
    return Divergence(
        ends[0], ends[1], pair, inputs_agree=True, last_agreeing="the gradients, which are equal", confirmed=blamed is not None
    )


def blamed_term(blamed: Difference | None, experiment: Experiment) -> str:
    """The term of the rule that is at fault, '' where it is not known."""
    if blamed is not None:
        return blamed.terms[0]
    return "rates" if experiment.rates_differ(len(experiment.steps)) else ""


def trace_back(context: Context, divergence: Divergence | None, experiment: Experiment, blamed: Difference | None) -> None:
    """Follow the setting that differs to the expression that made it, in whatever module."""
    term = blamed_term(blamed, experiment)
    words = (*setting_lines.WRITTEN.get(term, ()), *read_config.WORDS.get(term, ()))
    if divergence is None or term == "moves":
        return
    if term == "rates" or not words:
        tracing_back.follow_rates(context, divergence)
        return
    sides = tracing_back.recorded(context, "optimizer", steps=tracing_back.STEPS)
    if sides is not None:
        tracing_back.name(
            divergence, tracing_back.of_setting(sides, words) or tracing_back.of_building(sides) or tracing_back.of_computing(sides)
        )


def choose(divergence: Divergence | None, found: list[Difference], known: tuple[Known, Known], experiment: Experiment) -> bool:
    """Where some parameters have, of several settings that are right for others, not their own: the line that chooses who has which.

    Returns:
        Whether there is such a line, which the divergence then names.
    """
    blamed = next((d for d in found if d.terms[0] in ("moves", "decay", "rates")), None)
    if divergence is None or divergence.candidate is None or blamed is None or blamed.terms[0] == "inherent":
        return False
    recipe, about = known[1].recipe, experiment.abouts[1]
    if set(blamed.parameters) >= set(recipe):  # there is no choice
        return False
    if len(about["groups"]) == 1 and blamed.terms[0] != "moves":
        alone = [d.terms[0] for d in found].count("decay") == 1
        return blamed.terms[0] == "decay" and alone and _exempts(divergence.candidate, experiment)
    offered = read_config.told({**about, "parameters": {n: {"group": n} for n in range(len(about["groups"]))}}, experiment.rates[1])
    wanted = [known[0].recipe[n] for n in blamed.parameters]
    right = [n for n, terms in offered.items() if all(_alike(terms, each) for each in wanted)] if len(offered) > 1 else [0]
    if len(right) != 1:
        return False
    answer = Update.answer(experiment.candidate)
    line = setting_lines.group_line(answer.built["optimizer"], blamed.terms[0], int(right[0]))
    if line is not None:
        watched_steps.move(divergence.candidate, line)
    return line is not None


def choice_of(blamed: Difference, known: tuple[Known, Known]) -> Choice:
    """Which parameters are rightly in the group that the wrong ones are in, and which in the one that they should be in."""
    reference, candidate = (side.recipe for side in known)
    wrong = [n for n in blamed.parameters if n in reference and n in candidate]
    right = [n for n, terms in candidate.items() if n in reference and n not in blamed.parameters and _alike(terms, reference[n])]
    joined = [n for n in right if wrong and _alike(candidate[n], candidate[wrong[0]])]
    wanted = [n for n in right if wrong and _alike(reference[n], reference[wrong[0]])]
    return Choice(wrong, joined, wanted)


def _exempts(candidate: Point, experiment: Experiment) -> bool:
    """Name the line that chooses by their names which parameters decay; whether there is one."""
    line = setting_lines.exempting_line(Update.answer(experiment.candidate).built["optimizer"])
    if line is None:
        return False
    watched_steps.move(candidate, line)
    return True


def _alike(one: Terms, other: Terms) -> bool:
    """Whether two parameters are to have the same settings."""
    rates = np.allclose(one.rates, other.rates, rtol=causes.STORED) if len(one.rates) == len(other.rates) else False
    return bool(rates) and math.isclose(one.decay, other.decay, rel_tol=causes.STORED) and (not one.decay or one.style == other.style)


def _varies(experiment: Experiment, blamed: Difference | None, *, own: bool) -> bool:
    """Whether the rates of a step are those of a schedule; a parameter's own rate is a factor that the whole schedule has."""
    if blamed is None:
        return any(len({tuple(rates) for rates in side}) > 1 for side in experiment.rates)
    first, second = blamed.reference[0], blamed.candidate[0]
    ratios = [b / a for a, b in zip(first, second, strict=True) if a]
    if own and ratios and max(ratios) - min(ratios) <= causes.STORED * abs(ratios[0]):
        return False
    return any(len(set(rates)) > 1 for rates in (first, second))


def locate(context: Context, result: StageResult, experiment: Experiment, known: Explained) -> None:
    """Watch the operations of a step of the user's own up to the first that differs, and put what is guilty there first."""
    about, answer = experiment.abouts[1], Update.answer(experiment.candidate)
    first, names = _first_wrong(experiment, known)
    if result.divergence is None or not about["own"] or first >= watched_steps.STEPS or experiment.run != DOUBLE:
        return
    blamed = known.blamed
    if experiment.rates_differ(first + 1) and (blamed is None or blamed.terms[0] == "rates"):
        return
    if blamed is not None and setting_lines.is_given(answer.arguments, blamed.terms[0], blamed.reference[0], blamed.candidate[0]):
        return
    chosen = watched_steps.chosen(experiment.plan, names, [n for n in known.traces if n not in names])
    order = Stepping([DOUBLE, NATIVE], experiment.given, experiment.steps[: first + 1], {})
    try:
        divergences, notes = watched_steps.located(context, (experiment.gradients, experiment.moved), order, chosen)
    except WorkerFailed as failed:
        result.notes.append(f"the optimizer's operations could not be watched: the {failed.side} failed: {failed.type}: {failed.message}")
        return
    result.notes += notes
    for each in divergences:
        for point, side in ((each.reference, experiment.abouts[0]), (each.candidate, about)):
            if point is not None:
                point.name = point.name or side["class"]
        line = (
            setting_lines.kept_line(each.candidate.source, experiment.abouts, known.reference, blamed)
            if each.candidate is not None
            else None
        )
        if line is not None and each.candidate is not None:
            watched_steps.move(each.candidate, line)
    if divergences:
        result.divergence, result.divergences = divergences[0], divergences


def _first_wrong(experiment: Experiment, known: Explained) -> tuple[int, list[str]]:
    """The first step that moves some parameter differently, by more than storing it explains, and all that it moves so."""
    wrong: dict[int, list[str]] = {}
    for name, trace in known.traces.items():
        stored = ROUNDING * float(np.linalg.norm(trace.weight))
        for step in range(len(experiment.steps)):
            one, other = (trace.steps[side][step] for side in ("reference", "candidate"))
            if not identify.far(one, other) <= known.limits[name] and not float(np.linalg.norm(one - other)) <= stored:
                wrong.setdefault(step, []).append(name)
    first = min(wrong, default=watched_steps.STEPS)
    return first, wrong.get(first, [])
