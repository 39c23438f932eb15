"""The exact trajectory: equal weights, equal batches, compared step by step.

How far two right trajectories drift apart by rounding is measured: the reference trains again with its parameters moved by one unit in
the last place before every step. From the step on where that alone moves the loss by :data:`LOST`, nothing is said any more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.comparison import compare_pair, judge
from paralign.dtypes import EPS, widen
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.programs import whole_trainings
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage, Divergence, Manifest, Noise, Pair, Point, Record, Stats, Unjudged
from paralign.stages.common.judging import CONSTANTS
from paralign.stages.steps import running
from paralign.stages.train.curves import Run, is_continuous, is_rate, of_capture
from paralign.stages.weights.assignment import write
from paralign.trainlog.lines import EVAL, TRAIN
from paralign.worker.protocol import Train

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import StageResult

Array = np.ndarray[Any, Any]

#: error ÷ drift up to which a step agrees, as in the method ``perturbation``
LIMIT = 10.0

#: units in the last place of float32 that are granted to a figure from the first step on: frameworks sum in other orders
UNITS = 4

#: drift, as a share of the figure, from which on nothing is said
LOST = 0.01

#: runs of the reference with moved parameters
MOVED = 2

#: steps under another seed that show whether a step draws random numbers
TRIED = 5

#: samples of an evaluation up to which a figure is recognised as a count of them
LARGEST_COUNT = 4096

#: why no cast to float64 helps here, as it does in other stages
OWN = "in the program's own precision: train(log) makes its own tensors; build model and data in float64 on both sides to see further"

#: steps up to which a training that parts is run once more to find the line, and tensors that are followed through them
TRACED, FOLLOWED = 40, 24

#: share of the steps below which a test is too weak
LEAST = 0.5


@dataclass
class Exact:
    """The runs of an exact comparison.

    Args:
        reference: its run.
        moved: its runs with moved parameters.
        candidate: its run.
        batches: the run that kept the batches which all others were given.
        given: what the candidate was given beside the batches.
        orders: those of the candidate's run.
        start: the reference's initial weights.
    """

    reference: Capture
    moved: list[Capture]
    candidate: Capture
    batches: Capture
    given: dict[str, Capture]
    orders: Train
    start: Capture

    @property
    def runs(self) -> tuple[Run, Run]:
        """The reference's and the candidate's."""
        return of_capture(self.reference), of_capture(self.candidate)


def record(context: Context, result: StageResult) -> Exact | None:
    """Train both sides from equal weights on equal batches.

    None, with a note why, where that cannot be done.
    """
    settings = context.settings
    if settings.training.exact_steps == 0:
        return None
    if context.plan is None or context.weights is None or settings.weights != "copy":
        return _untested(result, "no weights could be carried over" if settings.weights == "copy" else "[weights] mode is as-is")
    if not context.plan.complete:
        return _untested(result, "not all tensors of the model have a place in the other (`paralign check weights`)")
    orders = Train(settings.seed, settings.training.seconds, settings.training.exact_steps, quiet=True)
    own = {"state": context.weights}
    reference = context.reference.record("train-exact", replace(orders, keep=True, ends=True), own)
    why = _unfit(reference, "reference")
    if why:
        return _untested(result, why)
    given = {**own, "batches": reference}
    moved = [context.reference.record(f"train-moved-{n}", replace(orders, moved=n, ends=True), given) for n in range(MOVED)]
    drawn = _draws(context, orders, given, (reference, moved))
    if drawn and not context.observed:
        return _untested(
            result, "the reference's steps draw random numbers although dropout layers are off: another seed gives other losses"
        )
    batches = reference
    if drawn:  # whatever is drawn is recorded, and put in place of what the candidate draws
        reference = context.reference.record("train-exact-drawn", replace(orders, ends=True, draws="keep"), given)
    to_candidate = {"state": mapped(context, context.weights), "batches": batches, **({"draws": reference} if drawn else {})}
    own_orders = replace(orders, draws="use") if drawn else orders
    bounds = _bounds(context, reference, moved)
    candidate = context.candidate.record("train-exact", replace(own_orders, ends=True), {**to_candidate, "bounds": bounds})
    why = _unfit(candidate, "candidate") or (_unplayed(result, reference, candidate) if drawn else "")
    return _untested(result, why) if why else Exact(reference, moved, candidate, batches, to_candidate, own_orders, context.weights)


def _unplayed(result: StageResult, reference: Capture, candidate: Capture) -> str:
    """Why the reference's draws could not all take the place of the candidate's.

    '' where they could.
    """
    ours, theirs = (Train.answer(capture).draws for capture in (reference, candidate))
    for step, ((there, _), (here, given)) in enumerate(zip(ours, theirs, strict=False)):
        if not there == here == given:
            counts = f"{there} random operations in the reference, {here} in the candidate"
            return f"step {step} makes {counts}; {given} could be given the reference's draws"
    result.notes.append(
        f"steps draw random numbers: {sum(n for n, _ in theirs):,} draws of the reference were put in place of the candidate's"
    )
    return ""


def _untested(result: StageResult, why: str) -> Exact | None:
    result.notes.append(f"the exact trajectory was not compared: {why}")
    return None


def _unfit(capture: Capture, side: str) -> str:
    """Why a run is no exact trajectory; '' where it is one."""
    answer = Train.answer(capture)
    if not answer.models:
        return f"the {side}'s train(log) does not call log.model(model), so that it cannot be given equal weights"
    if answer.problems:
        return f"{side}: {answer.problems[0]}"
    if answer.batches and not (side == "reference" and answer.stopped[0] == "batches" and answer.steps):
        return f"{side}: {answer.batches}"
    if side == "reference" and not capture.select(name="batch"):
        return "the reference's train(log) does not take its batches from log.batches(loader, epoch), so that they cannot be handed over"
    return ""


def _draws(context: Context, orders: Train, given: dict[str, Capture], known: tuple[Capture, list[Capture]]) -> bool:
    """Whether the reference's steps depend on the seed beyond what rounding explains."""
    other_seed = replace(orders, seed=(context.settings.seed + 1) % 2**32, steps=TRIED)
    other = of_capture(context.reference.record("train-other-seed", other_seed, given))
    reference, moved = of_capture(known[0]), [of_capture(c) for c in known[1]]
    for key, values in reference.curves.items():
        if key[0] != TRAIN or key not in other.curves or is_count(key[1], values):
            continue
        count = min(len(values), len(other.curves[key]))
        drift = _drift(values, [run.curves[key] for run in moved if key in run.curves])[:count]
        if (np.abs(other.curves[key][:count] - values[:count]) > LIMIT * drift).any():
            return True
    return False


def mapped(context: Context, weights: Capture, run: str = "") -> Capture:
    """The reference's state of one run, as the candidate's tensors have it."""
    if context.plan is None:
        raise ValueError("the weights are mapped first")
    held = {r.name: r for r in weights.records if r.location is not None and r.run == run and r.role in ("parameter", "buffer")}
    return write(context, context.plan, lambda name: weights.value(held[name]) if name in held else None)


def _bounds(context: Context, reference: Capture, moved: list[Capture]) -> Capture:
    """What the candidate may log at every step, as a capture.

    It stops some steps after it has left that.
    """
    folder = context.candidate.folder / "train-bounds"
    clear(folder)
    run, others = of_capture(reference), [of_capture(c) for c in moved]
    with CaptureWriter(folder, Manifest(side="candidate", stage="train", settings={"key": uuid4().hex})) as writer:
        for key, values in of_steps(run):
            drift = _drift(values, [other.curves[key] for other in others if key in other.curves])
            allowed = np.where(_lost(values, drift), np.inf, LIMIT * drift)
            for name, array in (("values", values), ("allowed", allowed)):
                writer.add(name, array, role="scalar", leaf=key[1])
    return Capture.open(folder)


def _drift(values: Array, others: list[Array]) -> Array:
    """How far rounding alone has moved a figure by each of its places.

    Never less than before, nor than some units in the last place.
    """
    size = np.maximum(np.abs(values), np.median(np.abs(values[np.isfinite(values)])) if np.isfinite(values).any() else 0.0)
    drift = UNITS * EPS["float32"] * size
    for other in others:
        count = min(len(values), len(other))
        apart = np.zeros(len(values))
        apart[:count] = np.nan_to_num(np.abs(other[:count] - values[:count]), nan=0.0, posinf=np.inf)
        apart[count:] = np.inf if count < len(values) else 0.0
        drift = np.maximum(drift, np.maximum.accumulate(apart))
    return drift


def _lost(values: Array, drift: Array) -> Array:
    """From which place on rounding alone moves a figure by too much."""
    size = np.maximum(np.abs(values), np.median(np.abs(values[np.isfinite(values)])) if np.isfinite(values).any() else 0.0)
    return np.maximum.accumulate(drift > LOST * size)


def of_steps(run: Run) -> list[tuple[tuple[str, str], Array]]:
    """The figures of single steps with their values, learning rates and counts left out."""
    found = []
    for key, values in run.curves.items():
        kind, figure = key
        if kind == TRAIN and not is_rate(figure) and not is_count(figure, values):
            found.append((key, values))
    return found


def is_count(figure: str, values: Array) -> bool:
    """Whether a figure counts samples, as an accuracy does.

    All its values are fractions of one whole number.

    Few values of any figure are that by chance, so its name is asked first.

    One sample that tips over is no rounding of such a figure, so that it is not judged step by step.
    """
    if is_continuous(figure):
        return False
    finite = np.unique(values[np.isfinite(values)])
    wholes = np.arange(1, LARGEST_COUNT + 1)[:, None]
    near = np.abs(finite[None, :32] * wholes - np.round(finite[None, :32] * wholes)) < 1e-3  # noqa: PLR2004 - beyond what float32 rounds of 4096ths
    return bool(near.all(axis=1).any())


def compare(context: Context, result: StageResult, exact: Exact) -> list[Pair]:
    """Judge every figure step by step, then the parameters at the end.

    The first place that differs becomes a divergence.
    """
    reference, candidate = exact.runs
    moved = [of_capture(capture) for capture in exact.moved]
    pairs, said = [], []
    judged: list[int] = []
    for key, values in reference.curves.items():
        if is_rate(key[1]) or key not in candidate.curves:
            continue
        if is_count(key[1], values):
            said.append(f"{key[1]} ({key[0].lower()})")
            continue
        pair, known = curve(key, values, candidate, [run.curves[key] for run in moved if key in run.curves])
        pairs.append(pair)
        if key[0] == TRAIN:
            judged.append(known)
            if known < len(values):
                result.notes.append(
                    f"{key[1]}: from step {known} on rounding alone moves the reference by more than {LOST:.0%}: "
                    f"nothing is said of later steps ({OWN})"
                )
    steps = min(judged, default=0)
    result.coverage.append(Coverage("steps one by one", min(steps, candidate.steps), reference.steps))
    result.notes += [f"counts of samples, not judged step by step: {', '.join(said)}"] if said else []
    if reference.stopped[0] in ("steps", "time", "batches"):
        result.notes.append(f"later steps were not compared one by one: {reference.stopped[1]}")
    ends = _ends(context, exact, moved, steps) if steps == reference.steps == candidate.steps else []
    if any(p.unjudged is Unjudged.BIASED for p in ends):
        _excuse_evaluations(pairs)
    pairs += ends
    if not pairs:
        result.notes.append("the exact trajectory was not compared: log.step() was told no figure such as loss")
    elif steps < LEAST * reference.steps and all(p.verdict == ALIGNED for p in pairs):
        weak = Pair("exact trajectory", None, None, verdict=UNDERPOWERED)
        weak.notes.append(f"of {reference.steps} steps only {steps} can be compared: train fewer at a smaller rate, or in float64")
        pairs.append(weak)
    _locate(context, result, pairs, exact)
    return pairs


def curve(key: tuple[str, str], values: Array, candidate: Run, moved: list[Array]) -> tuple[Pair, int]:
    """One figure of both sides, and how many of its places can be judged."""
    kind, figure = key
    other = candidate.curves[key]
    drift = _drift(values, moved)
    lost = _lost(values, drift)
    known = int(np.argmax(lost)) if lost.any() else len(values)
    count = min(known, len(other))
    error = np.abs(other[:count] - values[:count])
    error[~np.isfinite(error)] = np.inf
    ratio = np.divide(error, drift[:count], out=np.zeros(count), where=error > 0)
    pair = Pair(f"{figure} ({kind.lower()})", None, None, verdict=ALIGNED if count else UNDERPOWERED)
    wrong = np.flatnonzero(ratio > LIMIT)
    at = 0
    if count:
        at = int(wrong[0]) if len(wrong) else int(np.argmax(ratio))
        size = abs(float(values[at])) or 1.0
        pair.stats = Stats(count=count, mismatched=int((error > 0).sum()), max_abs=float(error.max()), rel_l2=float(error[at]) / size)
        pair.noise = Noise(
            float(drift[at]) / size, "the reference with its parameters moved by one unit in the last place before every step"
        )
    if len(wrong):
        pair.verdict = DIVERGED
        place = candidate.places[kind][at] if at < len(candidate.places[kind]) else (0, at)
        where = f"epoch {int(place[0])}, " + (f"batch {int(place[1])}" if kind == TRAIN else f"after {int(place[1])} steps")
        pair.notes.append(
            f"parts at {'step' if kind == TRAIN else 'evaluation'} {at} ({where}): "
            f"{values[at]:.8g} in the reference, {other[at]:.8g} in the candidate"
        )
    elif len(other) < len(values) and candidate.stopped[0] not in ("", "parted"):
        pair.verdict = DIVERGED if candidate.stopped[0] in ("nonfinite", "exploded") else UNDERPOWERED
        pair.notes.append(f"the candidate ended early: {candidate.stopped[1]}")
    elif len(other) != len(values):
        pair.verdict = DIVERGED
        pair.notes.append(f"{len(values)} values in the reference, {len(other)} in the candidate, of equal batches")
    return pair, known


def _ends(context: Context, exact: Exact, moved: list[Run], steps: int) -> list[Pair]:
    """Every parameter and buffer after the last step."""
    plan, found = context.plan, []
    if plan is None or any(run.stopped[0] in ("nonfinite", "exploded") for run in moved):
        return []
    held = [_held(capture) for capture in (exact.reference, exact.candidate, *exact.moved)]
    for source in plan.sources:
        record = held[0][1].get(source.name)
        move = plan.moves_of(source.name)[0]
        if record is None or source.attrs.get("shared"):
            continue
        if move.candidate is None or move.candidate.name not in held[1][1]:
            continue
        value = exact.reference.value(record)
        pair = compare_pair(f"{source.name} at the end", record, record, value, plan.restore(source.name, held[1][0]), how=move.how)
        pair.candidate = held[1][1][move.candidate.name]
        drifts = [compare_pair("", record, record, value, fetch(source.name)).error for fetch, _ in held[2:]]
        floor = UNITS * max(EPS["float32"], EPS.get(record.dtype, 0.0))  # frameworks store a momentum or an epsilon in float32
        pair.noise = Noise(max([floor, *(d for d in drifts if d is not None)]), "the reference with moved parameters")
        judge(pair, limit=LIMIT)
        if pair.verdict == UNDERPOWERED:  # what nothing but rounding moves says nothing
            pair.verdict = ALIGNED
        if pair.verdict == DIVERGED and not context.settings.strict and _inherent(context, pair, source, (value, held[1][0]), steps):
            pair.leave_out(Unjudged.BIASED, running.BIASED)
        found.append(pair)
    return found


def _inherent(context: Context, pair: Pair, source: Record, ends: tuple[Typed, Callable[[str], Typed | None]], steps: int) -> bool:
    """Whether a running variance differs as unbiased (PyTorch) and biased (Paddle) do.

    After all steps.
    """
    framework = context.framework("reference")
    share = running.kept(source, framework)
    there = None if context.plan is None else context.plan.restore(source.name, ends[1])
    if share is None or there is None or context.weights is None:
        return False
    if not running.kept_otherwise(framework, context.framework("candidate")):
        return False
    if source.attrs.get("leaf") not in running.VARIANCES or pair.stats is None or pair.noise is None:
        return False
    allowed = LIMIT * pair.noise.value * pair.stats.rms_reference * math.sqrt(pair.stats.count)
    values = context.weights.array(source), widen(ends[0]), widen(there)
    return running.is_biased(*values, share**steps, allowed, reference_unbiased=running.is_unbiased(framework))


def _excuse_evaluations(pairs: list[Pair]) -> None:
    """Do not judge evaluations step by step: they use running variances.

    The frameworks keep these otherwise.
    """
    for pair in pairs:
        if pair.verdict == DIVERGED and pair.key.endswith(f"({EVAL.lower()})"):
            pair.leave_out(Unjudged.ELSEWHERE, f"not judged step by step: it uses running variances ({running.BIASED})")


def _held(capture: Capture) -> tuple[Callable[[str], Typed | None], dict[str, Record]]:
    by_name = {r.name: r for r in capture.select(run="end") if r.location is not None}
    return (lambda name: capture.value(by_name[name]) if name in by_name else None), by_name


def _locate(context: Context, result: StageResult, pairs: list[Pair], exact: Exact) -> None:
    """Name the first step that parts, what came before, and the line at fault."""
    runs = exact.runs
    wrong = sorted((p for p in pairs if p.verdict == DIVERGED), key=lambda pair: not pair.notes)
    if not wrong:
        return
    steps = [step for step in (_first(runs, TRAIN), _first(runs, EVAL)) if step is not None]
    step = min(steps, default=None)
    by_rate = bool(step) and _rates_part(runs)
    said = _first_that_differs(step, wrong, by_rate=by_rate)
    if step is None and _moved_parameters(wrong):
        step = runs[0].steps - 1
    ends = [_point(run) if by_rate else Point("train(log)") for run in runs]
    divergence = Divergence(ends[0], ends[1], wrong[0], notes=[*wrong[0].notes, f"the first that differs comes {said}"])
    result.divergences.append(divergence)
    result.divergence = result.divergence or divergence
    _follow(context, divergence, exact, step, wrong)


def _moved_parameters(wrong: list[Pair]) -> bool:
    """Whether some of what differs are parameters."""
    return any(pair.candidate is not None and pair.candidate.role == "parameter" for pair in wrong)


def _first_that_differs(step: int | None, wrong: list[Pair], *, by_rate: bool) -> str:
    """Where the first difference comes from, in words.

    ``step`` is that of the first figure that differs, None where figures agree.
    """
    if step is None and _moved_parameters(wrong):
        return "with the updates, in parameters alone: too little to show in a loss"
    if step is None and not wrong[0].notes:
        return "in what layers keep, such as running statistics: losses and parameters agree step by step"
    if step == 0:
        return "before any update: the network in train mode, the loss, or what is done with a batch"
    if by_rate:
        return "after updates whose learning rates differ: the optimizer or its schedule"
    return "after updates: gradients, the optimizer, or statistics that a step keeps (see the stage backward)"


def _follow(context: Context, divergence: Divergence, exact: Exact, step: int | None, wrong: list[Pair]) -> None:
    """Name the line of the candidate's training, or of its model, that is at fault."""
    if step is None:
        _name_layer(divergence, exact, wrong)
        return
    if step >= TRACED or exact.orders.draws:
        return
    figures = [p.key.rpartition(" ")[0] for p in wrong if p.key.endswith(f"({TRAIN.lower()})")]
    given = {"state": exact.start, "batches": exact.batches}, {"state": exact.given["state"], "batches": exact.batches}
    followed = _own_parameters(context)[:FOLLOWED]
    names = [one for one, _ in followed], [other for _, other in followed]
    whole_trainings.follow(context, divergence, given, names, figures, step + 1)


def _own_parameters(context: Context) -> list[tuple[str, str]]:
    """Both sides' names of parameters that are one tensor on each, second names left out."""
    if context.plan is None:
        return []
    parameters = [(one, other) for one, other in context.plan.whole_twins if one.role == "parameter"]
    return [(one.name, other.name) for one, other in parameters if not one.attrs.get("shared")]


def _name_layer(divergence: Divergence, exact: Exact, wrong: list[Pair]) -> None:
    """Where losses agree and what a layer keeps does not: the line that constructs the layer."""
    record = next((p.candidate for p in wrong if p.candidate is not None), None)
    answer = exact.runs[1].answer
    if record is None or answer is None:
        return
    lines = answer.modules.get(record.name.rpartition(".")[0], [])
    if lines:
        divergence.candidate = Point(record.name, record.op, lines[0], code_at(lines[0]), lines[1:])


def _first(runs: tuple[Run, Run], kind: str) -> int | None:
    """The first step whose figures are apart by more than float32 rounds."""
    if kind != TRAIN:
        return None
    found = []
    for key, values in of_steps(runs[0]):
        if key not in runs[1].curves:
            continue
        count = min(len(values), len(runs[1].curves[key]))
        apart = np.abs(values[:count] - runs[1].curves[key][:count]) > LIMIT * _drift(values[:count], [])
        if apart.any():
            found.append(int(np.argmax(apart)))
    return min(found, default=None)


def _rates_part(runs: tuple[Run, Run]) -> bool:
    """Whether the rates of shared steps differ.

    Only then the optimizer's line is evidence of anything.
    """
    first, second = (run.rate for run in runs)
    if first is None or second is None:
        return False
    count = min(len(first), len(second))
    return bool((~(np.abs(second[:count] - first[:count]) <= CONSTANTS * np.abs(first[:count]))).any())


def _point(run: Run) -> Point:
    """The line of a side's optimizer, where the log was told of one."""
    source = run.lines.get("optimizer")
    return Point("train(log)", "optimizer", source, code_at(source))


def parting(exact: Exact) -> int | None:
    """The first step whose figures part by more than float32 rounds; None without one."""
    runs, found = exact.runs, []
    moved = [of_capture(capture) for capture in exact.moved]
    for key, values in of_steps(runs[0]):
        if key not in runs[1].curves:
            continue
        drifted = [run.curves[key] for run in moved if key in run.curves]
        pair, _ = curve(key, values, runs[1], drifted)
        if pair.verdict == DIVERGED:
            found.append(_beyond(values, runs[1].curves[key], _drift(values, drifted)))
    return min(found, default=None)


def _beyond(values: Array, other: Array, drift: Array) -> int:
    """The first place at which two curves are apart by more than drift explains.

    0 where none is, and one of them ends early.
    """
    count = min(len(values), len(other))
    apart = ~(np.abs(values[:count] - other[:count]) <= LIMIT * drift[:count])
    return int(np.argmax(apart)) if apart.any() else 0
