"""Several processes, each side under its own launcher.

They are held against one process on the joined batch, and against the other side.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.comparison import compare_pair, judge
from paralign.context import spent
from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import (
    DIVERGED,
    NOT_TESTED,
    UNDERPOWERED,
    Coverage,
    Divergence,
    Finding,
    Noise,
    Pair,
    Point,
    Record,
    StageResult,
    Stats,
)
from paralign.run.project import SideSettings
from paralign.run.ranks import Ranks
from paralign.run.recorder import both
from paralign.stages.distributed.behaviour import LIMIT
from paralign.stages.distributed.traits import Side, Trait, settled, traits
from paralign.worker.protocol import Ranked, Single
from paralign.worker.ranks.rank import FOLLOWED

if TYPE_CHECKING:
    from paralign.capture.merged import Merged
    from paralign.context import Context
    from paralign.run.recorder import Recorder

#: the two sides, as they are called
SIDES = ("reference", "candidate")

#: the artifact that is kept of what the ranks did
RANKS = "ranks"

#: a side's function -> what is not compared where it is missing
_OPTIONAL = {"evaluate": "metrics over the ranks", "save": "which ranks save"}


def run(context: Context) -> StageResult:
    """Run both sides in several processes and in one, and compare them trait by trait."""
    missing = _lacking(context)
    if missing is not None:
        return missing
    settings, began = context.settings.distributed, time.perf_counter()
    merged = _launched(context)
    context.artifacts[RANKS] = merged[0], merged[1]
    values = [{f"rank-{rank}": capture for rank, capture in enumerate(side.ranks)} for side in merged]
    order = Single(settings.split, settings.evaluation, settings.nproc, FOLLOWED)
    seconds = time.perf_counter() - began
    ones = both(
        lambda: context.reference.record("single", order, values[0]),
        lambda: context.candidate.record("single", order, values[1]),
    )
    result = spent(StageResult("distributed", method="several processes against one"), *ones)
    result.seconds["launch"] = seconds
    sides = [Side(name, ranks, one) for name, ranks, one in zip(SIDES, merged, ones, strict=True)]
    _compare(result, sides)
    _say_extent(context, result, sides)
    return result


def _lacking(context: Context) -> StageResult | None:
    """The result ``not tested`` where the sides cannot be run in several processes."""
    if any(not recorder.identity for recorder in (context.reference, context.candidate)):
        return StageResult(
            "distributed", NOT_TESTED, notes=["live objects are in this process alone: write a paralign.toml (`paralign init`)"]
        )
    missing = context.lacking("distributed", "build_model", "build_dataloader")
    if missing is not None:
        return missing
    notes = []
    for side in SIDES:
        if not context.has(side, "train_step"):
            lost = [name for name in ("loss", "build_optimizer") if not context.has(side, name)]
            notes += [f"the {side} has no {' and no '.join(lost)}: define them, or train_step(model, optimizer, batch)"] if lost else []
            if not lost and not context.has(side, "distribute"):
                notes.append(f"the {side} has no distribute(model), which lets the ranks exchange gradients")
    if context.weights is None:
        notes.append("the weights were not carried over: see `paralign check weights`")
    return StageResult("distributed", NOT_TESTED, notes=notes) if notes else None


def _launched(context: Context) -> list[Merged]:
    """What the ranks of both sides recorded; both launchers run at once.

    Raises:
        WorkerFailed: a rank failed, or did not come to an end.
    """
    groups = [_group(context, side, recorder) for side, recorder in zip(SIDES, (context.reference, context.candidate), strict=True)]
    distributed = context.settings.distributed
    order = Ranked(distributed.split, distributed.evaluation, distributed.steps)
    weights = [_weights(context, side) for side in SIDES]
    found: dict[str, Merged] = {}

    def record(number: int) -> Merged:
        found[SIDES[number]] = groups[number].record(weights[number], _recorder(context, SIDES[number]).folder, order)
        return found[SIDES[number]]

    try:
        both(lambda: record(0), lambda: record(1))
    finally:
        for group in groups:
            group.close()
    return [found[side] for side in SIDES]


def _recorder(context: Context, side: str) -> Recorder:
    return context.reference if side == "reference" else context.candidate


def _group(context: Context, side: str, recorder: Recorder) -> Ranks:
    about = recorder.identity
    settings = SideSettings(
        Path(about["module"]), Path(about["root"]), context.framework(side), about["python"], about["device"], about["env"]
    )
    out = recorder.folder.parents[1]
    ignore = [str(out / "captures"), str(out / "workers" / f"{side}-ranks")]
    return Ranks(
        side,
        settings,
        context.settings.distributed,
        out / "workers" / f"{side}-ranks",
        Path(about["folder"]),
        context.settings.seed,
        ignore,
    )


def _weights(context: Context, side: str) -> Path:
    """The capture with the values that a side's model has in this check."""
    loaded = context.candidate.folder / "loaded"
    if side == "candidate" and context.settings.weights == "copy" and loaded.is_dir():
        return loaded
    return context.artifacts["weights"][side == "candidate"].path


def _compare(result: StageResult, sides: list[Side]) -> None:
    """A pair for each trait, in their order; the verdict is that of the pairs."""
    ours, theirs = ({trait.key: trait for trait in traits(side)} for side in sides)
    for key in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(key), theirs.get(key)
        if one is not None and other is not None:
            one, other = settled(one, other)
        result.pairs.append(_pair(result, key, [one, other]))
    result.divergence = next(iter(result.divergences), None)
    result.verdict = result.verdict_of_pairs


def _pair(result: StageResult, key: str, ends: list[Trait | None]) -> Pair:
    records = [None if trait is None else _record(number, trait) for number, trait in enumerate(ends)]
    pair = compare_pair(key, records[0], records[1], None, None)
    present = [trait for trait in ends if trait is not None]
    pair.judged = all(trait.judged for trait in present)
    for trait in present:  # the candidate's measurement, where both have one
        if trait.found is not None:
            pair.stats = Stats(count=1, rel_l2=trait.found.error)
            pair.noise = Noise(trait.found.noise, "one process in float64 against its native run")
    if len(present) < len(ends):  # what cannot be told of one side alone
        pair.verdict, pair.judged = NOT_TESTED, False
        result.notes.append(f"not compared: {key} (cannot be told of the {SIDES[ends.index(None)]})")
        return pair
    judge(pair, limit=LIMIT)
    pair.notes = []
    if pair.verdict == DIVERGED:
        pair.notes.append(f"{present[0].told} in the reference, {present[1].told} in the candidate")
    weak = [f"{side}: {trait.weak}" for side, trait in zip(SIDES, present, strict=True) if trait.weak]
    if weak and (pair.verdict != DIVERGED or present[0].weak):  # what the reference does is not known: nothing to be held against
        pair.verdict = UNDERPOWERED
        pair.notes += [note for note in weak if note not in pair.notes]
    _tell(result, pair, ends)
    return pair


def _record(number: int, trait: Trait) -> Record:
    return Record(number, trait.key, "distributed", "scalar", "str", (), op=trait.function, source=trait.place or None, text=trait.told)


def _tell(result: StageResult, pair: Pair, ends: list[Trait | None]) -> None:
    """Findings, divergences, warnings and remarks that follow from a pair."""
    reference, candidate = ends
    known = [trait for trait in (candidate, reference) if trait is not None]
    if pair.verdict == DIVERGED:
        known = known[:1]
    told = next((trait for trait in known if trait.remark), None)
    if told is not None:
        result.notes.append(f"{told.key}: {told.remark}")
    if pair.verdict != DIVERGED:
        if candidate is not None and not candidate.sound:
            fix = f": {candidate.fix}" if candidate.fix else ""
            result.warnings.append(f"both sides: {candidate.key}: {candidate.told}{fix}")
        return
    here, there = ("not there" if trait is None else trait.told for trait in (candidate, reference))
    cause = f"{pair.key}: {here} in the candidate; {there} in the reference"
    fix = _fix([trait for trait in (candidate, reference) if trait is not None])
    if not pair.judged:
        result.warnings.append(f"{cause}: {fix}")
        return
    result.findings.append(Finding(f"distributed/{pair.key.replace(' ', '-')}", cause, fix))
    points = [None if trait is None else _point(trait) for trait in ends]
    result.divergences.append(Divergence(points[0], points[1], pair))


def _fix(known: list[Trait]) -> str:
    """What to do where traits differ: the advice of the first unsound one, else of any."""
    unsound = [trait for trait in known if not trait.sound]
    for trait in [*unsound[:1], *known]:
        if trait.fix:
            return trait.fix
    return "let both sides do the same"


def _point(trait: Trait) -> Point:
    return Point(trait.key, trait.function, trait.place or None, code_at(trait.place or None))


def _say_extent(context: Context, result: StageResult, sides: list[Side]) -> None:
    """In numbers, what was looked at and what was not."""
    settings = context.settings.distributed
    steps = min(len(answer.losses) for side in sides for answer in side.answers)
    result.coverage += [Coverage("processes", settings.nproc), Coverage("steps", steps, settings.steps)]
    if steps < settings.steps and result.verdict not in (DIVERGED, UNDERPOWERED):
        result.verdict = UNDERPOWERED
        result.notes.append(
            f"the loaders ended after {steps} of {settings.steps} steps: set steps = {steps} in [distributed], or give more data"
        )
    for function, what in _OPTIONAL.items():
        without = [side for side in SIDES if not context.has(side, function)]
        if without:
            who = "neither side has" if len(without) == len(SIDES) else f"the {without[0]} has no"
            result.notes.append(f"not compared: {what} ({who} {function}())")
    result.notes.append(
        f"gradients, update and loss are of the first step, replicas of {steps} steps; {len(result.judged)} traits were compared"
    )
    unjoined = [side for side in sides if side.alone.unjoined]
    if unjoined:
        who = "the ranks' first batches" if len(unjoined) == len(sides) else f"the first batches of the {unjoined[0].name}'s ranks"
        result.notes.append(
            f"{who} have other shapes and could not be joined ({unjoined[0].alone.unjoined}): gradients are held against what one process "
            "makes of each of them, and statistics of normalisation layers were not compared"
        )
    for side in sides:
        failed = side.alone.failed
        result.notes += [f"the {side.name} does not run in float64: {reason}" for reason in list(failed.values())[:1]]
