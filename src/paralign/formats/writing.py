"""What every writer shares.

Tensors on their way out, block by block, and files that appear whole or not at all.
"""

from __future__ import annotations

import errno
import os
import struct
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from paralign.errors import UsageError
from paralign.formats.mapped import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

    from paralign.dtypes import Typed
    from paralign.formats.checkpoint import Entry
    from paralign.formats.mapped import Region

#: bytes that are gathered at once where elements must be moved
_GATHERED = 1 << 25
_THREADS = 2
#: bytes that the system is asked to fetch ahead
_AHEAD = 1 << 27
#: tiles in which they are moved: so many columns, and rows of so many bytes together
_TILE = 512
_TILE_BYTES = 512
#: sides shorter than this are not worth a tile
_WORTH = 16
#: data of zip members begin where torch expects them, and where any processor likes to load from
_ALIGNMENT = 64


#: what the system says when it cannot copy between two files by itself
_IMPOSSIBLE = frozenset({errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF})


@dataclass(frozen=True)
class Outgoing:
    """A tensor to be written.

    Args:
        name: under which name.
        entry: element type and shape.
        value: gives the elements, in any layout.
        parts: ranges of files that are exactly the elements, little-endian, in C order; empty: ``value`` is asked.
        expect: called when it is the next to be written.
        release: called when it is written.
        identity: equal for two names of one tensor, which a format may then write once; None: it is nobody's twin.
    """

    name: str
    entry: Entry
    value: Callable[[], Typed]
    parts: tuple[Region, ...] = ()
    expect: Callable[[], None] = lambda: None
    release: Callable[[], None] = lambda: None
    identity: Hashable = None


class Sink(Protocol):
    """Where elements go."""

    def write(self, data: Any) -> None:
        """Take bytes."""

    def copy(self, region: Region) -> None:
        """Take a range of a file."""


def in_turn(items: Sequence[Outgoing]) -> Iterator[Outgoing]:
    """The tensors one by one; while one is written, the system fetches those that follow."""
    expected, size = 0, 0
    for number, item in enumerate(items):
        while expected < len(items) and (expected <= number + 1 or size < _AHEAD):
            items[expected].expect()
            size += items[expected].entry.nbytes
            expected += 1
        yield item
        size -= item.entry.nbytes


def pour(item: Outgoing, sink: Sink) -> None:
    """Write a tensor's elements, little-endian, in C order."""
    for part in item.parts:
        sink.copy(part)
    if not item.parts and item.entry.nbytes:
        value = item.value()
        if (value.dtype, value.array.shape) != (item.entry.dtype, item.entry.shape):
            raise UsageError(
                f"the values are {value.dtype} of shape {value.array.shape}, announced were {item.entry.dtype} of shape {item.entry.shape}",
                where=item.name,
                hint="announce the shape after the transform",
            )
        for block in blocks(value.array):
            sink.write(block)
    item.release()


def blocks(array: np.ndarray[Any, Any]) -> Iterator[memoryview]:
    r"""The elements little-endian in C order, a bounded number of bytes at a time.

    A block is valid until the next is asked for.

    >>> [bytes(b) for b in blocks(np.arange(4, dtype=">u2").reshape(2, 2).T)]
    [b'\x00\x00\x02\x00\x01\x00\x03\x00']
    """
    target = array.dtype.newbyteorder("<")
    if array.flags.c_contiguous and array.dtype == target:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, BLOCK):
            yield flat[start : start + BLOCK].data
        return
    if array.ndim > 1 and array[:1].nbytes > _GATHERED:
        for row in array:
            yield from blocks(row)
        return
    shaped = array if array.ndim else array.reshape(1)
    rows = max(1, _GATHERED // max(1, shaped[:1].nbytes))
    buffers = [np.empty((min(rows, len(shaped)), *shaped.shape[1:]), target) for _ in range(2 if rows < len(shaped) else 1)]
    with ThreadPoolExecutor(_THREADS) as pool:  # the next block is gathered while one is written
        coming = _begin(pool, shaped[:rows], buffers[0])
        for number, start in enumerate(range(rows, len(shaped) + rows, rows), 1):
            gathered, jobs = coming
            for job in jobs:
                job.result()
            if start < len(shaped):
                coming = _begin(pool, shaped[start : start + rows], buffers[number % 2])
            yield gathered.reshape(-1).view(np.uint8).data


def _begin(
    pool: ThreadPoolExecutor, source: np.ndarray[Any, Any], buffer: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], list[Future[None]]]:
    """The rows of a buffer that the source fills, and the jobs that fill them."""
    gathered = buffer[: len(source)]
    step = max(128, -(-len(source) // _THREADS))
    return gathered, [pool.submit(_gather, source[row : row + step], gathered[row : row + step]) for row in range(0, len(source), step)]


def _gather(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
    """Copy elements into a C-ordered array, tile by tile where neighbours are far apart."""
    last = source.ndim - 1
    near = min(range(source.ndim), key=lambda axis: (abs(source.strides[axis]) or source.nbytes, -axis))
    if near == last or min(source.shape[near], source.shape[last]) < _WORTH:
        np.copyto(target, source)
        return
    for place in np.ndindex(*(1 if axis in (near, last) else length for axis, length in enumerate(source.shape))):
        index: list[Any] = list(place)
        index[near] = index[last] = slice(None)
        _turn(source[tuple(index)], target[tuple(index)])


def _turn(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
    """Copy a matrix whose columns are contiguous into one whose rows are.

    Each tile is first copied as it lies into a small array whose rows are no power of two apart: read down its columns, the
    processor's near memory then holds all of them, which it does not for rows of a matrix that are a power of two apart.
    """
    height = max(16, _TILE_BYTES // source.itemsize)
    scratch = np.empty((_TILE, height + 8), source.dtype)
    for row in range(0, source.shape[0], height):
        for column in range(0, source.shape[1], _TILE):
            tile = source[row : row + height, column : column + _TILE].T
            near = scratch[: tile.shape[0], : tile.shape[1]]
            np.copyto(near, tile)
            target[row : row + height, column : column + _TILE] = near.T


class Plain:
    """A file that is written from first to last byte.

    Ranges of other files are copied by the system where it can.
    """

    def __init__(self, path: Path, advance: Callable[[int], None]) -> None:
        self._file = path.open("xb", buffering=0)
        self._advance = advance

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def write(self, data: Any) -> None:
        """Take bytes, all of them."""
        left = memoryview(data)
        while left:
            taken = self._file.write(left[:BLOCK])
            self._advance(taken)
            left = left[taken:]

    def copy(self, region: Region) -> None:
        """Take a range of a file, past this program where the system allows that."""
        done = self._copied(region) if hasattr(os, "copy_file_range") and region.length else 0
        for block in region._replace(start=region.start + done, length=region.length - done).blocks():
            self.write(block)

    def _copied(self, region: Region) -> int:
        """How many bytes the system copied; the rest it cannot."""
        done = 0
        try:
            source = region.file.path.open("rb", buffering=0)
        except OSError:  # moved or deleted: the mapping still holds it
            return done
        with source:
            status = os.fstat(source.fileno())
            if (status.st_dev, status.st_ino) != region.file.identity:
                return done  # another file has this name now: the mapping still holds the one that was opened
            while done < region.length:
                try:
                    taken = os.copy_file_range(
                        source.fileno(), self._file.fileno(), min(4 * BLOCK, region.length - done), region.start + done
                    )
                except OSError as fault:
                    if fault.errno in _IMPOSSIBLE:
                        return done
                    raise
                if not taken:
                    return done
                done += taken
                self._advance(taken)
        return done


class ZipStream:
    """One member of an archive being written, not packed, its elements aligned.

    Args:
        archive: open for writing.
        name: of the member.
        size: bytes that will come.
        lead: bytes among them before the elements begin.
        comment: kept in the archive's directory.
        advance: told of bytes that were written.
    """

    def __init__(self, archive: zipfile.ZipFile, name: str, size: int, lead: int, comment: bytes, advance: Callable[[int], None]) -> None:
        info = zipfile.ZipInfo(name)
        info.comment, info.external_attr = comment, 0o644 << 16
        large = size > zipfile.ZIP64_LIMIT - BLOCK
        handle: Any = archive.fp
        before = handle.tell() + 30 + len(name.encode()) + 4 + (20 if large else 0) + lead
        padding = -before % _ALIGNMENT
        info.extra = struct.pack("<2sH", b"FB", padding) + b"F" * padding  # the tag that torch pads with
        self._stream = archive.open(info, "w", force_zip64=large)
        self._advance = advance

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self._stream.close()

    def write(self, data: Any) -> None:
        """Take bytes."""
        self._stream.write(data)
        self._advance(len(data))

    def copy(self, region: Region) -> None:
        """Take a range of a file, which must be looked at for its checksum."""
        for block in region.blocks():
            self.write(block)
