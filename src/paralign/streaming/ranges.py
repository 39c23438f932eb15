"""Where the tensors of a checkpoint of any format lie, for a side's worker.

The worker reads safetensors alone. The host knows all formats, and tells the worker the ranges of files that hold each tensor. What no
range holds as it is (packed archives, other byte orders) is written beside as safetensors, one tensor at a time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from paralign.errors import ParalignError
from paralign.formats import Outgoing, open_checkpoint, write
from paralign.worker.process.files import fingerprint
from paralign.worker.values.stored_ranges import SUFFIX, read_places

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from paralign.formats import Checkpoint

#: endings of what the worker reads by itself
DIRECT = (".safetensors", ".safetensors.index.json")


def readable(checkpoint: Path, folder: Path, side: str, *, fresh: bool = False) -> Path:
    """A path under which a worker can read a checkpoint: its own, or that of a file of ranges.

    Args:
        checkpoint: a file, an index of shards, or the folder of either.
        folder: where a file of ranges goes.
        side: whose it is.
        fresh: write a new file of ranges, also where an earlier check has left one.

    Raises:
        UsageError, CaptureFormatError, UnsafeFile: it cannot be opened.
    """
    if checkpoint.name.endswith(DIRECT) or (checkpoint.is_dir() and any(checkpoint.glob("*.safetensors*"))):
        return checkpoint
    stored = open_checkpoint(checkpoint)
    target, copy = folder / f"{side}{SUFFIX}", folder / f"{side}-apart.safetensors"
    apart = [name for name in stored.names if not stored.stored(name).direct]
    sources = _sources(stored, checkpoint)
    if not fresh and _holds(target, sources, stored.names) and (copy.exists() or not apart):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    copy.unlink(missing_ok=True)
    if apart:
        write(copy, [_outgoing(stored, name) for name in apart])
    tensors = _ranges(stored, [name for name in stored.names if name not in set(apart)])
    if apart:
        tensors.update(_ranges(open_checkpoint(copy), apart))
    target.write_text(json.dumps({"sources": sources, "tensors": tensors}), encoding="utf-8")
    return target


def _sources(stored: Checkpoint, checkpoint: Path) -> dict[str, str | None]:
    """The files of a checkpoint, and what they are known by."""
    files = {str(part.file.path.resolve()) for name in stored.names for part in stored.stored(name).parts}
    return {path: fingerprint(path) for path in sorted({*files, str(checkpoint.resolve())})}


def _holds(target: Path, sources: dict[str, str | None], names: Iterable[str]) -> bool:
    """Whether an earlier check has told where all tensors of these very files lie."""
    try:
        same = json.loads(target.read_text(encoding="utf-8"))["sources"] == sources
        return bool(same and read_places(str(target)).keys() == set(names))
    except (OSError, ValueError, KeyError, TypeError, ParalignError):
        return False


def _outgoing(stored: Checkpoint, name: str) -> Outgoing:
    return Outgoing(name, stored.entries[name], lambda: stored.value(name))


def _ranges(stored: Checkpoint, names: list[str]) -> dict[str, dict[str, object]]:
    """Element type, shape and ranges of tensors that lie in files as they are."""
    found: dict[str, dict[str, object]] = {}
    for name in names:
        tensor = stored.stored(name)
        parts = [[str(part.file.path.resolve()), part.start, part.length] for part in tensor.parts]
        found[name] = {"dtype": tensor.entry.dtype, "shape": list(tensor.entry.shape), "parts": parts}
    return found
