"""safetensors files of other tools and for them.

Beyond what captures hold, complex numbers: ``complex64`` under the format's own code ``C64``; ``complex128``, for which it has none, as
pairs of ``F64`` in one more axis, named in the metadata under ``paralign.complex128``.

Tied tensors are written twice, so that every reader finds every name. Files whose writer dropped one of two tied names and noted
``dropped name -> kept name`` in the metadata, as the format's own PyTorch functions do, are read with both.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture.bounds import TENSORS
from paralign.capture.safetensors import CODES, check_layout, read_entry, read_header, read_metadata
from paralign.dtypes import STORAGE
from paralign.errors import CaptureFormatError, UnsupportedTensor, UsageError, quoted, shortened
from paralign.formats.checkpoint import Contents, Entry, Stored, damaged
from paralign.formats.mapped import Mapped, Region
from paralign.formats.writing import Plain, in_turn, pour

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from paralign.formats.writing import Outgoing

METADATA = "__metadata__"
PAIRED = "paralign.complex128"
_CODES = {**CODES, "complex64": "C64", "complex128": "F64"}
_ALIGNMENT = 64
_PREFIX = 8


def read_safetensors(path: Path, file: Mapped) -> Contents:
    """The tensors of one file.

    Raises:
        CaptureFormatError: it is damaged, or has an element type that is not known here.
    """
    if file.size < _PREFIX:
        raise damaged(f"it has {file.size} bytes", str(path))
    header, data = read_header(file.bytes(0, file.size), path)
    metadata = read_metadata(header.pop(METADATA, {}), path)
    TENSORS.check(len(header), "the file holds", str(path))
    paired = _paired(metadata.pop(PAIRED, "[]"), path)
    complexes = {name: "complex64" for name, fields in header.items() if isinstance(fields, dict) and fields.get("dtype") == "C64"}
    for name in complexes:  # eight bytes an element: checked as an integer of that length, which the format knows on every version
        header[name] = {**header[name], "dtype": "I64"}
    entries = {name: read_entry(name, fields, data, path) for name, fields in header.items()}
    check_layout(entries, data, file.size, path)
    contents = Contents("safetensors", {}, [file], metadata)
    for name, entry in entries.items():
        dtype, shape = complexes.get(name, entry.dtype), entry.shape
        if name in paired:
            dtype, shape = _unpaired(name, dtype, shape, path)
        contents.tensors[name] = _stored(
            Entry(dtype, shape), Region(file, entry.start, entry.stop - entry.start), f"{path}, {quoted(name)}"
        )
    for name, kept in metadata.items():
        if name not in contents.tensors and kept in entries:
            contents.tensors[name] = contents.tensors[kept]
    return contents


def _paired(text: str, path: Path) -> set[str]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise damaged(f"its metadata {PAIRED!r} is no list", str(path)) from fault
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise damaged(f"its metadata {PAIRED!r} is no list of names", str(path))
    return set(names)


def _unpaired(name: str, dtype: str, shape: tuple[int, ...], path: Path) -> tuple[str, tuple[int, ...]]:
    if dtype != "float64" or shape[-1:] != (2,):
        raise damaged(f"tensor {quoted(name)} should hold pairs of float64, it holds {dtype} of shape {quoted(shape)}", str(path))
    return "complex128", shape[:-1]


def _stored(entry: Entry, region: Region, where: str) -> Stored:
    def load() -> np.ndarray[Any, Any]:
        try:
            return np.frombuffer(region.bytes(), STORAGE[entry.dtype].newbyteorder("<")).reshape(entry.shape)
        except ValueError as fault:  # more dimensions, or larger ones beside a 0, than numpy can hold
            raise damaged(f"the tensor has the impossible shape {quoted(entry.shape)}", where) from fault

    return Stored(entry, load, (region,), direct=True, identity=(region.file.identity, region.start, entry) if region.length else None)


def write_safetensors(path: Path, items: Sequence[Outgoing], metadata: Mapping[str, str], advance: Callable[[int], None]) -> None:
    """Write one file, one tensor at a time."""
    header, order = _header(items, metadata)
    with Plain(path, advance) as sink:
        sink.write(header)
        for item in in_turn(order):
            pour(item, sink)


def safetensors_size(items: Sequence[Outgoing], metadata: Mapping[str, str]) -> int:
    """Bytes that the file takes."""
    return len(_header(items, metadata)[0]) + sum(item.entry.nbytes for item in items)


def _header(items: Sequence[Outgoing], metadata: Mapping[str, str]) -> tuple[bytes, list[Outgoing]]:
    """The first bytes of a file, and the order of its tensors, by falling element size.

    Each is aligned so.
    """
    order = sorted(items, key=lambda item: -STORAGE[item.entry.dtype].itemsize)
    paired = [item.name for item in order if item.entry.dtype == "complex128"]
    said = {**metadata, **({PAIRED: json.dumps(paired)} if paired else {})}
    content: dict[str, Any] = {METADATA: said} if said else {}
    end = 0
    for item in order:
        dtype, shape = item.entry
        if dtype not in _CODES:
            raise UnsupportedTensor(f"tensor {item.name!r} of type {dtype} has no code in the safetensors format")
        if item.name == METADATA:
            raise UsageError(f"a tensor cannot be called {METADATA}", hint="choose another name; the format keeps this one for itself")
        start, end = end, end + item.entry.nbytes
        content[item.name] = {
            "dtype": _CODES[dtype],
            "shape": [*shape, 2] if dtype == "complex128" else list(shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(content, separators=(",", ":")).encode("ascii")
    text += b" " * (-(len(text) + _PREFIX) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text, order


def read_index(path: Path, text: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """What an index of shards says: tensor name -> file name, and its metadata.

    Raises:
        CaptureFormatError: it is no such index, or names a file outside its folder.
    """
    try:
        index = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as fault:
        raise damaged(f"the index is no JSON: {shortened(str(fault), 400)}", str(path)) from fault
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not all(isinstance(file, str) for file in shards.values()):
        raise damaged("the index has no weight_map of file names by tensor name", str(path))
    for file in set(shards.values()):
        if not file or file in (".", "..") or "/" in file or "\\" in file or "\0" in file:
            raise CaptureFormatError(
                f"the index names the file {quoted(file)}, which is not one beside it",
                where=str(path),
                hint="an index may name files of its own folder only; get the checkpoint from its source again",
            )
    said = index.get("metadata")
    return shards, {key: value for key, value in said.items() if isinstance(value, str)} if isinstance(said, dict) else {}


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in items:
        if name in found:
            raise ValueError(f"the name {quoted(name)} stands in it twice")
        found[name] = value
    return found
