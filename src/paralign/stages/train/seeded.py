"""Trainings under several seeds a side.

Whether they end alike, from which epoch they part, and what so few runs can show.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from paralign.comparison.equivalence import LEVEL, POWER, Equivalence, equivalence, parted
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage, Noise, Pair, Stats
from paralign.stages.train.curves import common, is_cost
from paralign.trainlog.lines import EVAL

if TYPE_CHECKING:
    from paralign.model import StageResult
    from paralign.run.trainings import Trainings
    from paralign.stages.train.curves import Run

#: probability of one false alarm over all epochs of all curves
PARTED = 0.01


def compare(result: StageResult, sides: tuple[list[Run], list[Run]], settings: Trainings) -> list[Pair]:
    """Judge the figure that decides; say of every curve from which epoch it parts.

    Returns:
        What was judged: the figure at its end, and the curves that part.

    Raises:
        UsageError: the figure that the project names is in no run.
        EnvironmentUnavailable: several runs, and scipy is not installed.
    """
    runs = [*sides[0], *sides[1]]
    shared = common(runs)
    result.coverage.append(Coverage("runs a side", min(len(side) for side in sides), max(settings.runs, *map(len, sides))))
    if not shared:
        result.notes.append("the trainings have no figure in common: log.step(loss=...), log.evaluation(acc=...)")
        return []
    decides = deciding(shared, settings)
    end = _end(sides, decides, settings, result)
    apart = _parting(sides, shared, result)
    if end.verdict == ALIGNED:
        for pair in apart:  # on the way only: what decides is proven to be alike
            pair.judged = False
            result.warnings.append(f"{pair.key}: {pair.notes[0]}")
    return [end, *apart]


def deciding(shared: list[tuple[str, str]], settings: Trainings) -> tuple[str, str]:
    """Kind and figure that decide: the project's, or the first evaluated that is no loss.

    Else the first evaluated one.
    """
    evaluated = [key for key in shared if key[0] == EVAL]
    if settings.metric:
        for key in (*evaluated, *shared):
            if key[1] == settings.metric:
                return key
        there = ", ".join(dict.fromkeys(figure for _, figure in shared))
        raise UsageError(f"not all trainings have the figure {settings.metric!r}", where="[training] metric", hint=f"they have: {there}")
    scores = [key for key in evaluated if not is_cost(key[1])]
    return next(iter(scores or evaluated or shared))


def _end(sides: tuple[list[Run], list[Run]], decides: tuple[str, str], settings: Trainings, result: StageResult) -> Pair:
    """The deciding figure at the last epoch that all runs have."""
    kind, figure = decides
    last = min(max(run.by_epoch(kind, figure), default=-1) for side in sides for run in side)
    values = [[run.end(kind, figure, last) for run in side] for side in sides]
    mean = float(np.mean(values[0]))
    margin = settings.margin * abs(mean) if settings.margin_in == "share" else settings.margin
    pair = Pair(f"{figure} at the end", None, None, how="name", verdict=UNDERPOWERED)
    pair.notes.append(f"{_told(values[0])} in the reference, {_told(values[1])} in the candidate, after epoch {last}")
    wrong = [name for name, side in zip(("reference", "candidate"), values, strict=True) if not np.isfinite(side).all()]
    if wrong:
        pair.verdict = DIVERGED if wrong == ["candidate"] else UNDERPOWERED
        pair.notes.append(f"not finite in the {' and the '.join(wrong)}")
        return pair
    better = ""
    if settings.one_sided:
        better = settings.better or ("lower" if is_cost(figure) else "higher")
    found = equivalence(values[0], values[1], margin)
    gap, size = abs(found.gap), abs(mean) or 1.0
    pair.stats = Stats(count=min(map(len, values)), max_abs=gap, mean_abs=gap, rel_l2=gap / size)
    if found.known:
        pair.noise = Noise(found.error / size, "standard error of the difference of the runs' means")
    _judge(pair, found, better, _vary(sides))
    if better:
        result.notes.append(f"{figure}: {better} is better, and a better candidate is allowed ([training] one_sided)")
    return pair


def _judge(pair: Pair, found: Equivalence, better: str, vary: list[bool]) -> None:
    margin = f"the margin of {found.margin:.3g}"
    if found.known:
        _judge_known(pair, found, better, margin)
    elif min(found.counts) == 1:
        kept = "kept" if abs(found.gap) <= found.margin else "not kept"
        pair.notes.append(
            f"one run a side cannot tell a wrong port from another seed: they end {found.gap:+.4g} apart, {margin} is "
            f"{kept}, and nobody knows how far seeds alone would be"
        )
    elif not all(vary):
        pair.notes.append(
            "all runs of a side are equal: the seed changes nothing there. Let train(log) seed nothing, or seed with log.seed"
        )
    else:  # every run ends alike, though the runs differ: a figure that has reached its best value
        worse = found.gap
        if better:
            worse = max(0.0, -found.gap if better == "higher" else found.gap)
        pair.verdict = ALIGNED if abs(worse) <= found.margin else DIVERGED
        kept = "kept" if pair.verdict == ALIGNED else "exceeded"
        pair.notes.append(f"the end is the same in all runs of a side, {found.gap:+.4g} apart; {margin} is {kept}")


def _judge_known(pair: Pair, found: Equivalence, better: str, margin: str) -> None:
    """Judge by the interval that the difference lies in; say what the runs could show."""
    pair.verdict, said = UNDERPOWERED, "not proven to be within or beyond"
    if found.within(better):
        pair.verdict, said = ALIGNED, "proven to be within"
    elif found.beyond(better):
        pair.verdict, said = DIVERGED, "proven to be beyond"
    needed = f"about {found.needed} runs a side would" if found.needed else "no affordable number of runs would"
    pair.notes += [
        f"the difference lies between {found.low:+.3g} and {found.high:+.3g} ({1 - 2 * LEVEL:.0%}): {said} {margin}",
        f"these runs would have shown a difference of {found.smallest:.3g} ({POWER:.0%} of the time); {needed} prove the margin",
    ]


def _vary(sides: tuple[list[Run], list[Run]]) -> list[bool]:
    """Of each side, whether its runs differ in any figure that all of them have."""
    found = []
    for first, *others in sides:
        keys = [key for key in first.curves if all(key in run.curves for run in others)]
        found.append(any(_differ(first, run, keys) for run in others))
    return found


def _differ(one: Run, other: Run, keys: list[tuple[str, str]]) -> bool:
    """Whether two runs have other values of any of these figures."""
    return any(not np.array_equal(other.curves[key], one.curves[key], equal_nan=True) for key in keys)


def _parting(sides: tuple[list[Run], list[Run]], shared: list[tuple[str, str]], result: StageResult) -> list[Pair]:
    """Every curve whose sides part by more than their seeds' own spread."""
    pairs, untold = [], 0
    for kind, figure in shared:
        curves = [[run.by_epoch(kind, figure) for run in side] for side in sides]
        epochs = sorted(set.intersection(*(set(curve) for side in curves for curve in side)))
        tables = [np.array([[curve[epoch] for epoch in epochs] for curve in side]).reshape(len(side), -1) for side in curves]
        if not epochs or min(map(len, sides)) == 1:
            untold += 1
            continue
        column, chances = parted(tables[0], tables[1], level=PARTED / len(shared))
        if column is None:
            continue
        means = [float(table[:, column].mean()) for table in tables]
        epoch, name = epochs[column], f"{figure} ({kind.lower()})"
        pair = Pair(name, None, None, verdict=DIVERGED)
        pair.notes.append(
            f"from epoch {epoch} on the sides are further apart than their seeds: {means[0]:.5g} and {means[1]:.5g} "
            f"(probability of that by chance {chances[column]:.1e}, {len(epochs)} epochs looked at)"
        )
        pair.stats = Stats(count=len(epochs), max_abs=abs(means[1] - means[0]), rel_l2=abs(means[1] - means[0]) / (abs(means[0]) or 1.0))
        pairs.append(pair)
    if untold:
        result.notes.append(f"{untold} curves were not held against the seeds' own spread: a side has one run, or no epoch in common")
    return pairs


def _told(values: list[float]) -> str:
    mean = float(np.mean(values))
    if len(values) > 1:
        return f"{mean:.6g} ± {float(np.std(values, ddof=1)):.2g} ({len(values)} runs)"
    if not math.isnan(mean):
        return f"{mean:.6g} (1 run)"
    return "nothing"
