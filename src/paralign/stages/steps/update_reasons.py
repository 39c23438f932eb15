"""Why some parameters move otherwise from equal gradients: the rules of both sides, and the terms that differ."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paralign.context import Clipping
from paralign.locate.optimizer import identify, read_config
from paralign.locate.optimizer import term_causes as causes
from paralign.locate.optimizer.update_rules import RULES, Terms, Trace
from paralign.model import ALIGNED, DIVERGED, Finding, Pair, StageResult
from paralign.stages.common.places import Kind, key_of

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.locate.optimizer.identify import Difference, Known
    from paralign.stages.steps.equal_gradients import Experiment

#: what an inherent difference of the update does not explain
_APART = (Kind.RATE, Kind.SCHEDULE, Kind.BUFFER)

#: how much later steps may enlarge an inherent difference of the first
AMPLIFIED = 30.0


def identified(experiment: Experiment, traces: dict[str, Trace], limits: dict[str, float]) -> tuple[Known, Known]:
    """Both sides' rules."""
    told: list[identify.Recipe] = []
    for about, rates in zip(experiment.abouts, experiment.rates, strict=True):
        own = read_config.told({**about, "parameters": about["mapped"]}, rates)
        told.append(_filled(own, traces))
    known: list[Known] = []
    for index, side in enumerate(("reference", "candidate")):
        about = experiment.abouts[index]
        other = known[0].recipe if known else told[1]
        starts = [told[index]] if told[index] else []
        if other and about["own"]:
            base = next(iter(other.values()))
            again = _filled(read_config.told({**about, "parameters": about["mapped"]}, experiment.rates[index], base), traces)
            starts += [again] if again else []
            starts.append(other)
        if about["own"]:
            starts += _guesses(about, experiment.rates[index], traces)
        known.append(identify.identify(side, traces, starts, limits))
    return known[0], known[1]


def _guesses(about: dict[str, Any], rates: list[list[float]], traces: dict[str, Trace]) -> list[identify.Recipe]:
    """Every family with its usual values, for an optimizer whose name tells nothing."""
    if read_config.family(about) is not None:
        return []
    bases = [Terms(kind, tuple(r[0] for r in rates), first=0.0 if kind in ("sgd", "rmsprop") else 0.9) for kind in RULES]
    return [_filled(read_config.told({**about, "parameters": about["mapped"]}, rates, base), traces) for base in bases]


def _filled(recipe: identify.Recipe, traces: dict[str, Trace]) -> identify.Recipe:
    """Terms for every parameter: those that the optimizer does not have are like the first, and do not move."""
    if not recipe:
        return {}
    any_ = next(iter(recipe.values()))
    return {name: recipe.get(name, replace(any_, moves=False)) for name in traces}


def causes_of(known: tuple[Known, Known], traces: dict[str, Trace], limits: dict[str, float]) -> list[Difference]:
    """The terms in which the identified rules differ, over the parameters whose rules are known on both sides."""
    names = [n for n in traces if all(n in k.recipe and n not in k.left for k in known)]
    first, second = ({n: k.recipe[n] for n in names} for k in known)
    return identify.causes(first, second, {n: traces[n] for n in names}, limits) if names else []


def tell(
    result: StageResult,
    pairs: list[Pair],
    found: list[Difference],
    known: tuple[Known, Known],
    experiment: Experiment,
    traces: dict[str, Trace],
    limits: dict[str, float],
    *,
    agreed: bool,
    whole: bool,
    strict: bool,
) -> None:
    """Findings and pairs; where nothing but inherent differences is found, what they cause is no longer judged."""
    wrong = [p for p in pairs if p.verdict == DIVERGED]
    findings = [causes.finding(d, experiment.abouts, traces, known[1].recipe[d.parameters[0]], proven=True) for d in found]
    for finding in findings:
        if finding.rule == "update/inherent" and not strict:
            result.warnings.append(f"{finding.cause} (size {finding.error_before:.2g})")
    explained = bool(findings) and not any(k.left for k in known)
    inherent = all(f.rule == "update/inherent" for f in findings)
    if explained and inherent and agreed:
        _excuse(result, pairs, max(d.before for d in found), judged=whole)
    elif not explained:
        _unexplained(result, traces, limits, known, wrong)
    result.findings += findings
    result.pairs += pairs


def _excuse(result: StageResult, pairs: list[Pair], size: float, *, judged: bool) -> None:
    """Pairs that differ by no more than an inherent difference of the update explains are right; ``judged`` where no others are."""
    places = [(p, key_of(p)) for p in result.pairs]
    later = [p for p, place in places if place is not None and not place.is_before_updates and place.kind not in _APART]
    for pair in [*later, *pairs]:
        if pair.verdict == DIVERGED and pair.error is not None and pair.error <= AMPLIFIED * size:
            pair.verdict, pair.judged = ALIGNED, judged
            pair.notes.append(f"an inherent difference of the optimizers explains it{'' if judged else ': not judged'}")


def _unexplained(
    result: StageResult, traces: dict[str, Trace], limits: dict[str, float], known: tuple[Known, Known], wrong: list[Pair]
) -> None:
    """What can be said where no rule was found."""
    wrong = [p for p in wrong if p.reference is not None and any(p.reference.name in k.left or not k.recipe for k in known)]
    names = {p.reference.name for p in wrong if p.reference is not None}
    if not names:
        return
    scaled = {n: f for n, f in identify.factors(traces, limits).items() if n in names and abs(f - 1.0) > limits[n]}
    factor = next(iter(scaled.values()), 0.0)
    spread = max(scaled.values()) - min(scaled.values()) if scaled else 0.0
    if set(scaled) == names and spread <= 1e-6 * abs(factor):
        error = max(identify.far(traces[n].steps["reference"], traces[n].steps["candidate"]) for n in names)
        after = max(identify.far(factor * traces[n].steps["reference"], traces[n].steps["candidate"]) for n in names)
        cause = f"the candidate's steps are {factor:.6g} times the reference's, on {causes.where(names, traces)}"
        result.findings.append(Finding("update/rates", cause, "look for this factor in the learning rate", True, error, after))
        return
    sides = [side for side, k in zip(("reference", "candidate"), known, strict=True) if k.left or not k.recipe]
    result.warnings.append(
        f"from equal gradients {len(wrong)} of {len(traces)} parameters move differently ({causes.where(names, traces)}); "
        f"no rule that was tried reproduces the steps of the {' and the '.join(sides) or 'candidate'}"
    )


def keep_clipping(context: Context, result: StageResult, found: list[Difference], known: tuple[Known, Known], pairs: list[Pair]) -> None:
    """Leave word where one side's optimizer clips and the other's does not: the own steps may make up for it."""
    clips = next((d for d in found if d.terms[0] == "clip" and bool(d.reference[0]) != bool(d.candidate[0])), None)
    finding = next((each for each in result.findings if each.rule == "update/clip"), None)
    if clips is None or finding is None:
        return
    others = [each for each in result.findings if each is not finding and each.rule != "update/inherent"]
    unknown = any(side.left or not side.recipe for side in known)
    moving = {name for name, terms in known[1].recipe.items() if terms.moves}
    all_clipped = set(clips.parameters) >= moving
    side = 0 if clips.reference[0] else 1
    kind, threshold = (clips.reference, clips.candidate)[side][:2]
    context.clipping = Clipping(side, kind, float(threshold), all_clipped and not others and not unknown, finding, list(pairs))
