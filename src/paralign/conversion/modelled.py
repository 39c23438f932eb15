"""A plan for a file whose two models are at hand: by layer type, proven by a run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign import weights as mapping
from paralign.capture import Capture, CaptureWriter
from paralign.conversion import plain
from paralign.conversion.conversion_outcome import DIFFERS, INCOMPLETE, PROVEN, UNPROVEN, Conversion
from paralign.errors import UsageError, WorkerFailed
from paralign.formats.checkpoint import some
from paralign.model import Manifest
from paralign.stages.common import forward_passes, judging
from paralign.stages.weights import assignment
from paralign.weights.placed_by_module import undecided
from paralign.worker.protocol import Forward, Load, Weights
from paralign.worker.sides.session import NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from paralign.context import Context
    from paralign.formats import Checkpoint
    from paralign.model import Record

SIDES = ("reference", "candidate")

#: frames of the user's own code that are shown of a failure
FRAMES = 3


def plan(
    context: Context,
    checkpoint: Checkpoint,
    destination: Path,
    rules: mapping.Rules | None,
    *,
    prove: bool = True,
    origin: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Conversion:
    """The way of every tensor of a checkpoint of one of two models to the other model.

    Args:
        context: both sides, described, with their inputs if they have any.
        checkpoint: the weights of one of them; buffers that it lacks are added to it from the model.
        destination: where they are to go.
        rules: the user's, or None; their reference is the side whose weights these are.
        prove: whether to run both models.
        origin: ``reference``, ``candidate`` or a framework: whose weights these are; None finds out by names and shapes.
        progress: called with a line for every step.

    Raises:
        UsageError: the checkpoint belongs to neither model, or a rule speaks of no tensor.
        WorkerFailed: a side's model cannot be built.
    """
    progress("building both models")
    states = dict(zip(SIDES, context.record_both("weights", Weights()), strict=True))
    side = _side(context, checkpoint, states, origin)
    if side == "candidate":
        context = replace(context, reference=context.candidate, candidate=context.reference, about=_turned(context.about), artifacts={})
        states = _turned(states)
    here, there = states["reference"], states["candidate"]
    frameworks = context.framework("reference"), context.framework("candidate")
    found = Conversion(checkpoint.path, destination, frameworks=frameworks, left=list(checkpoint.ignored))
    found.notes += plain.unwrapped(checkpoint)
    found.notes.append(f"the file holds the weights of the {side} ({frameworks[0]}); they go to the other side ({frameworks[1]})")
    stray = _stray(checkpoint, here.records, rules, found)
    planned = mapping.plan(here.records, there.records, *frameworks, rules=_without(rules, stray, here.records))
    spelt = _held(checkpoint, here, planned, found)
    found.unplaced += dict.fromkeys(_reason(move) for move in (*planned.missing, *planned.extra))
    if found.unplaced:
        found.verdict = INCOMPLETE
    elif prove:
        planned = _proven(context, checkpoint, here, spelt, planned, found, progress)
    else:
        found.verdict = UNPROVEN
        found.notes.append("the models were not run: --no-proof")
    if found.verdict == UNPROVEN:
        found.ambiguous += [f"{some(a.reference, 3)}: could as well go to others of {some(a.candidate, 3)}" for a in planned.ambiguous]
    _settle(found, planned, spelt, checkpoint, there.records)
    return found


def _turned(pair: dict[str, Any]) -> dict[str, Any]:
    return {"reference": pair["candidate"], "candidate": pair["reference"]}


def _side(context: Context, checkpoint: Checkpoint, states: dict[str, Capture], origin: str | None) -> str:
    """Whose weights a checkpoint holds: told by user, framework, names or shapes."""
    frameworks = {side: context.framework(side) for side in SIDES}
    fitting = {side: _fitting(checkpoint, states[side].records) for side in SIDES}
    if not any(fitting.values()):
        raise UsageError(
            f"no tensor of the file is in either model: it holds {some(checkpoint.names, 3)}; the reference has "
            f"{some([r.name for r in states['reference'].records], 3)}",
            where=str(checkpoint.path),
            hint="take a prefix off with --strip, choose other tensors of the file with --within, or name the right project",
        )
    if origin in SIDES:
        return str(origin)
    framework = origin or plain.origin(checkpoint)
    known = [side for side in SIDES if frameworks[side] == framework]
    if len(known) == 1 and (origin or fitting[known[0]]):
        return known[0]
    return max(SIDES, key=lambda side: fitting[side])


def _fitting(checkpoint: Checkpoint, records: Sequence[Record]) -> int:
    """How many tensors a checkpoint and a model have in common, by name and shape."""
    return sum(1 for r in records if r.name in checkpoint.entries and checkpoint.entries[r.name].shape == tuple(r.shape))


def _stray(checkpoint: Checkpoint, records: Sequence[Record], rules: mapping.Rules | None, found: Conversion) -> list[str]:
    """Tensors of the file that its model lacks; those that no rule leaves out are unplaced."""
    known = {r.name for r in records}
    drops = [] if rules is None else rules.drops
    patterns = [mapping.Rename(rule.name, "") for rule in drops if rule.side == "reference"]
    stray = []
    for name in checkpoint.names:
        if name in known:
            continue
        stray.append(name)
        if all(pattern.applied(name) is None for pattern in patterns):
            found.unplaced.append((name, "in the file, but not in the model whose weights it holds"))
    return stray


def _without(rules: mapping.Rules | None, stray: Sequence[str], records: Sequence[Record]) -> mapping.Rules | None:
    """The rules for the models, without those for what only the file holds."""
    if rules is None:
        return None
    known = [r.name for r in records]

    def outside(drop: mapping.Drop) -> bool:
        if drop.side != "reference":
            return False
        pattern = mapping.Rename(drop.name, "")

        def speaks_of(names: Sequence[str]) -> bool:
            return any(pattern.applied(name) is not None for name in names)

        return speaks_of(stray) and not speaks_of(known)

    return replace(rules, drops=tuple(drop for drop in rules.drops if not outside(drop)))


def _wanted(planned: mapping.Plan) -> list[mapping.Move]:
    """The moves to what the destination's state dict holds."""
    return [m for m in planned.moves if m.candidate is not None and m.candidate.attrs.get("persistent") is not False]


def _held(checkpoint: Checkpoint, state: Capture, planned: mapping.Plan, found: Conversion) -> dict[str, str]:
    """Under which name the file holds each wanted tensor: its own, or a shared one.

    Buffers that the file lacks are taken from the model; all else that is missing or of another shape is unplaced.
    """
    records = {r.name: r for r in state.records}
    fellows = _fellows(state.records)
    spelt: dict[str, str] = {}
    made = []
    for wanted in dict.fromkeys(m.reference.name for m in _wanted(planned) if m.reference is not None):
        record, root = records[wanted], records[wanted].attrs.get("shared") or wanted
        name = next((n for n in (wanted, *fellows[root]) if n in checkpoint.entries), None)
        if name is None and record.role == "buffer":
            checkpoint.add(wanted, state.value(records[root]))
            made.append(wanted)
            name = wanted
        if name is None:
            found.unplaced.append((wanted, "in the model, but not in the file"))
        elif checkpoint.entries[name].shape != tuple(record.shape):
            found.unplaced.append((name, f"has shape {checkpoint.entries[name].shape} in the file, {tuple(record.shape)} in the model"))
        else:
            spelt[wanted] = name
    if made:
        found.notes.append(f"the file lacks {len(made)} buffers, which were taken from build_model(): {some(made, 3)}")
    return spelt


def _fellows(records: Sequence[Record]) -> dict[str, list[str]]:
    """The name of a tensor that holds values -> all names that it goes by."""
    found: dict[str, list[str]] = {}
    for record in records:
        found.setdefault(record.attrs.get("shared") or record.name, []).append(record.name)
    return found


def _reason(move: mapping.Move) -> tuple[str, str]:
    """The name of a tensor without a place, and why it has none."""
    if move.candidate is None:
        record, where = move.reference, "destination"
    else:
        record, where = move.reference or move.candidate, "source"
    return (record.name if record is not None else ""), move.note or f"no counterpart in the model of the {where}"


def _proven(
    context: Context,
    checkpoint: Checkpoint,
    state: Capture,
    spelt: dict[str, str],
    planned: mapping.Plan,
    found: Conversion,
    progress: Callable[[str], None],
) -> mapping.Plan:
    """The plan that makes the outputs equal, in float64 where both sides can.

    Says in ``found`` what the runs came to.
    """
    found.verdict = UNPROVEN
    if context.inputs is None:
        found.notes.append("the models were not run, for want of inputs: inputs() of the reference, [inputs] in paralign.toml, or --inputs")
        return planned
    progress("running both models")
    try:
        context.weights = _loaded(context, checkpoint, state, spelt)
        outputs = forward_passes.reference_alone(context)
        with assignment.Trials.under_way(context, planned) as trials:
            proof = trials.prove(planned)
            guess = proof.guess or planned
            drawn = not proof.right and not math.isinf(proof.error) and trials.agrees_replayed(guess)
        if math.isinf(proof.error):  # then either it does not run, which is raised here, or its outputs are built otherwise
            context.candidate.record("why", Forward([NATIVE]), {"inputs": context.inputs})
    except WorkerFailed as failure:
        found.notes.append(f"the models could not be run: {failure.what}" + "".join(f"\n  {frame}" for frame in failure.frames[-FRAMES:]))
        return planned
    found.runs, found.error = proof.runs, proof.error
    if drawn or not proof.proven or math.isinf(proof.error):
        _say_otherwise(found, proof, drawn=drawn)
        return guess if drawn else planned
    if _blind(outputs):
        found.notes.append("the outputs are constant: they are equal whatever the weights are. Use other inputs or trained weights")
        return planned
    candidate = context.candidate.record("built", Forward([NATIVE]), {"inputs": context.inputs})
    counts = [len(judging.final(c, name="output", run=NATIVE)) for c in (outputs, candidate)]
    if counts[0] != counts[1]:
        found.notes.append(f"the reference gives {counts[0]} outputs and the candidate {counts[1]}: what both give was compared")
    found.verdict = PROVEN
    unknown = set(undecided(proof.plan, proof.ambiguous))
    open_ = [alike for alike in proof.ambiguous if alike.seen or unknown & set(alike.reference)]
    found.ambiguous, found.untested = [alike.told() for alike in open_], list(proof.untested)
    found.notes += [f"the run chose otherwise than names and order: {line}" for line in proof.changed]
    return proof.plan


def _say_otherwise(found: Conversion, proof: mapping.Proof, *, drawn: bool) -> None:
    """What runs came to that made no outputs equal as they are.

    ``drawn``: they are equal with what the reference draws.
    """
    if drawn:
        found.verdict, found.error = PROVEN, 0.0
        found.notes.append("the models draw random numbers in eval mode: with what the reference draws there, the outputs are equal")
    elif math.isinf(proof.error):
        found.notes.append("the outputs cannot be compared (NaN, another number of them, or other shapes): let both models return the same")
    else:
        found.verdict = DIFFERS
        found.notes.append(
            "none of the assignments that were tried makes the outputs equal: the models differ (`paralign check` says where), "
            "or the right one is not among them (--rules sets it)"
        )


def _loaded(context: Context, checkpoint: Checkpoint, state: Capture, spelt: dict[str, str]) -> Capture:
    """The source's model with the weights of the file in it."""
    folder = context.reference.folder / "file"
    with CaptureWriter(folder, Manifest(side="reference", stage="weights", settings={"key": str(checkpoint.path)})) as writer:
        for record in state.records:
            if record.name in spelt and record.location is not None:
                writer.add(record.name, checkpoint.value(spelt[record.name]), role=record.role)
                checkpoint.release(spelt[record.name])
    return context.reference.record("loaded", Load(), values={"state": Capture.open(folder)}, prelude=True)


def _blind(outputs: Capture) -> bool:
    """Whether every output is constant, so that outputs agree whatever the weights are."""
    values = [outputs.array(r) for r in judging.final(outputs, name="output", run=NATIVE) if r.location is not None]
    return not any(_tells(value) for value in values)


def _tells(value: Any) -> bool:
    """Whether an output is a single number, or holds several numbers that differ."""
    if value.size <= 1:
        return bool(value.size == 1)
    return bool(np.any(value != value.flat[0]))


def _settle(found: Conversion, planned: mapping.Plan, spelt: dict[str, str], checkpoint: Checkpoint, order: Sequence[Record]) -> None:
    """Put the ways, and the rules that they follow, into the outcome."""
    moves: dict[str, list[mapping.Move]] = {}
    for move in _wanted(planned):
        moves.setdefault(move.slot[0], []).append(move)
    fellows = _fellows(order)
    for record in order:
        if record.attrs.get("persistent") is False:
            continue
        names = (record.name, *fellows[record.attrs.get("shared") or record.name])  # a tensor under two names is filled under both
        filled = next((name for name in names if name in moves), None)
        if filled is None:
            continue
        for move in moves[filled]:
            if move.reference is not None and move.reference.name in spelt:
                shape = tuple(record.shape) if move.into is not None else None
                found.ways.append(mapping.Way(spelt[move.reference.name], record.name, move.transform, move.into, shape))
    away = {way.source for way in found.ways} | {name for name, _ in found.unplaced}
    found.dropped = [name for name in checkpoint.names if name not in away]
    found.rules = mapping.exact(found.ways, found.dropped)
