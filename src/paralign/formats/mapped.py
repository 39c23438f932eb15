"""Files in memory, read-only.

Their pages come when they are touched and go when they are released.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paralign.capture.bounds import open_regular, unreadable
from paralign.errors import CaptureFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REMEDY = "copy the file again from where it came, or write it again"

#: bytes that are handed on at once
BLOCK = 1 << 23
#: bytes that are asked for at once: Linux fetches no more for one request than a device's read-ahead, commonly this
_WINDOW = 1 << 17


class Mapped:
    """A file of which any range can be looked at without reading it first.

    Raises:
        UsageError: the file cannot be opened, or is none on a disk: a pipe, a device.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open_regular(path) as handle:
                status = os.fstat(handle.fileno())
                self.size = status.st_size
                self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) if self.size else None
        except OSError as fault:
            raise unreadable(path, fault) from fault
        #: what tells this file from any other, whatever its name
        self.identity = status.st_dev, status.st_ino

    def bytes(self, start: int, length: int) -> np.ndarray[Any, Any]:
        """A range as ``uint8``, in the memory of the file.

        Raises:
            CaptureFormatError: the range is not inside the file.
        """
        if start < 0 or length < 0 or start + length > self.size:
            raise CaptureFormatError(
                f"the file is truncated or damaged: bytes {start} to {start + length} are asked of its {self.size}",
                where=str(self.path),
                hint=REMEDY,
            )
        if self._map is None or not length:
            return np.empty(0, np.uint8)
        return np.frombuffer(self._map, np.uint8, length, start)

    def expect(self, start: int, length: int) -> None:
        """Tell the system that a range will be looked at soon; it may fetch it meanwhile."""
        if self._map is not None and length and hasattr(mmap, "MADV_WILLNEED"):
            first = start - start % mmap.PAGESIZE
            for begin in range(first, start + length, _WINDOW):
                self._map.madvise(mmap.MADV_WILLNEED, begin, min(_WINDOW, start + length - begin))

    def release(self, start: int, length: int) -> None:
        """Give back the memory of a range.

        When it is looked at again, it comes from the file again.
        """
        if self._map is not None and length and hasattr(mmap, "MADV_DONTNEED"):
            first = start - start % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, first, start + length - first)


class Region(NamedTuple):
    """A range of a file."""

    file: Mapped
    start: int
    length: int

    def bytes(self) -> np.ndarray[Any, Any]:
        """The range as ``uint8``, in the memory of the file."""
        return self.file.bytes(self.start, self.length)

    def expect(self) -> None:
        """Tell the system that it will be looked at soon."""
        self.file.expect(self.start, self.length)

    def release(self) -> None:
        """Give back its memory."""
        self.file.release(self.start, self.length)

    def blocks(self) -> Iterator[memoryview]:
        """The range block by block; a block's memory is given back when the next is asked for."""
        for start in range(self.start, self.start + self.length, BLOCK):
            length = min(BLOCK, self.start + self.length - start)
            yield self.file.bytes(start, length).data
            self.file.release(start, length)
