"""What a pickle of arrays may name, and what each name stands for here.

Nothing is looked up by the names that a file gives: they are keys of a table of the functions below, which build values from
data. numpy's own functions and state setters, which trust what they are given, are not among them.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

import numpy as np

from paralign.capture.bounds import axes_fault, is_text
from paralign.errors import CaptureFormatError, UnsafeFile, one_line, quoted, shortened

_SLACK = 1 << 16
#: bits of whole numbers that are keys, and how many may have more: they can be chosen to have one hash, so that a dict takes hours
_LONG_KEY = 64
_MOST_LONG_KEYS = 1000
_ELEMENT = re.compile(r"[biufc][1-9][0-9]{0,8}|[SU](?:0|[1-9][0-9]{0,8})")
_OBJECTS = ("O", "O4", "O8")
_ATOMS = (type(None), bool, int, float, complex, str, bytes, np.generic)


@dataclass(frozen=True)
class Symbol:
    """A name that a pickle refers to."""

    module: str
    name: str


class Element:
    """A numpy dtype being read."""

    def __init__(self, code: str) -> None:
        self.code, self.order, self.built = code, "=", False

    @property
    def objects(self) -> bool:
        """Whether elements are values of any kind, kept in a list."""
        return self.code == "O"

    def dtype(self) -> "np.dtype[Any]":
        """The numpy type."""
        return np.dtype("O" if self.objects else self.order + self.code)


class Unfinished:
    """A numpy array being read.

    ``array`` once its state came, or ``items`` and ``shape`` where the elements are values.
    """

    def __init__(self) -> None:
        self.array: Union["np.ndarray[Any, Any]", Kept, None] = None
        self.items: Optional[List[Any]] = None
        self.shape: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Blob:
    """Bytes that stayed in the file: ``length`` of them from ``start``.

    ``text``: they are the UTF-8 form of a text.

    The characters of such a text stand for bytes, one each (that is how protocol 2 writes what is not text).
    """

    start: int
    length: int
    text: bool = False


@dataclass(frozen=True)
class Kept:
    """An array whose elements stayed in the file.

    ``blob`` was checked to be as long as type and shape ask for.
    """

    blob: Blob
    dtype: "np.dtype[Any]"
    shape: Tuple[int, ...]
    fortran: bool = False


#: what stands for a name, and the types of the arguments with which it may be called
Admitted = Tuple[Callable[..., Any], Tuple[Tuple[Any, ...], ...]]


@dataclass(frozen=True)
class Dialect:
    """What a kind of file may hold beyond numpy arrays, scalars and containers.

    Args:
        names: further names that may be called.
        values: further names that are not called, and what stands for each.
        leaves: types of finished values that the functions of ``names`` give.
        persistent: gives the value of a persistent id; without it such an id is refused.
        state: told of ``(target, state)`` where a state is set; True: it was dealt with.
        keep: runs of at least so many bytes stay in the file, as a :class:`Blob`; None: all are read.
        hint: how to write a file that is not refused.
    """

    names: Mapping[Symbol, Admitted] = field(default_factory=dict)
    values: Mapping[Symbol, Any] = field(default_factory=dict)
    leaves: Tuple[type, ...] = ()
    persistent: Optional[Callable[["Reading", Any], Any]] = None
    state: Optional[Callable[[Any, Any], bool]] = None
    keep: Optional[int] = None
    hint: Optional[str] = None


#: arrays, scalars and containers, all read into memory
PLAIN = Dialect()


class Reading:
    """One file being read: how errors call it, its bounds, and what it may still build.

    Each byte of a file may appear in few values only, so that a small file cannot fill the memory.
    """

    def __init__(self, where: str, size: int, dialect: Dialect = PLAIN) -> None:
        self.where, self.dialect, self._budget, self._long_keys = where, dialect, 4 * size + _SLACK, 0

    def damaged(self, cause: str) -> CaptureFormatError:
        """The error for what neither numpy nor Python would write."""
        return CaptureFormatError(
            f"the pickle inside is truncated or damaged: {cause}",
            where=self.where,
            hint="copy the file again from where it came, or write it again",
        )

    def unsafe(self, what: str, hint: str = "write the values as plain numpy arrays in a dict") -> UnsafeFile:
        """The error for what arrays, scalars and containers do not need."""
        return UnsafeFile(f"{what}; nothing of it was run", where=self.where, hint=self.dialect.hint or hint)

    def spend(self, amount: int) -> None:
        """Take so many bytes or values from what the file may build."""
        self._budget -= amount
        if self._budget < 0:
            raise self.damaged("it repeats its data without end")

    def atom(self, value: Any) -> Any:
        """A value that may be a key or in a set."""
        if not isinstance(value, _ATOMS):
            raise self.unsafe(f"the file uses a {called(value)} as a key or in a set", "use texts and numbers as keys")
        if type(value) is str and not is_text(value):
            raise self.damaged(f"the key {quoted(value)} holds half of a surrogate pair")
        if type(value) is int and value.bit_length() > _LONG_KEY:
            self._long_keys += 1
            if self._long_keys > _MOST_LONG_KEYS:
                raise self.damaged(f"more than {_MOST_LONG_KEYS} of its keys are whole numbers of more than {_LONG_KEY} bits")
        return value


def called(value: Any) -> str:
    """How errors call something that a file uses."""
    if isinstance(value, Symbol):
        return shortened(f"{value.module}.{value.name}")
    return {Element: "dtype", Unfinished: "array"}.get(type(value), type(value).__name__)


def find(reading: Reading, module: str, name: str) -> Any:
    """The symbol of an admitted name, or the value that the dialect has for it.

    Raises:
        UnsafeFile: any other name.
    """
    symbol = Symbol(_MOVED.get(module, module), name)
    if symbol in reading.dialect.values:
        return reading.dialect.values[symbol]
    if symbol not in _ADMITTED and symbol not in reading.dialect.names and symbol != _NDARRAY:
        raise reading.unsafe(
            f"the file refers to {shortened(one_line(f'{module}.{name}'))}, which is refused",
            "convert what it holds to plain numpy arrays where the file is written",
        )
    return symbol


def call(reading: Reading, function: Any, arguments: Any) -> Any:
    """What an admitted name gives for arguments of the types that numpy and Python write.

    Raises:
        UnsafeFile: something else is called.
        CaptureFormatError: other arguments.
    """
    admitted = (reading.dialect.names.get(function) or _ADMITTED.get(function)) if isinstance(function, Symbol) else None
    if admitted is None:
        raise reading.unsafe(f"the file calls a {called(function)}")
    stand_in, signatures = admitted
    if isinstance(arguments, tuple):
        for types in signatures:
            if len(types) == len(arguments) and all(isinstance(value, kind) for value, kind in zip(arguments, types)):
                return stand_in(reading, *arguments)
    raise reading.damaged(f"{called(function)} is given other arguments than it takes")


def set_state(reading: Reading, target: Any, state: Any) -> None:
    """Give a dtype or an array that is being read its state, once.

    Raises:
        UnsafeFile: anything else has its state set.
        CaptureFormatError: a state that numpy would not write.
    """
    if reading.dialect.state is not None and reading.dialect.state(target, state):
        return
    if isinstance(target, Element) and not target.built:
        _set_element(reading, target, state)
    elif isinstance(target, Unfinished) and target.array is None and target.items is None:
        _set_array(reading, target, state)
    else:
        raise reading.unsafe(f"the file sets the state of a {called(target)}")


def _set_element(reading: Reading, target: Element, state: Any) -> None:
    if not isinstance(state, tuple) or len(state) < 5 or state[1] not in ("<", ">", "|", "="):  # noqa: PLR2004 - the last three: structure
        raise reading.damaged("an element type has an unknown state")
    if any(part is not None for part in state[2:5]):
        raise reading.unsafe("the file holds structured elements", "write one array a field")
    target.order, target.built = state[1], True


def _set_array(reading: Reading, target: Unfinished, state: Any) -> None:
    if not isinstance(state, tuple) or len(state) != 5:  # noqa: PLR2004 - version, shape, type, order, data
        raise reading.damaged("an array has an unknown state")
    _, shape, element, fortran, data = state
    if not isinstance(element, Element):
        raise reading.damaged("an array has no element type")
    if not element.objects:
        target.array = _array(reading, data, element, shape, fortran=bool(fortran))
        return
    _check_shape(reading, shape)
    if not isinstance(data, list) or math.prod(shape) != len(data):
        raise reading.damaged(f"an array of shape {quoted(shape)} does not have as many elements")
    target.items, target.shape = data, shape  # numpy lists objects in C order, whatever the array's own order


def _array(reading: Reading, data: Any, element: Element, shape: Any, *, fortran: bool = False) -> Any:
    """A fresh array, or a :class:`Kept` one.

    Its size was checked against the bytes that are there.
    """
    if isinstance(data, str):
        data = _encode(reading, data, "latin1")  # a text where Python 2 wrote bytes
    _check_shape(reading, shape)
    if element.objects or not isinstance(data, (bytes, bytearray, Blob)):
        raise reading.damaged("an array's data are no bytes")
    dtype = element.dtype()
    length, needed = data.length if isinstance(data, Blob) else len(data), math.prod(shape) * dtype.itemsize
    # a byte takes one or two bytes of UTF-8: what a kept text holds is known for sure only once it is decoded
    if needed > length or needed < (length / 2 if isinstance(data, Blob) and data.text else length):
        raise reading.damaged(f"an array of shape {quoted(shape)} and type {dtype} does not take {length} bytes")
    reading.spend(needed)
    if dtype.itemsize == 0:  # an empty text; a shape would cost memory that the file does not show
        if math.prod(shape) > 1:
            raise reading.damaged(f"an array of shape {quoted(shape)} has elements of no size")
        return np.zeros(shape, dtype)
    if isinstance(data, Blob):
        return Kept(data, dtype, shape, fortran)
    try:
        array: "np.ndarray[Any, Any]" = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C").copy(order="K")
    except ValueError as fault:  # more dimensions, or larger ones beside a 0, than numpy can hold
        raise reading.damaged(f"an array has the impossible shape {quoted(shape)}") from fault
    return array


def _check_shape(reading: Reading, shape: Any) -> None:
    if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
        raise reading.damaged("an array's shape is no tuple of whole numbers from 0")
    fault = axes_fault(shape)
    if fault is not None:
        raise reading.damaged(f"an array has the {fault}")


def _reconstruct(reading: Reading, kind: Symbol, *_: Any) -> Unfinished:
    if kind != _NDARRAY:
        raise reading.unsafe(f"the file holds a {called(kind)} in place of a plain array")
    return Unfinished()


def _frombuffer(reading: Reading, data: Any, element: Element, shape: Tuple[int, ...], *layout: Any) -> Any:
    order, axes = (*layout, None)[:2]
    array = _array(reading, data, element, shape, fortran=order == "F")
    if axes is None or isinstance(array, Kept):
        if axes is not None:
            raise reading.unsafe("the file holds a large array with its axes in another order", "make it contiguous before it is saved")
        return array
    if not all(type(axis) is int for axis in axes) or sorted(axes) != list(range(len(shape))):
        raise reading.damaged("an array's axes are in no order")
    turned: "np.ndarray[Any, Any]" = array.transpose(axes)
    return turned


def _scalar(reading: Reading, element: Element, data: Any) -> Any:
    try:
        return _array(reading, data, element, ())[()]
    except ValueError as fault:  # a text of impossible characters
        raise reading.damaged(str(fault)) from fault


def _dtype(reading: Reading, code: str, *_: Any) -> Element:
    if code in _OBJECTS:
        return Element("O")
    if _ELEMENT.fullmatch(code) is None:
        raise reading.unsafe(
            f"the file holds elements of type {quoted(code)}, which are refused",
            "convert them to numbers, booleans or texts where the file is written",
        )
    try:
        np.dtype(code)
    except (TypeError, ValueError) as fault:
        raise reading.damaged(f"there is no element type {quoted(code)}") from fault
    return Element(code)


def _encode(reading: Reading, text: Any, coding: str) -> Any:
    reading.spend(0 if isinstance(text, Blob) else len(text))
    if coding not in ("latin1", "latin-1"):
        raise reading.damaged(f"bytes are written as {quoted(coding)}")
    if isinstance(text, Blob):
        return text
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as fault:
        raise reading.damaged("a text that stands for bytes holds other characters") from fault


def _bytes(_: Reading) -> bytes:
    return b""


def _bytearray(reading: Reading, data: Any = b"", coding: str = "latin-1") -> bytearray:
    reading.spend(len(data))
    return bytearray(_encode(reading, data, coding) if isinstance(data, str) else data)


def _complex(_: Reading, real: float, imaginary: float) -> complex:
    return complex(real, imaginary)


def _set(reading: Reading, values: Sequence[Any] = ()) -> Set[Any]:
    reading.spend(len(values))
    return {reading.atom(value) for value in values}


def _frozenset(reading: Reading, values: Sequence[Any] = ()) -> "frozenset[Any]":
    return frozenset(_set(reading, values))


def _list(reading: Reading, values: Sequence[Any] = ()) -> List[Any]:
    reading.spend(len(values))
    return list(values)


def _tuple(reading: Reading, values: Sequence[Any] = ()) -> Tuple[Any, ...]:
    return tuple(_list(reading, values))


def _dict(_: Reading) -> Dict[Any, Any]:
    return {}


def _ordered(reading: Reading, items: Sequence[Any] = ()) -> "OrderedDict[Any, Any]":
    found: "OrderedDict[Any, Any]" = OrderedDict()
    reading.spend(len(items))
    for item in items:
        if not isinstance(item, (list, tuple)) or len(item) != 2:  # noqa: PLR2004 - key and value
            raise reading.damaged("an ordered dict is given no pairs")
        found[reading.atom(item[0])] = item[1]
    return found


#: modules that moved -> how they are called below
_MOVED = {"numpy._core.multiarray": "numpy.core.multiarray", "numpy._core.numeric": "numpy.core.numeric", "__builtin__": "builtins"}
_NDARRAY = Symbol("numpy", "ndarray")
_BYTES, _SEQUENCE = (bytes, bytearray, Blob), (list, tuple)

#: an admitted name -> what stands for it, and the types of arguments that numpy and Python write
_ADMITTED: Dict[Symbol, Admitted] = {
    Symbol("numpy.core.multiarray", "_reconstruct"): (_reconstruct, ((Symbol, tuple, (bytes, str)),)),
    Symbol("numpy.core.multiarray", "scalar"): (_scalar, ((Element, (bytes, str)),)),
    Symbol("numpy.core.numeric", "_frombuffer"): (
        _frombuffer,
        ((_BYTES, Element, tuple, str), (_BYTES, Element, tuple, str, (tuple, type(None)))),
    ),
    Symbol("numpy", "dtype"): (_dtype, ((str, int, int),)),
    Symbol("_codecs", "encode"): (_encode, (((str, Blob), str),)),
    Symbol("builtins", "bytes"): (_bytes, ((),)),
    Symbol("builtins", "bytearray"): (_bytearray, ((), (bytes,), (str, str))),
    Symbol("builtins", "complex"): (_complex, ((float, float),)),
    Symbol("builtins", "set"): (_set, ((), (list,))),
    Symbol("builtins", "frozenset"): (_frozenset, ((), (list,))),
    Symbol("builtins", "list"): (_list, ((), (_SEQUENCE,))),
    Symbol("builtins", "tuple"): (_tuple, ((), (_SEQUENCE,))),
    Symbol("builtins", "dict"): (_dict, ((),)),
    Symbol("collections", "OrderedDict"): (_ordered, ((), (list,))),
}
