"""Two sharded checkpoints compared where they lie, block by block."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.comparison import compare_pair
from paralign.comparison.judge import judge
from paralign.formats import open_checkpoint
from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import DIVERGED, Divergence, Point, Record, StageResult
from paralign.worker.protocol import built_of

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.dtypes import Typed
    from paralign.formats import Checkpoint
    from paralign.model import Pair
    from paralign.run.project import Project
    from paralign.weights import Plan

#: what is said of a stored tensor whose values nothing explains
FOREIGN = "it holds no other tensor of this block: another checkpoint's, or trained on"


@dataclass(frozen=True)
class Kept:
    """How a unit's tensors correspond, their prefixes, and the candidate's state."""

    plan: Plan
    prefixes: tuple[str, str]
    candidate: Capture


def compare_stored(project: Project, units: dict[str, Kept], result: StageResult) -> int:
    """Compare every tensor that a plan speaks of with what the reference's makes of it.

    Args:
        project: whose sides name their checkpoints.
        units: path of a block (or the shell) -> how its tensors correspond.
        result: gets a pair for each tensor that differs, and where it starts.

    Returns:
        How many blocks were compared.

    Raises:
        UsageError, CaptureFormatError: a checkpoint cannot be read.
    """
    if project.reference.checkpoint is None or project.candidate.checkpoint is None:
        return 0
    stored = open_checkpoint(project.reference.checkpoint), open_checkpoint(project.candidate.checkpoint)
    total, wrong = 0, []
    for unit, kept in units.items():
        for target in kept.plan.targets:
            name = kept.prefixes[1] + target.name
            total += 1
            pair = _pair(stored, kept, target, name)
            if pair is not None:
                wrong.append((unit, kept, target.name, pair))
    foreign: dict[str, Divergence] = {}
    for unit, kept, inner, pair in wrong:
        _tell(result, stored, (unit, kept, inner, pair), foreign)
    _tell_shards(result, stored[1], [pair for *_, pair in wrong])
    result.notes.append(f"stored tensors compared: {total}, of which {len(wrong)} differ")
    return sum(1 for unit in units if unit != "shell")


def _fetch(stored: Checkpoint, prefix: str, name: str) -> Typed | None:
    return stored.value(prefix + name) if prefix + name in stored.entries else None


def _pair(stored: tuple[Checkpoint, Checkpoint], kept: Kept, target: Record, name: str) -> Pair | None:
    """The pair of a tensor that differs, or is missing; None where it is as it should be."""
    expected = kept.plan.assemble(target.name, lambda inner: _fetch(stored[0], kept.prefixes[0], inner))
    found = _fetch(stored[1], kept.prefixes[1], target.name)
    if expected is None and found is None:
        return None  # both compute it
    if (expected is None or found is None) and target.role == "buffer":
        return None  # one side computes it, and the other keeps it: the units have compared what is built
    records = [None if value is None else _record(name, value) for value in (expected, found)]
    pair = compare_pair(f"stored {name}", records[0], records[1], expected, found, shown=False)
    judge(pair, limit=0.0, exact=True)
    for side, prefix, inner in ((stored[0], kept.prefixes[0], ""), (stored[1], "", name)):
        for known in [n for n in side.entries if n == inner or (not inner and n.startswith(prefix))]:
            side.release(known)
    return pair if pair.verdict == DIVERGED else None


def _record(name: str, value: Typed) -> Record:
    return Record(id=0, stage="weights", role="parameter", name=name, dtype=value.dtype, shape=tuple(value.array.shape))


def _tell(
    result: StageResult, stored: tuple[Checkpoint, Checkpoint], case: tuple[str, Kept, str, Pair], foreign: dict[str, Divergence]
) -> None:
    """Note a tensor that differs: the block, what it holds, the layer's line.

    ``foreign``: of each unit, where the first of its tensors is told that hold nothing of the unit: the others are counted there.
    """
    unit, kept, inner, pair = case
    held = _holds(stored, kept, inner)
    pair.notes.append(
        f"it holds what belongs to {held}" if held else "it holds no other tensor of this block: another checkpoint's, or trained on"
    )
    result.pairs.append(pair)
    result.verdict = DIVERGED
    if not held and unit in foreign:
        foreign[unit].repeats += 1
        return
    owner, _, leaf = inner.rpartition(".")
    lines = built_of(kept.candidate).get(owner, [])
    source = lines[0] if lines else None
    point = Point(f"{kept.prefixes[1]}{owner}", leaf, source, code_at(source) if source else None, lines=list(lines[1:]))
    where = f"in block {unit}" if unit != "shell" else "beside the blocks"
    notes = [f"{where}: {pair.key.removeprefix('stored ')}", *pair.notes]
    found = Divergence(None, point, pair, what="given", error=pair.error, notes=notes)
    result.divergences.append(found)
    if not held:
        foreign[unit] = found


def _holds(stored: tuple[Checkpoint, Checkpoint], kept: Kept, inner: str) -> str:
    """Which other tensor of the unit a stored tensor is; '' for none."""
    found = _fetch(stored[1], kept.prefixes[1], inner)
    if found is None:
        return ""
    for other in kept.plan.targets:
        if other.name == inner or tuple(other.shape) != tuple(found.array.shape):
            continue
        expected = kept.plan.assemble(other.name, lambda name: _fetch(stored[0], kept.prefixes[0], name))
        if expected is not None and expected.dtype == found.dtype and (expected.array == found.array).all():
            return kept.prefixes[1] + other.name
    return ""


def _tell_shards(result: StageResult, stored: Checkpoint, wrong: list[Pair]) -> None:
    """Say of a file of which every tensor differs that it is stale."""
    files: dict[str, list[str]] = defaultdict(list)
    for name in stored.names:
        for part in stored.stored(name).parts[:1]:
            files[str(part.file.path)].append(name)
    differing = {pair.key.removeprefix("stored ") for pair in wrong}
    for file, names in files.items():
        inside = [name for name in names if name in differing]
        if inside and len(inside) == len(names) and len(files) > 1:
            result.warnings.append(f"all {len(names)} tensors of {file} differ: the shard is stale, or of another checkpoint")
