"""Captures made small: values deleted, or one file on disk for equal shards."""

from __future__ import annotations

import os
from contextlib import suppress
from filecmp import cmp
from typing import TYPE_CHECKING, Dict, Iterable, List

from paralign.capture.layout import SHARDS, is_shard_name, read_manifest, write_manifest

if TYPE_CHECKING:
    from pathlib import Path

#: bytes below which equal shards are left apart: a disk counts in blocks of this size
SHARED = 4096


def values_size(capture: Path) -> int:
    """Bytes that the values of a capture take on disk."""
    return sum(shard.stat().st_size for shard in shards_of(capture))


def shards_of(capture: Path) -> List[Path]:
    """The files that hold the values of a capture, in order."""
    folder = capture / SHARDS
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(s for s in folder.iterdir() if is_shard_name(f"{SHARDS}/{s.name}") and s.is_file() and not s.is_symlink())


def release(capture: Path) -> int:
    """Delete the values of a complete capture and keep its records; the bytes that this frees.

    The manifest says so first: whoever is killed between leaves a capture that opens, and whose values nobody asks for.

    Raises:
        CaptureFormatError: the folder is no capture.
        WriteFailed: the manifest cannot be written; nothing was deleted.
    """
    manifest, freed = read_manifest(capture), 0
    shards = shards_of(capture)
    if not manifest.complete or not shards:
        return 0
    manifest.released = True
    write_manifest(capture, manifest)
    for shard in shards:
        with suppress(OSError):  # a reader still has it open, where the system minds: it goes with the capture
            size = shard.stat().st_size
            shard.unlink()
            freed += size
    return freed


def share(captures: Iterable[Path]) -> int:
    """Put one file in the place of shards with equal bytes; gives the bytes freed.

    By hard links.

    Shards are never written again once they are in place, so each capture stays whole by itself. Nothing happens on a disk without links.
    """
    known: Dict[int, List[Path]] = {}
    freed = 0
    for shard in (shard for capture in captures for shard in shards_of(capture)):
        size = shard.stat().st_size
        alike = known.setdefault(size, [])
        first = next((other for other in alike if size >= SHARED and cmp(other, shard, shallow=False)), None)
        if first is None:
            alike.append(shard)
        elif not first.samefile(shard) and _link(first, shard):
            freed += size
    return freed


def _link(first: Path, shard: Path) -> bool:
    """Put a link to ``first`` in the place of a shard; whether that was done."""
    temporary = shard.with_name(shard.name + ".tmp")
    try:
        os.link(str(first), str(temporary))
        temporary.replace(shard)
    except OSError:
        return False
    finally:
        with suppress(OSError):
            temporary.unlink()
    return True
