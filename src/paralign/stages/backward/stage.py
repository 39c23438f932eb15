"""Backward: training steps from the same weights on the same batch.

Losses, learning rates, every gradient, every parameter's change; in train mode also the buffers after the first step. Where no side
has an optimizer, the loss and the gradients of one step. Gradients and changes are paired by the plan that carried the weights over, so
a transposed weight's gradient is transposed too.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paralign.comparison import compare_pair
from paralign.context import spent
from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.locate.optimizer import watched_steps
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance import tracing_back
from paralign.locate.source.call_arguments import argument_line, bound_line
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage, Divergence, Noise, Pair, Point, Record, StageResult, Unjudged
from paralign.stages.backward import drawn_steps, feeding, made_up, neutral, own_step, untrained
from paralign.stages.common import added_up, coarse, lower_precision, nonfinite, precision
from paralign.stages.common.judging import FLOAT64, PARTLY, Noises, choose, conclude, floor, points_of, settle, twofold
from paralign.stages.common.places import Kind, PairKey, key_of
from paralign.stages.forward import stage as forward
from paralign.stages.loss import stage as loss
from paralign.stages.steps import rate_schedules, resolution, running, update
from paralign.worker.protocol import Backward, Lowered, built_of
from paralign.worker.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.stages.common.judging import Method

#: a gradient is rounding where the reference itself does not know it (noise above the first) and it is small (below the second, of the
#: norm of all gradients together)
UNKNOWN, SMALL = 0.1, 1e-4

#: what float64 leaves of gradients that cancel out, as a share of the norm of all: some thousand roundings
CANCELLED = 1e-12

#: gradients after an update, and what several steps changed together, may differ by this much more: optimizers, too, keep constants in
#: float32, which the weights then carry
LATER = 4.0

#: a change's own noise counts where it exceeds what storing the parameters in their type explains, by this factor
STORAGE = 3.0


#: the artifact with the captures of the steps
_STEPS = "steps of backward"


def run(context: Context) -> StageResult:
    """Judge every step in every mode; without an optimizer, one forward and backward pass."""
    context.clipping = None
    with feeding.fed(context) as fed:
        if fed.refused is not None:
            return fed.refused
        result = _run(context)
        result = _run(context) if _draws_in_eval(context, result) else result
        feeding.judge(context, result, fed)
        judged = own_step.judge(context, result)
    if made_up.has_excused(context, judged):
        _judge_native(context, judged, context.artifacts[_STEPS])  # which is not asked of steps that diverge
    return judged


def _run(context: Context) -> StageResult:
    missing = context.lacking("backward", "build_model", "loss") or context.untrainable("backward")
    if missing:
        return missing
    if context.inputs is None:
        return StageResult("backward", notes=["no inputs: define inputs() in the reference, or set [inputs]"])
    idle = context.lacking("backward", "build_optimizer")
    steps, pace = 0 if idle else context.settings.steps, context.settings.pace
    order = Backward([DOUBLE, NATIVE], context.modes, steps, pace.accumulate, pace.steps_between(0), rate_schedules.ahead(context, 0))
    sparing = replace(order, sparing=True, pace=pace.steps_between(1), ahead=rate_schedules.ahead(context, 1))
    captures = context.record_labelled(order, {"inputs": context.inputs}, sparing)
    if isinstance(captures, StageResult):
        return captures
    reference, candidate = context.artifacts[_STEPS] = captures
    untested = [f"{note}: no update was tested" for note in idle.notes] if idle else []
    result = spent(StageResult("backward", notes=[*context.label_notes, *untested]), reference, candidate)
    methods = _judge_modes(context, result, captures, order)
    result.coverage += [Coverage("steps", context.settings.steps)] if methods and not idle else []
    untrained.excuse(result.pairs, strict=context.settings.strict)
    scheduled = rate_schedules.judge(result, reference, candidate, context.settings.tolerance_of("backward"), context.settings.pace)
    conclude(result, " and ".join(dict.fromkeys(methods.values())))
    if any(p.judged and nonfinite.is_unseen(p) for p in result.pairs):
        nonfinite.explain(context, result, next(iter(context.modes), "train"))
    if not idle:
        _explain_update(context, result, context.artifacts.get(drawn_steps.STEPS, captures)[0])
        conclude(result, " and ".join(dict.fromkeys(methods.values())))
    if context.settings.modules != "none" and not neutral.locate(context, result):
        clean = _locate(context, result, methods)
        _replay(context, result)
        if clean and added_up.may_be(result, context.settings.tolerance_of("backward")):
            added_up.excuse(result)
    _say_unjudged(result)
    _judge_native(context, result, (reference, candidate))
    _require_steps(result, methods)
    if result.verdict == DIVERGED:
        if result.divergence is None:
            tracing_back.follow_rates(context, scheduled)
        result.divergence = result.divergence or scheduled or _first_wrong(context, result)
    return result


def _judge_modes(context: Context, result: StageResult, captures: tuple[Capture, Capture], order: Backward) -> dict[str, str]:
    """Judge the steps of every mode; the names of the methods, by mode."""
    methods = {}
    for mode in context.settings.modes:
        drawn = (context.drawn and mode == "eval") or (mode == "train" and any(Backward.answer(c).random for c in captures))
        judged = _judged_drawn(context, result, mode, order) if drawn else _judged(context, mode, captures, order)
        if judged is not None:
            method, part = judged
            methods[mode] = method.name
            result.notes += [note for note in part.notes if note not in result.notes]
            result.pairs += part.pairs
            result.warnings += part.warnings
    return methods


def _judged_drawn(context: Context, result: StageResult, mode: str, order: Backward) -> tuple[Method, StageResult] | None:
    """The steps of a mode in which the model is random, judged with the reference's draws; None and a warning where they cannot be."""
    found = drawn_steps.record(context, mode, order)
    if isinstance(found, str):
        result.warnings.append(f"steps in {mode} mode were not compared: the model draws random numbers there, and {found}")
        return None
    if mode == "eval":
        context.artifacts[drawn_steps.STEPS] = found
    part = StageResult("backward", notes=[f"steps in {mode} mode: the candidate drew what the reference drew"])
    _judge_mode(context, part, Steps(context, *found, drawn_steps.DRAWN, mode))
    return drawn_steps.DRAWN, part


def _judged(context: Context, mode: str, captures: tuple[Capture, Capture], order: Backward) -> tuple[Method, StageResult]:
    """The steps of one mode, judged; once more by the noise of perturbed runs where the float64 runs compute partly in less."""
    method, notes = choose(*captures, mode)
    part = StageResult("backward", notes=notes)
    _judge_mode(context, part, Steps(context, *captures, method, mode))
    untrained.excuse(part.pairs, strict=context.settings.strict)
    values = {n: c for n, c in (("inputs", context.inputs), ("labels", context.labels)) if c is not None}
    asked = Lowered("backward", mode, order.steps > 0)
    low = lower_precision.places(context, part.pairs, method, context.settings.tolerance_of("backward"), asked, values)
    if not low:
        return method, part
    part = StageResult("backward", notes=[*notes, *low])
    _judge_mode(context, part, Steps(context, lower_precision.perturbed(context, order, values), captures[1], PARTLY, mode))
    return PARTLY, part


def _judge_native(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> None:
    """Judge the native outputs of the first step in train mode: a lower precision in training does not show in float64."""
    runs = [f"{run}:train" for run in (DOUBLE, NATIVE)]
    ends = [c.select(name="output", role="output", run=run, step=0) for c, run in zip(captures, runs, strict=True)]
    if all(ends) and result.verdict != DIVERGED:
        method, _ = choose(*captures, "train")
        precision.judge(result, captures, points_of(*ends), method, context.settings.tolerance_of("backward"))
        if result.verdict == DIVERGED:
            result.divergence = forward.named(result.pairs[-1])


def _explain_update(context: Context, result: StageResult, reference: Capture) -> None:
    """Look at the update by itself where steps in eval mode differ; a schedule that differs later than the trained steps needs none."""
    places = _places(result.wrong)
    if any(place.mode != "train" and place.kind is not Kind.SCHEDULE for place in places):
        update.explain(
            context, result, update.Given.of(reference, context.settings.steps), agreed=not any(place.is_before_updates for place in places)
        )


def _draws_in_eval(context: Context, result: StageResult) -> bool:
    """Whether steps differ because the model draws random numbers in eval mode, where no ``forward`` stage has found that out."""
    if context.forwarded or context.drawn or "eval" not in context.modes:
        return False
    context.forwarded = True
    if result.verdict == DIVERGED and context.settings.modules != "none":
        try:
            context.drawn = pipeline.replayed(context, "eval") is not None
        except WorkerFailed:
            return False
    return context.drawn


def _require_steps(result: StageResult, methods: dict[str, str]) -> None:
    """A schedule that agrees does not make a training aligned of which no step was compared."""
    if not methods and result.verdict == ALIGNED:
        result.verdict = UNDERPOWERED
        result.warnings.append("no training step was compared, as every mode is random: what the updates do was not tested")


def _say_unjudged(result: StageResult) -> None:
    """Notes on what was not judged: gradients that are rounding, running variances that differ as the frameworks do."""
    rounding = [p for p in result.pairs if not p.judged and p.unjudged is not Unjudged.FROZEN]
    unjudged = [place for place in _places(rounding) if place.kind is Kind.GRADIENT]
    if unjudged:
        result.notes.append(
            f"gradients that vanish but for rounding (as that of a bias before a normalisation does) and were not judged: {len(unjudged)}"
        )
    for why, said in untrained.SAID.items():
        names = dict.fromkeys(p.reference.name for p in result.pairs if p.unjudged is why and p.reference is not None)
        result.notes += [f"{said}: {', '.join(list(names)[:3])}{' …' if len(names) > 3 else ''}"] if names else []  # noqa: PLR2004 - a few suffice
    result.notes += [running.BIASED] if any(p.unjudged is Unjudged.BIASED for p in result.pairs) else []


def _locate(context: Context, result: StageResult, methods: dict[str, str]) -> bool:
    """Watch single operations in the modes whose first step diverged; where none did, in the first later step that does.

    Returns:
        Whether all modes that differ were judged and searched in float64, and no operation was found guilty.
    """
    if result.verdict != DIVERGED:
        return False
    slight = added_up.may_be(result, context.settings.tolerance_of("backward"))
    differing = dict.fromkeys(place.mode for place in _places(result.wrong))
    modes = [mode for mode in context.modes if methods.get(mode) != drawn_steps.DRAWN.name]
    clean = all(methods.get(mode) == FLOAT64.name for mode in differing)
    for mode in modes:
        diverged = result.wrong
        wrong = [p for p in diverged if any(place.mode == mode for place in _places([p]))]
        after = _steps_before(result, wrong)
        if after is None:
            continue
        try:
            searched = pipeline.backward(context, mode, after, slight=slight)
        except WorkerFailed as failure:
            result.notes.append(f"operations could not be watched: the {failure.side} failed with {failure.type}: {failure.message}")
            return False
        found = searched.divergences
        clean = clean and searched.clean
        result.notes += searched.notes
        result.divergences += found
        if not found:
            continue
        result.divergence = result.divergences[0] if clean else found[0]
        if after:
            result.notes.append(f"the first step agrees; where it starts was looked for in step {after}, after the updates before it")
        if not clean:
            return False
    return clean


def _steps_before(result: StageResult, wrong: list[Pair]) -> int | None:
    """The steps before the first that has another loss or other gradients; None where none has, or the update that led there is at fault.

    Weights that start at zero (a residual branch's last factor, a row for padding) hide what is wrong behind them in the first step.
    """
    places = _places(wrong)
    if any(place.is_before_updates for place in places):
        return 0
    if result.divergence is not None or result.divergences or result.findings:
        return None
    later = [place.step for place in places if place.kind in (Kind.LOSS, Kind.GRADIENT)]
    return min(later, default=None)


def _places(pairs: list[Pair]) -> list[PairKey]:
    """The points of training that pairs are of."""
    return [place for place in map(key_of, pairs) if place is not None]


def _replay(context: Context, result: StageResult) -> None:
    """Run train mode once with everything random in it replayed; what differs then, or is random on one side only, diverges."""
    if "train" not in context.modes:
        return
    try:
        found, findings, notes = pipeline.random(context)
    except WorkerFailed as failure:
        result.notes.append(f"what is random was not replayed: the {failure.side} failed with {failure.type}: {failure.message}")
        return
    result.notes += notes
    result.findings += findings
    for finding in findings:
        finding.proven = any(d.confirmed for d in found)
    if findings or any(d.confirmed for d in found):
        known = {d.candidate.source for d in result.divergences if d.candidate is not None}
        result.divergences += [d for d in found if d.candidate is None or d.candidate.source not in known]
        result.verdict = DIVERGED
        result.divergence = result.divergence or next(iter(result.divergences), None)


def _judge_mode(context: Context, result: StageResult, steps: Steps) -> None:
    """Judge the steps of one mode, up to the one where the reference's own rounding has grown to the size of what it computes."""
    chaotic = None
    for number in range(context.settings.steps):
        pairs = steps.scalars(number) + steps.gradients(number) + steps.buffers(number)
        if number == context.settings.steps - 1:
            pairs += steps.changes(number)
        unsure = [p for p in pairs if p.judged and p.verdict == UNDERPOWERED]
        unknown = [p for p in unsure if p.key not in steps.hidden and not nonfinite.is_unseen(p)]
        if unknown and number > 0 and chaotic is None:
            chaotic = number
        for pair in unknown if chaotic is not None else []:
            pair.judged = False
        result.pairs += pairs
    if chaotic is not None and DIVERGED not in {p.verdict for p in result.pairs if p.judged}:
        result.warnings.append(
            f"from step {chaotic} on in {steps.mode} mode the reference's own rounding has grown to the size of its values there: "
            "what it hides was not judged (a smaller learning rate, a larger batch or trained weights keep the steps steady)"
        )
    _say_hidden(result, steps.hidden)


def _say_hidden(result: StageResult, hidden: set[str]) -> None:
    """Say which changes are too small to be seen, and that nothing was tested where all of them are."""
    unseen = [p for p in result.pairs if p.key in hidden]
    if any(p.judged for p in unseen):
        result.warnings.append(
            "the steps change no parameter by enough to be seen beside its value, so the update was not tested: "
            "more steps, or a larger learning rate for the check, would show it"
        )
    elif unseen:
        result.notes.append(f"changes too small to be seen beside the parameters that hold them, and not judged: {len(unseen)}")


class Steps:
    """The pairs of one mode."""

    def __init__(self, context: Context, reference: Capture, candidate: Capture, method: Method, mode: str) -> None:
        if context.plan is None:
            raise AssertionError("the weights are carried over before the backward stage")
        self.context, self.reference, self.candidate, self.method, self.mode = context, reference, candidate, method, mode
        self.runs = f"{method.reference_run}:{mode}", f"{method.candidate_run}:{mode}"
        self.noises = Noises(reference, method)
        self.tolerance = context.settings.tolerance_of("backward")
        self.plan = context.plan
        self.gradient_noise: dict[str, float] = {}
        self.loss_noise = 0.0
        self.gradient_size: dict[str, float] = {}
        self.hidden: set[str] = set()
        self._weights = {r.name: r for r in context.weights_of_reference}
        self._sizes: dict[str, float] = {}

    def scalars(self, step: int) -> list[Pair]:
        """Loss and learning rates of one step."""
        pairs = []
        for name in ("loss", "lr"):
            found = [
                c.select(name=name, role="scalar", run=run, step=step)
                for c, run in zip((self.reference, self.candidate), self.runs, strict=True)
            ]
            for first, second, how in points_of(*found):
                leaf = next((r.leaf for r in (first, second) if r is not None and r.leaf), "")
                pairs.append(self._pair(self._key(f"{name}_{step}{'.' + leaf if leaf else ''}"), first, second, how))
        outputs = forward.noise(self.context)
        losses = [p for p in pairs if p.reference is not None and p.reference.name == "loss"]
        own = max((p.noise.value for p in losses if p.noise is not None), default=0.0)
        carried = 0.0 if outputs is None else outputs.value * loss.sensitivity(self.context)
        self.loss_noise = max(self.loss_noise, own, carried)
        self._settle(pairs, self.method, self.loss_noise)
        self._excuse_groups([p for p in pairs for place in _places([p]) if place.kind is Kind.RATE])
        return pairs

    def _excuse_groups(self, pairs: list[Pair]) -> None:
        """Equal rates in another number or order of groups are no difference: what each parameter does is judged by its change."""
        rates = [
            _rates_in(self.reference, [p.reference for p in pairs]),
            _rates_in(self.candidate, [p.candidate for p in pairs]),
        ]
        alone = [p for p in pairs if p.reference is None or p.candidate is None]
        silent = not all(rates)
        if silent or rates[0] == rates[1] or (alone and rates[0] & rates[1]):
            for pair in (p for p in pairs if p.verdict == DIVERGED):
                why = "an optimizer that tells no rate" if silent else "rates in other parameter groups"
                pair.leave_out(Unjudged.ELSEWHERE, f"{why}: judged by what each parameter does")
        for pair in (p for p in alone if p.judged):
            pair.judged, pair.verdict = False, ALIGNED  # the rates that both sides have are at fault, and judged
            pair.notes.append("a parameter group that the other side has not: judged by what each parameter does")

    def gradients(self, step: int) -> list[Pair]:
        """The gradient of every parameter that both sides have."""
        pairs = self._mapped("gradient", step, lambda name: f"gradient_{step} {name}")
        total = math.sqrt(sum(_norm(p) ** 2 for p in pairs))
        for pair in pairs:
            if pair.noise is not None and pair.reference is not None:
                name = pair.reference.name
                pair.noise = max(pair.noise, twofold(pair.reference), self._cancelled(pair, total), key=lambda n: n.value)
                self.gradient_noise[name] = max(self.gradient_noise.get(name, 0.0), pair.noise.value)
                self.gradient_size[name] = max(self.gradient_size.get(name, 0.0), _norm(pair))
        later = dataclasses.replace(self.method, limit=self.method.limit * (LATER if step else 1.0))
        self._settle(pairs, later)
        for pair in pairs:
            _excuse(pair, total)
        return pairs

    def _cancelled(self, pair: Pair, total: float) -> Noise:
        """What is left of a gradient that vanishes, where no other run of the reference tells: rounding of what cancels out."""
        size = _norm(pair)
        left = math.inf if size == 0 else CANCELLED * total / size
        return Noise(0.0 if self.method.noise_runs else left, "rounding of the gradients that cancel out")

    def changes(self, step: int) -> list[Pair]:
        """What all steps together did to every parameter."""
        pairs = self._mapped("parameter", step, lambda name: f"update {name}")
        total = math.sqrt(sum(_norm(p) ** 2 for p in pairs))
        for pair in pairs:
            if pair.noise is not None and pair.reference is not None:
                pair.noise = self._change_noise(pair, pair.noise)
        later = dataclasses.replace(self.method, limit=self.method.limit * (LATER if step else 1.0))
        self._settle(pairs, later)
        self.hidden = resolution.leave_out(pairs, self._resolutions(pairs))
        for pair in pairs:
            _excuse(pair, total)
        return pairs

    def _resolutions(self, pairs: list[Pair]) -> dict[str, float]:
        """Key -> the share of a change that storing the parameter makes; those without a gradient are left out."""
        moved = [p for p in pairs if p.reference is not None and p.stats is not None and self.gradient_size.get(p.reference.name)]
        return {p.key: self._stored(p, self._held_in(p)) for p in moved}

    def _held_in(self, pair: Pair) -> str:
        """The element type in which the compared runs hold a parameter; the coarser, if they hold it in two."""
        weight = self._weights.get(pair.reference.name) if pair.reference is not None else None
        return DOUBLE if weight is None or self.method.candidate_run == DOUBLE else weight.dtype

    def _stored(self, pair: Pair, dtype: str) -> float:
        """The share of a change that storing its parameter in a type makes."""
        size = self._size(pair.reference.name) if pair.reference is not None else 0.0
        change = 0.0 if pair.stats is None else pair.stats.rms_reference
        return resolution.stored(dtype, size, change, self.context.settings.steps)

    def _size(self, name: str) -> float:
        """The root mean square of a parameter before the first step; 0 where its values were not kept."""
        weight = self._weights.get(name)
        if name not in self._sizes and self.context.weights is not None:
            known = weight is not None and weight.location is not None
            self._sizes[name] = resolution.rms(self.context.weights.array(weight)) if known and weight is not None else 0.0
        return self._sizes.get(name, 0.0)

    def _change_noise(self, pair: Pair, own: Noise) -> Noise:
        """A change's noise: its gradients', unless it has more of its own than storing the parameter explains."""
        name = pair.reference.name if pair.reference is not None else ""
        gradient, weight = self.gradient_noise.get(name, 0.0), self._weights.get(name)
        if weight is None or weight.location is None or pair.stats is None or pair.stats.rms_reference == 0 or self.context.weights is None:
            return own
        held = self._held_in(pair)
        least = Noise(self._stored(pair, held), f"storing the parameter in {held}")
        native = floor(weight.dtype) * self._size(name) / pair.stats.rms_reference * math.sqrt(self.context.settings.steps)
        if own.value > STORAGE * native and own.value > gradient:
            return max(own, least, key=lambda n: n.value)
        made = Noise(gradient, "the noise of the gradients that made the change")
        if self.method.candidate_run == NATIVE:  # there the rounding of what is stored is in the compared change itself
            return max(own, made, least, key=lambda n: n.value)
        return max(dataclasses.replace(made, value=max(gradient, floor(weight.dtype))), least, key=lambda n: n.value)

    def buffers(self, step: int) -> list[Pair]:
        """Running statistics and other buffers, where they were recorded."""
        pairs = [p for p in self._mapped("buffer", step, lambda name: f"buffer_{step} {name}") if p.stats is not None]
        framework = self.context.framework("reference")
        for pair in pairs:
            share = running.kept(pair.reference, framework)
            if pair.noise is not None and share is not None:
                pair.noise = max(pair.noise, running.stored(share), key=lambda n: n.value)
        self._settle(pairs, self.method)
        running.excuse_zero_means(pairs, self._deviations(pairs), UNKNOWN)
        for pair in pairs:
            if pair.verdict == DIVERGED and not self.context.settings.strict and self._inherent(pair, step):
                pair.leave_out(Unjudged.BIASED, running.BIASED)
        return pairs

    def _deviations(self, pairs: list[Pair]) -> dict[str, float]:
        """Owner -> root of the mean running variance in the reference."""
        found = {}
        for pair in pairs:
            if pair.reference is not None and pair.reference.attrs.get("leaf") in running.VARIANCES:
                found[pair.reference.attrs["owner"]] = math.sqrt(max(float(self.reference.array(pair.reference).mean()), 0.0))
        return found

    def _inherent(self, pair: Pair, step: int) -> bool:
        """Whether a running variance differs as PyTorch's unbiased and Paddle's biased one do."""
        first, second, framework = pair.reference, pair.candidate, self.context.framework("reference")
        differ = running.kept_otherwise(framework, self.context.framework("candidate"))
        if not differ or first is None or second is None or pair.stats is None:
            return False
        before = next((r for r in self.context.weights_of_reference if r.name == first.name), None)
        share = running.kept(first, framework)
        if before is None or share is None or self.context.weights is None or first.attrs.get("leaf") not in running.VARIANCES:
            return False
        noise = pair.noise.value if pair.noise is not None else 0.0
        allowed = self.method.limit * noise * pair.stats.rms_reference * math.sqrt(pair.stats.count)
        held = {r.name: r for r in self.candidate.select(role="buffer", run=self.runs[1], step=step)}
        there = self.plan.restore(first.name, lambda name: self._value(held.get(name)))
        if there is None:
            return False
        values = self.context.weights.array(before), self.reference.array(first), there.array
        return running.is_biased(*values, share, allowed, reference_unbiased=running.is_unbiased(framework))

    def _mapped(self, role: str, step: int, key: Any) -> list[Pair]:
        """Records of a role, paired by the plan of the weights, the candidate's brought to the reference's layout."""
        sides = [
            {r.name: r for r in c.select(role=role, run=run, step=step)}
            for c, run in zip((self.reference, self.candidate), self.runs, strict=True)
        ]
        pairs = []
        for source in self.plan.sources:
            if source.attrs.get("shared"):
                continue  # what it shares with is compared
            moves = self.plan.moves_of(source.name)
            parts = [sides[1].get(m.candidate.name) for m in moves if m.candidate is not None]
            first = sides[0].get(source.name)
            if first is None and not any(parts):
                continue
            second = next((p for p in parts if p is None or p.location is None), parts[0])  # a part that is not there decides
            pair = self._pair(self._key(key(source.name)), first, second, moves[0].how, lambda name: self._value(sides[1].get(name)))
            pair.transform = "; ".join(dict.fromkeys(m.transform for m in moves if m.transform)) or None
            pairs.append(pair)
        return pairs

    def _settle(self, pairs: list[Pair], method: Method, least: float = 0.0) -> None:
        settle(pairs, method, self.tolerance, least=least)
        if self.tolerance.ratio is None:
            coarse.excuse(pairs, self.noises.both, self._restored)

    def _restored(self, first: Record, second: Record) -> Typed | None:
        """A candidate's value in the layout of the reference's."""
        if first.role == "scalar":
            return self._value(second)
        held = {r.name: r for r in self.candidate.select(role=second.role, run=second.run, step=second.step)}
        return self.plan.restore(first.name, lambda name: self._value(held.get(name)))

    def _value(self, record: Record | None) -> Typed | None:
        return self.candidate.value(record) if record is not None and record.location is not None else None

    def _key(self, name: str) -> str:
        return name if self.mode == "eval" else f"{name} ({self.mode})"

    def _pair(
        self, key: str, first: Record | None, second: Record | None, how: str, fetch: Callable[[str], Typed | None] | None = None
    ) -> Pair:
        """A pair measured; with ``fetch``, the candidate's values by name are brought to the reference's layout first."""
        here = self.reference.value(first) if first is not None and first.location is not None else None
        there, shown = self._value(second), second
        if fetch is not None and first is not None and second is not None and there is not None:
            there = self.plan.restore(first.name, fetch)
            shown = second if there is None else dataclasses.replace(second, shape=tuple(there.array.shape))
        pair = compare_pair(key, first, shown, here, there, how=how, atol=self.tolerance.atol, rtol=self.tolerance.rtol)
        pair.candidate = second
        pair.noise = self.noises.of(first) if first is not None else None
        return pair


def _norm(pair: Pair) -> float:
    return 0.0 if pair.stats is None else pair.stats.rms_reference * math.sqrt(pair.stats.count)


def _excuse(pair: Pair, total: float) -> None:
    """Leave out what the reference itself does not know: a small tensor that is rounding noise on both sides."""
    if pair.stats is None or pair.noise is None or pair.noise.value <= UNKNOWN:
        return
    greatest = max(pair.stats.rms_reference, pair.stats.rms_candidate) * math.sqrt(pair.stats.count)
    if greatest <= SMALL * total:
        pair.leave_out(Unjudged.ROUNDING, running.UNJUDGED)


def _first_wrong(context: Context, result: StageResult) -> Divergence | None:
    """Where it starts, with the lines that constructed the layers that the pair belongs to."""
    found = first_wrong(result)
    captures = context.artifacts.get("weights")
    if found is None or captures is None:
        return found
    ends = (found.pair.reference, found.pair.candidate) if found.pair is not None else ()
    held = any(record is not None and record.role != "scalar" for record in ends)  # a loss or a rate belongs to no layer
    for point, capture in zip((found.reference, found.candidate), captures, strict=True):
        built = built_of(capture).get(point.name.rpartition(".")[0]) if point is not None and held else None
        if built and point is not None and point.source is None:
            point.source, point.lines = built[0], built[1:]
            point.code = code_at(built[0])
    pair = found.pair
    if found.candidate is not None and pair is not None:
        shares = [running.kept(r, context.framework(s)) for r, s in ((pair.reference, "reference"), (pair.candidate, "candidate"))]
        if None not in shares and shares[0] != shares[1]:
            _set_momentum(found, found.candidate, shares)
    return found


def _set_momentum(found: Divergence, point: Point, shares: Sequence[float | None]) -> None:
    """Point at the line that sets a wrong momentum, and say what it means."""
    lines = [line for line in (point.source, *point.lines) if line is not None]
    line = argument_line(lines, {"momentum"}) or bound_line(lines, {"momentum"})
    if line is not None:
        watched_steps.move(point, line)
    found.notes.append(
        f"a step keeps {shares[1]:.6g} of the old statistics here, {shares[0]:.6g} in the reference: "
        "PyTorch's momentum weighs the new ones, Paddle's the old ones"
    )


def _rates_in(capture: Capture, records: list[Record | None]) -> set[float]:
    """The learning rates that records hold, to six digits."""
    return {float(f"{float(capture.array(r)):.6g}") for r in records if r is not None}


def first_wrong(result: StageResult) -> Divergence | None:
    """Where it starts: the first wrong pair; among the gradients of one step, the one nearest to the loss."""
    wrong = result.wrong
    if not wrong:
        return None
    pair = wrong[0]
    place = key_of(pair)
    if place is not None and place.kind is Kind.GRADIENT:
        pair = [p for p in wrong if (key := key_of(p)) is not None and key.place == place.place][-1]
    before = result.pairs[: result.pairs.index(pair)]
    agreed = [p.key for p in before if p.verdict == ALIGNED]
    ends = [Point(r.name, r.op, r.source) if r is not None else None for r in (pair.reference, pair.candidate)]
    return Divergence(ends[0], ends[1], pair, last_agreeing=agreed[-1] if agreed else None)
