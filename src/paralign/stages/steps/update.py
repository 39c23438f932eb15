"""The update alone: both optimizers are given the reference's gradients, so that what differs is the rule."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.comparison import compare_pair
from paralign.comparison import judge as judge_pair
from paralign.comparison.judge import LOUD
from paralign.context import Clipping, spent
from paralign.dtypes import EPS
from paralign.errors import WorkerFailed
from paralign.locate.optimizer import identify, read_config, setting_lines, watched_steps
from paralign.locate.optimizer import term_causes as causes
from paralign.locate.optimizer.update_rules import RULES, Terms, Trace
from paralign.locate.provenance import group_choice, tracing_back
from paralign.locate.provenance.group_choice import Choice
from paralign.model import ALIGNED, DIVERGED, Divergence, Manifest, Noise, Pair, Point, StageResult, Unjudged
from paralign.run.recorder import both
from paralign.stages.common.judging import CONSTANTS
from paralign.stages.common.places import Kind, key_of
from paralign.stages.steps import resolution
from paralign.worker.protocol import Stepping, Update, built_of, runs_of
from paralign.worker.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.locate.optimizer.identify import Difference, Known
    from paralign.model import Record
    from paralign.weights import Plan

#: steps that are taken, at least; those beyond the recorded ones take them again, times these factors (none above one: clipping must
#: not begin where training had none)
LEAST, FACTORS = 5, (-0.5, 0.25, 0.75, -1.0)

#: a step counts as reproduced up to this ratio of error to noise
RATIO = 2.0

#: elements of all parameters together that hypotheses are tried on, and of one parameter
SAMPLED, EACH = 50_000, 2048

#: elements of a parameter that are looked at however many parameters there are
LITTLE = 32

#: rounding of a parameter in a step, in float64
ROUNDING = 1e-14

#: what an inherent difference of the update does not explain
_APART = (Kind.RATE, Kind.SCHEDULE, Kind.BUFFER)

#: how much later steps may enlarge an inherent difference of the first
AMPLIFIED = 30.0


@dataclass
class Experiment:
    """The recorded steps of both sides from equal gradients."""

    reference: Capture
    candidate: Capture
    run: str
    plan: Plan
    weights: Capture
    gradients: Capture
    moved: Capture
    given: str
    steps: list[tuple[int, float]]

    @property
    def abouts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both optimizers say of themselves; ``mapped`` has their parameters under the reference's names."""
        first, second = (dict(Update.answer(c).optimizer) for c in (self.reference, self.candidate))
        first["mapped"], second["mapped"] = first["parameters"], {}
        for source in self.plan.sources:
            moves = self.plan.moves_of(source.name)
            own = [second["parameters"].get(m.candidate.name) for m in moves if m.candidate is not None]
            if own and own[0] is not None:
                second["mapped"][source.name] = own[0]
        return first, second

    @property
    def rates(self) -> tuple[list[list[float]], list[list[float]]]:
        """The learning rates of both sides, one a step and group; of a side that tells none those of the other, which may be refuted."""
        first, second = (Update.answer(c).rates for c in (self.reference, self.candidate))
        return _filled_in(first, second), _filled_in(second, first)

    def rates_differ(self, steps: int) -> bool:
        """Whether both optimizers tell of other learning rates in the first steps, in as many groups."""
        first, second = self.rates
        return any(map(_other_rates, first[:steps], second[:steps]))


def _filled_in(own: list[list[float]], other: list[list[float]]) -> list[list[float]]:
    """The rates of every step; where a side tells none, the other's first, and 1 where that tells none either."""
    return [rates or others[:1] or [1.0] for rates, others in zip(own, other, strict=True)]


def _other_rates(one: list[float], other: list[float]) -> bool:
    """Whether the rates of one step differ by more than storing them does, in as many groups."""
    if len(one) != len(other):
        return False
    return any(abs(a - b) > causes.STORED * max(abs(a), abs(b)) for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class Explained:
    """What is known of the steps: what each parameter did, the errors up to which that counts as the same, the first cause."""

    traces: dict[str, Trace]
    limits: dict[str, float]
    blamed: Difference | None
    reference: Terms | None


@dataclass(frozen=True)
class Given:
    """Gradients that are given to both optimizers: ``steps`` says which of the recorded ones, times what; ``name`` is the captures'.

    ``whole``: pairs are added also where all parameters move alike, and a schedule that differs later needs no other experiment.
    """

    gradients: Capture
    steps: list[tuple[int, float]]
    name: str = "update"
    whole: bool = False

    @classmethod
    def of(cls, gradients: Capture, count: int) -> Given:
        """The gradients of so many recorded steps, and some of them again."""
        again = [(n % count, FACTORS[n % len(FACTORS)]) for n in range(max(0, LEAST - count))]
        return cls(gradients, [*((n, 1.0) for n in range(count)), *again])


def explain(context: Context, result: StageResult, given: Given, *, agreed: bool) -> Experiment | None:
    """Have both sides move from equal gradients, and say which parameters move differently and why.

    Args:
        context: the check.
        result: of the backward stage; gets pairs, findings and, where ``agreed``, the divergence.
        given: the gradients, mostly those that the reference recorded in the backward stage.
        agreed: whether the gradients of the first step agreed.

    Returns:
        What both sides did; None where a side failed, or nothing could be given.
    """
    context.clipping = None
    try:
        experiment = _record(context, given, result)
    except WorkerFailed as failed:
        result.warnings.append(f"the update could not be looked at by itself: the {failed.side} failed: {failed.type}: {failed.message}")
        return None
    if experiment is None:
        return None
    traces, pairs, limits = _traces(experiment)
    if not pairs:
        return experiment
    if all(p.verdict != DIVERGED for p in pairs):
        _say_alike(result, pairs, seen=bool(traces), whole=given.whole)
        return experiment
    _say_why(context, result, experiment, (traces, pairs, limits), agreed=agreed, whole=given.whole)
    return experiment


def _say_why(
    context: Context,
    result: StageResult,
    experiment: Experiment,
    judged: tuple[dict[str, Trace], list[Pair], dict[str, float]],
    *,
    agreed: bool,
    whole: bool,
) -> None:
    """Say why some parameters move otherwise, and where; ``judged`` as :func:`_traces` gives it, the rest as in :func:`explain`."""
    traces, pairs, limits = judged
    strict = context.settings.strict
    known = _identified(experiment, traces, limits)
    found = _causes(known, traces, limits)
    if all(context.has(side, "train_step") for side in ("reference", "candidate")):
        found.sort(key=lambda difference: difference.terms[0] == "clip")  # which the step itself may do: others are named before
    _tell(result, pairs, found, known, experiment, traces, limits, agreed=agreed and not strict, whole=whole, strict=strict)
    _keep_clipping(context, result, found, known, pairs)
    if not agreed or result.divergence is not None:
        return
    blamed = next((d for d in found if d.terms[0] != "inherent"), None)
    rule = None if known[0].left else next(iter(known[0].recipe.values()), None)
    result.divergence = _divergence(found, [p for p in pairs if p.verdict == DIVERGED], experiment, context)
    if not _choose(result.divergence, found, known, experiment):
        _trace_back(context, result.divergence, experiment, blamed)
    elif _blamed_term(blamed, experiment) == "rates":
        tracing_back.follow_computing(context, result.divergence)
    if blamed is not None:
        group_choice.follow(context, result.divergence, _choice(blamed, known))
    _locate(context, result, experiment, Explained(traces, limits, blamed, rule))


def _keep_clipping(context: Context, result: StageResult, found: list[Difference], known: tuple[Known, Known], pairs: list[Pair]) -> None:
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


def _say_alike(result: StageResult, pairs: list[Pair], *, seen: bool, whole: bool) -> None:
    """All parameters move alike; ``seen``: by enough to tell."""
    if whole:
        result.pairs += pairs
    if not seen:
        result.notes.append("from equal gradients no parameter moves by enough to be seen: whether the update differs was not tested")
    elif not whole:
        result.notes.append("from equal gradients the parameters of both sides move alike: what differs is not the update")


# -- recording ---------------------------------------------------------------------------------------------------------------------


def _record(context: Context, given: Given, result: StageResult) -> Experiment | None:
    """Both sides' steps; None where the reference recorded no gradients that could be given."""
    if context.plan is None or context.weights is None:
        return None
    gradients, steps, name = given.gradients, given.steps, given.name
    runs = runs_of(gradients).runs
    run = next((f"{run}:eval" for run in (DOUBLE, NATIVE) if f"{run}:eval" in runs), None)
    if run is None:
        return None
    orders = [Update([DOUBLE, NATIVE], run, steps, context.settings.pace.steps_between(side)) for side in (0, 1)]
    moved = _moved(context, gradients, run, 1 + max(step for step, _ in steps))
    reference, candidate = both(
        lambda: context.reference.record(name, orders[0], {"gradients": gradients}),
        lambda: context.candidate.record(name, orders[1], {"gradients": moved}),
    )
    spent(result, reference, candidate)
    shared = [r for r in (DOUBLE, NATIVE) if all(r in Update.answer(c).runs for c in (reference, candidate))]
    if not shared and given.whole:
        reasons = dict.fromkeys(why for c in (reference, candidate) for why in Update.answer(c).failed.values())
        result.warnings.append(f"no update from equal gradients could be made: {'; '.join(reasons)}")
    return Experiment(reference, candidate, shared[0], context.plan, context.weights, gradients, moved, run, steps) if shared else None


def _moved(context: Context, gradients: Capture, run: str, count: int) -> Capture:
    """The reference's gradients in the candidate's layout, as a capture that the candidate can read."""
    folder, plan = context.candidate.folder / "gradients", context.plan
    if plan is None:
        raise AssertionError("the weights are carried over before the backward stage")
    clear(folder)
    key = hashlib.sha256(repr([gradients.manifest.settings.get("key"), run, count, plan.rows()]).encode()).hexdigest()
    with CaptureWriter(folder, Manifest(side="candidate", stage="backward", settings={"key": key})) as writer:
        for step in range(count):
            held = {r.name: r for r in gradients.select(role="gradient", run=run, step=step) if r.location is not None}
            for target in plan.targets:
                value = plan.assemble(target.name, lambda name: gradients.value(held[name]) if name in held else None)  # noqa: B023 - called at once
                if value is not None:
                    writer.add(target.name, value, role="gradient", run=run, step=step)
    return Capture.open(folder)


# -- measuring ---------------------------------------------------------------------------------------------------------------------


def _traces(experiment: Experiment) -> tuple[dict[str, Trace], list[Pair], dict[str, float]]:
    """What happened to each parameter that both sides have: a sample for hypotheses, the whole measured and judged."""
    last = len(experiment.steps) - 1
    sides = [
        [{r.name: r for r in c.select(role="parameter", run=experiment.run, step=n)} for n in range(last + 1)]
        for c in (experiment.reference, experiment.candidate)
    ]
    given = [{r.name: r for r in experiment.gradients.select(role="gradient", run=experiment.given, step=n)} for n in range(last + 1)]
    held = {r.name: r for r in experiment.weights.records if r.location is not None}
    named = [s.name for s in experiment.plan.sources if s.name in sides[0][0] and s.name in held and not s.attrs.get("shared")]
    traces: dict[str, Trace] = {}
    pairs, limits = [], {}
    for name in named:
        gradients = [given[step].get(name) for step, _ in experiment.steps]
        changes = [[_whole(experiment, side, sides[side][n], name) for n in range(last + 1)] for side in (0, 1)]
        if any(c is None for c in changes[1]) or not any(g is not None and g.location is not None for g in gradients):
            continue
        weight = experiment.weights.array(held[name]).astype(np.float64)
        trace = _trace(name, weight, gradients, changes, experiment, max(LITTLE, min(EACH, SAMPLED // max(1, len(named)))))
        pair = _pair(name, sides[0][last][name], sides[1][last], changes, experiment, weight, held[name].dtype)
        limit = RATIO * max(
            pair.noise.value if pair.noise is not None else 0.0,
            resolution.of_steps(trace, DOUBLE if experiment.run == DOUBLE else held[name].dtype),
        )
        pairs.append(pair)
        if limit <= RATIO * LOUD or pair.verdict == DIVERGED:
            traces[name], limits[name] = trace, limit
        else:
            pair.leave_out(Unjudged.ROUNDING, "moves by less than can be seen beside the stored parameter: not judged")
    return traces, pairs, limits


def _whole(experiment: Experiment, side: int, records: dict[str, Record], name: str) -> Typed | None:
    """What the steps so far changed of a parameter, in the reference's layout."""
    capture = (experiment.reference, experiment.candidate)[side]
    if side == 0:
        return capture.value(records[name])
    return experiment.plan.restore(name, lambda other: capture.value(records[other]) if other in records else None)


def _trace(
    name: str, weight: Any, gradients: list[Record | None], changes: list[list[Typed | None]], experiment: Experiment, most: int
) -> Trace:
    size = weight.size
    places = np.arange(size) if size <= most else np.sort(np.random.default_rng(0).choice(size, most, replace=False))
    sampled, norms = [], []
    for record, (_, factor) in zip(gradients, experiment.steps, strict=True):
        value = None if record is None or record.location is None else experiment.gradients.array(record).astype(np.float64) * factor
        sampled.append(None if value is None else value.ravel()[places])
        norms.append(0.0 if value is None else float(np.linalg.norm(value)))
    steps = {}
    for side, found in zip(("reference", "candidate"), changes, strict=True):
        whole = np.stack([np.zeros(len(places)), *(c.array.ravel()[places] for c in found if c is not None)])
        steps[side] = np.diff(whole, axis=0)
    return Trace(name, weight.ravel()[places], sampled, norms, steps, weight.ndim, size <= most)


def _pair(
    name: str, first: Record, second: dict[str, Record], changes: list[list[Typed | None]], experiment: Experiment, weight: Any, dtype: str
) -> Pair:
    """One parameter's whole change on both sides, judged beside what storing it costs."""
    move = experiment.plan.moves_of(name)[0]
    pair = compare_pair(f"moved {name}", first, first, changes[0][-1], changes[1][-1], how=move.how)
    pair.candidate = second.get(move.candidate.name) if move.candidate is not None else None
    pair.transform = move.transform
    noise, how = CONSTANTS, "constants that frameworks store in float32"
    held = DOUBLE if experiment.run == DOUBLE else dtype
    change = 0.0 if pair.stats is None else pair.stats.rms_reference
    stored = 2 * EPS[held] + resolution.stored(held, resolution.rms(weight), change, len(experiment.steps)) if change else 0.0
    if stored > noise:
        noise, how = stored, f"storing the parameter in {held}"
    pair.noise = Noise(noise, how)
    judge_pair(pair, limit=RATIO)
    return pair


# -- explaining --------------------------------------------------------------------------------------------------------------------


def _identified(experiment: Experiment, traces: dict[str, Trace], limits: dict[str, float]) -> tuple[Known, Known]:
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
    from dataclasses import replace

    any_ = next(iter(recipe.values()))
    return {name: recipe.get(name, replace(any_, moves=False)) for name in traces}


def _causes(known: tuple[Known, Known], traces: dict[str, Trace], limits: dict[str, float]) -> list[Difference]:
    names = [n for n in traces if all(n in k.recipe and n not in k.left for k in known)]
    first, second = ({n: k.recipe[n] for n in names} for k in known)
    return identify.causes(first, second, {n: traces[n] for n in names}, limits) if names else []


def _tell(
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
    from paralign.model import Finding

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


def _divergence(found: list[Difference], wrong: list[Pair], experiment: Experiment, context: Context) -> Divergence | None:
    """The parameter that is furthest off among those of the first cause, between the lines that set the term."""
    judged = [p for p in wrong if p.verdict == DIVERGED]
    if not judged:
        return None
    blamed = next((d for d in found if d.terms[0] != "inherent"), None)
    members = judged if blamed is None else [p for p in judged if p.reference is not None and p.reference.name in blamed.parameters]
    pair = max(members or judged, key=lambda p: p.ratio or 0.0)
    term = _blamed_term(blamed, experiment)
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


def _blamed_term(blamed: Difference | None, experiment: Experiment) -> str:
    """The term of the rule that is at fault, '' where it is not known."""
    if blamed is not None:
        return blamed.terms[0]
    return "rates" if experiment.rates_differ(len(experiment.steps)) else ""


def _trace_back(context: Context, divergence: Divergence | None, experiment: Experiment, blamed: Difference | None) -> None:
    """Follow the setting that differs to the expression that made it, in whatever module."""
    term = _blamed_term(blamed, experiment)
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


def _choose(divergence: Divergence | None, found: list[Difference], known: tuple[Known, Known], experiment: Experiment) -> bool:
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


def _choice(blamed: Difference, known: tuple[Known, Known]) -> Choice:
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


def _locate(context: Context, result: StageResult, experiment: Experiment, known: Explained) -> None:
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
