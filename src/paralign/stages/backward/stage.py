"""Backward: training steps from the same weights on the same batch.

Losses, learning rates, every gradient, every parameter's change; in train mode also the buffers after the first step. Where no side
has an optimizer, the loss and the gradients of one step. Gradients and changes are paired by the plan that carried the weights over, so
a transposed weight's gradient is transposed too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.context import spent
from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.locate.provenance.settings import optimizer_settings
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Coverage, StageResult, Unjudged, wrong_of
from paralign.stages.backward import (
    drawn_steps,
    feeding,
    kinks,
    layer_modes,
    made_up,
    native_gradients,
    neutral,
    own_step_judging,
    unshown_settings,
    untrained,
)
from paralign.stages.backward.step_pairs import Steps
from paralign.stages.backward.where_it_starts import first_divergence, places_of, replay_random, watch_operations
from paralign.stages.common import added_up, lower_precision, nonfinite, own_batches, precision, repeatability
from paralign.stages.common.judging import PARTLY, choose, conclude, points_of
from paralign.stages.common.places import Kind, key_of
from paralign.stages.forward import stage as forward
from paralign.stages.steps import equal_gradients, native_updates, rate_schedules, running, shared_rates, update_explaining
from paralign.worker.protocol import Backward, Lowered
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Divergence, Pair
    from paralign.stages.common.judging import Method

#: names of parameters that a note lists
NAMED = 3

#: the artifact with the captures of the steps
_STEPS = "steps of backward"


def run(context: Context) -> StageResult:
    """Judge every step in every mode; without an optimizer, one forward and backward pass."""
    with feeding.fed(context) as fed:
        if fed.refused is not None:
            return fed.refused
        return kinks.excused(context, _judged_all(context, fed), lambda: _judged_all(context, fed))


def _judged_all(context: Context, fed: feeding.Fed) -> StageResult:
    """The steps of the check, what they were fed with, and the user's own steps."""
    context.clipping = None
    result = _run(context)
    result = _run(context) if _draws_in_eval(context, result) else result
    feeding.judge(context, result, fed)
    judged = own_step_judging.judge(context, result)
    if judged.verdict != NOT_TESTED:
        own_batches.judge(context, judged)
    if context.explains:
        layer_modes.explain(context, judged)
        layer_modes.say_unset(context, judged)
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
    scheduled = _unless_shared_out(context, result, captures, scheduled)
    conclude(result, " and ".join(dict.fromkeys(methods.values())))
    if any(nonfinite.is_unseen(p) or nonfinite.is_partly_unseen(p) for p in result.judged):
        nonfinite.explain(context, result, next(iter(context.modes), "train"))
    if not idle:
        _explain_update(context, result, context.artifacts.get(drawn_steps.STEPS, captures)[0])
        conclude(result, " and ".join(dict.fromkeys(methods.values())))
    if context.settings.modules != "none" and not neutral.locate(context, result):
        clean = watch_operations(context, result, methods)
        replay_random(context, result)
        if clean and added_up.may_be(result, context.settings.tolerance_of("backward")):
            added_up.excuse(result)
    _say_unjudged(result)
    _judge_native(context, result, captures)
    native_updates.doubt(context, result, captures, methods.get("eval", ""))
    _require_steps(result, methods)
    unshown_settings.say(context, result, captures)
    if result.verdict == DIVERGED:
        if result.divergence is None:
            optimizer_settings.follow_rates(context, scheduled)
        result.divergence = result.divergence or scheduled or first_divergence(context, result)
    return result


def _unless_shared_out(
    context: Context, result: StageResult, captures: tuple[Capture, Capture], scheduled: Divergence | None
) -> Divergence | None:
    """Where schedules differ; None where an optimizer of the user's own makes up for it."""
    reference, candidate = (Backward.answer(capture).optimizer for capture in captures)
    return None if shared_rates.excused(context, result, captures, (reference, candidate)) else scheduled


def _judge_modes(context: Context, result: StageResult, captures: tuple[Capture, Capture], order: Backward) -> dict[str, str]:
    """Judge the steps of every mode; the names of the methods, by mode."""
    methods = {}
    for mode in context.settings.modes:
        drawn = _is_drawn(context, mode, captures)
        judged = _judged_drawn(context, result, mode, order) if drawn else _judged(context, mode, captures, order)
        if judged is None:
            continue
        method, part = judged
        methods[mode] = method.name
        if not drawn:
            repeatability.say_gradients(part, _following(part.pairs), _repeats(captures, mode), f"loss and gradients in {mode} mode")
        result.doubts += part.doubts
        result.excused += [note for note in part.excused if note not in result.excused]
        result.notes += [note for note in part.notes if note not in result.notes]
        result.pairs += part.pairs
        result.warnings += part.warnings
    return methods


def _is_drawn(context: Context, mode: str, captures: tuple[Capture, Capture]) -> bool:
    """Whether the steps of a mode draw numbers."""
    if mode == "eval":
        return context.drawn
    if mode != "train":
        return False
    return any(Backward.answer(c).random for c in captures)


def _following(pairs: list[Pair]) -> list[Pair]:
    """Pairs that hold losses and gradients, or what the steps made of them."""
    keys = [(pair, key_of(pair)) for pair in pairs]
    return [pair for pair, key in keys if key is not None and key.kind in (Kind.GRADIENT, Kind.CHANGE, Kind.LOSS)]


def _repeats(captures: tuple[Capture, Capture], mode: str) -> tuple[float, float]:
    """How far the loss and the gradients of each side are from themselves with another seed."""
    reference, candidate = (Backward.answer(capture).repeat.get(mode, 0.0) for capture in captures)
    return reference, candidate


def _judged_drawn(context: Context, result: StageResult, mode: str, order: Backward) -> tuple[Method, StageResult] | None:
    """The steps of a mode in which the model is random, judged with the reference's draws.

    None and a warning where they cannot be.
    """
    found = drawn_steps.record(context, mode, order)
    if isinstance(found, str):
        anew = _judged_anew(context, mode, order)
        if anew is not None and not wrong_of(anew[1].pairs):
            return anew
        if anew is not None:
            found = f"{found}; begun anew in every run, the generators that it keeps make other steps in the candidate"
        result.warnings.append(f"steps in {mode} mode were not compared: the model draws random numbers there, and {found}")
        return None
    if mode == "eval":
        context.artifacts[drawn_steps.STEPS] = found
    part = StageResult("backward", notes=[f"steps in {mode} mode: the candidate drew what the reference drew"])
    _judge_mode(context, part, Steps(context, *found, drawn_steps.DRAWN, mode))
    return drawn_steps.DRAWN, part


def _judged_anew(context: Context, mode: str, order: Backward) -> tuple[Method, StageResult] | None:
    """The steps of a mode whose model draws from generators that it keeps.

    These begin anew in every run. Both sides may draw the same numbers then (from NumPy, say). None where they draw from elsewhere as well.
    """
    if context.inputs is None or context.labels is None:
        return None
    ours = replace(order, modes=[mode], ahead=None, anew=True)
    theirs = replace(ours, sparing=True, pace=context.settings.pace.steps_between(1))
    values = {"inputs": context.inputs, "labels": context.labels}
    try:
        captures = context.record_both(f"steps anew {mode}", ours, values, theirs)
    except WorkerFailed:
        return None
    answers = [Backward.answer(capture) for capture in captures]
    if any(answer.random for answer in answers) or f"{DOUBLE}:{mode}" not in answers[0].runs:
        return None
    method, part = _judged(context, mode, captures, ours)
    part.notes.append(f"steps in {mode} mode: the model draws from generators that it keeps, which began anew in every run")
    return method, part


def _judged(context: Context, mode: str, captures: tuple[Capture, Capture], order: Backward) -> tuple[Method, StageResult]:
    """The steps of one mode, judged.

    Once more by the noise of perturbed runs where the float64 runs compute partly in less.
    """
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


def _judge_mode(context: Context, result: StageResult, steps: Steps) -> None:
    """Judge the steps of one mode, up to the one where noise outgrows the values.

    There the reference's own rounding has the size of what it computes.
    """
    chaotic = None
    for number in range(context.settings.steps):
        pairs = steps.scalars(number) + steps.gradients(number) + steps.buffers(number)
        if number == context.settings.steps - 1:
            pairs += steps.changes(number)
        unsure = [p for p in pairs if p.judged and p.verdict == UNDERPOWERED]
        unknown = [p for p in unsure if p.key not in steps.hidden and not nonfinite.is_unseen(p)]
        if unknown and number > 0 and chaotic is None:
            chaotic = number
        if chaotic is not None:
            for pair in unknown:
                pair.judged = False
        result.pairs += pairs
    if chaotic is not None and not result.wrong:
        result.warnings.append(
            f"from step {chaotic} on in {steps.mode} mode the reference's own rounding has grown to the size of its values there: "
            "what it hides was not judged (a smaller learning rate, a larger batch or trained weights keep the steps steady)"
        )
    _say_hidden(result, steps.hidden)


def _judge_native(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> None:
    """Judge native outputs and gradients of the first step in train mode.

    A lower precision in training does not show in float64.
    """
    runs = [f"{run}:train" for run in (DOUBLE, NATIVE)]
    ends = [c.select(name="output", role="output", run=run, step=0) for c, run in zip(captures, runs, strict=True)]
    if all(ends) and result.verdict != DIVERGED and not repeatability.hides(_repeats(captures, "train")):
        method, _ = choose(*captures, "train")
        precision.judge(result, captures, points_of(*ends), method, context.settings.tolerance_of("backward"))
        native_gradients.judge(context, result, captures, method)
        if result.verdict == DIVERGED:
            result.divergence = forward.named(result.pairs[-1])


def _explain_update(context: Context, result: StageResult, reference: Capture) -> None:
    """Look at the update by itself where steps differ.

    In eval mode if they differ there: the gradients of train mode may be larger, and reach a clipping that the others do not. A
    schedule that differs later than the trained steps needs none.
    """
    places = [place for place in places_of(result.wrong) if place.kind is not Kind.SCHEDULE]
    in_train_alone = all(place.mode == "train" for place in places)
    agreed = not any(place.is_before_updates for place in places)
    if not places or (in_train_alone and not agreed):
        return
    given = equal_gradients.Given.of(reference, context.settings.steps, "train" if in_train_alone else "eval")
    update_explaining.explain(context, result, given, agreed=agreed)


def _draws_in_eval(context: Context, result: StageResult) -> bool:
    """Whether steps differ because the model draws random numbers in eval mode.

    It is asked where no ``forward`` stage has found that out.
    """
    if context.forwarded or context.drawn or "eval" not in context.modes:
        return False
    context.forwarded = True
    if result.verdict in (DIVERGED, UNDERPOWERED) and context.settings.modules != "none":
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
    """Note what was not judged: gradients that are rounding, running variances."""
    rounding = [p for p in result.pairs if not p.judged and p.unjudged is not Unjudged.FROZEN]
    unjudged = [place for place in places_of(rounding) if place.kind is Kind.GRADIENT]
    if unjudged:
        result.notes.append(
            f"gradients that vanish but for rounding (as that of a bias before a normalisation does) and were not judged: {len(unjudged)}"
        )
    for why, said in untrained.SAID.items():
        left_out = [p.reference for p in result.pairs if p.unjudged is why]
        names = list(dict.fromkeys(record.name for record in left_out if record is not None))
        if names:
            more = " …" if len(names) > NAMED else ""
            result.notes.append(f"{said}: {', '.join(names[:NAMED])}{more}")
    if any(p.unjudged is Unjudged.BIASED for p in result.pairs):
        result.excuse(running.BIASED)


def _say_hidden(result: StageResult, hidden: set[str]) -> None:
    """Say which changes are too small to be seen, and whether anything was tested."""
    unseen = [p for p in result.pairs if p.key in hidden]
    if any(p.judged for p in unseen):
        result.warnings.append(
            "the steps change no parameter by enough to be seen beside its value, so the update was not tested: "
            "more steps, or a larger learning rate for the check, would show it"
        )
    elif unseen:
        result.notes.append(f"changes too small to be seen beside the parameters that hold them, and not judged: {len(unseen)}")
