"""What is wrong with a training by itself.

Values that are not finite, parameters that grow or never move, a rate that is too large.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import DIVERGED, Divergence, Finding, Pair, Point
from paralign.stages.train.curves import Run, is_cost, of_capture
from paralign.trainlog.lines import TRAIN
from paralign.worker.protocol import Train

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import StageResult
    from paralign.run.recorder import Recorder

#: a training loss at the end so many times that of the beginning has grown
GROWN = 1.5

#: share of the parameters' norm from which on a step moves much: losses near zero grow by half from batch to batch without that
MUCH = 1e-3

#: motion, as a share of a parameter's size, below which it may be rounding alone: a bias before a normalisation has no gradient but that
STILL = 1e-5

#: tensors that a text lists
LISTED = 3


@dataclass
class Trial:
    """A run that can be made again: who made it, with which orders and values."""

    side: str
    recorder: Recorder
    capture: Capture
    orders: Train
    values: dict[str, Capture] = field(default_factory=dict)
    name: str = ""

    @property
    def run(self) -> Run:
        """Its curves."""
        return of_capture(self.capture, self.name)


def look(context: Context, result: StageResult, trials: list[Trial]) -> list[Pair]:
    """Findings about single trainings; pairs for what only the candidate has."""
    pairs = []
    broken = {}
    for side in ("reference", "candidate"):
        own = [t for t in trials if t.side == side]
        broken[side] = [t for t in own if t.run.stopped[0] in ("nonfinite", "exploded")]
        if broken[side]:
            pair = _say_end(result, broken[side][0], len(broken[side]))
            if side == "candidate" and not broken["reference"]:
                pairs.append(pair)
        _say_rate(result, own, side)
    if all(broken.values()):
        result.warnings.append(f"both sides' trainings end early: {broken['reference'][0].run.stopped[1]}")
    return [*pairs, *_still(context, result, trials)]


def _say_end(result: StageResult, trial: Trial, count: int) -> Pair:
    """Where values stopped being finite, or the parameter that grew most, with its line."""
    run = trial.run
    kind, why = run.stopped
    again = f" (and {count - 1} more runs)" if count > 1 else ""
    point = _point(run, None if run.answer is None else run.answer.grown)
    told, fix = f"{trial.side}, {trial.name}: {why}{again}", "a smaller rate, clipping by norm, or a warm-up"
    if kind == "nonfinite":
        last = run.steps - 1
        capture = trial.recorder.record("train-watched", replace(trial.orders, steps=last + 1, watch=last), trial.values)
        seen = Train.answer(capture)
        if seen.witness is not None:
            line, others = next(iter(seen.witness.lines), None), seen.witness.lines[1:]
            point = Point(seen.witness.module or "train(log)", seen.witness.op, line, code_at(line), others)
            told += f"; the first operation that makes it of finite values is {point.op}, at {point.source or 'no line of yours'}"
            fix = "guard what it is given: an epsilon in log, sqrt and division, a batch without positives; or a smaller rate, clipping"
        elif not seen.watched:
            told += "; the operations of this framework cannot be watched"
    else:
        told += f"; {point.name} has grown most"
    result.findings.append(Finding(f"train/{kind}", told, fix))
    pair = Pair(f"{trial.name}: a training that ends early", None, None, verdict=DIVERGED, notes=[told])
    if trial.side == "candidate":
        result.divergences.append(Divergence(None, point, pair, what=kind))
        result.divergence = result.divergence or result.divergences[0]
    return pair


def _point(run: Run, name: str | None) -> Point:
    """A parameter, with the line that constructed its layer; else the line of the optimizer."""
    owner = (name or "").rpartition(".")[0]
    modules = {} if run.answer is None else run.answer.modules
    while owner and owner not in modules:
        owner = owner.rpartition(".")[0]
    lines = modules.get(owner) or []
    if not lines:
        line = run.lines.get("optimizer") or run.lines.get("model")
        lines = [line] if line else []
    first = next(iter(lines), None)
    return Point(name or "train(log)", "", first, code_at(first), lines[1:])


def _say_rate(result: StageResult, trials: list[Trial], side: str) -> None:
    """A loss that grows while single steps move much: the rate may be too large."""
    for trial in trials:
        run = trial.run
        figures = [key for key in run.curves if key[0] == TRAIN and is_cost(key[1])]
        norms = next((np.array(trial.capture.array(r)) for r in trial.capture.select(name="norms")), np.zeros((0, 2)))
        if not figures or len(norms) < 2:  # noqa: PLR2004 - a loss grows from one step to another
            continue
        values = run.curves[figures[0]]
        part = max(1, len(values) // 10)
        first, last = float(np.mean(values[:part])), float(np.mean(values[-part:]))
        with np.errstate(all="ignore"):
            shares = norms[1:, 1] / norms[1:, 0]
        share = float(np.median(shares[np.isfinite(shares)])) if np.isfinite(shares).any() else np.nan
        if last <= GROWN * abs(first) or not share >= MUCH:
            continue
        rate = "" if run.rate is None or not len(run.rate) else f" at a rate of {float(np.max(run.rate)):.3g}"
        line = run.lines.get("optimizer")
        grows = f"{figures[0][1]} grows from {first:.4g} to {last:.4g}"
        told = f"{side}, {trial.name}: {grows}; a step moves the parameters by {share:.1%} of their norm{rate}"
        fix = "try a tenth of the rate, or a warm-up" + (f" ({line})" if line else "")
        result.findings.append(Finding("train/rate", told, fix))
        return


#: what to do where parameters never move on one side only
_FIXES_OF_STILL = {
    "candidate": "give them to the optimizer, and let gradients reach them (stop_gradient, detach, no_grad)",
    "reference": "freeze them in the candidate too",
}


def _still(context: Context, result: StageResult, trials: list[Trial]) -> list[Pair]:
    """Parameters that no step has moved, on one side only."""
    if context.plan is None:
        return []
    first, second = (_moves([t.run for t in trials if t.side == side]) for side in ("reference", "candidate"))
    wrong: dict[str, list[str]] = {"candidate": [], "reference": []}
    both = []
    for one, other in context.plan.twins:
        if one.name not in first or other.name not in second:
            continue
        moved, ported = first[one.name], second[other.name]
        if moved == ported == 0:
            both.append(one.name)
        elif ported == 0 and moved > STILL:
            wrong["candidate"].append(other.name)
        elif moved == 0 and ported > STILL:
            wrong["reference"].append(one.name)
    if both:
        result.notes.append(f"no step moves {_some(both)}, on either side")
    return [_say_still(result, side, names, trials) for side, names in wrong.items() if names]


def _say_still(result: StageResult, side: str, names: list[str], trials: list[Trial]) -> Pair:
    """Say that parameters of one side never move, and where."""
    run = next(t.run for t in trials if t.side == "candidate")
    point = _point(run, names[0])
    told = f"no step moves {_some(names)} in the {side}, the other side's are moved"
    pair = Pair("parameters that never move", None, None, verdict=DIVERGED, notes=[told])
    at = f": {point.source}" if point.source else ""
    result.findings.append(Finding("train/still", f"{told}{at}", _FIXES_OF_STILL[side]))
    result.divergences.append(Divergence(None, point, pair, what="still"))
    result.divergence = result.divergence or result.divergences[0]
    return pair


def _moves(runs: list[Run]) -> dict[str, float]:
    """How far each parameter moves in the run that moves it least.

    Runs of one step or without ``log.model`` do not count.
    """
    told = [run.answer.moves for run in runs if run.steps > 1 and run.answer is not None and run.answer.models]
    if not told:
        return {}
    return {name: min(moves.get(name, 0.0) for moves in told) for name in told[0]}


def _some(names: list[str]) -> str:
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
