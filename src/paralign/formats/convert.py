"""From one checkpoint to another, tensor by tensor.

Renamed, laid out otherwise, taken apart and joined on the way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.dtypes import Typed
from paralign.errors import UsageError
from paralign.formats.checkpoint import Entry, some
from paralign.formats.joining import joined
from paralign.formats.opening import open_checkpoint
from paralign.formats.paddle import FOREIGN
from paralign.formats.saving import FORMATS, write
from paralign.formats.writing import Outgoing
from paralign.weights.byname import Way
from paralign.weights.transforms import compose, reached, take

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from paralign.formats.checkpoint import Checkpoint, Stored
    from paralign.formats.saving import Progress

#: what readers of safetensors files expect under ``format`` in the metadata, by the source's format
_ORIGIN = {"torch": "pt", "torch legacy": "pt", "paddle": "pd", "npz": "np", "npy": "np", "pickle": "np"}


@dataclass
class Summary:
    """What a conversion did.

    Args:
        source: the path that was read.
        destination: the path that was asked for.
        files: the files that were written; of shards, the index is the last.
        tensors: how many tensors were written.
        bytes: how many bytes the files have.
        seconds: how long it took.
        left: tensors of the source that went nowhere, and what else it holds.
        aliases: names in the destination that are other names of earlier tensors.
        notes: what a reader of the destination should know.
    """

    source: Path
    destination: Path
    files: list[Path] = field(default_factory=list)
    tensors: int = 0
    bytes: int = 0
    seconds: float = 0.0
    left: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def convert(
    source: str | os.PathLike[str] | Checkpoint,
    destination: str | os.PathLike[str],
    *,
    moves: Iterable[Way | tuple[str, str, str | None]] | None = None,
    overwrite: bool = False,
    max_shard_bytes: int | None = None,
    metadata: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Convert a checkpoint; bits and element types are kept.

    About one tensor is in memory at a time.

    Args:
        source: a path that :func:`open_checkpoint` takes, or what it gave.
        destination: its name tells the format; see :func:`paralign.formats.saving.write`.
        moves: what to write, and how: :class:`~paralign.weights.Way`, or ``(name in the source, name in the destination, transform)``;
            None: every tensor as it is.
        overwrite: whether a checkpoint that is there may be replaced.
        max_shard_bytes: write shards of at most so many bytes, and an index.
        metadata: texts for a safetensors file; None: those of the source, or where the weights came from (``format``).
        progress: told of bytes written, bytes in all, and the file.

    Raises:
        UsageError: a name that the source lacks, two tensors of one name, a transform that does not fit, a destination that is there
            already or is the source, or a full disk.
        UnsafeFile, CaptureFormatError, UnsupportedTensor: as :func:`open_checkpoint`.
    """
    started = time.perf_counter()
    checkpoint = open_checkpoint(source) if isinstance(source, (str, Path)) or hasattr(source, "__fspath__") else source
    target = Path(destination)
    items, left = outgoing(checkpoint, moves)
    files = write(
        target,
        items,
        overwrite=overwrite,
        max_shard_bytes=max_shard_bytes,
        sources=checkpoint.identities,
        progress=progress,
        metadata=_metadata(checkpoint) if metadata is None else metadata,
    )
    return Summary(
        checkpoint.path,
        target,
        files,
        len(items),
        sum(file.stat().st_size for file in files),
        time.perf_counter() - started,
        [*left, *checkpoint.ignored],
        _aliases(items),
        _notes(items, target),
    )


def outgoing(checkpoint: Checkpoint, moves: Iterable[Way | tuple[str, str, str | None]] | None = None) -> tuple[list[Outgoing], list[str]]:
    """The tensors of a checkpoint on their way out, and the names of those that stay.

    Raises:
        UsageError: a name that the checkpoint lacks, a transform that does not fit its tensor, or parts that do not make a whole.
    """
    chosen = [Way(*move) for move in moves] if moves is not None else [Way(name, name) for name in checkpoint.names]
    going = {move.source for move in chosen}
    parts: dict[str, list[Way]] = {}
    items: list[Outgoing | str] = []
    for move in chosen:
        if move.into is None:
            items.append(_moved(checkpoint.stored(move.source), move))
            continue
        if move.destination not in parts:
            items.append(move.destination)
        parts.setdefault(move.destination, []).append(move)
    found = [joined(checkpoint, item, parts[item]) if isinstance(item, str) else item for item in items]
    return found, [name for name in checkpoint.names if name not in going]


def _moved(stored: Stored, move: Way) -> Outgoing:
    entry, transform = stored.entry, compose(move.transform)  # which leaves out what moves nothing
    identity = None if stored.identity is None else (stored.identity, transform)
    try:
        shape = reached(move.transform, entry.shape)
    except UsageError as misfit:
        raise UsageError(misfit.what, where=move.source, hint=misfit.hint) from misfit
    if transform is None:
        return Outgoing(
            move.destination, entry, stored.value, stored.parts if stored.direct else (), stored.expect, stored.release, identity
        )

    def value() -> Typed:
        plain = stored.value()
        return Typed(take(transform, plain.array), plain.dtype)

    return Outgoing(move.destination, Entry(entry.dtype, shape), value, (), stored.expect, stored.release, identity)


def _metadata(checkpoint: Checkpoint) -> dict[str, str]:
    """What a safetensors file should say about itself.

    Notes about tied names are left out, for both names are written.
    """
    if checkpoint.format == "safetensors":
        return {key: text for key, text in checkpoint.metadata.items() if text not in checkpoint.entries}
    return {"format": _ORIGIN[checkpoint.format]}


def _aliases(items: Iterable[Outgoing]) -> dict[str, str]:
    first: dict[object, str] = {}
    return {
        item.name: first[item.identity]
        for item in items
        if item.identity is not None and first.setdefault(item.identity, item.name) != item.name
    }


def _notes(items: Iterable[Outgoing], target: Path) -> list[str]:
    if FORMATS[Path(target.name.removesuffix(".index.json")).suffix.lower()] is not FORMATS[".pdparams"]:
        return []
    foreign = [item.name for item in items if item.entry.dtype in FOREIGN]
    eight = [item.name for item in items if item.entry.dtype.startswith("float8")]
    notes = [f"PaddlePaddle has no type for {some(foreign)}: paddle.load gives numpy arrays"] if foreign else []
    return notes + ([f"PaddlePaddle stores float8 as int8: paddle.load gives int8 for {some(eight)}"] if eight else [])
