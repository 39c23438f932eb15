"""Forward: the model's outputs in eval mode, on the same inputs and weights."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from paralign.comparison.judge import LOUD
from paralign.context import spent
from paralign.errors import WorkerFailed
from paralign.locate import first_module, pipeline
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.suspects.element_types import LOWER, OneSided
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage, Divergence, Noise, Pair, Point, StageResult, Unjudged
from paralign.stages.common import added_up, lower_precision, nonfinite, precision
from paralign.stages.common.forward_passes import forward_order, record
from paralign.stages.common.judging import FLOAT64, PARTLY, Noises, choose, conclude, final, paired, points_of, weakest
from paralign.stages.common.repeatability import HIDING, REPEATED, SAID, explains, say_distance
from paralign.stages.forward import further, handed, later_batches, moved_weights
from paralign.worker.protocol import Forward, Lowered
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.locate.suspects.other_ways import OtherWay
    from paralign.model import Record
    from paralign.stages.common.judging import Method

#: questions that a note lists
SHOWN = 3

#: below this root mean square, outputs count as vanishing
VANISHING = 1e-6


#: inputs of float64 runs that differ by as much are rounded to float32 somewhere
ROUNDED = 1e-9

#: by which share an output has to change that parameters were moved for
MOVED_BY = 1e-3


def run(context: Context) -> StageResult:
    """Judge the outputs, once more with moved parameters where constants hide them.

    So too where parameters of zeros hide what is multiplied by them, as those of a residual branch do that begins as nothing.
    """
    result = judged(context)
    if result.verdict == UNDERPOWERED:
        result = _of_single_numbers(context, result)
    if result.verdict == ALIGNED and not context.settings.draws:  # a judge moves what is constant by itself, and draws further inputs
        result = _unhidden(context, result)
        return later_batches.judged(context, result, judged) if result.verdict == ALIGNED else result
    if result.verdict == UNDERPOWERED and any(p.reference is not None and p.verdict == UNDERPOWERED for p in result.pairs):
        return _unblocked(context, result)
    return result


def _unblocked(context: Context, result: StageResult) -> StageResult:
    """The result with constant parameters moved, where outputs are constant without.

    Else the result as it was.
    """
    reference, _ = context.artifacts["forward"]
    if not any(_is_constant(pair.reference, reference) for pair in result.pairs if pair.reference is not None):
        return result
    values = moved_weights.movable(context)
    if not values:
        return result
    again = _judged_moved(context, values)
    if isinstance(again, WorkerFailed):
        result.notes.append(f"with its constant parameters moved by noise, the {again.side} failed with {again.type}: {again.message}")
        return result
    if again.verdict == UNDERPOWERED:
        return result
    again.notes.insert(0, moved_weights.told(values))
    return again


def _of_single_numbers(context: Context, result: StageResult) -> StageResult:
    """The result with constant outputs judged, where single numbers alone make them.

    Parameters of one number are moved on both sides: the outputs have to change, and alike. Else the result as it was.
    """
    constant = [pair for pair in result.pairs if pair.verdict == UNDERPOWERED and _weak(pair) in result.warnings]
    values = moved_weights.numbers(context)
    if not constant or not values or not any(pair.judged and pair.verdict == ALIGNED for pair in result.pairs):
        return result
    both = _of_numbers(context, constant)
    again = _judged_moved(context, values) if both[0] else None
    if again is None or isinstance(again, WorkerFailed):
        return result
    if again.verdict == DIVERGED:
        again.notes.insert(0, moved_weights.by_numbers(values))
        return again
    later = {pair.key: pair for pair in again.pairs}
    if not both[1] or not all(pair.key in later and _has_moved(pair, later[pair.key]) for pair in constant):
        return result
    said = weakest(result)
    for pair in constant:
        pair.verdict = ALIGNED
        result.warnings.remove(_weak(pair))
        result.notes.append(f"{pair.key} is constant: with the parameters of one number moved by noise it changed, on both sides alike")
    result.verdict = result.verdict_of_pairs
    result.notes = [note for note in result.notes if note != said]
    return result


def _of_numbers(context: Context, pairs: list[Pair]) -> tuple[bool, bool]:
    """Whether parameters of one number alone lead to outputs, on either side, as was watched.

    Others may be constant by chance.
    """
    try:
        known = pipeline.made_of_numbers(context)
    except WorkerFailed:
        return False, False
    first = all(pair.reference is not None and pair.reference.leaf in known[0] for pair in pairs)
    second = all(pair.candidate is not None and pair.candidate.leaf in known[1] for pair in pairs)
    return first, second


def _has_moved(before: Pair, after: Pair) -> bool:
    """Whether an output is another one since parameters were moved."""
    if before.stats is None or after.stats is None:
        return False
    return abs(after.stats.rms_reference - before.stats.rms_reference) > MOVED_BY * before.stats.rms_reference


def _judged_moved(context: Context, values: dict[str, Typed]) -> StageResult | WorkerFailed:
    """The result with parameters moved on both sides, or how a side fails then."""
    try:
        with moved_weights.moved(context, values):
            return judged(context)
    except WorkerFailed as failure:
        return failure


def _unhidden(context: Context, result: StageResult) -> StageResult:
    """The result with zero parameters moved, where outputs differ then; else as it was."""
    values = moved_weights.hiding(context)
    if not values:
        return result
    again = _judged_moved(context, values)
    if isinstance(again, WorkerFailed):
        result.notes.append(f"with its parameters of zeros moved by noise, the {again.side} failed with {again.type}: {again.message}")
        return result
    if again.verdict == DIVERGED:
        again.notes.insert(0, moved_weights.hidden(values))
        return again
    if again.verdict == ALIGNED:
        result.notes.append(moved_weights.shown(values))
    return result


def judged(context: Context) -> StageResult:
    """Judge the outputs; where they diverge, name the first module that is guilty."""
    missing = context.lacking("forward", "build_model")
    if missing:
        return missing
    if context.inputs is None:
        return StageResult("forward", notes=["no inputs: define inputs() in the reference, or set [inputs] in paralign.toml"])
    reference, candidate = record(context)
    method, notes = choose(reference, candidate)
    points = points_of(final(reference, name="output", run=method.reference_run), final(candidate, name="output", run=method.candidate_run))
    result = spent(StageResult("forward", notes=notes), reference, candidate)
    tolerance = context.settings.tolerance_of("forward")
    result.pairs = paired(reference, candidate, points, method, tolerance)
    low = lower_precision.places(context, result.pairs, method, tolerance, Lowered("forward"), {"inputs": context.inputs})
    if low:
        method, reference = PARTLY, lower_precision.perturbed(context, forward_order(context), {"inputs": context.inputs})
        points = points_of(final(reference, name="output", run=DOUBLE), final(candidate, name="output", run=DOUBLE))
        result.pairs = paired(reference, candidate, points, method, tolerance)
        result.notes += low
    handed.compare(result, reference, candidate)
    _say_weakness(result, reference, context)
    _say_repeatability(result, reference, candidate)
    _say_asked(result, reference, candidate)
    conclude(result, method)
    _say_idle_casts(result, reference, candidate)
    _say_structure(result, reference, candidate)
    _say_shapes(result)
    nonfinite.explain(context, result)
    searched = _locate(context, result, method, coarse=bool(low))
    branches, finer = searched.branches, searched.finer
    exact = finer is not None and finer.side == "reference"
    context.forwarded = True
    natives = points_of(final(reference, name="output", run=DOUBLE), final(candidate, name="output", run=NATIVE))
    if not context.drawn:  # natively each side drew its own numbers
        precision.judge(
            result,
            (reference, candidate),
            natives,
            method,
            tolerance,
            alone=bool(branches),
            finer=exact,
        )
        further.judge(context, result, (reference, candidate), method)
    _say_branches(result, branches)
    _say_finer(result, finer)
    if searched.coarser is not None:
        result.coverage.append(_counted(searched.coarser))
    precision.say_types(result, points_of(final(reference, name="output", run=NATIVE), final(candidate, name="output", run=NATIVE)))
    if result.verdict == DIVERGED and result.divergence is None:
        result.divergence = _located(result, reference, candidate, method)
    return result


def _say_shapes(result: StageResult) -> None:
    """Say which outputs of equal values have axes of length 1 on one side alone."""
    for pair in result.pairs:
        if pair.reference is None or pair.candidate is None or not pair.judged or pair.verdict == DIVERGED:
            continue
        due, own = pair.reference.shape, pair.candidate.shape
        if due != own and max(len(due), len(own)) > 1:  # a scalar and its list of one broadcast alike
            result.notes.append(
                f"{pair.key}: shape {list(due)} in the reference, {list(own)} in the candidate; the values agree, but what takes them may "
                "broadcast them otherwise"
            )


def _say_branches(result: StageResult, branches: dict[str, OtherWay]) -> None:
    """Say where a side computes otherwise natively than in float64.

    A native output that diverged did so there.
    """
    for side, way in branches.items():
        result.notes.append(
            f"the {side} computes otherwise in float64 than as it is, first at {PurePath(way.source).name} ({way.op}): a branch on the "
            "element type? Its native outputs were held to the limit of native runs"
        )
    own = branches.get("candidate")
    native = [p for p in result.wrong if p.key.endswith(precision.NATIVE_KEY)]
    if own is None or not native or result.divergence is not None:
        return
    due = branches.get("reference")
    ends = [None if way is None else Point(way.module, way.op, way.source, code_at(way.source)) for way in (due, own)]
    result.divergence = Divergence(ends[0], ends[1], native[0])
    result.divergences = [result.divergence]


def _say_finer(result: StageResult, finer: OneSided | None) -> None:
    """Say in the row what one side alone computes in a higher precision than it is given.

    A native output that diverged did so there.
    """
    if finer is None:
        return
    result.coverage.append(_counted(finer))
    where = "" if finer.source is None else f", first at {PurePath(finer.source).name}"
    result.notes.append(
        f"the {finer.side} alone computes {finer.count} operations natively in {finer.dtype}, a higher precision than that of its weights "
        f"and inputs{where}: where all is float64 it does not show"
    )
    native = [p for p in result.wrong if p.key.endswith(precision.NATIVE_KEY)]
    if finer.side == "reference" and native and result.divergence is None:
        ends = [Point("the model itself", "", line, code_at(line)) for line in (finer.source, finer.counterpart)]
        result.divergence = Divergence(ends[0], ends[1], native[0], what=LOWER)
        result.divergences = [result.divergence]


def _counted(found: OneSided) -> Coverage:
    """How many operations one side alone computes in another precision than it is given."""
    return Coverage(f"operations in {found.dtype} in the {found.side} alone", found.count)


def _locate(context: Context, result: StageResult, method: Method, *, coarse: bool) -> pipeline.Searched:
    """Watch single operations.

    Gives what was seen: also sides whose native run takes another way than that in float64, or computes more precisely.

    One that is guilty makes the stage diverge although the outputs may hide it.

    Not where ``coarse`` float64 runs round by themselves: a single operation has no noise to be judged by there, only its element type.
    """
    if context.settings.modules == "none":
        return pipeline.Searched()
    try:
        replay = pipeline.replayed(context, "eval") if _may_be_drawn(result) else None
        if replay is not None:
            context.drawn = True
            _judge_replay(result, replay)
            return pipeline.Searched()
        searched = pipeline.forward(context, diverged=result.verdict == DIVERGED)
    except WorkerFailed as failure:
        result.notes.append(f"operations could not be watched: the {failure.side} failed with {failure.type}: {failure.message}")
        return pipeline.Searched()
    found = searched.divergences
    if result.verdict != DIVERGED and (coarse or _is_rounding(context, result, method, found)):
        found = [d for d in found if d.what == LOWER]
    tolerance = context.settings.tolerance_of("forward")
    if searched.blurred and tolerance.ratio is None and not any(d.confirmed for d in found):
        _excuse_coordinates(result)
        if result.verdict == ALIGNED:
            found = []
    if searched.clean and method is FLOAT64 and added_up.may_be(result, tolerance):
        added_up.excuse(result)
        found = []
    result.divergences = found
    result.notes += searched.notes
    if found:
        result.divergence = found[0]
        _judge_by_operations(result)
    elif result.verdict == ALIGNED and searched.untested:
        result.verdict = UNDERPOWERED
        result.warnings += searched.untested
    return searched


def _is_rounding(context: Context, result: StageResult, method: Method, found: list[Divergence]) -> bool:
    """Whether operations that hardly differ behind equal outputs do so by float32.

    Float64 runs have it inside, or in constants that each side computed when it was built. It is asked only where they are slight: it
    takes another run of both sides.
    """
    shown = [d for d in found if d.what != LOWER]
    if method is not FLOAT64 or context.inputs is None or not shown or not all(map(_can_be_lower_precision, shown)):
        return False
    if all((d.error_before or 0.0) >= ROUNDED for d in shown):
        first = shown[0]
        line = first.candidate.source if first.candidate is not None else None
        result.notes.append(
            f"values that go into {line or 'an operation'} differ by {first.error_before:.2g} in float64, as constants do that each side "
            f"computed in float32; it enlarges that to {first.error:.2g}, and the outputs agree: held to be rounding"
        )
        return True
    low = lower_precision.anywhere(context, Lowered("forward"), {"inputs": context.inputs})
    result.notes += low
    return bool(low)


def _can_be_lower_precision(divergence: Divergence) -> bool:
    """Whether a result is off by so little that float32 inside a float64 pass may explain it."""
    if divergence.error is None or not divergence.noise:
        return False
    return divergence.error <= lower_precision.MOST * divergence.noise


def _judge_by_operations(result: StageResult) -> None:
    """What guilty operations make of the verdict of a stage whose outputs agree."""
    if result.verdict == DIVERGED:
        return
    if any(d.confirmed for d in result.divergences):
        result.verdict = DIVERGED
    elif result.verdict == ALIGNED and any(d.hidden for d in result.divergences):
        result.verdict = UNDERPOWERED
        result.warnings.append(
            "an operation has right inputs and another result, but what follows hardly uses it (tiny weights?), so that nothing shows "
            "whether it is wrong. Use trained weights, or larger ones"
        )


def _may_be_drawn(result: StageResult) -> bool:
    """Whether random numbers drawn in eval mode could explain the outputs.

    Some are drawn otherwise in float64 than natively: then the reference is far from itself, and no error is beyond its noise.
    """
    if result.verdict == DIVERGED:
        return True
    return any(_is_loud(pair) for pair in result.pairs)


def _is_loud(pair: Pair) -> bool:
    """Whether a pair proves nothing because the reference is far from itself."""
    if pair.verdict != UNDERPOWERED:
        return False
    return pair.noise is not None and pair.noise.value > LOUD


def _excuse_coordinates(result: StageResult) -> None:
    """Accept outputs that are off by float32 coordinates.

    The candidate's run is then partly in lower precision.

    Its error is not the reference's, whose native coordinates round in their own way, but as large: the limit is that of such runs.
    """
    off = result.wrong
    if not all(p.ratio is not None and p.ratio <= PARTLY.limit for p in off):
        return
    for pair in off:
        pair.verdict = ALIGNED
        pair.notes.append(
            "off by coordinates that a kernel computes in float32 in every run, as interpolation does; each operation was watched"
        )
    result.verdict = result.verdict_of_pairs


def _judge_replay(result: StageResult, replay: pipeline.Replay) -> None:
    """Judge a model that draws in eval mode by its pass with the reference's draws.

    The outputs differ without.
    """
    result.findings += replay.findings
    result.notes += replay.notes
    result.divergences, result.divergence = replay.divergences, next(iter(replay.divergences), None)
    if replay.wrong or replay.findings or any(d.confirmed for d in replay.divergences):
        return
    said = weakest(result)
    for pair in result.pairs:
        if pair.verdict == DIVERGED or _is_loud(pair):
            pair.leave_out(Unjudged.DRAWN, "differs by what is drawn in eval mode: with the reference's draws it is the same")
    if any(p.judged and p.verdict == UNDERPOWERED for p in result.pairs):
        result.verdict = UNDERPOWERED
        return
    result.verdict = ALIGNED
    result.notes = [note for note in result.notes if note != said]


def _say_structure(result: StageResult, reference: Capture, candidate: Capture) -> None:
    shapes = [c.manifest.settings.get("trees", {}).get("output") for c in (reference, candidate)]
    told = [_told(s) for s in shapes if s is not None]
    if len(told) == 2 and told[0] != told[1]:  # noqa: PLR2004 - both sides
        result.excuse(f"the outputs are built differently: {told[0]} in the reference, {told[1]} in the candidate")


def _told(shape: dict[str, object]) -> str:
    """A structure in words: ``a tensor``, ``a tuple of 2``, ``a dict of logits, loss``."""
    kind, inner = next(iter(shape.items()))
    if kind == "leaf":
        return "a tensor"
    if kind == "dict" and isinstance(inner, dict):
        return "a dict of " + ", ".join(inner)
    return f"a {kind} of {len(inner)}" if isinstance(inner, list) else "nothing"


def _say_weakness(result: StageResult, reference: Capture, context: Context) -> None:
    """Warn of outputs that vanish, and call a test of constant outputs what it is: too weak.

    A buffer that is handed out as it is, beside outputs that tell more, weakens nothing: it was compared with the weights.
    """
    telling = any(p.judged and p.reference is not None and not _is_constant(p.reference, reference) for p in result.pairs)
    for pair in result.pairs:
        first = pair.reference
        if first is None or first.location is None or pair.stats is None or pair.stats.count == 0:
            continue
        if 0 < pair.stats.rms_reference < VANISHING:
            result.warnings.append(
                f"the outputs vanish ({pair.key} has a root mean square of {pair.stats.rms_reference:.1e}): any absolute threshold passes "
                "them, and a wrong port with them. Use weights that were trained a little, or let BatchNorm take its statistics from "
                "real input (a few forward passes in train mode) before checking"
            )
        if _is_constant(first, reference):
            buffer = _handed_out(first, reference, context) if telling else ""
            if buffer and pair.verdict != DIVERGED:
                result.notes.append(f"{pair.key} is constant, as the buffer {buffer} is, which it hands out: nothing of it is computed")
                continue
            result.warnings.append(_weak(pair))
            if pair.verdict != DIVERGED:
                pair.verdict = UNDERPOWERED


def _weak(pair: Pair) -> str:
    """What is said of an output that is constant."""
    return f"{pair.key} is constant: it can agree although the model is wrong. Use other inputs or trained weights"


#: what fresh buffers hold, and what computed outputs are where nothing happens: such values tell no buffer
_FRESH = (0, 1)


def _handed_out(output: Record, reference: Capture, context: Context) -> str:
    """The reference's buffer with an output's shape and only value; '' where none is sure."""
    value = reference.array(output).flat[0]
    if context.weights is None or context.plan is None or value in _FRESH:
        return ""
    for one, other in context.plan.whole_twins:
        if one.role == other.role == "buffer" and one.shape == output.shape and one.location is not None:
            held = context.weights.array(one)
            if held.size and bool(np.all(held == value)):
                return one.name
    return ""


def _is_constant(record: Record, capture: Capture) -> bool:
    """Whether an output of several elements has one value throughout."""
    if record.location is None:
        return False
    values = capture.array(record)
    return values.size > 1 and bool(np.all(values == values.flat[0]))


def _say_asked(result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Say where a side's code asks what it is run for.

    Another answer than the program's own may take another branch.
    """
    for side, capture in (("reference", reference), ("candidate", candidate)):
        asks = [f"{each.name} at {PurePath(each.file).name}:{each.line}" for each in Forward.answer(capture).asks]
        if not asks:
            continue
        listed = ", ".join([*asks[:SHOWN], *(["…"] if len(asks) > SHOWN else [])])
        result.notes.append(
            f"the {side} asks what pass it is in ({listed}): this one went without gradients and under observation, "
            "and a branch for other passes was not compared here; backward compares passes with gradients"
        )


def _say_idle_casts(result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Say where automatic casts had no effect on this device.

    Where the candidate alone asks for them, nothing shows what it computes in elsewhere.
    """
    theirs, ours = (Forward.answer(c).idle_casts for c in (reference, candidate))
    for side, lines in (("reference", theirs), ("candidate", ours)):
        if not lines:
            continue
        listed = ", ".join([*(PurePath(line).name for line in lines[:SHOWN]), *(["…"] if len(lines) > SHOWN else [])])
        said = (
            f"the {side} switches automatic casts on ({listed}), which have no effect on this device: "
            "what it computes in a lower precision elsewhere was not compared. Check on such a device, or switch them off"
        )
        if side == "reference" or theirs:
            result.notes.append(said)
            continue
        result.doubt(said)
        if result.verdict == ALIGNED:
            result.verdict = UNDERPOWERED


def _say_repeatability(result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Say how far a side is from itself between two equal runs.

    Where that hides what a wrong port would do, the test is too weak.
    """
    repeats = Forward.answer(reference).repeat, Forward.answer(candidate).repeat
    for pair in result.pairs:
        if pair.verdict == DIVERGED and explains(repeats, pair.error):
            pair.verdict = UNDERPOWERED
            pair.notes.append("no further apart than either side is from itself")
    for side, far in zip(("reference", "candidate"), repeats, strict=True):
        if far <= REPEATED:
            if far > SAID:
                said = (
                    f"the {side} does not repeat itself to the last digits: two equal runs in eval mode, seeded alike, differ by "
                    f"{far:.2g}. Nothing smaller can be seen"
                )
                say_distance(result, said, far)
            continue
        result.doubt(
            f"the {side} is not deterministic: two equal runs in eval mode, seeded alike, differ by {far:.2g}. "
            "Nothing smaller can be seen: switch off what is random, or make its kernels deterministic"
        )
        if far >= HIDING:
            for pair in result.pairs:
                pair.verdict = UNDERPOWERED if pair.verdict != DIVERGED else DIVERGED


def _located(result: StageResult, reference: Capture, candidate: Capture, method: Method) -> Divergence:
    worst = result.worst
    found = None
    if method.reference_run == method.candidate_run:
        noise = worst.noise.value if worst is not None and worst.noise is not None else 1e-6
        found = first_module(
            reference, candidate, run=method.reference_run, tolerance=1e-7 if method.reference_run == DOUBLE else 10 * noise
        )
    if found is not None:
        found.pair = found.pair or worst
        return found
    return named(worst)


def named(pair: Pair | None) -> Divergence:
    """A divergence of which only the pair is known."""
    points = [
        Point(r.name, r.op, r.source) if r is not None else None for r in ((pair.reference, pair.candidate) if pair else (None, None))
    ]
    return Divergence(points[0], points[1], pair)


def noise(context: Context) -> Noise | None:
    """The greatest noise of the reference's native outputs, None without inputs.

    Records the forward pass where that was not done.
    """
    if context.inputs is None or not context.has("reference", "build_model"):
        return None
    reference, candidate = context.artifacts["forward"] if "forward" in context.artifacts else record(context)
    method, _ = choose(reference, candidate)
    noises = Noises(reference, method)
    found = [noises.of(r) for r in final(reference, name="output", run=method.reference_run)]
    return max((n for n in found if n is not None), key=lambda n: n.value, default=None)
