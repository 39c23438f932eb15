"""Where an update goes wrong: the line that sets the term, or an own step's operation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from paralign.errors import WorkerFailed
from paralign.locate.optimizer import identify, read_config, setting_lines, watched_steps
from paralign.locate.optimizer import term_causes as causes
from paralign.locate.provenance.settings import group_settings, optimizer_settings
from paralign.locate.provenance.settings.group_choice import Choice
from paralign.locate.provenance.settings.group_settings import Group
from paralign.model import Divergence, Point, StageResult
from paralign.worker.protocol import Stepping, Update, built_of
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.optimizer.identify import Difference, Known
    from paralign.locate.optimizer.update_rules import Terms
    from paralign.model import Record
    from paralign.stages.steps.equal_gradients import Experiment
    from paralign.stages.steps.traced_moves import Moves
    from paralign.stages.steps.update_reasons import Reasons

#: rounding of a parameter in a step, in float64
ROUNDING = 1e-14


def divergence_of(reasons: Reasons, experiment: Experiment, context: Context) -> Divergence | None:
    """The worst parameter of the first cause, between the lines that set the term."""
    wrong, blamed = reasons.moves.wrong, reasons.blamed
    if not wrong:
        return None
    members = wrong
    if blamed is not None:
        members = [p for p in wrong if p.reference is not None and p.reference.name in blamed.parameters]
    pair = max(members or wrong, key=lambda p: p.ratio or 0.0)
    reference, candidate = context.artifacts.get("weights", (None, None))
    ends = [
        _end(experiment, blamed, experiment.reference, pair.reference, reference),
        _end(experiment, blamed, experiment.candidate, pair.candidate, candidate),
    ]
    return Divergence(
        ends[0], ends[1], pair, inputs_agree=True, last_agreeing="the gradients, which are equal", confirmed=blamed is not None
    )


def _end(experiment: Experiment, blamed: Difference | None, capture: Capture, record: Record | None, weights: Capture | None) -> Point:
    """One side's line that sets the term at fault, for the parameter of a record."""
    answer = Update.answer(capture)
    name = "" if record is None else record.name
    answer = replace(answer, built=answer.sources(name))
    built = () if weights is None else built_of(weights).get(name.rpartition(".")[0], ())
    term, varies = blamed_term(blamed, experiment), False
    if term == "rates":
        own_rate = answer.optimizer["parameters"].get(name, {}).get("rate", 1.0)
        varies = _varies(experiment, blamed, own=own_rate != 1.0 and len(answer.optimizer["groups"]) == 1)
    source = setting_lines.term_line(answer, term, next(iter(built), None), varies=varies)
    if _is_of_class(blamed):
        source = answer.built["optimizer"]
    return Point(name, answer.optimizer["class"], source, setting_lines.code_at(source))


def _is_of_class(blamed: Difference | None) -> bool:
    """Whether weights decay by the same number, but decoupled on one side alone.

    Adam and AdamW are two classes.
    """
    if blamed is None or blamed.terms != ("decay", "style"):
        return False
    (number, style), (other, another) = blamed.reference, blamed.candidate
    return math.isclose(number, other, rel_tol=causes.STORED) and "decoupled" in (style, another)


def blamed_term(blamed: Difference | None, experiment: Experiment) -> str:
    """The term of the rule that is at fault, '' where it is not known."""
    if blamed is not None:
        return blamed.terms[0]
    return "rates" if experiment.rates_differ(len(experiment.steps)) else ""


def trace_back(context: Context, divergence: Divergence | None, experiment: Experiment, blamed: Difference | None) -> bool:
    """Follow the setting that differs to the expression that made it, in whatever module.

    Returns:
        Whether it is a setting of groups whose parameters all have it wrong: then nobody chose the group wrongly.
    """
    term = blamed_term(blamed, experiment)
    words = (*setting_lines.WRITTEN.get(term, ()), *read_config.WORDS.get(term, ()))
    if divergence is None or term == "moves" or _is_of_class(blamed):
        return False
    group = _wrong_group(blamed, experiment, words)
    if group is not None and group_settings.follow(context, divergence, group):
        return True
    if term == "rates" or not words:
        optimizer_settings.follow_rates(context, divergence)
    else:
        optimizer_settings.follow_setting(context, divergence, words)
    return False


def _wrong_group(blamed: Difference | None, experiment: Experiment, words: Sequence[str]) -> Group | None:
    """The first group with a wrong setting, where other groups have it right."""
    about = experiment.abouts[1]
    groups: dict[int, set[str]] = {}
    for name, own in about["mapped"].items():
        groups.setdefault(own["group"], set()).add(name)
    if blamed is None or len(groups) == 1 or Update.answer(experiment.candidate).members:
        return None
    wrong = [number for number, names in sorted(groups.items()) if names <= set(blamed.parameters)]
    touched = [number for number, names in groups.items() if names & set(blamed.parameters)]
    if not wrong or len(touched) > len(wrong) or len(wrong) == len(groups):
        return None
    mapped, other = experiment.abouts[0]["mapped"], experiment.abouts[0]["groups"]
    due = {mapped[name]["group"] for name in groups[wrong[0]] if name in mapped}
    alike = len(due) == 1 and {name for name, own in mapped.items() if own["group"] in due} == groups[wrong[0]]
    return Group(wrong[0], frozenset(wrong), len(about["groups"]), words, due.pop() if alike and len(other) > 1 else None)


def choose(divergence: Divergence | None, reasons: Reasons, experiment: Experiment) -> bool:
    """Name the line that chooses which parameters have which settings.

    That is done where some have those of others.

    Returns:
        Whether there is such a line, which the divergence then names.
    """
    blamed = next((d for d in reasons.found if d.terms[0] in ("moves", "decay", "rates")), None)
    if divergence is None or divergence.candidate is None or blamed is None:
        return False
    term, about = blamed.terms[0], experiment.abouts[1]
    if set(blamed.parameters) >= set(reasons.known[1].recipe):  # there is no choice
        return False
    if len(about["groups"]) == 1 and term != "moves":
        alone = [d.terms[0] for d in reasons.found].count("decay") == 1
        return term == "decay" and alone and _exempts(divergence.candidate, experiment)
    answer = Update.answer(experiment.candidate)
    group = None if answer.members else _right_group(blamed, reasons.known[0], experiment)  # those of several are counted together
    if group is None:
        return False
    line = setting_lines.group_line(answer.built["optimizer"], term, group)
    if line is None:
        return False
    watched_steps.move(divergence.candidate, line)
    return True


def _right_group(blamed: Difference, reference: Known, experiment: Experiment) -> int | None:
    """The one group of the candidate whose settings are right for the parameters at fault."""
    about = experiment.abouts[1]
    groups = {number: {"group": number} for number in range(len(about["groups"]))}
    offered = read_config.told({**about, "parameters": groups}, experiment.rates[1])
    if len(offered) <= 1:
        return 0
    wanted = [reference.recipe[name] for name in blamed.parameters]
    right = [number for number, terms in offered.items() if all(_alike(terms, each) for each in wanted)]
    return int(right[0]) if len(right) == 1 else None


def choice_of(blamed: Difference, known: tuple[Known, Known], moves: Moves) -> Choice:
    """The parameters rightly in the wrong ones' group, and those of the group meant.

    All of them under the candidate's names.
    """
    reference, candidate = (side.recipe for side in known)
    shared = [name for name in candidate if name in reference]
    wrong = [name for name in blamed.parameters if name in shared]
    if not wrong:
        return Choice([], [], [])
    model = wrong[0]
    joined, wanted = [], []
    for name in shared:
        if name in blamed.parameters or not _alike(candidate[name], reference[name]):
            continue
        if _alike(candidate[name], candidate[model]):
            joined.append(name)
        if _alike(reference[name], reference[model]):
            wanted.append(name)
    own = _candidates_names(moves)
    first, second, third = ([own.get(name, name) for name in part] for part in (wrong, joined, wanted))
    return Choice(first, second, third, list(own.values()))


def _candidates_names(moves: Moves) -> dict[str, str]:
    """The reference's name of a parameter -> the candidate's."""
    ends = ((pair.reference, pair.candidate) for pair in moves.pairs)
    return {one.name: other.name for one, other in ends if one is not None and other is not None}


def _exempts(candidate: Point, experiment: Experiment) -> bool:
    """Name the line that chooses by their names which parameters decay; whether there is one."""
    line = setting_lines.exempting_line(Update.answer(experiment.candidate).built["optimizer"])
    if line is None:
        return False
    watched_steps.move(candidate, line)
    return True


def _alike(one: Terms, other: Terms) -> bool:
    """Whether two parameters are to have the same settings."""
    if len(one.rates) != len(other.rates) or not np.allclose(one.rates, other.rates, rtol=causes.STORED):
        return False
    if not math.isclose(one.decay, other.decay, rel_tol=causes.STORED):
        return False
    return not one.decay or one.style == other.style


def _varies(experiment: Experiment, blamed: Difference | None, *, own: bool) -> bool:
    """Whether the rates of a step are those of a schedule.

    A parameter's own rate is a factor that the whole schedule has.
    """
    if blamed is None:
        return any(len({tuple(rates) for rates in side}) > 1 for side in experiment.rates)
    first, second = blamed.reference[0], blamed.candidate[0]
    if own and _is_a_factor(first, second):
        return False
    return any(len(set(rates)) > 1 for rates in (first, second))


def _is_a_factor(rates: Sequence[float], others: Sequence[float]) -> bool:
    """Whether rates are one multiple of others in every step."""
    ratios = [other / rate for rate, other in zip(rates, others, strict=True) if rate]
    return bool(ratios) and max(ratios) - min(ratios) <= causes.STORED * abs(ratios[0])


def locate(context: Context, result: StageResult, experiment: Experiment, reasons: Reasons) -> None:
    """Watch an own step up to the first operation that differs, and put it first."""
    first, names = _first_wrong(experiment, reasons.moves)
    if result.divergence is None or not _can_be_watched(experiment, first) or _is_set_otherwise(experiment, reasons.blamed, first):
        return
    right = [name for name in reasons.moves.traces if name not in names]
    chosen = watched_steps.chosen(experiment.plan, names, right)
    order = Stepping([DOUBLE, NATIVE], experiment.given, experiment.steps[: first + 1], {})
    try:
        divergences, notes = watched_steps.located(context, (experiment.gradients, experiment.moved), order, chosen)
    except WorkerFailed as failed:
        result.notes.append(f"the optimizer's operations could not be watched: the {failed.side} failed: {failed.type}: {failed.message}")
        return
    result.notes += notes
    for each in divergences:
        for point, side in zip((each.reference, each.candidate), experiment.abouts, strict=True):
            if point is not None:
                point.name = point.name or side["class"]
        if each.candidate is not None:
            _move_to_setting(each.candidate, experiment, reasons)
    if divergences:
        result.divergence, result.divergences = divergences[0], divergences


def _can_be_watched(experiment: Experiment, step: int) -> bool:
    """Whether an optimizer of the user's own makes a step that is early enough, in float64."""
    if not experiment.abouts[1]["own"]:
        return False
    return step < watched_steps.STEPS and experiment.run == DOUBLE


def _is_set_otherwise(experiment: Experiment, blamed: Difference | None, step: int) -> bool:
    """Whether a rate or an argument differs, of which no operation is guilty."""
    if experiment.rates_differ(step + 1) and (blamed is None or blamed.terms[0] == "rates"):
        return True
    if blamed is None:
        return False
    arguments = Update.answer(experiment.candidate).arguments
    return setting_lines.is_given(arguments, blamed.terms[0], blamed.reference[0], blamed.candidate[0])


def _move_to_setting(candidate: Point, experiment: Experiment, reasons: Reasons) -> None:
    """Point at the line that keeps the setting at fault, where there is one."""
    reference = reasons.known[0]
    rule = None if reference.left else next(iter(reference.recipe.values()), None)
    line = setting_lines.kept_line(candidate.source, experiment.abouts, rule, reasons.blamed)
    if line is not None:
        watched_steps.move(candidate, line)


def _first_wrong(experiment: Experiment, moves: Moves) -> tuple[int, list[str]]:
    """The first step that moves some parameter differently, and all that it moves so.

    By more than storing it explains.
    """
    wrong: dict[int, list[str]] = {}
    for name, trace in moves.traces.items():
        stored = ROUNDING * float(np.linalg.norm(trace.weight))
        for step in range(len(experiment.steps)):
            one, other = (trace.steps[side][step] for side in ("reference", "candidate"))
            alike = identify.far(one, other) <= moves.limits[name]
            rounding = float(np.linalg.norm(one - other)) <= stored
            if not alike and not rounding:
                wrong.setdefault(step, []).append(name)
    first = min(wrong, default=watched_steps.STEPS)
    return first, wrong.get(first, [])
