"""PaddlePaddle's ``.pdparams`` and ``.pdopt``: pickled dicts of numpy arrays.

They are read as data, their elements left in the file.

PaddlePaddle writes bfloat16 as ``uint16`` and reads ``uint16`` as bfloat16; it writes float8 as ``int8``. Files written here hold a second,
small pickle after the first, where ``paddle.load`` does not look: it names the true types of what would be mistaken otherwise.
"""

from __future__ import annotations

import codecs
import io
import pickle
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture.admitted import Dialect, Kept
from paralign.capture.bounds import shape_fault
from paralign.capture.unpickle import unpickle
from paralign.dtypes import STORAGE
from paralign.errors import UsageError, quoted, shortened
from paralign.formats.checkpoint import Contents, Entry, Stored, damaged, held, little
from paralign.formats.mapped import Mapped, Region
from paralign.formats.nesting import planted, unwrap
from paralign.formats.opcodes import get, integers, put, text
from paralign.formats.writing import Plain, in_turn, pour

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from paralign.formats.writing import Outgoing

NAMES = "StructuredToParameterName@@"
SPLIT = "UnpackBigParamInfor@@"
TYPES = "paralign.dtypes"

#: arrays below this size are read with the pickle
_KEEP = 1 << 12
_HINT = "save the state dict alone: paddle.save(model.state_dict(), path)"
DIALECT = Dialect(keep=_KEEP, hint=_HINT)

#: types that paddle.load would take for others, or refuse
_MISTAKEN = frozenset({"uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"})
#: types that PaddlePaddle does not have: they stay numpy arrays when it loads them
FOREIGN = frozenset({"uint16", "uint32", "uint64"})


def read_paddle(path: Path, file: Mapped, tree: Any, rest: bytes, within: str | None) -> Contents:
    """The tensors of a pickled dict.

    Args:
        path: the file.
        file: the same, mapped.
        tree: what :data:`DIALECT` read of it.
        rest: the bytes after the pickle.
        within: dotted keys that lead to the tensors; None: they are looked for.

    Raises:
        CaptureFormatError: it holds no tensors, or its arrays do not fit what it says of them.
    """
    where = str(path)
    types = _types(rest, where)
    paddles = (isinstance(tree, dict) and NAMES in tree) or path.suffix.startswith(".pd")
    raw = "bfloat16" if paddles else None
    if isinstance(tree, dict):
        tree = {key: value for key, value in tree.items() if key != NAMES}
        _rejoin(tree, where)
        for name, dtype in types.items():
            tree[name] = _typed(_array(tree.get(name), file, None, where), name, dtype, where)
    found = unwrap(planted(tree, lambda value: _array(value, file, raw, where)), where, path.stem, within)
    nesting = ".".join(found.nesting) or None
    return Contents("paddle" if paddles else "pickle", found.tensors, [file], nesting=nesting, ignored=found.ignored)


def _types(rest: bytes, where: str) -> dict[str, str]:
    """The names and true types in the second pickle; empty where there is none."""
    if not rest:
        return {}
    value = unpickle(io.BytesIO(rest), len(rest), where)
    types = value.get(TYPES) if isinstance(value, dict) else None
    if not isinstance(types, dict) or not all(
        isinstance(name, str) and isinstance(dtype, str) and dtype in STORAGE for name, dtype in types.items()
    ):
        raise damaged("bytes follow its end", where)
    return types


def _typed(stored: Stored | None, name: str, dtype: str, where: str) -> Stored:
    if stored is None or STORAGE[stored.entry.dtype].itemsize != STORAGE[dtype].itemsize:
        raise damaged(f"it says that {quoted(name)} is {dtype}, what is stored is not", where)
    return replace(stored, entry=Entry(dtype, stored.entry.shape), load=lambda: stored.load().view(STORAGE[dtype]))


def _array(value: Any, file: Mapped, raw: str | None, where: str) -> Stored | None:
    """A tensor for an array, or for a pair of a parameter's name and its array; else None.

    The array may lie in the file or not.
    """
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):  # noqa: PLR2004 - a name and its array
        value = value[1]
    if isinstance(value, _Joined):
        parts = [_array(part, file, raw, where) for part in value.parts]
        return _joined([part for part in parts if part is not None], value.shape, where)
    if not isinstance(value, (Kept, np.ndarray)) or value.dtype.kind not in "biufc":
        return None
    name = raw if raw is not None and value.dtype.newbyteorder("=") == np.uint16 else None
    if isinstance(value, np.ndarray):
        return held(value, name)
    entry = held(np.empty(0, value.dtype), name).entry._replace(shape=value.shape)
    region = Region(file, value.blob.start, value.blob.length)
    direct = not value.blob.text and little(value.dtype) and (not value.fortran or len(value.shape) < 2)  # noqa: PLR2004 - one axis has one order
    return Stored(entry, lambda: _elements(region, value, where), (region,), direct, identity=(file.identity, region.start, entry))


def _elements(region: Region, kept: Kept, where: str) -> np.ndarray[Any, Any]:
    data: Any = _decoded(region, kept, where) if kept.blob.text else region.bytes()
    try:
        return np.frombuffer(data, kept.dtype).reshape(kept.shape, order="F" if kept.fortran else "C")
    except ValueError as fault:  # more dimensions, or larger ones beside a 0, than numpy can hold
        raise damaged(f"an array has the impossible shape {quoted(kept.shape)}", where) from fault


def _decoded(region: Region, kept: Kept, where: str) -> bytearray:
    """Bytes that were written as a text of as many characters (protocol 2)."""
    decoder, found = codecs.getincrementaldecoder("utf-8")(), bytearray()
    try:
        for block in region.blocks():
            found += decoder.decode(bytes(block)).encode("latin-1")
        decoder.decode(b"", final=True)
    except UnicodeError as fault:
        raise damaged(f"the text that stands for an array holds something else: {shortened(str(fault))}", where) from fault
    if len(found) != Entry("uint8", kept.shape).nbytes * kept.dtype.itemsize:
        raise damaged(f"an array of shape {quoted(kept.shape)} and type {kept.dtype} does not take {len(found)} bytes", where)
    return found


class _Joined:
    """An array that PaddlePaddle saved in slices because protocols below 4 cannot hold it."""

    def __init__(self, parts: list[Any], shape: tuple[int, ...]) -> None:
        self.parts, self.shape = parts, shape


def _rejoin(tree: dict[Any, Any], where: str) -> None:
    """Put one value in place of each group of slices."""
    groups = tree.pop(SPLIT, {})
    if not isinstance(groups, dict):
        raise damaged(f"what it says of slices is a {type(groups).__name__}", where)
    for name, told in groups.items():
        slices, shape = (told.get("slices"), told.get("OriginShape")) if isinstance(told, dict) else (None, None)
        named = isinstance(slices, list) and all(isinstance(part, str) and part in tree for part in slices)
        if not isinstance(slices, list) or not named or len(set(slices)) != len(slices):
            raise damaged(f"the slices of {quoted(name)} are not all there", where)
        if not isinstance(shape, (list, tuple)) or shape_fault(shape) is not None:
            raise damaged(f"the slices of {quoted(name)} cannot be joined: {shape_fault(shape)}", where)
        if name in tree:
            raise damaged(f"two tensors are called {quoted(name)}", where)
        tree[name] = _Joined([tree.pop(part) for part in slices], tuple(shape))


def _joined(parts: list[Stored], shape: tuple[int, ...], where: str) -> Stored:
    entries = {part.entry.dtype for part in parts}
    entry = Entry(next(iter(entries), "float32"), shape)
    if len(entries) != 1 or sum(part.entry.nbytes for part in parts) != entry.nbytes:
        raise damaged(f"the slices of an array of shape {quoted(shape)} do not make it up", where)

    def load() -> np.ndarray[Any, Any]:
        return np.concatenate([part.load().reshape(-1) for part in parts]).reshape(shape)

    return Stored(entry, load, tuple(region for part in parts for region in part.parts), all(part.direct and part.parts for part in parts))


def write_paddle(path: Path, items: Sequence[Outgoing], advance: Callable[[int], None]) -> None:
    """Write a pickle that ``paddle.load`` reads, one tensor at a time.

    Tied tensors are one array.
    """
    with Plain(path, advance) as sink:
        first: dict[Any, bytes] = {}
        sink.write(b"\x80\x04}(")
        for number, item in enumerate(in_turn(items)):
            recalled = first.get(item.identity) if item.identity is not None else None
            if recalled is not None:
                sink.write(text(item.name) + recalled)
                item.release()
                continue
            head, tail = _around(item.entry)
            sink.write(text(item.name) + head)
            pour(item, sink)
            sink.write(tail + put(number))
            first[item.identity] = get(number)
        sink.write(_end(items))


def paddle_size(items: Sequence[Outgoing]) -> int:
    """Bytes that the file takes at most."""
    pieces = sum(item.entry.nbytes + len(text(item.name)) + sum(map(len, _around(item.entry))) + 5 for item in items)
    return 4 + pieces + len(_end(items))


def check_names(items: Sequence[Outgoing]) -> None:
    """Refuse names that PaddlePaddle keeps for itself.

    Raises:
        UsageError: one of them.
    """
    for item in items:
        if item.name in (NAMES, SPLIT):
            raise UsageError(f"a tensor cannot be called {item.name}", hint="choose another name; paddle.save keeps this one for itself")


_FIND = b"\x93"
_RECONSTRUCT = text("numpy.core.multiarray") + text("_reconstruct") + _FIND
_NDARRAY, _DTYPE = (text("numpy") + text(name) + _FIND for name in ("ndarray", "dtype"))


def _around(entry: Entry) -> tuple[bytes, bytes]:
    """What comes before and after the elements of an array."""
    stored = np.dtype("int8") if entry.dtype.startswith("float8") else STORAGE[entry.dtype]
    code, order = f"{stored.kind}{stored.itemsize}", "<" if stored.itemsize > 1 else "|"
    element = _DTYPE + text(code) + b"\x89\x88\x87R(K\x03" + text(order) + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    head = _RECONSTRUCT + _NDARRAY + b"K\x00\x85C\x01b\x87R(K\x01" + integers(entry.shape) + element + b"\x89\x8e"
    return head + struct.pack("<Q", entry.nbytes), b"tb"


def _end(items: Sequence[Outgoing]) -> bytes:
    """The table of parameter names, then the true types.

    It tells paddle.load what to make tensors of.
    """
    table = {item.name: item.name for item in items if item.entry.dtype not in FOREIGN}
    end = text(NAMES) + b"}(" + b"".join(text(key) + text(value) for key, value in table.items()) + b"uu."
    types = {item.name: item.entry.dtype for item in items if item.entry.dtype in _MISTAKEN}
    return end + (pickle.dumps({TYPES: types}, 4) if types else b"")
