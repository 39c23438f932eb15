"""Whole trainings: the same steps from the same start, and several seeds a side.

Or the logs of trainings that were made elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.context import spent
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Manifest, Pair, StageResult, overall
from paralign.run.recorder import both
from paralign.run.turns import is_mine
from paralign.stages.common.judging import CONSTANTS
from paralign.stages.train import continued, crossed, dependence, seeded, speed, trajectory, unsound
from paralign.stages.train.curves import Run, common, of_log
from paralign.stages.train.unsound import Trial
from paralign.training import compare_logs, read_log
from paralign.trainlog.lines import EVAL, TRAIN
from paralign.worker.protocol import Train

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.training import Log
    from paralign.training.compared import Gap

#: what texts of a log keep of a rate, absolute and relative: five digits
PRINTED = 1e-5

Sides = tuple[list[Run], list[Run]]


def run(context: Context) -> StageResult:
    """Compare the trainings that the project asks for."""
    training = context.settings.training
    if training.logs[0]:
        return _of_logs(context)
    missing = context.lacking("train", "train")
    if missing:
        missing.notes.append("or name finished logs: [training] reference_log and candidate_log")
        return missing
    result = StageResult("train")
    methods = []
    exact = trajectory.record(context, result)
    steps: list[Pair] = []
    if exact is not None:
        methods.append("step by step")
        steps = trajectory.compare(context, result, exact)
        result.pairs += steps
        result.pairs += continued.compare(context, result, exact)
        spent(result, exact.reference, exact.candidate)
        if not training.runs:
            result.pairs += [p for p in _settings(([exact.runs[0]], [exact.runs[1]])) if p.key == "learning rate"]
    trials = _exact_trials(context, exact)
    if training.runs:
        methods.append(f"{training.runs} seeds a side")
        free = _free(context, result)
        trials += free
        sides: Sides = [t.run for t in free if t.side == "reference"], [t.run for t in free if t.side == "candidate"]
        result.pairs += _settings(sides)
        left = _left(sides)
        result.pairs += left or seeded.compare(result, sides, training)
        result.notes += speed.told(sides, at_once=not is_mine())
        _align_files(context, sides)
    result.pairs += unsound.look(context, result, trials)
    differs = bool(result.wrong)
    if training.cross == "always" or (training.cross == "auto" and differs):
        crossed.explain(context, result, exact, steps)
    if training.initialisations:
        dependence.measure(context, result)
    result.method = "; ".join(methods)
    return _concluded(result)


def _concluded(result: StageResult) -> StageResult:
    result.verdict = result.verdict_of_pairs
    if result.verdict == NOT_TESTED:
        result.notes.append("nothing was compared")
    return result


def _exact_trials(context: Context, exact: trajectory.Exact | None) -> list[Trial]:
    """The two runs that were compared step by step."""
    if exact is None:
        return []
    own: dict[str, dict[str, Capture]] = {"candidate": exact.given}
    own["reference"] = {} if context.weights is None else {"state": context.weights}
    orders = {"reference": replace(exact.orders, draws=""), "candidate": exact.orders}
    captures = {"reference": exact.reference, "candidate": exact.candidate}
    recorders = {"reference": context.reference, "candidate": context.candidate}
    return [Trial(side, recorders[side], capture, orders[side], own[side], "step by step") for side, capture in captures.items()]


def _free(context: Context, result: StageResult) -> list[Trial]:
    """Trainings as each side makes them, each under a seed of its own."""
    settings, recorders = context.settings, (context.reference, context.candidate)
    trials = []
    known = _reference_first(context) if settings.training.stop_when_parted else []
    band = {f"band {number}": capture for number, capture in enumerate(known)}
    for number in range(settings.training.runs):
        seeds = [(settings.seed + 1 + number + side * settings.training.runs) % 2**32 for side in (0, 1)]
        orders = [Train(seed, settings.training.seconds) for seed in seeds]
        if settings.training.stop_when_parted:
            captures = known[number], context.candidate.record(f"train-{number}", orders[1], band)
        else:
            captures = both(*(partial(r.record, f"train-{number}", o) for r, o in zip(recorders, orders, strict=True)))
        spent(result, *captures)
        for recorder, capture, order in zip(recorders, captures, orders, strict=True):
            trials.append(Trial(recorder.side, recorder, capture, order, name=f"seed {order.seed}"))
            kind, why = trials[-1].run.stopped
            result.notes += [f"{recorder.side}, {trials[-1].name}: ended early: {why}"] if kind else []
    return trials


def _reference_first(context: Context) -> list[Capture]:
    """Run the reference's trainings first, which say how far seeds alone are apart."""
    settings = context.settings
    seeds = [(settings.seed + 1 + number) % 2**32 for number in range(settings.training.runs)]
    return [context.reference.record(f"train-{n}", Train(seed, settings.training.seconds)) for n, seed in enumerate(seeds)]


def _left(sides: Sides) -> list[Pair]:
    """What is to be said of candidates that were ended where they left the reference's band."""
    left = [run for run in sides[1] if run.stopped[0] == "left"]
    if not left:
        return []
    count = len(sides[1])
    most = 2 * len(left) > count
    told = f"{len(left)} of {count} trainings of the candidate were ended early: {left[0].stopped[1]}"
    return [Pair("band of the reference's trainings", None, None, verdict=DIVERGED if most else UNDERPOWERED, notes=[told])]


def _settings(sides: Sides) -> list[Pair]:
    """Batch size, steps an epoch and rates, which the sides are to have in common."""
    runs = sides[0][0], sides[1][0]
    found = []
    sizes = [_usual(run.samples[run.samples > 0]) for run in runs]
    if all(sizes):
        found.append(_equal("batch size", sizes[0] or 0.0, sizes[1] or 0.0))
    counts = [_epoch_steps(run) for run in runs]
    if all(counts):
        found.append(_equal("steps an epoch", *counts))
    rates = [run.rate for run in runs]
    if rates[0] is not None and rates[1] is not None:
        found.append(_rates((rates[0], rates[1]), runs))
    return found


def _usual(values: trajectory.Array) -> float:
    kinds, counts = np.unique(values, return_counts=True)
    return float(kinds[np.argmax(counts)]) if len(kinds) else 0.0


def _epoch_steps(run: Run) -> int:
    """Steps of the first epoch; 0 where the training did not get beyond it."""
    epochs = run.places[TRAIN][:, 0]
    if run.stopped[0] and len(np.unique(epochs)) < 2:  # noqa: PLR2004 - a first epoch that ended
        return 0
    return int((epochs == epochs[0]).sum()) if len(epochs) else 0


def _equal(name: str, reference: float, candidate: float) -> Pair:
    pair = Pair(name, None, None, verdict=overall(["aligned" if reference == candidate else DIVERGED]))
    if reference != candidate:
        pair.notes.append(f"{reference:g} in the reference, {candidate:g} in the candidate")
    return pair


def _rates(rates: tuple[trajectory.Array, trajectory.Array], runs: tuple[Run, Run]) -> Pair:
    """The rates of all steps that both sides made."""
    count = min(map(len, rates))
    first, second = rates[0][:count], rates[1][:count]
    slack = PRINTED * (1 + np.abs(first)) if any(run.printed for run in runs) else CONSTANTS * np.abs(first)
    apart = ~(np.abs(second - first) <= slack)
    pair = Pair("learning rate", None, None, verdict="aligned" if not apart.any() else DIVERGED)
    if apart.any():
        at = int(np.argmax(apart))
        epoch, number = (int(n) for n in runs[0].places[TRAIN][at])
        pair.notes.append(
            f"differs from epoch {epoch}, batch {number} on: {first[at]:.8g} in the reference, {second[at]:.8g} in the candidate"
        )
    return pair


def _align_files(context: Context, sides: Sides) -> None:
    """The figures at the end, as captures: what the guides' ``train_align`` files hold."""
    shared = common([*sides[0], *sides[1]])
    captures = []
    for recorder, runs in zip((context.reference, context.candidate), sides, strict=True):
        folder = recorder.folder / "train-align"
        clear(folder)
        with CaptureWriter(folder, Manifest(side=recorder.side, stage="train")) as writer:
            for kind, figure in shared:
                ends = np.array([run.end(kind, figure) for run in runs])
                writer.add(f"{kind.lower()}.{figure}", np.array([ends.mean()]), role="output")
            for number, made in enumerate(runs):
                for (kind, figure), values in made.curves.items():
                    steps = np.arange(len(values)) if kind == TRAIN else _evaluated(made, len(values))
                    writer.add("curve", np.stack([steps, values]), role="state", leaf=f"{figure} ({kind.lower()}) {number}")
        captures.append(Capture.open(folder))
    context.artifacts["train"] = captures[0], captures[1]


def _evaluated(run: Run, count: int) -> trajectory.Array:
    """After how many steps each evaluation was made; a log tells the epoch only."""
    places = run.places[EVAL][:count]
    if not run.printed:
        return places[:, 1].astype(np.float64)
    return np.array([float((run.places[TRAIN][:, 0] <= epoch).sum()) for epoch in places[:, 0]])


# -- finished logs ---------------------------------------------------------------------------------------------------------------------


def _of_logs(context: Context) -> StageResult:
    """Trainings that were made elsewhere.

    By the tolerance, where the project sets one, place by place.
    """
    result = StageResult("train", method="finished logs")
    logs = tuple([read_log(path) for path in side] for side in context.settings.training.logs)
    sides: Sides = [of_log(log) for log in logs[0]], [of_log(log) for log in logs[1]]
    for name, side in zip(("reference", "candidate"), logs, strict=True):
        result.warnings += [f"{name}: {_damage(log)}" for log in side if log.damaged]
        if not any(log.rows for log in side):
            result.verdict = NOT_TESTED
            result.notes.append(f"the {name}'s logs have no line of a training")
            return result
    result.pairs += _settings(sides)
    tolerance = context.settings.tolerance_of("train")
    if tolerance.absolute:
        found = compare_logs(logs[0][0], logs[1][0], atol=tolerance.atol or 0.0, rtol=tolerance.rtol or 0.0)
        result.method = f"finished logs, place by place: {tolerance}"
        result.notes += found.notes
        result.pairs += [_pair_of_gap(gap) for gap in found.gaps]
    else:
        result.pairs += seeded.compare(result, sides, context.settings.training)
    _align_files(context, sides)
    return _concluded(result)


def _pair_of_gap(gap: Gap) -> Pair:
    """One figure of two logs, with the first place where it differs."""
    pair = Pair(f"{gap.name} ({gap.kind.lower()})", None, None, verdict=ALIGNED if gap.compared else NOT_TESTED)
    if gap.first:
        pair.verdict = DIVERGED
    if gap.first and gap.at_first:
        pair.notes.append(
            f"parts at epoch {gap.first[0]}, batch {gap.first[1]}: "
            f"{gap.at_first[0]:.8g} in the reference, {gap.at_first[1]:.8g} in the candidate"
        )
    return pair


def _damage(log: Log) -> str:
    lines = ", ".join(str(each.line) for each in log.damaged[:5])
    more = f" and {len(log.damaged) - 5} more" if len(log.damaged) > 5 else ""  # noqa: PLR2004 - a few suffice
    return f"{log.path.name} has {len(log.damaged)} damaged lines, which are not compared: {lines}{more}"
