"""Why some parameters move otherwise from equal gradients.

The rules of both sides, and the terms that differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from paralign.context import Clipping
from paralign.locate.optimizer import identify, read_config
from paralign.locate.optimizer import term_causes as causes
from paralign.locate.optimizer.update_rules import RULES, Terms, Trace
from paralign.model import ALIGNED, DIVERGED, Finding, Pair, StageResult
from paralign.stages.common.places import Kind, key_of
from paralign.stages.steps import looped_clipping

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.locate.optimizer.identify import Difference, Known
    from paralign.stages.steps.equal_gradients import Experiment
    from paralign.stages.steps.traced_moves import Moves

#: what an inherent difference of the update does not explain
_APART = (Kind.RATE, Kind.SCHEDULE)

#: how much later steps may enlarge an inherent difference of the first
AMPLIFIED = 30.0

#: the rule of a finding that no port can avoid
INHERENT = "update/inherent"


@dataclass(frozen=True)
class Reasons:
    """What the parameters did, both rules, and their differing terms, first cause first.

    Inherent ones are last.

    ``shown``: an experiment has shown the one difference to be all, so that no rule has to be known.
    """

    moves: Moves
    known: tuple[Known, Known]
    found: list[Difference]
    shown: bool = False

    @property
    def blamed(self) -> Difference | None:
        """The first cause: an inherent one only where there is no other."""
        return self.found[0] if self.found else None


def identified(experiment: Experiment, moves: Moves) -> tuple[Known, Known]:
    """Both sides' rules."""
    traces = moves.traces
    told: list[identify.Recipe] = []
    for about, rates in zip(experiment.abouts, experiment.rates, strict=True):
        told.append(_filled(_told(about, rates), traces))
    known: list[Known] = []
    for index, side in enumerate(("reference", "candidate")):
        about, rates = experiment.abouts[index], experiment.rates[index]
        other = known[0].recipe if known else told[1]
        starts = [told[index]]
        if about["own"] and other:
            base = next(iter(other.values()))
            unclipped = replace(base, clip=Terms(base.family, ()).clip)
            # what it does not tell is taken from the other side first: a difference that its steps do not show is none
            starts = [_filled(_told(about, rates, unclipped), traces), *starts, _filled(_told(about, rates, base), traces), other]
        starts = [start for place, start in enumerate(starts) if start and start not in starts[:place]]
        if about["own"]:
            starts += _guesses(about, rates, traces)
        known.append(identify.identify(side, traces, starts, moves.limits))
    return known[0], known[1]


def _told(about: dict[str, Any], rates: list[list[float]], base: Terms | None = None) -> identify.Recipe:
    """What an optimizer says of its rule, under the reference's names.

    ``base`` for what it does not say.
    """
    return read_config.told({**about, "parameters": about["mapped"]}, rates, base)


def _guesses(about: dict[str, Any], rates: list[list[float]], traces: dict[str, Trace]) -> list[identify.Recipe]:
    """Every family with its usual values, for an optimizer whose name tells nothing."""
    if read_config.family(about) is not None:
        return []
    first_rates = tuple(each[0] for each in rates)
    guesses = []
    for kind in RULES:
        base = Terms(kind, first_rates, first=0.0 if kind in ("sgd", "rmsprop") else 0.9)
        guesses.append(_filled(_told(about, rates, base), traces))
    return guesses


def _filled(recipe: identify.Recipe, traces: dict[str, Trace]) -> identify.Recipe:
    """Terms for every parameter; those that the optimizer does not have do not move.

    They are else like the first.
    """
    if not recipe:
        return {}
    any_ = next(iter(recipe.values()))
    return {name: recipe.get(name, replace(any_, moves=False)) for name in traces}


def causes_of(known: tuple[Known, Known], moves: Moves) -> list[Difference]:
    """The terms in which the identified rules differ, where both sides' are known."""
    names = [name for name in moves.traces if all(_is_explained(side, name) for side in known)]
    if not names:
        return []
    first, second = ({n: side.recipe[n] for n in names} for side in known)
    return identify.causes(first, second, {n: moves.traces[n] for n in names}, moves.limits)


def by_what_can_be_changed(found: list[Difference], abouts: causes.Abouts, recipe: identify.Recipe) -> list[Difference]:
    """Differences in their order, those that no port can avoid behind all others.

    Args:
        found: the terms that differ.
        abouts: what both optimizers say of themselves.
        recipe: the candidate's rule.
    """
    return sorted(found, key=lambda each: causes.inherent(each, abouts, _terms(recipe, each)))


def _terms(recipe: identify.Recipe, difference: Difference) -> Terms:
    """The terms of the first parameter that a difference is of."""
    return recipe.get(difference.parameters[0], Terms("", ()))


def _is_explained(side: Known, name: str) -> bool:
    """Whether a side's rule has terms for a parameter that reproduce its steps."""
    return name in side.recipe and name not in side.left


def tell(result: StageResult, experiment: Experiment, reasons: Reasons, *, agreed: bool, whole: bool, strict: bool) -> None:
    """Add findings and pairs; do not judge what inherent differences alone cause."""
    moves, found = reasons.moves, reasons.found
    recipe = reasons.known[1].recipe
    findings = [
        causes.finding(
            d,
            experiment.abouts,
            moves.traces,
            _terms(recipe, d),
            experiment.whole_rates(d.parameters[0]),
            proven=True,
        )
        for d in found
    ]
    for finding in findings:
        if finding.rule == INHERENT and not strict:
            result.warnings.append(f"{finding.cause} (size {finding.error_before:.2g})")
    explained = reasons.shown or (bool(findings) and not any(side.left for side in reasons.known))
    inherent = all(finding.rule == INHERENT for finding in findings)
    if not explained:
        _unexplained(result, reasons)
    elif inherent and agreed and not strict:
        _excuse(result, moves.pairs, max(d.before for d in found), judged=whole)
    result.findings += findings
    result.pairs += moves.pairs


def differs_inherently(result: StageResult, reasons: Reasons) -> bool:
    """Whether both rules are known, and differ by what no port can avoid alone."""
    updates = [finding for finding in result.findings if finding.rule.startswith("update/")]
    return bool(reasons.found) and not any(side.left for side in reasons.known) and all(each.rule == INHERENT for each in updates)


def _excuse(result: StageResult, pairs: list[Pair], size: float, *, judged: bool) -> None:
    """Accept pairs that an inherent difference of the update explains.

    ``judged`` where no others are.
    """
    left_out = "" if judged else ": not judged"
    later = [pair for pair in result.pairs if _is_made_by_updates(pair)]
    for pair in [*later, *pairs]:
        if pair.verdict != DIVERGED or pair.error is None:
            continue
        if pair.error <= AMPLIFIED * size:
            pair.verdict, pair.judged = ALIGNED, judged
            pair.notes.append(f"an inherent difference of the optimizers explains it{left_out}")


def _is_made_by_updates(pair: Pair) -> bool:
    """Whether a pair holds what earlier updates have an effect on."""
    place = key_of(pair)
    if place is None:
        return False
    if place.kind is Kind.BUFFER:
        return place.is_later_buffer
    return not place.is_before_updates and place.kind not in _APART


def _unexplained(result: StageResult, reasons: Reasons) -> None:
    """What can be said where no rule was found."""
    traces, limits = reasons.moves.traces, reasons.moves.limits
    wrong = [pair.reference.name for pair in reasons.moves.wrong if pair.reference is not None]
    wrong = [name for name in wrong if any(_lacks_rule(side, name) for side in reasons.known)]
    names = set(wrong)
    if not names:
        return
    factor = _common_factor(names, traces, limits)
    if factor is not None:
        result.findings.append(_scaled(names, traces, factor))
        return
    sides = [side for side, known in zip(("reference", "candidate"), reasons.known, strict=True) if known.left or not known.recipe]
    result.warnings.append(
        f"from equal gradients {len(wrong)} of {len(traces)} parameters move differently ({causes.where(names, traces)}); "
        f"no rule that was tried reproduces the steps of the {' and the '.join(sides) or 'candidate'}"
    )


def _common_factor(names: set[str], traces: dict[str, Trace], limits: dict[str, float]) -> float | None:
    """The factor by which the steps of all of these differ; None without a common one."""
    factors = identify.factors(traces, limits)
    found = []
    for name in traces:
        if name not in names:
            continue
        factor = factors.get(name)
        if factor is None or not abs(factor - 1.0) > limits[name]:
            return None
        found.append(factor)
    if len(found) < len(names):
        return None
    spread = max(found) - min(found)
    return found[0] if spread <= 1e-6 * abs(found[0]) else None


def _lacks_rule(side: Known, name: str) -> bool:
    """Whether no rule is known that makes a side's steps of a parameter."""
    return name in side.left or not side.recipe


def _scaled(names: set[str], traces: dict[str, Trace], factor: float) -> Finding:
    """The finding that the candidate's steps are a multiple of the reference's."""
    moved = [traces[name].steps for name in names]
    error = max(identify.far(steps["reference"], steps["candidate"]) for steps in moved)
    after = max(identify.far(factor * steps["reference"], steps["candidate"]) for steps in moved)
    cause = f"the candidate's steps are {factor:.6g} times the reference's, on {causes.where(names, traces)}"
    return Finding("update/rates", cause, "look for this factor in the learning rate", True, error, after)


def keep_clipping(context: Context, result: StageResult, reasons: Reasons, experiment: Experiment) -> None:
    """Leave word where one side's optimizer clips and the other's does not.

    The own steps may make up for it.
    """
    clips = _one_sided_clipping(reasons.found)
    finding = next((each for each in result.findings if each.rule == "update/clip"), None)
    if clips is None or finding is None:
        return
    side = 0 if clips.reference[0] else 1
    kind, threshold = (clips.reference, clips.candidate)[side][:2]
    alone = _nothing_but_clips(clips, finding, result, reasons)
    groups = {name: own["group"] for name, own in experiment.abouts[side]["mapped"].items()}
    looped_clipping.say(context, finding, ("reference", "candidate")[1 - side])
    context.clipping = Clipping(side, kind, float(threshold), alone, finding, list(reasons.moves.pairs), groups=groups)


def _nothing_but_clips(clips: Difference, finding: Finding, result: StageResult, reasons: Reasons) -> bool:
    """Whether clipping, of all that moves, is the only difference of the optimizers."""
    if reasons.shown:
        return len(result.findings) == 1
    if any(side.left or not side.recipe for side in reasons.known):
        return False
    if any(each is not finding and each.rule != INHERENT for each in result.findings):
        return False
    if "group" in (clips.reference[0], clips.candidate[0]):
        return True  # groups whose norm is small are clipped by neither
    moving = {name for name, terms in reasons.known[1].recipe.items() if terms.moves}
    return moving <= set(clips.parameters)


def _one_sided_clipping(found: list[Difference]) -> Difference | None:
    for difference in found:
        if difference.terms[0] == "clip" and bool(difference.reference[0]) != bool(difference.candidate[0]):
            return difference
    return None
