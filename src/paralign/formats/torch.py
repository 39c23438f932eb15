"""PyTorch's ``.pth``, ``.pt`` and ``.bin``: a pickle that is read as data.

Storages stay in the file.

Two layouts: the zip archive (PyTorch 1.6 and later: ``data.pkl``, one member a storage) and the older one (five pickles, then storages).
Views of any strides and offset, several in one storage, are read as they are; tied tensors are written as one storage.
"""

from __future__ import annotations

import io
import struct
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from paralign.capture.admitted import Dialect, Reading, Symbol, call
from paralign.capture.bounds import axes_fault
from paralign.capture.unpickle import unpickle
from paralign.dtypes import RAW, STORAGE, is_complex, is_floating
from paralign.errors import UnsafeFile, UnsupportedTensor, quoted
from paralign.formats.checkpoint import Contents, Entry, Stored, count, damaged, held, little
from paralign.formats.mapped import Mapped, Region
from paralign.formats.nesting import planted, unwrap
from paralign.formats.opcodes import integer, integers, text
from paralign.formats.writing import ZipStream, in_turn, pour

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from paralign.formats.writing import Outgoing
    from paralign.formats.zips import Member

#: the first value of a file of the older layout
MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_HINT = "save the state dict alone: torch.save(model.state_dict(), path)"

#: storage classes and the canonical type of their elements
_STORAGES = {
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
_CLASSES = {dtype: name for name, dtype in _STORAGES.items() if name != "UntypedStorage"}


@dataclass(frozen=True)
class _Kind:
    """A class of storages."""

    dtype: str


@dataclass(frozen=True)
class _Type:
    """A ``torch.dtype``, or the class of a tensor."""

    name: str


@dataclass(frozen=True)
class _Storage:
    """A storage that a pickle refers to; ``first`` is an offset into it, in elements."""

    key: str
    kind: _Kind
    elements: int
    first: int = 0


@dataclass(frozen=True)
class _Tensor:
    """A tensor that a pickle describes; offset and strides in elements."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    conjugated: bool = False
    negated: bool = False


class _Place(NamedTuple):
    """Where the bytes of a storage are."""

    region: Region
    size: int
    content: Callable[[], Any]
    packed: bool
    order: Literal["<", ">"]


def _persistent(reading: Reading, identity: Any) -> _Storage:
    """A storage, as it is named in either layout."""
    if isinstance(identity, tuple) and identity[:1] == ("module",):
        raise reading.unsafe("the file holds a whole model, classes and all")
    if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] != "storage":
        raise reading.damaged("it refers to something other than a storage")
    _, kind, key, _, elements, *view = identity
    if not isinstance(kind, _Kind) or not isinstance(key, str) or type(elements) is not int or elements < 0:
        raise reading.damaged("a storage is described in an unknown way")
    first = 0
    if view and view[0] is not None:
        if not isinstance(view[0], tuple) or len(view[0]) != 3 or not _are_sizes(view[0][1:]):  # noqa: PLR2004 - what is viewed, its offset and its shape
            raise reading.damaged("a view of a storage is described in an unknown way")
        first = view[0][1]
    return _Storage(key, kind, elements, first)


def _are_sizes(values: Any) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _rebuild(reading: Reading, storage: _Storage, offset: int, shape: tuple[Any, ...], strides: tuple[Any, ...], *more: Any) -> _Tensor:
    if not _are_sizes((offset, *shape, *strides)) or len(shape) != len(strides):
        raise reading.damaged("a tensor's offset, shape and strides are no whole numbers from 0, as many of each")
    if axes_fault(shape) is not None:
        raise reading.damaged(f"a tensor has the {axes_fault(shape)}")
    flags = more[2] if len(more) > 2 and isinstance(more[2], dict) else {}  # noqa: PLR2004 - flags stand third, in newer files
    return _Tensor(storage, storage.kind.dtype, storage.first + offset, shape, strides, flags.get("conj") is True, flags.get("neg") is True)


def _rebuild_plain(reading: Reading, *view: Any) -> _Tensor:
    return _check_flags(reading, _rebuild(reading, *view))


def _check_flags(reading: Reading, tensor: _Tensor) -> _Tensor:
    """Refuse marks that PyTorch would not set.

    Only views of complex tensors are conjugated or negated.
    """
    numbers = is_floating(tensor.dtype) and tensor.dtype not in RAW
    if (tensor.conjugated and not is_complex(tensor.dtype)) or (tensor.negated and not numbers):
        mark = "conjugated" if tensor.conjugated else "negated"
        raise reading.damaged(f"a tensor of {tensor.dtype} is marked as {mark}")
    return tensor


def _rebuild_typed(
    reading: Reading,
    storage: _Storage,
    offset: int,
    shape: tuple[Any, ...],
    strides: tuple[Any, ...],
    gradient: bool,
    hooks: Any,
    dtype: _Type,
    metadata: Any = None,
) -> _Tensor:
    if dtype.name not in STORAGE:
        raise UnsupportedTensor(
            f"a tensor has the element type torch.{dtype.name}, which is not known here",
            where=reading.where,
            hint="convert it before it is saved, to one of: " + ", ".join(sorted(STORAGE)),
        )
    plain = _rebuild(reading, storage, offset, shape, strides, gradient, hooks, metadata)
    return _check_flags(reading, _Tensor(storage, dtype.name, plain.offset, shape, strides, plain.conjugated, plain.negated))


def _parameter(_: Reading, tensor: _Tensor, *__: Any) -> _Tensor:
    return tensor


def _subclass(reading: Reading, function: Symbol, _: _Type, arguments: tuple[Any, ...], __: Any) -> Any:
    return call(reading, function, arguments)


def _size(reading: Reading, lengths: Sequence[int] = ()) -> tuple[int, ...]:
    reading.spend(len(lengths))
    return tuple(lengths)


def _device(reading: Reading, kind: str, number: int = 0) -> str:
    reading.spend(len(kind))
    return f"{kind}:{number}"


_ANY = object
_VIEW = (_Storage, int, tuple, tuple)
_NAMES: dict[Symbol, Any] = {
    Symbol("torch._utils", "_rebuild_tensor"): (_rebuild_plain, (_VIEW,)),
    Symbol("torch._utils", "_rebuild_tensor_v2"): (_rebuild_plain, ((*_VIEW, bool, _ANY), (*_VIEW, bool, _ANY, _ANY))),
    Symbol("torch._utils", "_rebuild_tensor_v3"): (_rebuild_typed, ((*_VIEW, bool, _ANY, _Type), (*_VIEW, bool, _ANY, _Type, _ANY))),
    Symbol("torch._utils", "_rebuild_parameter"): (_parameter, ((_Tensor, bool, _ANY),)),
    Symbol("torch._utils", "_rebuild_parameter_with_state"): (_parameter, ((_Tensor, bool, _ANY, _ANY),)),
    Symbol("torch._tensor", "_rebuild_from_type_v2"): (_subclass, ((Symbol, _Type, tuple, _ANY),)),
    Symbol("torch", "Size"): (_size, ((), (tuple,), (list,))),
    Symbol("torch", "device"): (_device, ((str,), (str, int))),
}
_TYPES = [*STORAGE, *("bits8", "quint8", "qint8", "qint32", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32")]
_VALUES: dict[Symbol, Any] = {
    **{Symbol(module, name): _Kind(dtype) for name, dtype in _STORAGES.items() for module in ("torch", "torch.cuda", "torch.storage")},
    **{Symbol("torch", name): _Type(name) for name in _TYPES},
    **{
        Symbol(module, name): _Type(name)
        for module, name in (
            ("torch", "Tensor"),
            ("torch.nn.parameter", "Parameter"),
            ("torch.nn.parameter", "Buffer"),
            ("torch.nn", "Parameter"),
        )
    },
}


def _ignored_state(target: Any, state: Any) -> bool:
    """Whether a state says nothing about tensors, as versions of modules do.

    State dicts carry these as an attribute.
    """
    return isinstance(target, dict) and isinstance(state, dict)


#: what a state dict, and what training scripts keep beside it, may hold
DIALECT = Dialect(_NAMES, _VALUES, (_Tensor, _Storage, _Kind, _Type), _persistent, _ignored_state, hint=_HINT)


def read_zip(path: Path, file: Mapped, members: Mapping[str, Member], within: str | None) -> Contents:
    """The tensors of an archive.

    Raises:
        UnsafeFile: its pickle names or does what tensors and containers do not need; or it is a TorchScript program.
        CaptureFormatError: it is damaged, or its tensors lie outside its storages.
    """
    program = next(name for name in members if name.endswith("/data.pkl"))
    folder = program[: -len("data.pkl")]
    if f"{folder}constants.pkl" in members:
        raise UnsafeFile("the file is a TorchScript program, not a state dict; nothing of it was run", where=str(path), hint=_HINT)
    said = bytes(members[f"{folder}byteorder"].content()) if f"{folder}byteorder" in members else b"little"
    if said not in (b"little", b"big"):
        raise damaged(f"its byte order is {quoted(said)}", str(path))
    order: Literal["<", ">"] = "<" if said == b"little" else ">"
    content = bytes(members[program].content())
    tree = unpickle(io.BytesIO(content), len(content), str(path), DIALECT)
    places: dict[str, _Place] = {}
    for name, member in members.items():
        if name.startswith(f"{folder}data/"):
            places[name[len(folder) + 5 :]] = _Place(member.packed, member.size, member.content, member.deflated, order)
    return _contents("torch", tree, places, path, file, within)


def read_legacy(path: Path, file: Mapped, stream: BinaryIO, within: str | None) -> Contents:
    """The tensors of a file of the older layout; ``stream`` stands behind its first value.

    Raises:
        UnsafeFile: a pickle in it names or does what tensors and containers do not need.
        CaptureFormatError: it is damaged, or its tensors lie outside its storages.
    """
    where = str(path)

    def following(dialect: Dialect) -> Any:
        return unpickle(stream, file.size - stream.tell(), where, dialect, alone=False)

    version, system, tree, keys = following(DIALECT), following(DIALECT), following(DIALECT), following(DIALECT)
    if version != _PROTOCOL or not isinstance(system, dict) or not isinstance(keys, list):
        raise damaged(f"its version is {quoted(version)}, known is {_PROTOCOL}", where)
    kinds = _storages(tree)
    places, start = {}, stream.tell()
    for key in keys:
        if not isinstance(key, str) or key not in kinds:
            raise damaged(f"no tensor refers to the storage {quoted(key)}", where)
        (elements,) = struct.unpack("<q", file.bytes(start, 8).tobytes())
        region = Region(file, start + 8, elements * STORAGE[kinds[key]].itemsize)
        region.bytes()  # is inside the file
        places[key] = _Place(region, region.length, region.bytes, False, "<")
        start = region.start + region.length
    if start != file.size:
        raise damaged(f"{file.size - start} bytes follow its end", where)
    return _contents("torch legacy", tree, places, path, file, within)


def _storages(tree: Any) -> dict[str, str]:
    """The key of every storage in a tree, and the type of its elements."""
    found: dict[str, str] = {}

    def note(value: Any) -> None:
        if isinstance(value, (_Tensor, _Storage)):
            storage = value.storage if isinstance(value, _Tensor) else value
            found.setdefault(storage.key, storage.kind.dtype)

    planted(tree, note)
    return found


def _contents(format: str, tree: Any, places: Mapping[str, _Place], path: Path, file: Mapped, within: str | None) -> Contents:
    def leaf(value: Any) -> Stored | None:
        if isinstance(value, _Tensor):
            return _stored(value, places, file, str(path))
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            return held(value)
        return None

    found = unwrap(planted(tree, leaf), str(path), path.stem, within)
    return Contents(format, found.tensors, [file], nesting=".".join(found.nesting) or None, ignored=found.ignored, counts=found.counts)


def _stored(tensor: _Tensor, places: Mapping[str, _Place], file: Mapped, where: str) -> Stored:
    """A tensor where it lies, after it was checked that its storage is there and large enough."""
    storage = tensor.storage
    if storage.key not in places:
        raise damaged(f"the storage {quoted(storage.key)} is not in it", where)
    place = places[storage.key]
    if storage.elements * STORAGE[storage.kind.dtype].itemsize > place.size:
        raise damaged(
            f"the storage {quoted(storage.key)} should have {storage.elements} elements of {storage.kind.dtype}, it has {place.size} bytes",
            where,
        )
    itemsize, entry = STORAGE[tensor.dtype].itemsize, Entry(tensor.dtype, tensor.shape)
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.strides, strict=True))
    start, length = tensor.offset * itemsize, (last + 1) * itemsize if entry.nbytes else 0
    if entry.nbytes and start + length > place.size:
        raise damaged(
            f"a tensor of shape {quoted(tensor.shape)} and strides {quoted(tensor.strides)} from element {tensor.offset} does not lie in "
            f"its storage of {place.size} bytes",
            where,
        )
    dtype = STORAGE[tensor.dtype].newbyteorder(place.order)
    plain = not (tensor.conjugated or tensor.negated or place.packed) and little(dtype)
    part = place.region if place.packed else Region(file, place.region.start + start, length)
    return Stored(
        entry,
        lambda: _elements(tensor, place.content()[start : start + length], dtype, where),
        (part,),
        plain and _is_dense(tensor),
        (file.identity, tensor) if entry.nbytes else None,
    )


def _is_dense(tensor: _Tensor) -> bool:
    """Whether its elements lie one after the other, in C order."""
    expected = 1
    for length, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if length > 1 and stride != expected:
            return False
        expected *= length
    return True


def _elements(tensor: _Tensor, content: Any, dtype: np.dtype[Any], where: str) -> np.ndarray[Any, Any]:
    try:
        if not count(tensor.shape):
            return np.empty(tensor.shape, dtype)
        strides = [stride * dtype.itemsize for stride in tensor.strides]
        array: np.ndarray[Any, Any] = np.ndarray(tensor.shape, dtype, buffer=content, strides=strides)
    except (ValueError, OverflowError) as fault:  # more dimensions, or larger ones beside a 0, than numpy can hold
        raise damaged(f"a tensor has the impossible shape {quoted(tensor.shape)}", where) from fault
    array = np.conj(array) if tensor.conjugated else array
    return np.negative(array) if tensor.negated else array


def write_torch(path: Path, items: Sequence[Outgoing], advance: Callable[[int], None]) -> None:
    """Write an archive that ``torch.load(weights_only=True)`` reads, tensor by tensor.

    Tied tensors are one storage.
    """
    storages = _shared(items)
    with path.open("xb") as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        for name, data in ((f"{_FOLDER}data.pkl", _program(items)), (f"{_FOLDER}byteorder", b"little")):
            with ZipStream(archive, name, len(data), 0, b"", advance) as stream:
                stream.write(data)
        for number, item in enumerate(in_turn(items)):
            if storages[number] != number:
                item.release()
                continue
            with ZipStream(archive, f"{_FOLDER}data/{number}", item.entry.nbytes, 0, b"", advance) as stream:
                pour(item, stream)
        with ZipStream(archive, f"{_FOLDER}version", 2, 0, b"", advance) as stream:
            stream.write(b"3\n")


_FOLDER = "archive/"


def torch_size(items: Sequence[Outgoing]) -> int:
    """Bytes that the archive takes at most."""
    return sum(item.entry.nbytes + 320 for item in items) + len(_program(items)) + 2048


def _shared(items: Sequence[Outgoing]) -> list[int]:
    """For each tensor, the number of the first one that it is another name of."""
    first: dict[Any, int] = {}
    return [number if item.identity is None else first.setdefault(item.identity, number) for number, item in enumerate(items)]


def _program(items: Sequence[Outgoing]) -> bytes:
    """The pickle that describes the tensors (protocol 2, as PyTorch writes it)."""
    body = [text(item.name) + _tensor(item.entry, str(storage)) for item, storage in zip(items, _shared(items), strict=True)]
    return b"\x80\x02" + _ORDERED + (b"(" + b"".join(body) + b"u" if body else b"") + b"."


_ORDERED = b"ccollections\nOrderedDict\n)R"


def _tensor(entry: Entry, storage: str) -> bytes:
    """The part of the program that gives one tensor."""
    named = entry.dtype in _CLASSES
    kind = f"ctorch\n{_CLASSES[entry.dtype]}\n" if named else "ctorch.storage\nUntypedStorage\n"
    elements = count(entry.shape) if named else entry.nbytes
    strides = tuple(max(1, count(entry.shape[axis + 1 :])) for axis in range(len(entry.shape)))
    identity = b"(" + text("storage") + kind.encode() + text(storage) + text("cpu") + integer(elements) + b"tQ"
    view = identity + integer(0) + integers(entry.shape) + integers(strides) + b"\x89" + _ORDERED
    if named:
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + view + b"tR"
    return b"ctorch._utils\n_rebuild_tensor_v3\n(" + view + f"ctorch\n{entry.dtype}\n".encode() + b"tR"
