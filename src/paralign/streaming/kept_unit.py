"""Results of single units of a streamed check, kept in files of their own.

A check that was cut short does not do these units again. The file is JSON. It holds objects of the classes named here and nothing else,
each once, so that two that share one share it again.
"""

from __future__ import annotations

import dataclasses
import json
from enum import Enum
from typing import TYPE_CHECKING, Any

from paralign.capture.bounds import Limit
from paralign.errors import CaptureFormatError
from paralign.model import divergences, judged_pairs, records, results
from paralign.weights.plan import Ambiguity, Choice, Move, Option, Plan
from paralign.weights.tensors import Tensor

if TYPE_CHECKING:
    from pathlib import Path

#: the file of a unit, in its folder
FILE = "unit.json"

#: a unit of 10,000 operations has about 20 MB
LARGEST = Limit("PARALIGN_MAX_REPORT", 1 << 28, "bytes")

#: the classes that a file may hold, by name
_CLASSES: dict[str, Any] = {each.__name__: each for each in (Ambiguity, Choice, Move, Option, Plan, Tensor)}
_CLASSES |= {
    name: value
    for module in (records, judged_pairs, divergences, results)
    for name, value in vars(module).items()
    if isinstance(value, type) and (dataclasses.is_dataclass(value) or issubclass(value, Enum)) and value.__module__ == module.__name__
}


class _Unknown(TypeError):
    """A value that such a file cannot hold."""


class _Writer:
    """Turns values into JSON; objects are listed in the order in which they are whole."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def plain(self, value: Any) -> Any:
        if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, Enum)):
            return value
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.plain(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self.plain(key), self.plain(item)] for key, item in value.items()]}
        return self._object(value)

    def _object(self, value: Any) -> Any:
        name = type(value).__name__
        if _CLASSES.get(name) is not type(value):
            raise _Unknown(name)
        if isinstance(value, Enum):
            return {"enum": [name, value.name]}
        if id(value) not in self._numbers:
            content = {each.name: self.plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
            self.objects.append([name, content])
            self._numbers[id(value)] = len(self.objects) - 1
        return {"object": self._numbers[id(value)]}


class _Reader:
    """The way back."""

    def __init__(self, listed: list[Any]) -> None:
        self._objects: list[Any] = []
        for name, content in listed:
            self._objects.append(self._made(_CLASSES[name], content))

    def value(self, found: Any) -> Any:
        if isinstance(found, list):
            return [self.value(item) for item in found]
        if not isinstance(found, dict):
            return found
        ((kind, content),) = found.items()
        if kind == "object":
            return self._objects[content]
        if kind == "enum":
            return _CLASSES[content[0]][content[1]]
        if kind == "tuple":
            return tuple(self.value(item) for item in content)
        if kind == "dict":
            return {self.value(key): self.value(item) for key, item in content}
        raise KeyError(kind)

    def _made(self, kind: Any, content: dict[str, Any]) -> Any:
        names = [each.name for each in dataclasses.fields(kind)]
        if set(content) != set(names):
            raise KeyError(kind.__name__)
        made = object.__new__(kind)
        for name in names:
            object.__setattr__(made, name, self.value(content[name]))
        return made


def write(folder: Path, key: str, content: Any) -> None:
    """Keep what a unit came to.

    Nothing is kept of what such a file cannot hold: the unit is then done again.
    """
    writer = _Writer()
    try:
        told = writer.plain(content)
    except _Unknown:
        return
    partial = folder / f".{FILE}.tmp"
    partial.write_text(json.dumps({"key": key, "objects": writer.objects, "content": told}), encoding="utf-8")
    partial.replace(folder / FILE)


def read(folder: Path, key: str) -> Any:
    """What :func:`write` kept under the same key; None where there is none, or it is damaged."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST.value + 1)
        LARGEST.check(len(data), "the file has at least", str(path), CaptureFormatError)
        found = json.loads(data)
        if found["key"] != key:
            return None
        return _Reader(found["objects"]).value(found["content"])
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, CaptureFormatError):
        return None


def forget(folder: Path) -> None:
    """Remove what was kept of a unit."""
    (folder / FILE).unlink(missing_ok=True)
