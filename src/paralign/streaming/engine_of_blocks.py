"""A check of a model that does not fit: one block of each kind, run alone.

The reference runs block by block, each block's weights read from its checkpoint and let go. What the chosen blocks were called with is what
both sides are given (teacher forcing): a fault of one block does not hide those behind it. Each chosen block, and the shell that is left
without blocks, goes through the ordinary stages ``weights`` and ``forward``. All other blocks are of a kind that was judged; their weights
are compared where they lie. Where it is asked for, each side also runs freely: through all of its blocks, with its own weights.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.align import leaves
from paralign.capture import Capture
from paralign.checking import failed, recorder
from paralign.comparison import compare_pair
from paralign.errors import UsageError, WorkerFailed
from paralign.formats.opening import fetched
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, CheckResult, Coverage, StageResult, overall
from paralign.run import inputs as tensors
from paralign.run.project import RAY
from paralign.run.recorder import both
from paralign.stages.common.judging import AGAINST, FLOAT64, PARTLY, PERTURBATION, ROUNDING, Noises, settle
from paralign.streaming import free_running, kept_unit, on_ray, ranges
from paralign.streaming.stored_weights import Kept, compare_stored
from paralign.streaming.unit import SIDES, STAGES, Outcome, Unit, Units, check_all
from paralign.worker.passes.blockwise import SHELL
from paralign.worker.protocol import FreeRun, Stream, Streamed
from paralign.worker.values.trees import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.run.project import Project
    from paralign.run.recorder import Recorder

#: how a unit is judged -> up to which error ÷ noise
LIMITS = {method.name: method.limit for method in (FLOAT64, PARTLY, AGAINST, PERTURBATION)}

#: what is said of the other stages
OTHER = "a model that is streamed is judged by its weights and its forward pass"


@dataclass
class _Check:
    """One check under way; ``readable``: each side's checkpoint, as its worker can read it."""

    project: Project
    folder: Path
    fresh: bool
    lock: Path
    progress: Callable[[str], None]
    readable: dict[str, Path]
    weights: StageResult = field(default_factory=lambda: StageResult("weights", method="exact, block by block"))
    forward: StageResult = field(default_factory=lambda: StageResult("forward", method="block by block, on the reference's inputs"))
    result: CheckResult = field(default_factory=CheckResult)
    plans: dict[str, Kept] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)


def check(
    project: Project, folder: Path, names: list[str], *, fresh: bool, lock: Path, progress: Callable[[str], None]
) -> tuple[CheckResult, dict[str, str]]:
    """Check a port whose model does not fit.

    Args:
        project: with ``[model] streaming = true``.
        folder: the output folder; captures of blocks that were done before are reused.
        names: of the stages that are asked for; ``weights`` and ``forward`` are run, the others are not tested.
        fresh: reuse nothing.
        lock: of the output folder.
        progress: called with a line for every step.

    Returns:
        The result, with the stages ``weights`` and ``forward``; and the files that it depended on, path -> fingerprint.

    Raises:
        UsageError: the project lacks what streaming needs.
    """
    if project.reference.checkpoint is None and not project.reference.elsewhere:
        raise UsageError(
            "streaming needs the reference's checkpoint",
            where=str(project.path),
            hint='set checkpoint = "model.safetensors.index.json" in [reference]',
        )
    project = _at_hand(project, folder, progress)
    run = _Check(project, folder, fresh, lock, progress, _readable(project, folder, fresh=fresh))
    run.result.stages = [run.weights, run.forward]
    try:
        _units(run)
    except WorkerFailed as failure:
        run.result.stages = [failed(name, failure) for name in STAGES]
    run.result.stages += [StageResult(name, NOT_TESTED, notes=[OTHER]) for name in names if name not in STAGES]
    return run.result, run.used


def _at_hand(project: Project, folder: Path, progress: Callable[[str], None]) -> Project:
    """The project with checkpoints on this machine.

    Those at a URL are copied below the output folder, once for each state of them.
    """
    for side in SIDES:
        settings = getattr(project, side)
        if settings.elsewhere:
            progress(f"copying the {side}'s checkpoint from {settings.elsewhere}")
            copy = fetched(settings.elsewhere, folder / "checkpoints" / side)
            project = replace(project, **{side: replace(settings, checkpoint=copy)})
    return project


def _readable(project: Project, folder: Path, *, fresh: bool) -> dict[str, Path]:
    """Each side's checkpoint as its worker can read it; the candidate's where it runs freely."""
    found = {}
    for name in SIDES if project.streaming.free_running else SIDES[:1]:
        checkpoint = getattr(project, name).checkpoint
        if checkpoint is not None:
            found[name] = ranges.readable(checkpoint, folder / "units", name, fresh=fresh)
    return found


def _units(run: _Check) -> None:
    """Choose blocks, record their inputs, check each unit, compare the checkpoints."""
    run.progress("the blocks of both sides")
    known = [_stream(run, side, []) for side in SIDES]
    told = [Stream.answer(capture) for capture in known]
    if len(told[0].blocks) != len(told[1].blocks):
        counts = " and ".join(f"{len(each.blocks)} ({each.blocks[0].rpartition('.')[0]})" for each in told)
        run.forward.verdict = run.weights.verdict = DIVERGED
        run.forward.notes.append(f"the sides have another number of blocks: {counts}")
        return
    groups = list(dict.fromkeys(zip(told[0].kinds, told[1].kinds, strict=True)))
    kinds = [groups.index(pair) for pair in zip(told[0].kinds, told[1].kinds, strict=True)]
    chosen = choose(kinds, run.project.streaming.sample, run.project.settings.seed)
    run.progress(f"the reference up to block {max(chosen)}, block by block")
    given = _stream(run, "reference", chosen)
    _compare_arguments(run, given, told, chosen)
    shell = Unit((SHELL, SHELL), "the model without its blocks", _given(run))
    blocks = [Unit((told[0].blocks[number], told[1].blocks[number]), f"block {number}", _inputs(run, given, number)) for number in chosen]
    units = _check_units(run, [shell, *blocks])
    _extend_plans(run, told, kinds, chosen)
    _compare_weights(run, len(kinds))
    _tell_coverage(run, kinds, chosen)
    _run_freely(run)
    _conclude(run)
    for unit in (shell, *blocks):  # the check is whole: the next one does all of it again
        kept_unit.forget(units.folder_of(unit))


def _check_units(run: _Check, wanted: list[Unit]) -> Units:
    """Check units, some at a time, and add what they came to in their order."""
    narrowed = replace(run.project, reference=replace(run.project.reference, checkpoint=run.readable["reference"]))
    units = Units(narrowed, run.folder, fresh=run.fresh, lock=run.lock)
    every = on_ray.check_all if run.project.streaming.engine == RAY else check_all
    outcomes = every(units, wanted, run.project.streaming.jobs, run.progress)
    for unit, outcome in zip(wanted, outcomes, strict=True):
        _take(run, unit, outcome)
    reused = [unit.title for unit, outcome in zip(wanted, outcomes, strict=True) if outcome.reused]
    if reused:
        run.result.preflight.append(f"not run again, as a check that was cut short had done them: {', '.join(reused)} (--fresh runs them)")
    return units


def _extend_plans(run: _Check, told: list[Streamed], kinds: list[int], chosen: list[int]) -> None:
    """Take the layouts that a kind's judged block has proven for all blocks of the kind."""
    for number, kind in enumerate(kinds):
        judged = next(other for other in chosen if kinds[other] == kind)
        kept = run.plans.get(told[0].blocks[judged])
        if kept is not None:
            run.plans[told[0].blocks[number]] = replace(kept, prefixes=(f"{told[0].blocks[number]}.", f"{told[1].blocks[number]}."))


def _tell_coverage(run: _Check, kinds: list[int], chosen: list[int]) -> None:
    run.forward.coverage.append(Coverage("blocks run", len(chosen), len(kinds)))
    run.forward.notes.append(f"{len(set(kinds))} kinds of blocks; run on the reference's inputs: {', '.join(map(str, chosen))} (from 0)")
    if not run.project.streaming.free_running:
        run.forward.notes.append("the candidate's own way through all blocks, one after the other, was not run")


def _run_freely(run: _Check) -> None:
    """Each side through all of its blocks, with its own weights."""
    if not run.project.streaming.free_running:
        return
    run.progress("both sides through all blocks, freely")
    recorders = {side: _recorder(run, side) for side in SIDES}
    values = {"inputs": _given(run)}

    def record(side: str) -> Capture:
        order = FreeRun(run.project.streaming.blocks, str(run.readable[side]))
        return recorders[side].record("free-running", order, values)

    try:
        captures = both(lambda: record("reference"), lambda: record("candidate"))
    finally:
        for worker in recorders.values():
            run.used.update(worker.depended_on)
            worker.close()
    pairs, notes = free_running.judge(*captures, run.project.settings.tolerance_of("forward"))
    run.forward.pairs += pairs
    run.forward.notes += notes


def choose(kinds: list[int], sample: int, seed: int) -> list[int]:
    """Numbers of the blocks that are run: the first of each kind, and further ones.

    The latter are drawn with a seed.

    >>> choose([0, 0, 0, 1, 0], 0, 0)
    [0, 3]
    >>> len(choose([0] * 32, 4, 0))
    5
    """
    first = {kinds.index(kind) for kind in kinds}
    rest = [number for number in range(len(kinds)) if number not in first]
    return sorted(first | set(random.Random(seed).sample(rest, min(sample, len(rest)))))  # noqa: S311 - a sample, no secret


def _recorder(run: _Check, side: str) -> Recorder:
    return recorder(run.project, side, getattr(run.project, side), run.folder, reuse=not run.fresh and side == SIDES[0], lock=run.lock)


def _stream(run: _Check, side: str, record: list[int]) -> Capture:
    """What a side's blocks are, and what the chosen are called with."""
    worker = _recorder(run, side)
    try:
        order = Stream(run.project.streaming.blocks, record, str(run.readable[side]) if record and side == "reference" else "")
        values = {}
        if record:
            values["inputs"] = _given(run)
        capture = worker.record("streamed-inputs" if record else "streamed", order, values)
        run.used.update(worker.depended_on)
        return capture
    finally:
        worker.close()


def _given(run: _Check) -> Capture:
    spec = run.project.inputs
    if spec is None or (isinstance(spec, dict) and "source" in spec):
        raise UsageError("streaming needs [inputs] with a shape or a file", where=str(run.project.path), hint="set [inputs]")
    values = tensors.make(spec, run.project.folder, "[inputs]", run.project.settings.seed)
    return tensors.save(run.folder / "captures" / "inputs", "inputs", values)


def _inputs(run: _Check, given: Capture, number: int) -> Capture:
    """What a block was called with, as the inputs of a model of its own."""
    name = f"block.{number}"
    found = {r.leaf: r for r in given.select(name=name)}
    tree = rebuild(given.manifest.settings["trees"][name], lambda leaf: given.value(found[leaf]))
    return tensors.save(run.folder / "captures" / f"inputs-{number}", "inputs", tree)


def _take(run: _Check, unit: Unit, outcome: Outcome) -> None:
    """Add what one unit came to."""
    if outcome.plan is not None:
        run.plans[unit.paths[0]] = Kept(outcome.plan, unit.prefixes, Capture.open(Path(outcome.state)))
    run.used.update(outcome.used)
    if not run.result.preflight:
        run.result.preflight, run.result.reference, run.result.candidate = outcome.preflight, outcome.reference, outcome.candidate
    for stage, whole in zip(outcome.stages, (run.weights, run.forward), strict=True):
        add(whole, stage, unit.title)
    smallest = _smallest(outcome.stages[-1], run.project.settings.tolerance_of("forward").ratio)
    if smallest is not None:
        run.forward.notes.append(f"{unit.title}: an error of its outputs above {smallest:.1e}, relative, would have diverged")


def _smallest(stage: StageResult, ratio: float | None) -> float | None:
    """The smallest relative error of an output that would have diverged; None if unknown."""
    limit = ratio if ratio is not None else LIMITS.get(stage.method)
    noises = [pair.noise.value for pair in stage.pairs if pair.judged and pair.noise is not None and pair.granted is None]
    if limit is not None and noises:
        return limit * max(noises)
    return None


def add(whole: StageResult, stage: StageResult, title: str) -> None:
    """Put what one unit came to under what all of them come to."""
    for pair in stage.pairs:
        pair.key = f"{title}: {pair.key}"
    whole.pairs += stage.pairs
    for divergence in stage.divergences:
        divergence.notes.insert(0, f"in {title}")
    whole.divergences += stage.divergences
    whole.findings += stage.findings
    whole.notes += [f"{title}: {note}" for note in stage.notes]
    whole.warnings += [f"{title}: {warning}" for warning in stage.warnings]
    whole.failure = whole.failure or stage.failure
    whole.verdict = overall([whole.verdict, stage.verdict])
    for side, seconds in stage.seconds.items():
        whole.seconds[side] = whole.seconds.get(side, 0.0) + seconds
    for side, peak in stage.peak_bytes.items():
        whole.peak_bytes[side] = max(whole.peak_bytes.get(side, 0.0), peak)


def _compare_arguments(run: _Check, given: Capture, told: list[Streamed], chosen: list[int]) -> None:
    """What the chosen blocks are called with besides: tables of angles, masks."""
    own = _stream(run, "candidate", chosen)
    for number in chosen:
        _compare_call(run, (given, own), number, told[0].blocks[number])


def _compare_call(run: _Check, captures: tuple[Capture, Capture], number: int, path: str) -> None:
    (given, own), name = captures, f"block.{number}"
    points = leaves(given.select(name=name), own.select(name=name))[1:]  # the first goes through the blocks: the shell's outputs tell of it
    noises = Noises(given, ROUNDING)
    pairs = []
    for first, second, how in points:
        values = [
            None if record is None or record.location is None else capture.value(record)
            for record, capture in ((first, given), (second, own))
        ]
        at = (first or second).leaf if (first or second) is not None else ""  # type: ignore[union-attr] # one of them is there
        pair = compare_pair(f"what {path} is called with: {at}", first, second, *values, how=how)
        pair.noise = noises.of(first) if first is not None else None
        pairs.append(pair)
    settle(pairs, ROUNDING, run.project.settings.tolerance_of("forward"))
    run.forward.pairs += pairs
    run.forward.verdict = overall([run.forward.verdict, *(pair.verdict for pair in pairs)])


def _compare_weights(run: _Check, blocks: int) -> None:
    """The candidate's checkpoint against the reference's, by the proven plans."""
    if run.project.candidate.checkpoint is None:
        run.weights.notes.append("the candidate names no checkpoint: only what its blocks make of the reference's weights was judged")
        run.weights.coverage.append(Coverage("blocks' stored weights compared", 0, blocks))
        return
    run.progress("the weights of all blocks, where they lie")
    done = compare_stored(run.project, run.plans, run.weights)
    run.weights.coverage.append(Coverage("blocks' stored weights compared", done, blocks))


def _conclude(run: _Check) -> None:
    for stage in run.result.stages:
        stage.divergence = stage.divergences[0] if stage.divergences else None
        judged = overall([pair.verdict for pair in stage.pairs if pair.judged]) if stage.pairs else NOT_TESTED
        stage.verdict = overall([stage.verdict, judged])
    if run.forward.verdict == DIVERGED and run.weights.verdict == DIVERGED:
        run.forward.notes.append("blocks were run with the reference's weights on both sides: this does not follow from the stored weights")
    for stage in run.result.stages:
        if stage.verdict == ALIGNED and not stage.pairs:
            stage.verdict = NOT_TESTED
