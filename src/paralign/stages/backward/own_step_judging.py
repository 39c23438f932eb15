"""The user's own training step, run as it is on both sides.

It is judged by what it does to the model.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from paralign.context import spent
from paralign.dtypes import EPS
from paralign.errors import WorkerFailed
from paralign.locate.provenance.tracing_back import RULE
from paralign.model import (
    DIVERGED,
    NOT_TESTED,
    UNDERPOWERED,
    Coverage,
    Finding,
    StageResult,
    Tolerance,
    Unjudged,
    overall,
)
from paralign.stages.backward import made_up, native_gradients, own_step_draws, own_step_rules
from paralign.stages.backward.own_step_causes import divergence_at, explain, trace
from paralign.stages.backward.own_step_gradients import compare_gradients
from paralign.stages.backward.own_step_records import Steps, enlarged, first_gradients, is_random, orders_of, record_steps
from paralign.stages.common.judging import AGAINST, Noises, choose, doubt_whole_numbers, settle
from paralign.stages.steps import running
from paralign.worker.sides.session import DOUBLE, NATIVE
from paralign.worker.steps.own_step import RECORDED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import Divergence, Pair
    from paralign.stages.common.judging import Method

#: native steps of a side may be this much less exact than the other's: those in lower precision are a thousand times
COARSER = 100.0

#: share of all parameters that no chance makes less exact
MANY = 0.2

#: errors below this are no lower precision: storing in float16 makes 2.8e-4, TF32 and bfloat16 more
FINER = 2.0**-12

#: changes whose own rounding is above this say nothing of all together
UNSTEADY = 1e-2

#: characters that are shown of what a side said of its inputs
SAID = 120

#: times the noise up to which changes made of equal gradients are held to be rounding that the update enlarges
SLIGHT = 3.0

#: and the share of a change that may be so: Adam makes much of gradients near zero
APART = 1e-2

#: how much later steps may enlarge what the first one has of rounding
LATER = 4.0


def weigh(context: Context, result: StageResult) -> bool:
    """Take back what was said of the optimizers alone where own steps make up for it.

    Nothing else is added.

    Returns:
        Whether the own steps were run.
    """
    both = all(context.has(side, "train_step") for side in ("reference", "candidate"))
    if not both or not made_up.may_be(context, result) or context.inputs is None or context.plan is None:
        return False
    try:
        steps = record_steps(context)
    except WorkerFailed as failure:
        result.notes.append(f"train_step could not be asked whether it makes up for it: {failure.what}")
        return False
    if steps is None:
        return False
    part = StageResult("backward")
    method, _ = choose(steps.reference, steps.candidate)
    judged = _judge(context, part, steps, method)
    spent(result, steps.reference, steps.candidate)
    if judged is not None:
        _excuse(context, result, part, judged, drawn=judged[0] is not steps)
    return True


def judge(context: Context, result: StageResult) -> StageResult:
    """Add the steps of both sides' ``train_step`` to the result of the stage.

    Without a loss, the stage is theirs alone.
    """
    having = [side for side in ("reference", "candidate") if context.has(side, "train_step")]
    if len(having) < 2:  # noqa: PLR2004 - both sides
        result.notes += [f"only the {having[0]} has train_step(model, optimizer, batch): it was not run"] if having else []
        return result
    if context.lacking("backward", "build_model", "build_optimizer") or context.inputs is None or context.plan is None:
        result.notes.append("train_step was not run: it needs build_model(), build_optimizer(model), weights that map, and a batch")
        return result
    steps = record_steps(context)
    if steps is None:
        result.notes.append("train_step was not run: there are no labels for its batch")
        return result
    part = StageResult("backward")
    method, notes = choose(steps.reference, steps.candidate)
    part.notes += notes
    judged = _judge(context, part, steps, method)
    if judged is not None:
        _excuse(context, result, part, judged, drawn=judged[0] is not steps)
    return _joined(result, part, steps)


def _excuse(context: Context, result: StageResult, part: StageResult, judged: tuple[Steps, Method], *, drawn: bool) -> None:
    """Take back what own steps make up for.

    Where they never reach a clipping, those of a larger loss may. ``drawn``: they are random, and were judged with the reference's draws.
    """
    steps, method = judged
    gradients = first_gradients(steps, method)
    factor = made_up.reaching(context, result, part, gradients)
    larger = enlarged(steps, method, factor) if factor is not None and not drawn else None
    reached = {} if larger is None else first_gradients(larger, method)
    apart = context.clipping
    if larger is None or factor is None or apart is None or not made_up.is_enlarged(apart, gradients, reached, factor):
        made_up.excuse(context, result, part, gradients)
        return
    again = StageResult("backward")
    _judge_steps(context, again, larger, method)
    made_up.excuse(context, result, again, reached)
    if apart.finding.fix == made_up.COMPARED:
        apart.finding.fix = made_up.ENLARGED.format(f"{factor:.3g}")
    result.notes.append(
        f"the own steps never reach the clipping: they were taken again with gradients {factor:.3g} times as large on both sides, "
        "as a larger loss makes them"
    )


def _judge(context: Context, part: StageResult, steps: Steps, method: Method) -> tuple[Steps, Method] | None:
    """What the steps come to; those that are random with the reference's draws on both sides.

    Returns:
        The steps that decided, and how they were judged; None where none were compared.
    """
    random = [side for side, c in (("reference", steps.reference), ("candidate", steps.candidate)) if is_random(c)]
    if random:
        return _judge_drawn(context, part, steps, " and the ".join(random))
    _judge_steps(context, part, steps, method)
    if part.verdict == DIVERGED:
        explain(part, steps, method)
        trace(part, steps)
    elif method.candidate_run == DOUBLE and not own_step_rules.has_excused(part):
        _judge_native(part, steps, method)
    return steps, method


def _judge_drawn(context: Context, part: StageResult, steps: Steps, random: str) -> tuple[Steps, Method] | None:
    """Judge random steps with the reference's draws on both sides.

    Every draw needs a counterpart.
    """
    found = own_step_draws.record(context, orders_of(context), steps.given)
    if isinstance(found, str):
        part.verdict = UNDERPOWERED
        part.warnings.append(
            f"train_step of the {random} draws random numbers, and its steps were not compared: {found} "
            "(draw them before, or make what is random a layer that can be switched off)"
        )
        return None
    tried = []
    for reference, candidate in found.captures:
        attempt = StageResult("backward")
        drawn = replace(steps, reference=reference, candidate=candidate, alone=set(), native=found.native)
        _judge_steps(context, attempt, drawn, found.method)
        tried.append((attempt, drawn))
        if attempt.verdict != DIVERGED:
            break
    attempt, drawn = tried[-1] if tried[-1][0].verdict != DIVERGED else tried[0]
    if attempt.verdict == DIVERGED and found.native is None:
        drawn = replace(drawn, native=own_step_draws.native(context, orders_of(context)[0], steps.given, drawn.reference), alone=set())
        attempt = StageResult("backward")
        _judge_steps(context, attempt, drawn, found.method)
    part.pairs, part.coverage, part.verdict = attempt.pairs, attempt.coverage, attempt.verdict
    part.notes += [*attempt.notes, f"train_step of the {random} draws random numbers: the candidate's drew what the reference's drew"]
    part.notes += [found.note] if found.note and found.note not in part.notes else []
    if part.verdict == DIVERGED:
        explain(part, drawn, found.method)
        trace(part, drawn)
    return drawn, found.method


def _judge_steps(context: Context, part: StageResult, steps: Steps, method: Method) -> None:
    """The pairs of the first and the last step, whole numbers between, and the verdict."""
    last, tolerance = context.settings.steps - 1, context.settings.tolerance_of("backward")
    slack = made_up.slack(context, first_gradients(steps, method))
    noises = Noises(steps.reference, method)
    for step in range(last + 1):
        pairs = steps.pairs(method, step) if step in (0, last) else steps.whole_numbers(method, step)
        if slack is not None:
            for pair in pairs:
                pair.noise = slack if pair.noise is None else max(pair.noise, slack, key=lambda n: n.value)
        settle(pairs, replace(method, limit=method.limit * (LATER if step else 1.0)), tolerance)
        doubt_whole_numbers(pairs, noises)
        _excuse_variances(context, pairs)
        running.excuse_vanishing_parts([pair for pair in pairs if pair.reference is not None and pair.reference.name == "result"])
        if DOUBLE in (method.reference_run, method.candidate_run):
            _excuse_cancelled(steps, method, step, pairs)
        part.pairs += pairs
    if method.candidate_run == DOUBLE and tolerance.ratio is None and slack is None:
        _excuse_kernel_rounding(part, steps, method)
    if method.candidate_run == DOUBLE:
        own_step_rules.excuse(part, steps, method)
    if steps.alone:
        told = ", ".join(sorted(leaf or "a value" for leaf in steps.alone))
        part.notes.append(f"train_step returns {told} on one side only: not compared")
    if steps.refused is not None:
        side, said = steps.refused.side or "other side", f"{steps.refused.type}: {steps.refused.message}".split("\n")[0]
        part.notes.append(
            f"train_step of the {side} cannot take the check's inputs ({said[:SAID]}): both were given the first batches of the "
            "reference's data loader"
        )
    if steps.later is not None:
        said = f"{steps.later.type}: {steps.later.message}".split("\n")[0]
        part.notes.append(f"train_step of the reference fails on a later batch of its loader ({said[:SAID]}): all steps take the first one")
    part.coverage.append(Coverage("own steps", context.settings.steps))
    part.verdict = part.verdict_of_pairs


def _excuse_kernel_rounding(part: StageResult, steps: Steps, method: Method) -> None:
    """Leave out changes hardly more apart than the noise, where gradients are equal.

    A kernel that computes a constant in float32 in a float64 pass too makes an error of that size, and an update may enlarge it.
    """
    wrong = part.wrong
    if not wrong or not all(_can_be_kernel_rounding(pair) for pair in wrong):
        return
    first = compare_gradients(steps, (method.reference_run, method.candidate_run), 0)
    if first is None or not first.alike:
        return
    for pair in wrong:
        pair.leave_out(Unjudged.ROUNDING, running.UNJUDGED)
    greatest = max(pair.ratio or 0.0 for pair in wrong)
    part.notes.append(
        f"changes of {len(wrong)} parameters by train_step are up to {greatest:.3g} times as far apart as the reference's rounding moves "
        "them; the gradients that reach the first update are equal: this is held to be rounding, and a fault as small would not be seen"
    )


def _can_be_kernel_rounding(pair: Pair) -> bool:
    """Whether two changes are so near that a constant in float32 in a kernel may explain it."""
    if pair.reference is None or pair.reference.role != "parameter":
        return False
    if pair.ratio is None or pair.error is None:
        return False
    return pair.ratio <= SLIGHT and pair.error <= APART


def _excuse_variances(context: Context, pairs: list[Pair]) -> None:
    """Leave out running variances: PyTorch's are unbiased, Paddle's are not.

    How often a step updates one is not known.
    """
    if context.settings.strict or not running.kept_otherwise(context.framework("reference"), context.framework("candidate")):
        return
    for pair in pairs:
        if pair.verdict == DIVERGED and pair.reference is not None and pair.reference.attrs.get("leaf") in running.VARIANCES:
            pair.leave_out(Unjudged.BIASED, running.BIASED)


def _excuse_cancelled(steps: Steps, method: Method, step: int, pairs: list[Pair]) -> None:
    """Leave out what is zero but for rounding in float64.

    These are changes and buffers, and what an update makes of gradients that are.
    """
    vanishing = _vanishing(steps, method, step)
    for role in ("parameter", "buffer"):
        own = [(p, p.reference, p.stats) for p in pairs if p.reference is not None and p.stats is not None and p.reference.role == role]
        total = math.sqrt(sum(stats.rms_reference**2 * stats.count for _, _, stats in own))
        for pair, reference, stats in own:
            if pair.verdict not in (DIVERGED, UNDERPOWERED):
                continue
            sizes = [rms * math.sqrt(stats.count) for rms in (stats.rms_reference, stats.rms_candidate)]
            dtypes = [record.dtype for record in (reference, pair.candidate) if record is not None]
            if _are_rounding(sizes, dtypes, total) or reference.name in vanishing:
                pair.leave_out(Unjudged.ROUNDING, running.UNJUDGED)


def _vanishing(steps: Steps, method: Method, step: int) -> set[str]:
    """Parameters whose gradients are zero but for rounding, beside all gradients.

    They are so on both sides, whenever an optimizer is called. A step with two optimizers calls them one after the
    other, each with gradients of its own.
    """
    rounding: set[str] = set()
    felt: set[str] = set()
    for call in range(RECORDED):
        given = steps.values("gradient", (method.reference_run, method.candidate_run), step, call)
        total = _length([value for _, _, value, _ in given])
        for record, _, value, other in given:
            both = [each for each in (value, other) if each is not None]
            sizes = [_length([each]) for each in both]
            if not _are_rounding(sizes, [each.dtype for each in both], total):
                felt.add(record.name)
            elif max(sizes) > 0.0:
                rounding.add(record.name)
    return rounding - felt


def _are_rounding(sizes: Iterable[float], dtypes: Iterable[str], total: float) -> bool:
    """Whether values of both sides are what rounding leaves of zero, beside all values.

    Args:
        sizes: the L2 norm of the reference's value, and of the candidate's.
        dtypes: what each was computed in: a side that does not run in float64 rounds more.
        total: the L2 norm of all.
    """
    for place, (size, dtype) in enumerate(zip(sizes, dtypes, strict=True)):
        is_exact = place == 0 or dtype == "float64"
        if size > (running.CANCELLED if is_exact else EPS["float32"]) * total:
            return False
    return True


def _length(values: Iterable[Typed]) -> float:
    """The L2 norm of several tensors together."""
    return math.sqrt(sum(float(np.sum(np.square(value.array, dtype=np.float64))) for value in values))


def _judge_native(part: StageResult, steps: Steps, method: Method) -> None:
    """Judge steps as they are, in mixed precision where ``train_step`` has it.

    Their noise is the reference's own distance from float64. A gradient that float64 shows to be rounding is rounding
    here too, and an optimizer that divides by its size makes a whole step of it.
    """
    vanishing = _vanishing(steps, method, 0)
    pairs = [pair for pair in steps.pairs(AGAINST, 0) if pair.reference is None or pair.reference.name not in vanishing]
    settle(pairs, replace(AGAINST, limit=COARSER), Tolerance())
    _excuse_variances(steps.context, pairs)
    wrong = [p for p in pairs if p.verdict == DIVERGED and p.noise is not None and p.noise.value > 0]
    excused = _excused_alone(pairs, wrong)
    if excused:
        part.notes.append(
            f"as they are, {len(excused)} of {len(_changes(pairs))} parameters move less exactly than the reference's, by no more than "
            f"{max(pair.error or 0.0 for pair in excused):.1g}: sums that cancel in one kernel, not judged"
        )
    wrong = [pair for pair in wrong if all(pair is not other for other in excused)]
    for pair in wrong:
        pair.key = f"{pair.key} (native)"
    own = _inexact(steps.reference, steps), _inexact(steps.candidate, steps)
    if wrong:
        part.pairs += wrong
        part.verdict = DIVERGED
        part.findings.append(
            Finding(
                "own_step/precision",
                "in float64 the steps agree; as they are, the candidate's are less exact",
                "use autocast on both sides alike",
            )
        )
        part.divergence = divergence_at(steps, wrong[0], "autocast", "auto_cast")
    elif own[1] and own[0] > COARSER * own[1]:
        part.warnings.append(
            f"the reference's steps are less exact ({own[0]:.1g}) than the candidate's ({own[1]:.1g}): mixed precision on one side only?"
        )


def _changes(pairs: list[Pair]) -> list[Pair]:
    """The pairs of what parameters have moved by, as far as they move and can be judged."""
    found = []
    for pair in pairs:
        if pair.reference is None or pair.reference.role != "parameter" or pair.stats is None or pair.noise is None:
            continue
        if 0.0 < pair.noise.value <= UNSTEADY and pair.stats.rms_reference > 0:
            found.append(pair)
    return found


def _excused_alone(pairs: list[Pair], wrong: list[Pair]) -> list[Pair]:
    """The wrong changes of a few parameters that no lower precision explains.

    A single gradient may cancel out in one kernel and not in another, and a rule like Adam's makes as much of that as of the others.
    Storing in float16 is coarser than that, and a lower precision shows in many parameters, or in all together.
    """
    moved = _changes(pairs)
    accused = {id(pair) for pair in wrong}
    few = [p for p in moved if id(p) in accused and p.error is not None and p.error <= FINER]
    if len(few) >= max(MANY * len(moved), min(2, len(moved))):
        return []
    far, own = native_gradients.together(moved)
    return [] if far > COARSER * max(own, native_gradients.LEAST) else few


def _inexact(capture: Capture, steps: Steps) -> float:
    """The median distance of a side's native changes from its float64 ones."""
    far = []
    for first in capture.select(role="parameter", run=DOUBLE, step=0):
        other = next(iter(capture.select(name=first.name, role="parameter", run=NATIVE, step=0)), None)
        if other is None or first.location is None:
            continue
        one, two = capture.array(first), capture.array(other)
        size = float(np.linalg.norm(one))
        if size:
            far.append(float(np.linalg.norm(one - two)) / size)
    if far and steps.context.plan is not None:
        return float(np.median(far))
    return 0.0


def _joined(result: StageResult, part: StageResult, steps: Steps) -> StageResult:
    """The stage's result with that of the own steps.

    What the own step does comes first where it alone differs.
    """
    spent(part, steps.reference, steps.candidate)
    alone = result.verdict == NOT_TESTED
    result.pairs += part.pairs
    result.findings += part.findings
    result.warnings += part.warnings
    result.notes = [*([] if alone else result.notes), *[n for n in part.notes if n not in result.notes]]
    if alone:
        result.notes.append("there is no loss(outputs, labels): train_step alone was compared")
    result.coverage += part.coverage
    for side, seconds in part.seconds.items():
        result.seconds[side] = result.seconds.get(side, 0.0) + seconds
    result.verdict = part.verdict if alone else overall([result.verdict, part.verdict])
    result.method = result.method or "train_step, as it is"
    is_traced = part.divergence is not None and part.divergence.rule == RULE
    if result.verdict == DIVERGED and (result.divergence is None or (is_traced and _names_a_layer_alone(result.divergence))):
        result.divergence = part.divergence
    return result


def _names_a_layer_alone(found: Divergence) -> bool:
    """Whether all that is known of a wrong buffer is where its layer is constructed."""
    record = None if found.pair is None else found.pair.reference
    if record is None or record.role != "buffer":
        return False
    return not (found.confirmed or found.rule or found.notes)
