"""numpy's ``.npz`` and ``.npy``; arrays stay in the file.

A dict saved in ``.npy`` (as reprod_log does) is read as data.

numpy has no bfloat16 and no float8. Archives written here hold their bits as ``uint16`` and ``uint8`` and name the true type in the
member's comment, where ``numpy.load`` does not look.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from paralign.capture import load_foreign
from paralign.capture.npy import read_header
from paralign.dtypes import RAW, STORAGE, canonical
from paralign.errors import UnsafeFile, UnsupportedTensor, quoted
from paralign.formats.checkpoint import Contents, Entry, Stored, count, damaged, held, little
from paralign.formats.mapped import Mapped, Region
from paralign.formats.nesting import planted, unwrap
from paralign.formats.writing import ZipStream, in_turn, pour

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from paralign.formats.writing import Outgoing
    from paralign.formats.zips import Member

_NUMBERS = re.compile(r"[<>|=]?[biufc][1-9][0-9]?")
_HEADER = 1 << 16


def read_npz(path: Path, file: Mapped, members: dict[str, Member]) -> Contents:
    """The arrays of an archive.

    Raises:
        UnsafeFile: it holds something else.
        CaptureFormatError: it is damaged.
    """
    contents = Contents("npz", {}, [file])
    for member in members.values():
        where = f"{path}, array {quoted(member.name)}"
        if not member.name.endswith(".npy"):
            raise UnsafeFile(
                f"the archive holds {quoted(member.name)}, which is no array",
                where=str(path),
                hint="take it out, or save the arrays again with numpy.savez",
            )
        stored = _packed(member, where) if member.deflated else _lying(member.packed, where, _said(member))
        if stored is None:
            contents.ignored.append(member.name[: -len(".npy")])
        else:
            contents.tensors[member.name[: -len(".npy")]] = stored
    return contents


def read_array(path: Path, file: Mapped, within: str | None) -> Contents:
    """A ``.npy`` file: an array, called like the file, or a dict of arrays.

    Raises:
        UnsafeFile: it names or does what arrays and containers do not need.
        CaptureFormatError: it is damaged, or holds no numbers.
    """
    stored = _lying(Region(file, 0, file.size), str(path), None)
    tree = stored if stored is not None else planted(load_foreign(path), _leaf)
    found = unwrap(tree, str(path), path.stem, within)
    return Contents("npy", found.tensors, [file], nesting=".".join(found.nesting) or None, ignored=found.ignored)


def _leaf(value: Any) -> Stored | None:
    """A tensor for an array of numbers in memory."""
    if not isinstance(value, np.ndarray):
        return None
    try:
        return held(value)
    except UnsupportedTensor:
        return None


def _said(member: Member) -> str | None:
    """The true type of raw bits, as the archive's directory tells it."""
    said = member.comment.decode("latin-1")
    return said if said in RAW else None


def _lying(region: Region, where: str, said: str | None) -> Stored | None:
    """An array that lies in a file as it is; None for texts and objects."""
    length = min(region.length, _HEADER)
    descr, fortran, shape, data = read_header(io.BytesIO(region.file.bytes(region.start, length).tobytes()), region.length, where)
    if not _NUMBERS.fullmatch(descr):
        return None
    dtype, name = _element(descr, said, where)
    elements = Region(region.file, region.start + data, region.length - data)
    needed = count(shape) * dtype.itemsize
    if needed != elements.length:
        raise damaged(f"an array of shape {quoted(shape)} and type {dtype} takes {needed} bytes, {elements.length} are there", where)
    direct = little(dtype) and (not fortran or len(shape) < 2)  # noqa: PLR2004 - one axis has one order
    return Stored(Entry(name, shape), lambda: _shaped(elements.bytes(), dtype, shape, where, fortran=fortran), (elements,), direct)


def _element(descr: str, said: str | None, where: str) -> tuple[np.dtype[Any], str]:
    try:
        dtype = np.dtype(descr)
        name = canonical(dtype)
    except (TypeError, ValueError, UnsupportedTensor) as fault:
        raise damaged(f"there is no element type {quoted(descr)}", where) from fault
    if said is None:
        return dtype, name
    if name != STORAGE[said].name:
        raise damaged(f"elements said to be {said} are stored as {dtype}", where)
    return dtype, said


def _shaped(data: Any, dtype: np.dtype[Any], shape: tuple[int, ...], where: str, *, fortran: bool) -> np.ndarray[Any, Any]:
    try:
        return cast("np.ndarray[Any, Any]", np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C"))
    except ValueError as fault:  # more dimensions, or larger ones beside a 0, than numpy can hold
        raise damaged(f"an array has the impossible shape {quoted(shape)}", where) from fault


def _packed(member: Member, where: str) -> Stored | None:
    """An array that is unpacked whenever it is asked for; only its header is read now."""
    descr, fortran, shape, data = read_header(io.BytesIO(member.beginning(_HEADER)), member.size, where)
    if not _NUMBERS.fullmatch(descr):
        return None
    dtype, name = _element(descr, _said(member), where)
    if count(shape) * dtype.itemsize != member.size - data:
        raise damaged(f"an array of shape {quoted(shape)} and type {dtype} does not take {member.size - data} bytes", where)

    def load() -> np.ndarray[Any, Any]:
        return _shaped(memoryview(member.content())[data:], dtype, shape, where, fortran=fortran)

    return Stored(Entry(name, shape), load, (member.packed,))


def write_npz(path: Path, items: Sequence[Outgoing], advance: Callable[[int], None]) -> None:
    """Write an archive that ``numpy.load`` reads, one array at a time."""
    with path.open("xb") as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        for item in in_turn(items):
            header = npy_header(item.entry)
            stream = ZipStream(
                archive,
                f"{item.name}.npy",
                len(header) + item.entry.nbytes,
                len(header),
                item.entry.dtype.encode() if item.entry.dtype in RAW else b"",
                advance,
            )
            with stream:
                stream.write(header)
                pour(item, stream)


def npy_header(entry: Entry) -> bytes:
    """What a ``.npy`` file begins with."""
    stream = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(STORAGE[entry.dtype].newbyteorder("<"))
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": entry.shape})
    return stream.getvalue()


def npz_size(items: Sequence[Outgoing]) -> int:
    """Bytes that an archive takes at most."""
    return sum(item.entry.nbytes + 2 * len(item.name.encode()) + len(npy_header(item.entry)) + 256 for item in items) + 256
