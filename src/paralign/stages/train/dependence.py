"""How much the end of a training depends on the initial weights.

It is measured on the reference: one thing is changed, all else is equal.

What is changed, group by group:

``other initial weights``
    The reference's own, drawn under other seeds; batches and all else that is drawn stay.
``other batches and draws``
    All that is drawn but the initial weights.
``drawn weights halved``, ``doubled``
    The first group's weights, the drawn ones of another size: what a wrong gain does.
``the candidate's initial weights``
    Drawn by the candidate's rules, under as many seeds.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.comparison.equivalence import LEVEL, equivalence, paired, spreads_apart
from paralign.dtypes import Typed, is_floating
from paralign.errors import WorkerFailed
from paralign.model import Listing, Manifest
from paralign.stages.train.curves import common, of_capture
from paralign.stages.train.seeded import deciding
from paralign.worker.protocol import Train

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.context import Context
    from paralign.model import StageResult
    from paralign.stages.train.curves import Run
    from paralign.weights import Plan

#: groups by what is changed, in the order in which they are trained
OWN, REST, HALVED, DOUBLED, THEIRS = (
    "other initial weights",
    "other batches and draws",
    "drawn weights halved",
    "drawn weights doubled",
    "the candidate's initial weights",
)

#: sizes that drawn weights are multiplied by
SIZES = {HALVED: 0.5, DOUBLED: 2.0}

#: why a training gives nothing to compare
BROKEN = ("nonfinite", "exploded")


@dataclass
class Group:
    """Trainings in which one thing is changed: the runs that were made, one a seed.

    None for one that raised.
    """

    name: str
    runs: list[Run | None]

    def ends(self, kind: str, figure: str) -> list[float]:
        """What each run ends with; NaN for one that broke down."""
        found = []
        for run in self.runs:
            broken = run is None or run.stopped[0] in BROKEN or (kind, figure) not in run.curves
            found.append(math.nan if run is None or broken else run.end(kind, figure))
        return found


def measure(context: Context, result: StageResult) -> None:
    """Train the groups, and show as a table and notes what each change does to the end.

    Nothing is judged.
    """
    settings = context.settings.training
    seeds = [(context.settings.seed + 1 + number) % 2**32 for number in range(settings.initialisations)]
    starts = _starts(context, seeds)
    if isinstance(starts, str):
        result.notes.append(f"the dependence on the initialisation was not measured: {starts}")
        return
    groups = _trained(context, result, seeds, starts)
    told = [run for group in groups for run in group.runs if run is not None and run.stopped[0] not in BROKEN]
    shared = common(told) if told else []
    if not shared:
        result.notes.append("the dependence on the initialisation was not measured: no figure that all its trainings have")
        return
    kind, figure = deciding(shared, settings)
    _say(result, {group.name: group.ends(kind, figure) for group in groups}, figure, settings.margin, shares=settings.margin_in == "share")


# -- what the runs begin with ------------------------------------------------------------------------------------------------------------


@dataclass
class _Starts:
    """Initial weights of both sides under every seed, as the reference loads them.

    The candidate's None where they have no place there.
    """

    own: list[dict[str, Typed]]
    theirs: list[dict[str, Typed]] | None
    roles: dict[str, str]

    @property
    def drawn(self) -> list[str]:
        """Parameters that depend on the seed."""
        first, *others = self.own
        found = []
        for name, value in first.items():
            if self.roles[name] != "parameter" or not is_floating(value.dtype):
                continue
            if any(not np.array_equal(value.array, other[name].array) for other in others):
                found.append(name)
        return found

    def sized(self, number: int, size: float) -> dict[str, Typed]:
        """The reference's own, the drawn ones times ``size``."""
        own, drawn = self.own[number], set(self.drawn)
        return {n: Typed((v.array * size).astype(v.array.dtype), v.dtype) if n in drawn else v for n, v in own.items()}


def _starts(context: Context, seeds: list[int]) -> _Starts | str:
    """The initial weights; or why there are none."""
    captures = [context.reference.record(f"train-start-{n}", _first(context, seed)) for n, seed in enumerate(seeds)]
    own = [_values(capture) for capture in captures]
    answer = Train.answer(captures[0])
    if answer.models != 1:
        calls = "more than one model" if answer.models else "no model"
        return f"the reference's train(log) gives log.model {calls}, so that it cannot be given initial weights"
    roles = {r.name: r.role for r in captures[0].select(run="start")}
    if any(set(values) != set(own[0]) for values in own):
        return "the model has other tensors under another seed"
    found = _Starts(own, None, roles)
    if not found.drawn:
        return "no initial weight depends on the seed: a checkpoint is loaded, or a seed is set where the model is built"
    if context.plan is not None and context.plan.complete:
        found.theirs = _candidates_starts(context, context.plan, own, seeds)
    return found


def _candidates_starts(context: Context, plan: Plan, own: list[dict[str, Typed]], seeds: list[int]) -> list[dict[str, Typed]] | None:
    """The reference's initial weights with the candidate's in their place, as many as seeds.

    None where the candidate gives none.
    """
    others = []
    for number, seed in enumerate(seeds):
        order = _first(context, (seed + len(seeds)) % 2**32)
        others.append(_values(context.candidate.record(f"train-start-{number}", order)))
    if not all(others):
        return None
    names = [name for name in own[0] if plan.moves_of(name)]
    mixed = []
    for mine, values in zip(own, others, strict=True):
        given = {name: plan.restore(name, values.get) for name in names}
        mixed.append({**mine, **{name: value for name, value in given.items() if value is not None}})
    return mixed


def _first(context: Context, seed: int) -> Train:
    """Orders for a run that shows nothing but what the training begins with."""
    return Train(seed, context.settings.training.seconds, steps=1, starts=True)


def _values(capture: Capture) -> dict[str, Typed]:
    return {r.name: capture.value(r) for r in capture.select(run="start") if r.location is not None}


def _written(context: Context, name: str, values: dict[str, Typed], roles: dict[str, str]) -> Capture:
    """Initial weights as a capture that the reference loads, known by what is in it."""
    folder = context.reference.folder / f"train-given-{name}"
    clear(folder)
    content = hashlib.sha256()
    for tensor, value in values.items():
        content.update(repr((tensor, value.dtype, value.array.shape)).encode() + np.ascontiguousarray(value.array).tobytes())
    with CaptureWriter(folder, Manifest(side="reference", stage="train", settings={"key": content.hexdigest()})) as writer:
        for tensor, value in values.items():
            writer.add(tensor, value, role=roles[tensor])
    return Capture.open(folder)


# -- the runs ----------------------------------------------------------------------------------------------------------------------------


def _trained(context: Context, result: StageResult, seeds: list[int], starts: _Starts) -> list[Group]:
    """Every group under every seed, as far as the time goes: all groups have as many runs."""
    makers: dict[str, Callable[[int], dict[str, Typed]]] = {
        OWN: lambda n: starts.own[n],
        REST: lambda _: starts.own[0],
        **{name: lambda n, size=size: starts.sized(n, size) for name, size in SIZES.items()},  # type: ignore[misc]
    }
    if starts.theirs is not None:
        theirs = starts.theirs
        makers[THEIRS] = lambda n: theirs[n]
    groups = {name: Group(name, []) for name in makers}
    began, limit = time.perf_counter(), context.settings.training.seconds * len(seeds)
    for number in range(len(seeds)):
        if number and time.perf_counter() - began > limit:
            told = f"{number} of {len(seeds)} initialisations, for want of time ([training] seconds)"
            result.notes.append(f"dependence on the initialisation: {told}")
            break
        for place, (name, made) in enumerate(makers.items()):
            orders = Train(seeds[number] if name == REST else seeds[0], context.settings.training.seconds)
            given = _written(context, f"{place}", made(number), starts.roles)
            groups[name].runs.append(_run(context, result, f"train-dependence-{place}-{number}", orders, given, name))
    return list(groups.values())


def _run(context: Context, result: StageResult, folder: str, orders: Train, given: Capture, name: str) -> Run | None:
    """Run one training; None, with a note, for one that raises.

    Other weights may be more than its own checks let pass.
    """
    try:
        return of_capture(context.reference.record(folder, orders, {"state": given}))
    except WorkerFailed as failed:
        if name == OWN:
            raise
        told = f"dependence on the initialisation: with {name} the reference's training failed with {failed.type}: {failed.message}"
        result.notes += [] if told in result.notes else [told]
        return None


# -- in words ----------------------------------------------------------------------------------------------------------------------------


def _say(result: StageResult, ends: dict[str, list[float]], figure: str, margin: float, *, shares: bool) -> None:
    """The table, and what it comes to."""
    base = ends[OWN]
    mean = _mean(base)
    allowed = margin * (abs(mean) if shares else 1.0)
    rows = []
    for name, values in ends.items():
        spread = moved = reach = "-"
        if len(_finite(values)) > 1:
            spread = f"{float(np.std(_finite(values), ddof=1)):.2g}"
        change = None if name in (OWN, REST) else _change(base, values, same=name in SIZES)
        if change is not None:
            moved = f"{change.mean:+.3g}"
        if change is not None and not math.isnan(change.low):
            reach = f"{change.low:+.3g} to {change.high:+.3g}"
        broken = sum(not math.isfinite(v) for v in values)
        rows.append([name, f"{len(values)}", f"{broken}", f"{_mean(values):.5g}", spread, moved, reach])
    title = f"dependence on the initialisation: {figure} at the end of the reference's trainings"
    result.tables.append(
        Listing(title, ["changed", "runs", "broke down", "mean", "spread", "change", f"{1 - 2 * LEVEL:.0%} interval"], rows)
    )
    result.notes += [_of_seeds(base, ends[REST], figure), *_of_laws(base, ends, figure, allowed)]


def _of_seeds(own: list[float], rest: list[float], figure: str) -> str:
    """Which spreads the end more: other initial weights, or all else that is drawn."""
    sides = [_finite(side) for side in (own, rest)]
    begun = f"dependence on the initialisation: {figure}"
    if min(map(len, sides)) < 2:  # noqa: PLR2004 - a spread needs two
        return f"{begun}: too few trainings came to an end to tell a spread"
    spreads = [float(np.std(side, ddof=1)) for side in sides]
    told = f"{begun} varies by {spreads[0]:.2g} with the initial weights alone, by {spreads[1]:.2g} with batches and draws alone"
    if not any(spreads):
        return f"{told}: neither changes the end"
    chance = spreads_apart(*sides)
    if chance >= LEVEL:
        return f"{told}: {len(sides[0])} runs a group do not tell which is more (probability by chance {chance:.2g})"
    more = "the initial weights" if spreads[0] > spreads[1] else "batches and draws"
    return f"{told}: {more} matter more (probability by chance {chance:.2g})"


def _of_laws(own: list[float], ends: dict[str, list[float]], figure: str, allowed: float) -> list[str]:
    """What another law of the initial weights does."""
    told = []
    for name in (HALVED, DOUBLED, THEIRS):
        if name not in ends:
            told.append(
                "how the candidate draws initial weights was not tried: no plan of weights, or no log.model(model) in its train(log)"
            )
            continue
        broken = sum(not math.isfinite(v) for v in ends[name]) - sum(not math.isfinite(v) for v in own)
        change = _change(own, ends[name], same=name in SIZES)
        if broken > 0:
            told.append(f"with {name}, {broken} of {len(own)} trainings more break down")
        elif change is None or math.isnan(change.low):
            told.append(f"with {name}: too few trainings came to an end to tell a change of {figure}")
        elif change.low > allowed or change.high < -allowed:
            told.append(
                f"with {name}, {figure} changes by {change.mean:+.3g}, more than the margin of {allowed:.2g}: it depends on the law"
            )
        elif -allowed <= change.low and change.high <= allowed:
            told.append(f"with {name}, {figure} stays within the margin of {allowed:.2g}")
        else:
            reach = f"{change.low:+.3g} to {change.high:+.3g} ({1 - 2 * LEVEL:.0%})"
            told.append(f"with {name}, {figure} changes by {reach}: not proven to be within or beyond the margin of {allowed:.2g}")
    return told


class _Change(NamedTuple):
    """How far the mean end moves, and the interval that it lies in at ``1 - 2 * LEVEL``.

    NaN where that is not known.
    """

    mean: float
    low: float
    high: float


def _change(own: list[float], other: list[float], *, same: bool) -> _Change | None:
    """How far the end moves, seed by seed where the ``same`` weights are only of another size.

    None where nothing came to an end.
    """
    if same:
        both = [b - a for a, b in zip(own, other, strict=True) if math.isfinite(a) and math.isfinite(b)]
        return _Change(*paired(both)) if both else None
    sides = _finite(own), _finite(other)
    if not all(sides):
        return None
    found = equivalence(*sides, 0.0)
    if not found.known and min(found.counts) > 1:  # all ends of a group are equal
        return _Change(found.gap, found.gap, found.gap)
    return _Change(found.gap, found.low, found.high)


def _finite(values: list[float]) -> list[float]:
    return [v for v in values if math.isfinite(v)]


def _mean(values: list[float]) -> float:
    return float(np.mean(_finite(values))) if _finite(values) else math.nan
