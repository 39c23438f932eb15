"""Zip archives of tensors.

Members that are stored as they are stay in the file, packed ones are unpacked within bounds.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from paralign.capture.bounds import FACTOR, UNFOLDED, VALUES
from paralign.errors import CaptureFormatError, quoted, shortened
from paralign.formats.checkpoint import damaged
from paralign.formats.mapped import Mapped, Region

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: deflate cannot shrink more than this
_LARGEST_RATIO = 1032
_SLACK = 1 << 16
_LOCAL = struct.Struct("<4s5H3L2H")


class Member(NamedTuple):
    """One file of an archive.

    Args:
        name: its path inside.
        packed: the range of the archive that holds it, packed or not.
        size: bytes when unpacked.
        deflated: whether it is packed.
        crc: checksum of the unpacked bytes.
        comment: what the archive's directory says about it.
    """

    name: str
    packed: Region
    size: int
    deflated: bool
    crc: int
    comment: bytes

    def beginning(self, length: int) -> bytes:
        """At most so many of the unpacked bytes, the first ones; fewer where they are damaged."""
        if not self.deflated:
            return bytes(self.packed.bytes()[:length])
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(self.packed.bytes().data, length)
        except zlib.error:
            return b""

    def content(self) -> bytes | memoryview:
        """The unpacked bytes, in the memory of the file.

        In memory of their own where they are packed.

        Raises:
            CaptureFormatError: they are damaged, or more or fewer than the directory says.
        """
        raw = self.packed.bytes().data
        if not self.deflated:
            return raw
        engine = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = engine.decompress(raw, self.size + 1)
        except zlib.error as fault:
            raise damaged(f"{quoted(self.name)} cannot be unpacked: {fault}", str(self.packed.file.path)) from fault
        if len(data) != self.size or zlib.crc32(data) != self.crc:
            raise damaged(f"{quoted(self.name)} does not unpack to what the archive's directory says", str(self.packed.file.path))
        return data


def read_archive(path: Path, file: Mapped) -> dict[str, Member]:
    """Every member of an archive by its name.

    Args:
        path: the archive.
        file: the same, mapped.

    Raises:
        TooLarge: what is packed in it unpacks to more than a limit.
        CaptureFormatError: it is damaged: truncated, members of one name or in one place, sizes that cannot be true.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            listed, end = archive.infolist(), archive.start_dir
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError, OSError, struct.error) as fault:  # by what zipfile meets first
        raise damaged(f"its directory cannot be read: {shortened(str(fault))}", str(path)) from fault
    VALUES.check(len(listed), "the archive holds", str(path))
    found: dict[str, Member] = {}
    for info in listed:
        if info.filename in found:
            raise damaged(f"the archive holds two members called {quoted(info.filename)}", str(path))
        found[info.filename] = _member(info, file)
    unpacked = sum(member.size for member in found.values() if member.deflated)
    UNFOLDED.check(unpacked, "the archive unpacks to", str(path), least=FACTOR * file.size)
    _check_apart(list(found.values()), listed, end, str(path))
    return found


def _member(info: zipfile.ZipInfo, file: Mapped) -> Member:
    where = str(file.path)
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise CaptureFormatError(
            f"{quoted(info.filename)} is encrypted or packed in an unusual way",
            where=where,
            hint="save the checkpoint again with the tool that made it, without either",
        )
    deflated = info.compress_type == zipfile.ZIP_DEFLATED
    if not deflated and info.file_size != info.compress_size:
        raise damaged(f"{quoted(info.filename)} is not packed and yet claims {info.file_size} bytes of {info.compress_size}", where)
    if info.file_size > _LARGEST_RATIO * info.compress_size + _SLACK:
        raise damaged(f"{quoted(info.filename)} claims to unpack {info.compress_size} bytes to {info.file_size}", where)
    if info.header_offset < 0:
        raise damaged(f"{quoted(info.filename)} has no header", where)
    header = _LOCAL.unpack(file.bytes(info.header_offset, _LOCAL.size).tobytes())
    if header[0] != b"PK\3\4":
        raise damaged(f"{quoted(info.filename)} has no header", where)
    start = info.header_offset + _LOCAL.size + header[-2] + header[-1]
    file.bytes(start, info.compress_size)  # is inside the file
    return Member(info.filename, Region(file, start, info.compress_size), info.file_size, deflated, info.CRC, info.comment)


def _check_apart(members: Sequence[Member], listed: Sequence[zipfile.ZipInfo], end: int, where: str) -> None:
    """No byte may belong to two members, nor to a member and the directory."""
    ranges = sorted(
        (info.header_offset, member.packed.start + member.packed.length, member.name) for info, member in zip(listed, members, strict=True)
    )
    for (_, stop, before), (start, _, name) in pairwise([*ranges, (end, end, "the directory")]):
        if start < stop:
            raise damaged(f"{quoted(before)} and {quoted(name)} overlap", where)
