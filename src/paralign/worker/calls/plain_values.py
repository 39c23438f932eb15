"""What calls are given and give back, as JSON beside a capture's tensors, and back.

Plain are tensors, arrays, numbers, texts, and lists, tuples, dicts and namespaces of them. A ``partial`` is plain where its function is
known. Whoever records may know more kinds of values.
"""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections import OrderedDict
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import numpy as np

from paralign.dtypes import is_complex, is_floating, narrow, typed, widen
from paralign.worker.sides.session import DOUBLE, Session

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed

#: levels of containers that arguments may have: deeper ones hold themselves
DEPTH = 8

#: tensors of one call that are recorded
TENSORS = 64

#: numbers, texts and containers of one call that are recorded: a table of a vocabulary has some 50,000
VALUES = 100_000

#: characters of one text that is recorded
TEXT = 1 << 20

#: bytes of the tensors of one call, in float64: what a worker holds beside the program's own
BYTES = 1 << 28

_PLAIN = (bool, int, float, str)

#: containers with names beside ``dict``, by how they are told
_NAMED = {"OrderedDict": OrderedDict, "Namespace": Namespace, "SimpleNamespace": SimpleNamespace}

#: gives a value of another kind as JSON; None where it knows it not
More = Callable[[Any], Optional[Dict[str, Any]]]


class NotPlain(Exception):
    """A value that is not plain; the message says what it is."""


def recorded(
    session: Session, writer: "CaptureWriter", value: Any, name: str, role: str, tensors: List[Any], more: Optional[More] = None
) -> str:
    """A value as JSON, its tensors as numbers of records that are written beside.

    Args:
        session: whose tensors they are.
        writer: takes the records ``name`` of a ``role``; the leaf is the tensor's number.
        value: what a call was given, or gave back.
        name: of the records.
        role: of the records.
        tensors: those that the records stand for are added to it.
        more: knows further kinds of values.

    Raises:
        NotPlain: a part of the value is none of these, or there is too much of it.
    """
    return json.dumps(_Telling(session, writer, name, role, tensors, more).told(value, 0))


class _Telling:
    """The state of one :func:`recorded`."""

    def __init__(self, session: Session, writer: "CaptureWriter", name: str, role: str, tensors: List[Any], more: Optional[More]) -> None:
        self._session, self._writer, self._name, self._role = session, writer, name, role
        self._tensors, self._more = tensors, more
        self._values = self._bytes = self._count = 0

    def told(self, each: Any, depth: int) -> Any:
        if self._session.adapter.is_tensor(each):
            self._make_room(each)
            self._writer.add(self._name, self._session.adapter.to_array(each), role=self._role, leaf=str(len(self._tensors)), run=DOUBLE)
            return {"tensor": self._number(each)}
        self._values += 1
        if self._values > VALUES:
            raise NotPlain(f"more than {VALUES} values")
        if each is None or type(each) in _PLAIN:
            if type(each) is str and len(each) > TEXT:
                raise NotPlain(f"a text of more than {TEXT} characters")
            return {"plain": repr(each) if isinstance(each, float) else each, "kind": type(each).__name__}
        if type(each) is np.ndarray and each.dtype.kind in "biufc":
            self._make_room(each)
            self._writer.add(self._name, typed(each), role=self._role, leaf=str(len(self._tensors)), run=DOUBLE, attrs={"array": True})
            return {"array": self._number(each)}
        return self._contained(each, depth)

    def _contained(self, each: Any, depth: int) -> Any:
        if depth >= DEPTH:
            raise NotPlain("containers within containers without end")
        if type(each) in (list, tuple):
            return {type(each).__name__: [self.told(inner, depth + 1) for inner in each]}
        if isinstance(each, tuple) and type(each).__name__ == "Size":  # PyTorch's shapes, which Paddle has as lists
            return {"size": [self.told(inner, depth + 1) for inner in each]}
        if type(each) is dict and all(type(key) is str for key in each):
            return {"dict": {key: self.told(inner, depth + 1) for key, inner in each.items()}}
        kind = type(each).__name__
        if type(each) is _NAMED.get(kind) and all(type(key) is str for key in named_parts(each)):
            return {"dict": {key: self.told(inner, depth + 1) for key, inner in named_parts(each).items()}, "kind": kind}
        if type(each) is partial and not vars(each):
            parts = (each.func, list(each.args), dict(each.keywords))
            return {"partial": [self.told(inner, depth + 1) for inner in parts]}
        known = self._more(each) if self._more is not None else None
        if known is None:
            raise NotPlain(f"a {type(each).__name__}")
        return known

    def _make_room(self, each: Any) -> None:
        self._count += 1
        if self._count > TENSORS:
            raise NotPlain(f"more than {TENSORS} tensors")
        self._bytes += 8 * math.prod(int(size) for size in each.shape)
        if self._bytes > BYTES:
            raise NotPlain(f"tensors of more than {BYTES >> 20} MiB in float64")

    def _number(self, each: Any) -> int:
        self._tensors.append(each)
        return len(self._tensors) - 1


def rebuilt(shape: Any, tensors: Dict[str, Any], more: Optional[Callable[[Dict[str, Any]], Any]] = None) -> Any:
    """The value of what :func:`recorded` said; ``more`` gives values of further kinds."""
    for kind in ("tensor", "array"):
        if kind in shape:
            return tensors[str(shape[kind])]
    if "plain" in shape:
        return float(shape["plain"]) if shape["kind"] == "float" else shape["plain"]
    if "list" in shape:
        return [rebuilt(each, tensors, more) for each in shape["list"]]
    for kind in ("tuple", "size"):
        if kind in shape:
            return tuple(rebuilt(each, tensors, more) for each in shape[kind])
    if "dict" in shape or "partial" in shape:
        return _composed(shape, tensors, more)
    if more is None:
        raise NotPlain("a value of a kind that is not known here")
    return more(shape)


def _composed(shape: Any, tensors: Dict[str, Any], more: Optional[Callable[[Dict[str, Any]], Any]]) -> Any:
    """A container with names, or a partial."""
    if "partial" in shape:
        function, arguments, keywords = (rebuilt(each, tensors, more) for each in shape["partial"])
        return partial(function, *arguments, **keywords)
    found = {key: rebuilt(each, tensors, more) for key, each in shape["dict"].items()}
    if "kind" not in shape:
        return found
    made = _NAMED[shape["kind"]]()
    (made if isinstance(made, dict) else vars(made)).update(found)  # by keyword, none could be called self
    return made


def named_parts(value: Any) -> Dict[Any, Any]:
    """What a dict or a namespace holds, by name."""
    return dict(value) if isinstance(value, dict) else vars(value)


def tensors_of(adapter: Any, calls: "Capture", name: str, *, double: bool = True) -> Dict[str, Any]:
    """The recorded tensors that a call was given, by number; arrays are as they were.

    ``double``: floating tensors in float64; otherwise they are as they were, too.
    """
    records = [each for each in calls.select(name=name, run=DOUBLE) if each.role == "input"]
    found = {}
    for record in records:
        value = calls.value(record)
        array = bool(record.attrs.get("array"))
        found[record.leaf] = value.array if array else adapter.from_array(in_double(value) if double else value)
    return found


def in_double(value: "Typed") -> "Typed":
    """A value in float64 where it is floating."""
    if value.dtype != DOUBLE and is_floating(value.dtype) and not is_complex(value.dtype):
        return narrow(widen(value), DOUBLE)
    return value
