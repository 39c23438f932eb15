"""Writing checkpoints: format by name, shards if wanted, everything in place at once."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.bounds import NAME, is_text
from paralign.errors import UsageError, quoted, unwritten
from paralign.formats import numpy, paddle, torch
from paralign.formats.checkpoint import Entry
from paralign.formats.safetensors import safetensors_size, write_safetensors
from paralign.formats.staging import Staging, check_space
from paralign.formats.writing import Outgoing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping, Sequence

    from paralign.dtypes import Typed

    #: told of bytes written, bytes in all, and the file that is being written
    Progress = Callable[[int, int, str], None]

INDEX = ".index.json"
_NUMBERED = re.compile(r"-\d{5}-of-\d{5}")


@dataclass(frozen=True)
class _Format:
    """How files of one kind are written, and how many bytes they take at most."""

    write: Callable[[Path, Sequence[Outgoing], Mapping[str, str], Callable[[int], None]], None]
    size: Callable[[Sequence[Outgoing], Mapping[str, str]], int]


_TORCH = _Format(lambda path, items, _, advance: torch.write_torch(path, items, advance), lambda items, _: torch.torch_size(items))
_PADDLE = _Format(lambda path, items, _, advance: paddle.write_paddle(path, items, advance), lambda items, _: paddle.paddle_size(items))
FORMATS = {
    ".safetensors": _Format(write_safetensors, safetensors_size),
    ".pdparams": _PADDLE,
    ".pdopt": _PADDLE,
    ".npz": _Format(lambda path, items, _, advance: numpy.write_npz(path, items, advance), lambda items, _: numpy.npz_size(items)),
    ".pth": _TORCH,
    ".pt": _TORCH,
    ".bin": _TORCH,
    ".ckpt": _TORCH,
}


def save(
    destination: str | os.PathLike[str],
    tensors: Mapping[str, Typed],
    *,
    overwrite: bool = False,
    max_shard_bytes: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write tensors that are in memory to a checkpoint.

    The format is told by the name of the destination.

    Two names of one array (the same object) are written as tied tensors where the format can.

    Raises:
        UsageError, UnsupportedTensor: as :func:`write`.
    """
    items = [
        Outgoing(name, Entry(value.dtype, value.array.shape), lambda value=value: value, identity=(id(value.array), value.dtype))  # type: ignore[misc]
        for name, value in tensors.items()
    ]
    return write(Path(destination), items, overwrite=overwrite, max_shard_bytes=max_shard_bytes, metadata=metadata)


def write(
    destination: Path,
    items: Sequence[Outgoing],
    *,
    overwrite: bool = False,
    max_shard_bytes: int | None = None,
    metadata: Mapping[str, str] | None = None,
    sources: Collection[tuple[int, int]] = (),
    progress: Progress | None = None,
) -> list[Path]:
    """Write a checkpoint, about one tensor in memory at a time.

    What was there before stays until all is written.

    Args:
        destination: its name tells the format.
        items: the tensors, in the order in which they are written.
        overwrite: whether a checkpoint that is there may be replaced.
        max_shard_bytes: write several files of at most so many bytes of tensors (one tensor may be larger), and an index.
        metadata: texts that the file holds about itself, where its format can (safetensors).
        sources: identities of the files that are being read: none of them is overwritten.
        progress: told of bytes written, bytes in all, and the file.

    Returns:
        The files written; of shards, the index is the last.

    Raises:
        UsageError: the destination is there already or is a source; the disk is too full; a name cannot be written.
        UnsupportedTensor: the format has no such element type.
    """
    kind, stem = _format(destination)
    check_items(items, kind)
    shards = _shards(items, max_shard_bytes)
    targets = [destination.with_name(stem + kind)]
    if len(shards) > 1:
        targets = [destination.with_name(f"{stem}-{number:05}-of-{len(shards):05}{kind}") for number in range(1, len(shards) + 1)]
        targets.append(destination.with_name(stem + kind + INDEX))
    whole = metadata or {}
    with Staging(targets, _stale(destination.with_name(stem + kind)), overwrite=overwrite, sources=sources) as staging:
        total = sum(FORMATS[kind].size(shard, whole) for shard in shards)
        check_space(destination.parent, total + (len(_index(targets, shards)) if len(shards) > 1 else 0))
        try:
            _write_all(staging, targets, shards, kind, whole, _Meter(total, progress))
            staging.commit()
        except OSError as fault:
            raise unwritten(destination, fault, rest="; what was there before is untouched") from fault
    return targets


class _Meter:
    """Counts what was written and tells of it."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total, self.done, self.file, self._progress = total, 0, "", progress

    def advance(self, count: int) -> None:
        self.done = min(self.total, self.done + count)
        if self._progress is not None:
            self._progress(self.done, self.total, self.file)


def _write_all(
    staging: Staging, targets: Sequence[Path], shards: Sequence[Sequence[Outgoing]], kind: str, metadata: Mapping[str, str], meter: _Meter
) -> None:
    for target, shard in zip(targets, shards, strict=False):  # the index, where there is one, has no shard
        meter.file = target.name
        FORMATS[kind].write(staging.temporary(target), shard, metadata, meter.advance)
    if len(targets) > len(shards):
        staging.temporary(targets[-1]).write_bytes(_index(targets, shards))


def _format(destination: Path) -> tuple[str, str]:
    """The format's suffix, and the destination's name without it."""
    name = destination.name.removesuffix(INDEX)
    kind = Path(name).suffix.lower()
    if kind not in FORMATS:
        raise UsageError(
            f"no format is known by the name {destination.name!r}", where=str(destination), hint=f"end it in one of {', '.join(FORMATS)}"
        )
    return kind, name[: -len(kind)]


def check_destination(destination: Path, *, overwrite: bool, sources: Collection[tuple[int, int]] = ()) -> None:
    """Refuse a destination that :func:`write` would refuse, before anything is done for it.

    Raises:
        UsageError: as :func:`write`.
    """
    kind, stem = _format(destination)
    Staging([destination.with_name(stem + kind)], [], overwrite=overwrite, sources=sources)


def check(destination: Path, items: Sequence[Outgoing]) -> None:
    """Refuse what :func:`write` would refuse of these tensors, whatever the disk says.

    Raises:
        UsageError, UnsupportedTensor: as :func:`write`.
    """
    kind, _ = _format(destination)
    check_items(items, kind)
    FORMATS[kind].size(items, {})


def check_items(items: Sequence[Outgoing], kind: str) -> None:
    """Refuse names that could not be found again, or not by every reader.

    Raises:
        UsageError: two tensors have one name, or a name is none that files can hold.
    """
    seen = set()
    for item in items:
        if item.name in seen:
            raise UsageError(f"two tensors would be called {quoted(item.name)}", hint="give each a name of its own")
        seen.add(item.name)
        NAME.check(len(item.name), f"the tensor {quoted(item.name[:32])}… would have a name of", "", UsageError)
        if "\0" in item.name or not is_text(item.name):
            raise UsageError(f"the name {quoted(item.name)} holds characters that files cannot hold", hint="rename the tensor")
    if FORMATS[kind] is _PADDLE:
        paddle.check_names(items)


def _shards(items: Sequence[Outgoing], most: int | None) -> list[list[Outgoing]]:
    """The tensors in groups of at most so many bytes; a larger tensor is a group of its own."""
    if most is None:
        return [list(items)]
    if most < 1:
        raise UsageError(f"shards of at most {most} bytes hold nothing", hint="give a positive number of bytes")
    found: list[list[Outgoing]] = [[]]
    size = 0
    for item in items:
        if found[-1] and size + item.entry.nbytes > most:
            found.append([])
            size = 0
        found[-1].append(item)
        size += item.entry.nbytes
    return found


def _index(targets: Sequence[Path], shards: Sequence[Sequence[Outgoing]]) -> bytes:
    where = {item.name: target.name for target, shard in zip(targets, shards, strict=False) for item in shard}
    total = sum(item.entry.nbytes for shard in shards for item in shard)
    return json.dumps({"metadata": {"total_size": total}, "weight_map": where}, indent=2).encode() + b"\n"


def _stale(single: Path) -> list[Path]:
    """What an earlier write under this name may have left.

    The single file, the index, and the shards that it names.
    """
    index = single.with_name(single.name + INDEX)
    found = [path for path in (single, index) if path.exists()]
    try:
        shards = json.loads(index.read_bytes())["weight_map"].values() if index.is_file() else ()
        pattern = re.compile(re.escape(single.stem) + _NUMBERED.pattern + re.escape(single.suffix))
        return [*(single.with_name(name) for name in dict.fromkeys(shards) if pattern.fullmatch(str(name))), *found]
    except (ValueError, KeyError, TypeError, AttributeError):  # it is none of our indexes: nothing is known of its shards
        return found
