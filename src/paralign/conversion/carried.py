"""What an optimizer remembers, from one framework's file to the other's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.conversion import plain
from paralign.dtypes import typed
from paralign.errors import UsageError
from paralign.formats import open_checkpoint
from paralign.model import Manifest
from paralign.stages.optimizer import resumption
from paralign.stages.weights import stage as weights
from paralign.worker.protocol import StateRead, StateWrite
from paralign.worker.steps.resuming import state_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from paralign.context import Context
    from paralign.formats import Checkpoint
    from paralign.model import Record

#: names under which programs keep the optimizer in a file of several things
KEYS = ("optimizer", "optimizer_state_dict", "opt")

SIDES = ("reference", "candidate")


@dataclass
class Carried:
    """What the conversion of an optimizer's state came to.

    ``parameters`` counts those that have a state, ``missing`` names those of the destination's model that get none. ``steps`` is the
    number of updates that the state has seen, 0 where it does not tell.
    """

    source: Path
    destination: Path
    optimizers: tuple[str, str]
    parameters: int
    slots: list[str]
    steps: int
    missing: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def opened(source: Path, within: str | None) -> Checkpoint:
    """The file; the optimizer in it where it holds a model beside."""
    found = open_checkpoint(source, within=within)
    if within is not None:
        return found
    inside = next((key for key in KEYS if key in found.ignored), None)
    return found if inside is None else open_checkpoint(source, within=inside)


def carry(context: Context, checkpoint: Checkpoint, destination: Path, temporary: Path, progress: Callable[[str], None]) -> Carried:
    """Have one side read the state and the other write it into a temporary file.

    Args:
        context: both sides, described.
        checkpoint: of the source.
        destination: whose name tells the framework.
        temporary: where it is written.
        progress: called with a line for every step.

    Raises:
        UsageError: no side is of the file's framework, the weights do not map, or the state does not.
        WorkerFailed: a side failed.
    """
    here = _side(context, checkpoint.path)
    there = 1 - here
    if plain.SUFFIXES.get(destination.suffix) not in (None, context.framework(SIDES[there])):
        raise UsageError(
            f"the {SIDES[there]} is of {context.framework(SIDES[there])}, which does not load such a file",
            where=str(destination),
            hint="name it .pth for PyTorch, .pdopt for Paddle",
        )
    progress("mapping the parameters")
    weights.run(context)
    if context.plan is None:
        raise UsageError("nothing says which parameter is which", where=str(checkpoint.path), hint="run `paralign check weights` first")
    recorders = context.reference, context.candidate
    progress("reading the state")
    read = recorders[here].record("state-read", StateRead(), {"file": _held(checkpoint, recorders[here].folder / "state-file")})
    state = state_of(read)
    moved = resumption.mapped(context.plan, state, to_candidate=here == 0)
    progress("writing the state")
    given = resumption.saved(moved, recorders[there].folder / "state")
    written = recorders[there].record(
        "state-write", StateWrite(str(temporary), context.settings.pace.steps_between(there)), {"state": given}
    )
    told, saved = StateRead.answer(read), StateWrite.answer(written)
    wanted = context.plan.targets if here == 0 else context.plan.sources
    found = Carried(
        checkpoint.path,
        destination,
        (told.optimizer, saved.optimizer),
        len(moved),
        list(dict.fromkeys(slot for kept in moved.values() for slot in kept)),
        saved.steps,
        [r.name for r in wanted if _trained(r) and r.name not in moved],
        told.left,
    )
    if saved.scheduled and found.steps:
        found.notes.append(f"the schedule was put to where {found.steps} updates bring it")
    elif saved.scheduled:
        found.notes.append("the state does not tell how many updates it has seen: put the schedule to where it was yourself")
    return found


def _trained(record: Record) -> bool:
    """Whether a tensor is a parameter that an optimizer may update."""
    return record.role == "parameter" and bool(record.attrs.get("trainable", True)) and not record.attrs.get("shared")


def _side(context: Context, source: Path) -> int:
    """The side whose optimizer a file is of.

    The only one of its framework, else the reference.
    """
    wanted = plain.SUFFIXES.get(source.suffix)
    fitting = [number for number, side in enumerate(SIDES) if wanted in (None, context.framework(side))]
    if not fitting:
        raise UsageError(f"no side is of {wanted}, whose file this is", where=str(source), hint="name the project whose optimizer it is")
    return fitting[0]


def _held(checkpoint: Checkpoint, folder: Path) -> Capture:
    """The tensors of the file as a capture."""
    clear(folder)
    digest = hashlib.sha256()
    with CaptureWriter(folder, Manifest(stage="optimizer")) as writer:
        for name in checkpoint.names:
            value = checkpoint.value(name)
            digest.update(f"{name} {value.dtype} {value.array.shape}".encode())
            digest.update(value.array.tobytes())
            writer.add(name, value, role="state")
        for name, count in checkpoint.counts.items():
            digest.update(f"{name} {count!r}".encode())
            writer.add(name, typed(np.asarray(count, np.float64)), role="state")
        writer.manifest.settings["key"] = digest.hexdigest()
    return Capture.open(folder)
