"""Arrays in other tools' files, read without ever running what these hold.

numpy's files, and reprod_log's dicts of arrays.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Dict, Mapping, Union, cast

import numpy as np

from paralign.capture.bounds import FACTOR, UNFOLDED, VALUES, open_regular
from paralign.capture.npy import MAGIC, read_npy
from paralign.errors import CaptureFormatError, UnsafeFile, UnsupportedTensor, UsageError, quoted, shortened, unwritten

#: deflate cannot shrink more than this
_LARGEST_RATIO = 1032
_SLACK = 1 << 16
_REMEDY = "copy the file again from where it came, or write it again"
_ATOMS = (type(None), bool, int, float, complex, str, bytes, np.generic)


def load_foreign(path: Union[str, Path]) -> Any:
    """The content of a ``.npy`` or ``.npz`` file: an array, or arrays in containers.

    The latter are dicts, lists and tuples, nested.

    A ``.npy`` file of objects (``numpy.save`` of a dict, as reprod_log writes it) is a pickle, which is a program. It is read
    as data by an interpreter that knows arrays, scalars and containers alone. Arrays are fresh and writable.

    Raises:
        UsageError: there is no such file.
        UnsafeFile: it names or does something else; says what; nothing of it was run.
        CaptureFormatError: it is truncated or damaged, claims more than it has, or is of another kind.
    """
    where = str(path)
    try:
        with open_regular(path) as handle:
            start = handle.read(len(MAGIC))
            handle.seek(0)
            if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                return _read_archive(handle, where)
            if start == MAGIC:
                return read_npy(handle, os.fstat(handle.fileno()).st_size, where)
    except OSError as fault:
        raise UsageError(
            f"the file cannot be read: {fault.strerror or fault}", where=where, hint="check the path and the permissions"
        ) from fault
    raise CaptureFormatError(
        "the file is neither .npy nor .npz" if start else "the file is empty",
        where=where,
        hint="save it with numpy.save, numpy.savez or ReprodLogger.save",
    )


def _read_archive(handle: BinaryIO, where: str) -> Dict[str, Any]:
    """Every array of a ``.npz`` file by its name."""
    found: Dict[str, Any] = {}
    try:
        with zipfile.ZipFile(handle) as archive:
            listed, size = archive.infolist(), os.fstat(handle.fileno()).st_size
            VALUES.check(len(listed), "the archive holds", where)
            for member in listed:
                _check_member(member, where)
            UNFOLDED.check(sum(member.file_size for member in listed), "the archive unpacks to", where, least=FACTOR * size)
            for member in listed:
                if not member.filename.endswith(".npy"):
                    raise UnsafeFile(
                        f"the archive holds {quoted(member.filename)}, which is no array",
                        where=where,
                        hint="take it out, or save the arrays again with numpy.savez",
                    )
                name = member.filename[: -len(".npy")]
                if name in found:
                    raise CaptureFormatError(f"the archive holds two arrays called {quoted(name)}", where=where, hint=_REMEDY)
                with archive.open(member) as stream:
                    found[name] = read_npy(cast("BinaryIO", stream), member.file_size, f"{where}, array {quoted(name)}")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError) as fault:  # by what zipfile meets first
        raise CaptureFormatError(f"the archive is truncated or damaged: {shortened(str(fault))}", where=where, hint=_REMEDY) from fault
    return found


def _check_member(member: zipfile.ZipInfo, where: str) -> None:
    if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise CaptureFormatError(
            f"{quoted(member.filename)} is encrypted or packed in a way that numpy does not use",
            where=where,
            hint="save the arrays again with numpy.savez or numpy.savez_compressed",
        )
    if member.file_size > _LARGEST_RATIO * member.compress_size + _SLACK:
        raise CaptureFormatError(
            f"{quoted(member.filename)} claims to unpack {member.compress_size} bytes to {member.file_size}", where=where, hint=_REMEDY
        )


def save_foreign(path: Union[str, Path], values: Mapping[Any, Any]) -> None:
    """Save a dict of arrays as reprod_log does, by ``numpy.save`` of the dict.

    ``.npy`` is added where the name lacks it.

    The file appears at once and whole; missing folders are made.

    Raises:
        UnsupportedTensor: a value that :func:`load_foreign` would refuse; names its key.
        WriteFailed: the file cannot be written; an older one stays as it was.
    """
    _check(values, "")
    name = os.fspath(path)
    target = Path(name if name.endswith(".npy") else name + ".npy")
    temporary = target.with_name(target.name + ".tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as handle:
            np.save(handle, np.array(dict(values), dtype=object))
        temporary.replace(target)
    except OSError as fault:
        raise unwritten(target, fault) from fault
    finally:
        if temporary.exists():
            temporary.unlink()


def _check(value: Any, where: str) -> None:
    """Refuse what could not be read back."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            _check(item, f"{where}[{number}]")
    elif not isinstance(value, (np.ndarray, *_ATOMS)):
        raise UnsupportedTensor(
            f"{where!r} is a {type(value).__name__}, which cannot be saved as data",
            where=where,
            hint="convert it with .numpy() first (PyTorch on a GPU: .detach().cpu().numpy())",
        )
