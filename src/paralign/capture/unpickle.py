"""Reading pickled arrays as data.

A pickle is a program. This is an interpreter of the small part of its language that numpy arrays, scalars and containers are
written in; any other operation, and any name that is not admitted, is refused. Python's own unpickler is not used.
"""

from __future__ import annotations

import pickletools
import struct
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Set, Tuple

import numpy as np

from paralign.capture.admitted import PLAIN, Blob, Dialect, Element, Kept, Reading, Symbol, Unfinished, call, called, find, set_state
from paralign.capture.bounds import VALUES
from paralign.errors import CaptureFormatError, quoted

_DEEPEST = 64
_LONGEST_LINE = 4096
_LEAVES = (type(None), bool, int, float, complex, str, bytes, bytearray, set, frozenset, np.generic, np.ndarray, Blob, Kept)
_CONSTANTS: Dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_LITERALS = frozenset(
    [
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "LONG4",
        "BINFLOAT",
        "BINSTRING",
        "SHORT_BINSTRING",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
    ]
)
#: types of values that are finished as they are, of which files hold many
_PLAIN = frozenset([type(None), bool, int, float, str, bytes])
#: bits of a whole number: the range of a float, more than any counter or random state takes
_LONGEST_INTEGER = 1024
_OPERATIONS = {operation.code.encode("latin-1"): operation for operation in pickletools.opcodes}
#: operations whose bytes may stay in the file, and how each gives their number
_LENGTHS = {"BINBYTES": "<I", "BINBYTES8": "<Q", "BYTEARRAY8": "<Q", "BINSTRING": "<i", "BINUNICODE": "<I", "BINUNICODE8": "<Q"}


def unpickle(stream: BinaryIO, size: int, where: str, dialect: Dialect = PLAIN, *, alone: bool = True) -> Any:
    """The value of a pickle, with fresh and writable arrays.

    Arrays are :class:`Kept` where the dialect says so.

    Args:
        stream: read from its present position.
        size: bytes that belong to the pickle.
        where: how errors call the file.
        dialect: what the file may hold beyond arrays, scalars and containers.
        alone: whether nothing may follow the pickle; if something may, the stream stands behind the pickle afterwards.

    Raises:
        UnsafeFile: it names or does something that arrays, scalars and containers do not need.
        CaptureFormatError: it is truncated or damaged.
    """
    reading = Reading(where, size, dialect)
    try:
        return _Assembly(reading).visit(_Machine(reading).run(_Source(stream, size), alone=alone), 0)[0]
    except RecursionError as fault:  # of calls that are given calls
        raise reading.damaged("it is nested too deeply") from fault


class _Source:
    """The bytes of a pickle, for pickletools.

    It never hands out, nor allocates, more than the file has.
    """

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, count: int) -> bytes:
        data = self._stream.read(min(count, self._left))
        self._left -= len(data)
        return data

    def readline(self) -> bytes:
        line = self._stream.readline(min(_LONGEST_LINE, self._left))
        self._left -= len(line)
        if b"\\" in line:  # pickletools would decode it, pickle would not; no admitted name has one
            raise ValueError("a name with a backslash")
        return line

    def operations(self, keep: Optional[int]) -> Iterator[Tuple[str, Any]]:
        """Each operation's name and argument, up to STOP.

        Runs of ``keep`` bytes and more are stepped over.
        """
        name = ""
        while name != "STOP":
            code = self.read(1)
            if not code:
                raise ValueError("it ends before STOP")
            operation = _OPERATIONS.get(code)
            if operation is None:
                raise ValueError(f"there is no operation {code!r}")
            name = operation.name
            if keep is not None and name in _LENGTHS:
                yield name, self._run(name, keep)
            else:
                # pickletools asks of a file only what this class has
                yield name, None if operation.arg is None else operation.arg.reader(self)  # type: ignore[arg-type]

    def _run(self, name: str, keep: int) -> Any:
        """The argument of an operation that gives bytes or a text."""
        code = _LENGTHS[name]
        prefix = self.read(struct.calcsize(code))
        if len(prefix) < struct.calcsize(code):
            raise ValueError("it ends inside a length")
        (length,) = struct.unpack(code, prefix)
        if not 0 <= length <= self._left:
            raise ValueError(f"a run of {length} bytes is longer than what is left of the file")
        text = name.startswith("BINUNICODE")
        if length >= keep:
            start = self._stream.tell()
            self._stream.seek(start + length)
            self._left -= length
            return Blob(start, length, text)
        data = self.read(length)
        if text:
            return data.decode("utf-8", "surrogatepass")
        if name == "BINSTRING":
            return data.decode("latin-1")
        if name == "BYTEARRAY8":
            return bytearray(data)
        return data


class _Mark:
    """Where the arguments of an operation begin on the stack."""


class _Machine:
    """The stack machine of the pickle language, for data only."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._stack: List[Any] = []
        self._memo: Dict[int, Any] = {}
        push = self._stack.append
        self._steps: Dict[str, Callable[[Any], None]] = {
            "PROTO": lambda _: None,
            "FRAME": lambda _: None,  # versions and frames say nothing about the values
            "MARK": lambda _: push(_Mark()),
            "EMPTY_LIST": lambda _: push([]),
            "EMPTY_DICT": lambda _: push({}),
            "EMPTY_SET": lambda _: push(set()),
            "TUPLE": lambda _: push(tuple(self._to_mark())),
            "TUPLE1": lambda _: push(self._popped(1)),
            "TUPLE2": lambda _: push(self._popped(2)),
            "TUPLE3": lambda _: push(self._popped(3)),
            "APPEND": lambda _: self._extend(self._popped(1)),
            "APPENDS": lambda _: self._extend(self._to_mark()),
            "SETITEM": lambda _: self._fill(self._popped(2)),
            "SETITEMS": lambda _: self._fill(self._to_mark()),
            "ADDITEMS": lambda _: self._include(self._to_mark()),
            "FROZENSET": lambda _: push(frozenset([reading.atom(value) for value in self._to_mark()])),
            "BINGET": self._get,
            "LONG_BINGET": self._get,
            "BINPUT": self._put,
            "LONG_BINPUT": self._put,
            "MEMOIZE": lambda _: self._put(len(self._memo)),
            "GLOBAL": self._global,
            "STACK_GLOBAL": self._stack_global,
            "REDUCE": lambda _: push(call(reading, *self._popped(2))),
            "BUILD": self._build,
        }
        persistent = reading.dialect.persistent
        if persistent is not None:
            self._steps["BINPERSID"] = lambda _: push(persistent(reading, *self._popped(1)))

    def run(self, source: _Source, *, alone: bool) -> Any:
        """What the program leaves on the stack."""
        count, most = 0, VALUES.value
        try:
            for operation, argument in source.operations(self._reading.dialect.keep):
                count += 1
                if count > most:
                    VALUES.check(count, "the pickle inside builds at least", self._reading.where)
                if operation != "STOP":
                    self._apply(operation, argument)
        except ValueError as fault:  # an unknown operation, or the end before STOP
            raise self._reading.damaged(str(fault)) from fault
        if len(self._stack) != 1:
            raise self._reading.damaged("it does not end with one value")
        if alone and source.read(1):
            raise self._reading.damaged("bytes follow its end")
        return self._stack[0]

    def _apply(self, operation: str, argument: Any) -> None:
        if operation in _LITERALS:
            if type(argument) is int and argument.bit_length() > _LONGEST_INTEGER:
                raise self._reading.damaged(f"a whole number takes {argument.bit_length()} bits")
            self._stack.append(argument)
        elif operation in _CONSTANTS:
            self._stack.append(_CONSTANTS[operation])
        elif operation in self._steps:
            self._steps[operation](argument)
        else:
            raise self._reading.unsafe(f"the file uses the pickle operation {operation}, which arrays and containers do not need")

    def _popped(self, count: int) -> Tuple[Any, ...]:
        values = tuple(self._stack[-count:])
        if len(values) < count or any(isinstance(value, _Mark) for value in values):
            raise self._reading.damaged("an operation lacks its arguments")
        del self._stack[-count:]
        return values

    def _to_mark(self) -> List[Any]:
        values: List[Any] = []
        while self._stack:
            value = self._stack.pop()
            if isinstance(value, _Mark):
                return values[::-1]
            values.append(value)
        raise self._reading.damaged("an operation lacks its mark")

    def _top(self, kind: type) -> Any:
        if not self._stack or isinstance(self._stack[-1], _Mark) or not isinstance(self._stack[-1], kind):
            raise self._reading.damaged(f"an operation expects a {kind.__name__}")
        return self._stack[-1]

    def _extend(self, values: Any) -> None:
        self._top(list).extend(values)

    def _fill(self, flat: Any) -> None:
        target = self._top(dict)
        if len(flat) % 2:
            raise self._reading.damaged("a key lacks its value")
        for key, value in zip(flat[::2], flat[1::2]):
            target[self._reading.atom(key)] = value

    def _include(self, values: List[Any]) -> None:
        self._top(set).update([self._reading.atom(value) for value in values])

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise self._reading.damaged(f"it recalls value {index}, which it never stored")
        self._stack.append(self._memo[index])

    def _put(self, index: int) -> None:
        self._memo[index] = self._top(object)

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(find(self._reading, module, name))

    def _stack_global(self, _: Any) -> None:
        module, name = self._popped(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise self._reading.damaged("a name is no text")
        self._stack.append(find(self._reading, module, name))

    def _build(self, _: Any) -> None:
        (state,) = self._popped(1)
        set_state(self._reading, self._top(object), state)


class _Assembly:
    """Turn what the machine left into values.

    Arrays take the place of unfinished ones; nothing is endless, nothing unknown.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._leaves = (*_LEAVES, *reading.dialect.leaves)
        self._most = VALUES.value
        self._open: Set[int] = set()
        self._done: Dict[int, Tuple[Any, int]] = {}

    def visit(self, value: Any, depth: int) -> Tuple[Any, int]:
        """A finished value, and how many values it has when written out."""
        if type(value) in _PLAIN or isinstance(value, self._leaves):
            return value, 1
        if id(value) in self._done:
            return self._done[id(value)]
        if id(value) in self._open:
            raise self._unreadable("the values inside contain themselves")
        if depth > _DEEPEST:
            raise self._unreadable(f"the values inside are nested more than {_DEEPEST} deep")
        self._open.add(id(value))
        result, count = self._container(value, depth + 1)
        self._open.discard(id(value))
        if count > self._most:
            VALUES.check(count, "the file unfolds to at least", self._reading.where)
        self._done[id(value)] = result, count
        return result, count

    def _unreadable(self, what: str) -> CaptureFormatError:
        return CaptureFormatError(what, where=self._reading.where, hint="write a dict of arrays, or of dicts of arrays")

    def _container(self, value: Any, depth: int) -> Tuple[Any, int]:
        if isinstance(value, Element):
            return value.dtype(), 1
        if isinstance(value, Unfinished):
            return self._finished(value, depth)
        if isinstance(value, Symbol) or not isinstance(value, (dict, list, tuple)):
            raise self._reading.unsafe(f"the file holds a {called(value)} as a value")
        items, count = self._all(list(value.values()) if isinstance(value, dict) else value, depth)
        if isinstance(value, tuple):
            return tuple(items), count
        if isinstance(value, dict):
            value.update(zip(list(value), items))
        else:
            value[:] = items
        return value, count

    def _all(self, values: Any, depth: int) -> Tuple[List[Any], int]:
        visited = [(value, 1) if type(value) in _PLAIN else self.visit(value, depth) for value in values]
        return [value for value, _ in visited], 1 + sum(count for _, count in visited)

    def _finished(self, value: Unfinished, depth: int) -> Tuple[Any, int]:
        if value.array is not None:
            return value.array, 1
        if value.items is None:
            raise self._reading.damaged("an array has no data")
        items, count = self._all(value.items, depth)
        flat = np.empty(len(items), object)
        for index, item in enumerate(items):
            flat[index] = item
        try:
            return flat.reshape(value.shape), count
        except ValueError as fault:
            raise self._reading.damaged(f"an array has the impossible shape {quoted(value.shape)}") from fault
