"""Cross experiments: parts of the reference's training put into the candidate's.

The one that closes the gap is the finding.

``data``
    The candidate trains on the reference's batches.
``init``
    It starts from the reference's weights.
``optimizer``
    Before every step its parameters become those that the reference's optimizer has made: the network and the loss are what is left.
``model``
    The network and the loss in train mode: what is left when the three others do not close the gap. Where steps part, what the reference's
    network gives is put in place of what the candidate's does: that tells the network from the loss.

Where the exact trajectory parts, weights and batches are the same on both sides already: one more run tells the optimizer from the model.
Where it agrees, all that is computed is right, and what differs is drawn or read: groups of runs tell.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.dtypes import EPS
from paralign.errors import WorkerFailed
from paralign.model import Finding, Manifest, wrong_of
from paralign.stages.train.curves import Run, common, of_capture
from paralign.stages.train.drawn import data_evidence, draw_evidence, init_evidence
from paralign.stages.train.trajectory import LIMIT, UNITS, Exact, mapped, of_steps, parting
from paralign.worker.protocol import Train

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.model import Pair, StageResult

#: steps after the first that parts that are made once more with the reference's parameters
FURTHER = 3

#: how much more than one rounding a step may be off whose parameters are the reference's: statistics of layers still add up
SLACK = 4.0

#: a swap closes the gap where less than this share of it is left
CLOSED = 0.5

#: steps that are made under several seeds at the same parameters, and how many seeds at least
DRAWN, SEEDS = 40, 4

#: what to do about each
FIXES = {
    "data": "look at the loader: order, augmentation, normalisation, batch size, which samples (paralign check data)",
    "init": "look at how the weights are drawn (paralign check init)",
    "optimizer": "look at the optimizer, its groups, schedule, clipping and accumulation, and at the gradients (paralign check backward)",
    "model": "look at the network in train mode, what it draws (dropout), and the loss (paralign check forward loss)",
}

#: of the part ``model``, where outputs of the reference's network tell the two apart
NETWORK = "look at the network in train mode and at what it draws (paralign check forward backward)"
EVALUATED = "look at the evaluation: eval mode, the metric and how it is averaged, its batches (paralign check metric data)"
KEPT = (
    "look at what moves statistics beside the steps: an evaluation in train mode (a forgotten model.eval()), further passes, "
    "the momentum of BatchNorm (paralign check backward)"
)
LOSS = "look at the loss and at what it is given beside the outputs: labels, weights, smoothing, reduction (paralign check loss)"


@dataclass
class Swap:
    """One experiment: how far the trainings are apart without it, and with it.

    None where it was not made.
    """

    name: str
    before: float
    after: float | None = None
    shown: list[str] = field(default_factory=list)
    fix: str = ""

    @property
    def left(self) -> float:
        """The share of the gap that is left; 1 where it was not tried."""
        if self.after is None or not self.before > 0:
            return 1.0
        return self.after / self.before


@dataclass
class Budget:
    """Seconds that the experiments may take."""

    seconds: float
    began: float = field(default_factory=time.perf_counter)

    @property
    def spent(self) -> bool:
        """Whether no further run is begun."""
        return time.perf_counter() - self.began > self.seconds


def explain(context: Context, result: StageResult, exact: Exact | None, judged: list[Pair]) -> list[Swap]:
    """Find out what is at fault, and say so as the first findings; the likeliest first.

    Args:
        context: of the check.
        result: of the stage, with all pairs judged.
        exact: the runs that were compared step by step; None where they could not be.
        judged: the pairs of those.
    """
    step = parting(exact) if exact is not None else None
    wrong = wrong_of(judged)
    statistics = step is None and any(p.reference is not None for p in wrong)  # parameters and buffers at the end
    try:
        if exact is not None and step is not None:
            swaps = [_at_start(context, exact)] if step == 0 else _forced(context, exact, step)
        elif statistics:
            swaps = [Swap("model", 1.0, None, ["losses agree step by step, what the network keeps (statistics of layers) does not"], KEPT)]
        else:
            swaps = _groups(context, result, judged)
            if wrong and step is None and not any(swap.shown for swap in swaps):
                told = (
                    "parameters and statistics agree step by step, evaluations do not: eval mode, the metric, or the data of the evaluation"
                )
                swaps = [Swap("model", 1.0, None, [told], EVALUATED)]
    except WorkerFailed as failed:
        result.notes.append(f"cross experiments ended: the {failed.side} failed with {failed.type}: {failed.message}")
        return []
    result.findings[:0] = [_finding(swap) for swap in swaps if swap.shown]
    return swaps


def _finding(swap: Swap) -> Finding:
    """What an exchange has shown; proven where it closes most of the gap."""
    proven = swap.after is not None and swap.left < CLOSED
    told = f"{swap.name}: {'; '.join(swap.shown)}"
    return Finding(f"train/{swap.name}", told, swap.fix or FIXES[swap.name], proven, swap.before, swap.after)


# -- one trajectory ----------------------------------------------------------------------------------------------------------------------


def _at_start(context: Context, exact: Exact) -> Swap:
    gap = _gap(*exact.runs, 1)
    swap = Swap(
        "model", gap, None, [f"from the reference's weights and on its first batch, before any update, the figures are {gap:.2g} apart"]
    )
    if context.weights is not None:
        _with_outputs(context, exact, _parameters(context, exact, 1), swap)
    return swap


@dataclass
class Parameters:
    """The reference's parameters before the first steps, and its network's outputs.

    As they were recorded, and as the candidate's tensors.
    """

    count: int
    states: Capture
    orders: Train
    values: dict[str, Capture]


def _parameters(context: Context, exact: Exact, count: int) -> Parameters:
    orders = replace(exact.orders, steps=count)
    given = {"state": exact.start, "batches": exact.batches}
    states = context.reference.record("train-states", replace(orders, draws="", states=count, outputs="keep"), given)
    values = {**exact.given, "state": mapped(context, exact.start), "forced": _forced_states(context, states, count)}
    return Parameters(count, states, orders, values)


def _forced(context: Context, exact: Exact, step: int) -> list[Swap]:
    """Make the first steps again with the reference's parameters: does the gap close?"""
    if context.weights is None:
        return []
    count = step + FURTHER
    known = _parameters(context, exact, count)
    run = of_capture(context.candidate.record("train-forced", known.orders, known.values))
    reference, candidate = exact.runs
    before, after = _gap(reference, candidate, count), _gap(reference, run, count)
    told = (
        f"with the reference's parameters before every step the figures are {after:.2g} apart, without {before:.2g}, up to step {count - 1}"
    )
    if _closed(reference, run, count):
        right = "the losses are right where the parameters are; what is left is the optimizer, or the gradients"
        return [Swap("optimizer", before, after, [f"{told}: {right}"])]
    swap = Swap("model", before, None, [told + ": the gap stays, whatever the optimizer does"])
    _with_outputs(context, exact, known, swap)
    return [swap, Swap("optimizer", before, after)]


def _with_outputs(context: Context, exact: Exact, known: Parameters, swap: Swap) -> None:
    """Put the reference's outputs in place of the candidate's.

    The loss is left, and what else is made of them.
    """
    capture = context.candidate.record("train-outputs", replace(known.orders, outputs="use"), {**known.values, "outputs": known.states})
    calls, replaced = Train.answer(capture).outputs
    if not calls or replaced < calls:
        of = f"{replaced} of {calls} calls of the network could be given the reference's" if calls else "the model takes no hooks"
        swap.shown.append(f"network and loss were not told apart: {of}")
        return
    run, reference = of_capture(capture), exact.runs[0]
    after = _gap(reference, run, known.count)
    told = f"with the reference's network outputs in place of its own too the figures are {after:.2g} apart"
    if _closed(reference, run, known.count):
        swap.after, swap.fix = after, NETWORK
        swap.shown.append(f"{told}: the loss is right where the outputs are; what is left is the network")
    else:
        swap.fix = LOSS
        swap.shown.append(f"{told}: the loss itself differs, or what else is computed beside the network")


def _forced_states(context: Context, states: Capture, count: int) -> Capture:
    """The reference's parameters before each step as the candidate's tensors have them."""
    folder, plan = context.candidate.folder / "train-forced-states", context.plan
    clear(folder)
    key = states.manifest.settings.get("key")
    with CaptureWriter(folder, Manifest(side="candidate", stage="train", settings={"key": f"{key} {count}"})) as writer:
        for step in range(count if plan is not None else 0):
            held = states.by_name(run="before", step=step)
            for target in plan.targets if plan is not None and held else ():
                value = plan.assemble(target.name, lambda name, held=held: states.value(held[name]) if name in held else None)  # type: ignore[union-attr,misc]
                if value is not None and target.role == "parameter":
                    writer.add(target.name, value, role="parameter", step=step)
    return Capture.open(folder)


def _figures(reference: Run, candidate: Run) -> list[tuple[str, str]]:
    """The figures of single steps that both sides have, without rates and counts."""
    return [key for key, _ in of_steps(reference) if key in candidate.curves]


def _gap(reference: Run, candidate: Run, count: int) -> float:
    """The greatest relative distance of a figure in the first steps."""
    far = [0.0]
    for key in _figures(reference, candidate):
        one, other = reference.curves[key][:count], candidate.curves[key][:count]
        size = np.maximum(np.abs(one[: len(other)]), 1e-30)
        far.append(float(np.max(np.nan_to_num(np.abs(other - one[: len(other)]) / size, nan=np.inf), initial=0.0)))
    return max(far)


def _closed(reference: Run, candidate: Run, count: int) -> bool:
    """Whether all figures of the first steps agree within what one step rounds."""
    return _gap(reference, candidate, count) <= SLACK * LIMIT * UNITS * EPS["float32"]


# -- groups of runs ----------------------------------------------------------------------------------------------------------------------


def _groups(context: Context, result: StageResult, judged: list[Pair]) -> list[Swap]:
    """Train groups of candidates with the reference's batches, and with its initial weights."""
    settings, budget = context.settings, Budget(4 * context.settings.training.seconds)
    runs = max(2, settings.training.runs)
    names = ("reference", "candidate", "data", "init")
    groups: dict[str, list[Capture]] = {name: [] for name in names}
    for number in range(runs):
        if budget.spent:
            result.notes.append(f"cross experiments: {number} of {runs} runs a group, for want of time ([training] seconds)")
            break
        _one(context, groups, number)
    if context.weights is not None and context.plan is not None:
        mapped(context, context.weights)  # a worker that is started again loads what lies there
    curves = {name: [of_capture(capture) for capture in found] for name, found in groups.items() if found}
    if len(curves.get("reference", [])) < 2:  # noqa: PLR2004 - a spread needs two
        return []
    before = _distance(curves["reference"], curves["candidate"])
    evidence = {"data": data_evidence(groups["reference"], groups["candidate"]), "init": init_evidence(context, groups)}
    swaps = [Swap(n, before, _distance(curves["reference"], curves[n]), shown) for n, shown in evidence.items() if n in curves]
    drawn = None if budget.spent else _drawn(context, groups["reference"][0], runs)
    if drawn:
        swaps.append(Swap("model", before, None, drawn))
    for swap in swaps:
        if swap.shown and swap.after is not None:
            swap.shown.append(_apart(swap))
    swaps.sort(key=lambda swap: (not swap.shown, swap.left))
    if result.wrong and not any(swap.shown for swap in swaps):
        return _remaining(swaps, before, judged, compared=drawn is not None)
    return swaps


def _remaining(swaps: list[Swap], before: float, judged: list[Pair], *, compared: bool) -> list[Swap]:
    """What is at fault where the trainings differ and no part does by itself.

    Args:
        swaps: the experiments with batches and initial weights.
        before: how far the curves are apart.
        judged: the pairs of the exact trajectory; empty where it was not compared.
        compared: steps at equal parameters were compared under several seeds, and agree.
    """
    told = "neither the reference's batches nor its initial weights close the gap"
    if wrong_of(judged):
        return swaps  # evaluations of equal parameters
    best = min((swap for swap in swaps if swap.after is not None), key=lambda swap: swap.left, default=None)
    if best is not None and best.left < CLOSED:
        best.shown.append(_apart(best))
        return sorted(swaps, key=lambda swap: not swap.shown)
    if judged:
        return [Swap("model", before, None, [f"{told}, and all that is not drawn agrees step by step"]), *swaps]
    if compared:
        return [Swap("optimizer", before, None, [f"{told}, and steps at equal parameters agree"]), *swaps]
    return swaps


def _apart(swap: Swap) -> str:
    """What a swap did to the curves, in words."""
    after = f"{swap.after or 0.0:.2g} of the seeds' spread"
    return f"with the reference's {_called(swap.name)} the curves are {after} apart, without {swap.before:.2g}"


def _drawn(context: Context, known: Capture, runs: int) -> list[str] | None:
    """What the steps of both sides draw, under several seeds; None where they cannot.

    They stand at the same parameters and on the same batches.
    """
    if context.plan is None or not context.plan.complete or not known.select(name="batch"):
        return None
    settings = context.settings
    orders = Train(settings.seed, settings.training.seconds, DRAWN)
    states = context.reference.record("train-drawn-states", replace(orders, states=DRAWN), {"batches": known})
    if not states.select(run="before"):
        return None
    forced = _forced_states(context, states, min(DRAWN, of_capture(states).steps))
    sides: list[list[Run]] = [[], []]
    for number in range(max(runs, SEEDS)):
        order = replace(orders, seed=(settings.seed + 100 + number) % 2**32)
        for side, (recorder, given) in enumerate(((context.reference, states), (context.candidate, forced))):
            capture = recorder.record(f"train-drawn-{number}", order, {"batches": known, "forced": given})
            sides[side].append(of_capture(capture))
    told = []
    for key in _figures(sides[0][0], sides[1][0]):
        steps = min(len(run.curves[key]) for side in sides for run in side)
        tables = [np.stack([run.curves[key][:steps] for run in side]) for side in sides]
        said = draw_evidence(tables[0], tables[1])
        told += [f"{key[1]}: {said}"] if said else []
    return told


def _called(name: str) -> str:
    return {"data": "batches", "init": "initial weights"}[name]


def _one(context: Context, groups: dict[str, list[Capture]], number: int) -> None:
    """One run of every group, under one seed a side."""
    settings = context.settings
    seeds = [(settings.seed + 1 + number + side * settings.training.runs) % 2**32 for side in (0, 1)]
    orders = [Train(seed, settings.training.seconds) for seed in seeds]
    kept = [replace(order, keep=True, starts=True) for order in orders]
    reference = context.reference.record(f"train-cross-{number}", kept[0])
    groups["reference"].append(reference)
    groups["candidate"].append(context.candidate.record(f"train-cross-{number}", kept[1]))
    answer = Train.answer(reference)
    if reference.select(name="batch") and not answer.batches:
        found = context.candidate.record(f"train-cross-data-{number}", orders[1], {"batches": reference})
        if not Train.answer(found).batches:
            groups["data"].append(found)
    if answer.models == 1 and context.plan is not None and context.plan.complete:
        state = mapped(context, reference, run="start")
        found = context.candidate.record(f"train-cross-init-{number}", orders[1], {"state": state})
        if not Train.answer(found).problems:
            groups["init"].append(found)


def _distance(reference: list[Run], candidate: list[Run]) -> float:
    """How far two groups of curves are apart, in units of their own spread.

    The root mean square over epochs and figures.
    """
    far = []
    for kind, figure in common([*reference, *candidate]):
        sides = [[run.by_epoch(kind, figure) for run in runs] for runs in (reference, candidate)]
        epochs = sorted(set.intersection(*(set(curve) for side in sides for curve in side)))
        tables = [np.array([[curve[epoch] for epoch in epochs] for curve in side]) for side in sides]
        if not epochs or min(map(len, tables)) < 2:  # noqa: PLR2004 - a spread needs two
            continue
        spread = np.sqrt(np.mean([table.var(axis=0, ddof=1) for table in tables], axis=0))
        gap = np.abs(tables[1].mean(axis=0) - tables[0].mean(axis=0))
        usual = max(float(np.median(spread)), 1e-6 * float(np.abs(tables[0]).mean()), 1e-30)
        far.append(np.mean((gap / np.maximum(spread, usual)) ** 2))
    return float(np.sqrt(np.mean(far))) if far else 0.0
