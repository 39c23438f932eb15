"""The safetensors file format, in numpy.

A file is: the length of the header (8 bytes, little-endian), the header (JSON: tensor name -> dtype code, shape, first and
last byte), then the bytes of all tensors, little-endian, in C order, without holes. Tensors are laid out by falling element
size, so each begins at a multiple of its own element size.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, BinaryIO, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

import numpy as np

from paralign.capture.bounds import HEADER, axes_fault
from paralign.dtypes import STORAGE, Typed, is_complex
from paralign.errors import CaptureFormatError, UnsupportedTensor, UsageError, quoted, shortened, unwritten

#: canonical name -> code in the header
CODES: Dict[str, str] = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
_NAMES = {code: name for name, code in CODES.items()}
_PARTS = {"complex64": "float32", "complex128": "float64"}
_METADATA = "__metadata__"
_ALIGNMENT = 64
_REMEDY = "copy the file again from where it came, or write it again"


class Entry(NamedTuple):
    """Where one tensor lies: element type, shape, and its bytes as ``[start, stop)``.

    Bytes are counted from the start of the file.
    """

    dtype: str
    shape: Tuple[int, ...]
    start: int
    stop: int


def pairs(value: Typed) -> Typed:
    """A complex tensor as a real one with a last axis of 2, real parts first.

    Any other tensor stays as it is.
    """
    if not is_complex(value.dtype):
        return value
    part = _PARTS[value.dtype]
    flat = np.ascontiguousarray(value.array, STORAGE[value.dtype]).reshape(-1)
    return Typed(flat.view(STORAGE[part]).reshape((*value.array.shape, 2)), part)


def write(path: Union[str, Path], tensors: Mapping[str, Typed], metadata: Optional[Mapping[str, str]] = None) -> None:
    """Write tensors to a temporary file beside ``path``, then rename it.

    They may have any layout and byte order.

    Raises:
        UnsupportedTensor: an element type without a code (complex: see :func:`pairs`), or storage of another type.
        WriteFailed: the file cannot be written; nothing is left behind.
    """
    target = Path(path)
    header, order = _header(tensors, metadata)
    temporary = target.with_name(target.name + ".tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(header)
            for name in order:
                _write_elements(handle, tensors[name].array)
        temporary.replace(target)
    except OSError as fault:
        raise unwritten(target, fault) from fault
    finally:
        if temporary.exists():
            temporary.unlink()


def _header(tensors: Mapping[str, Typed], metadata: Optional[Mapping[str, str]]) -> Tuple[bytes, List[str]]:
    """The first bytes of a file, and its tensors' names in the order of their bytes."""
    for name, value in tensors.items():
        _check(name, value)
    order = sorted(tensors, key=lambda name: (-STORAGE[tensors[name].dtype].itemsize, name))
    content: Dict[str, Any] = {_METADATA: {str(k): str(v) for k, v in metadata.items()}} if metadata else {}
    end = 0
    for name in order:
        array, dtype = tensors[name]
        start, end = end, end + array.size * STORAGE[dtype].itemsize
        content[name] = {"dtype": CODES[dtype], "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(content, separators=(",", ":")).encode("ascii")
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)  # the first tensor begins where any processor likes to load from
    return struct.pack("<Q", len(text)) + text, order


def _check(name: str, value: Typed) -> None:
    if name == _METADATA:
        raise UsageError(f"a tensor cannot be called {_METADATA}", hint="choose another name; the format keeps this one for itself")
    if value.dtype not in CODES:
        hint = "store it as pairs of reals" if is_complex(value.dtype) else "convert it to one of: " + ", ".join(sorted(CODES))
        raise UnsupportedTensor(f"tensor {name!r} of type {value.dtype} has no code in the safetensors format", hint=hint)
    if value.array.dtype.newbyteorder("=") != STORAGE[value.dtype]:
        raise UnsupportedTensor(
            f"tensor {name!r} is said to be {value.dtype}, its storage is {value.array.dtype}",
            hint=f"hand over an array of {STORAGE[value.dtype]}",
        )


def _write_elements(handle: BinaryIO, array: "np.ndarray[Any, Any]") -> None:
    if array.size:
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        handle.write(little.reshape(-1).view(np.uint8).data)


class TensorFile:
    """A safetensors file, memory-mapped, read tensor by tensor without a copy.

    It is checked when it is opened.

    Args:
        path: the file.

    Raises:
        CaptureFormatError: the file is missing, truncated or damaged; names the file, the tensor and the cause.
    """

    def __init__(self, path: Union[str, Path]) -> None:
        self.path = Path(path)
        self._bytes = _mapped(self.path)
        header, data = read_header(self._bytes, self.path)
        self.metadata: Dict[str, str] = read_metadata(header.pop(_METADATA, {}), self.path)
        self.entries: Dict[str, Entry] = {name: read_entry(name, fields, data, self.path) for name, fields in header.items()}
        check_layout(self.entries, data, self._bytes.size, self.path)

    def tensor(self, name: str) -> Typed:
        """A tensor as it is stored, read-only, in the memory of the file.

        Raises:
            CaptureFormatError: there is no tensor of this name.
        """
        if name not in self.entries:
            raise CaptureFormatError(f"the file holds no tensor {name!r}", where=str(self.path), hint=_REMEDY)
        entry = self.entries[name]
        return Typed(self._view(name, entry, STORAGE[entry.dtype], entry.shape), entry.dtype)

    def complex_tensor(self, name: str, dtype: str) -> Typed:
        """A complex tensor that was stored as :func:`pairs`, read-only, in the memory of the file.

        Raises:
            CaptureFormatError: there is no such tensor, or it holds no pairs of the right type.
        """
        stored = self.tensor(name)
        if stored.dtype != _PARTS[dtype] or stored.array.shape[-1:] != (2,):
            raise CaptureFormatError(
                f"tensor {name!r} should hold {dtype} as pairs of {_PARTS[dtype]}, it holds {stored.dtype} of shape {stored.array.shape}",
                where=str(self.path),
                hint=_REMEDY,
            )
        return Typed(self._view(name, self.entries[name], STORAGE[dtype], stored.array.shape[:-1]), dtype)

    def _view(self, name: str, entry: Entry, dtype: "np.dtype[Any]", shape: Tuple[int, ...]) -> "np.ndarray[Any, Any]":
        try:
            view: "np.ndarray[Any, Any]" = np.ndarray(shape, dtype.newbyteorder("<"), buffer=self._bytes, offset=entry.start)
        except ValueError as fault:  # more dimensions, or larger ones beside a 0, than numpy can hold
            raise CaptureFormatError(
                f"tensor {name!r} has the impossible shape {shape}: {fault}", where=str(self.path), hint=_REMEDY
            ) from fault
        return view.astype(dtype, copy=False)  # copies only on a big-endian machine


def _mapped(path: Path) -> "np.ndarray[Any, Any]":
    try:
        size = path.stat().st_size
        if size < 8:  # noqa: PLR2004 - the length of the header takes 8 bytes
            raise CaptureFormatError(f"the file is truncated: it has {size} bytes", where=str(path), hint=_REMEDY)
        return np.memmap(path, dtype=np.uint8, mode="r")
    except OSError as fault:
        raise CaptureFormatError(
            f"the file cannot be read: {fault.strerror or fault}",
            where=str(path),
            hint="check that it is there and may be read; a capture must be moved as a whole",
        ) from fault


def read_header(content: "np.ndarray[Any, Any]", path: Path) -> Tuple[Dict[str, Any], int]:
    """The header, and where the data begin."""
    (length,) = struct.unpack("<Q", content[:8].tobytes())
    if length > content.size - 8:
        raise CaptureFormatError(
            f"the file is truncated or no safetensors file: it claims a header of {length} bytes and has {content.size} in all",
            where=str(path),
            hint=_REMEDY,
        )
    HEADER.check(length, "the file has a header of", str(path))
    text = content[8 : 8 + length].tobytes()
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as fault:
        raise CaptureFormatError(f"the header is damaged: {shortened(str(fault), 400)}", where=str(path), hint=_REMEDY) from fault
    if not isinstance(header, dict):
        raise CaptureFormatError("the header is damaged: it is no JSON object", where=str(path), hint=_REMEDY)
    return header, 8 + length


def _unique(items: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name, value in items:
        if name in found:
            raise ValueError(f"the name {quoted(name)} stands in it twice")
        found[name] = value
    return found


def read_metadata(metadata: Any, path: Path) -> Dict[str, str]:
    """The metadata of a header: texts by name."""
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise CaptureFormatError("the header is damaged: its metadata are no texts by name", where=str(path), hint=_REMEDY)
    return metadata


def read_entry(name: str, fields: Any, data: int, path: Path) -> Entry:
    """One tensor's line of the header, every field checked; ``data`` is where the data begin."""

    def fault(cause: str) -> CaptureFormatError:
        return CaptureFormatError(f"the header is damaged at tensor {quoted(name)}: {cause}", where=str(path), hint=_REMEDY)

    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise fault("it must have dtype, shape and data_offsets, and nothing else")
    code, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(code, str) or code not in _NAMES:
        raise CaptureFormatError(
            f"tensor {quoted(name)} has the element type {quoted(code)}, which is not known here",
            where=str(path),
            hint="known are " + ", ".join(sorted(_NAMES)) + "; convert the tensor where the file was made",
        )
    if not _are_sizes(shape):
        raise fault(f"its shape {quoted(shape)} is no list of whole numbers from 0")
    if axes_fault(shape) is not None:
        raise CaptureFormatError(f"tensor {quoted(name)} has the {axes_fault(shape)}", where=str(path), hint=_REMEDY)
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:  # noqa: PLR2004 - start and stop
        raise fault(f"its data_offsets {quoted(offsets)} are no start and stop")
    needed = math.prod(shape) * STORAGE[_NAMES[code]].itemsize
    if offsets[1] - offsets[0] != needed:
        raise fault(f"shape {quoted(shape)} of {code} takes {needed} bytes, its data_offsets hold {offsets[1] - offsets[0]}")
    return Entry(_NAMES[code], tuple(shape), data + offsets[0], data + offsets[1])


def _are_sizes(values: Any) -> bool:
    if not isinstance(values, list):
        return False
    return all(type(value) is int and value >= 0 for value in values)


def check_layout(entries: Mapping[str, Entry], data: int, size: int, path: Path) -> None:
    """The tensors must cover the data from first to last byte, each byte once."""
    end, before = data, ""
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start < end:
            raise CaptureFormatError(
                f"the header is damaged: tensors {quoted(before)} and {quoted(name)} overlap", where=str(path), hint=_REMEDY
            )
        if entry.start > end:
            raise CaptureFormatError(
                f"the header is damaged: {entry.start - end} bytes before tensor {quoted(name)} belong to no tensor",
                where=str(path),
                hint=_REMEDY,
            )
        end, before = entry.stop, name
    if end > size:
        raise CaptureFormatError(
            f"the file is truncated: its tensors take {end - data} bytes, {size - data} are there", where=str(path), hint=_REMEDY
        )
    if end < size:
        raise CaptureFormatError(f"the file has {size - end} bytes after its last tensor", where=str(path), hint=_REMEDY)
