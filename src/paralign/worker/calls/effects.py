"""What a call changes beside what it gives back.

These are variables of the source's modules, and attributes of a model's layers.
"""

from __future__ import annotations

import hashlib
import math
import sys
from argparse import Namespace
from collections import deque
from dataclasses import dataclass
from types import FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Set, Tuple

import numpy as np

from paralign.dtypes import widen
from paralign.errors import UnsupportedTensor
from paralign.worker.calls.own_attributes import framework_names
from paralign.worker.calls.plain_values import NotPlain, recorded
from paralign.worker.calls.result_figures import attributes_of
from paralign.worker.protocol import FunctionCall

if TYPE_CHECKING:
    from paralign.capture import CaptureWriter
    from paralign.worker.calls.plain_values import More
    from paralign.worker.sides.session import Session

#: attributes of layers that hold its parts, or that the framework notes in them
OF_LAYERS = {"_buffers", "_parameters", "_modules", "_sub_layers", "_built", "training"}

#: values of one variable or attribute that are looked at: of more, how many there are counts alone
LOOKED_AT = 5_000

#: levels of containers and objects
DEPTH = 8

#: containers whose elements are looked at
_CONTAINERS = (list, tuple, set, frozenset, deque)


@dataclass
class Change:
    """A variable or attribute that is another one after a call.

    Args:
        owner: path of the layer, or ``module:`` of a variable.
        name: of the variable or attribute; of a class's, ``Class.name``.
        value: after the call; None where it was removed.
        problem: why it cannot be compared; '' where it can.
    """

    owner: str
    name: str
    value: Any
    problem: str = ""

    @property
    def key(self) -> str:
        """Owner and name."""
        if self.owner.endswith(":"):
            return f"{self.owner}{self.name}"
        return f"{self.owner}.{self.name}" if self.owner else self.name


class Effects:
    """Values around a call, as they are when this is made.

    Args:
        session: of the side.
        modules: dotted names of the source's modules; variables of those that were imported are watched, and their classes' attributes.
        known: knows further kinds of values that can be compared.
        model: whose layers' buffers and attributes are watched; None: no model's.
    """

    def __init__(self, session: "Session", modules: List[str], known: "Optional[More]" = None, model: Any = None) -> None:
        self._session, self._modules, self._known, self._model = session, set(modules), known, model
        self._imported = sorted(self._modules & set(sys.modules))  # those of a module that the call imports are none of its effects
        self._marks = Marks(session.adapter, self._modules)
        self._hidden = OF_LAYERS if model is None else OF_LAYERS | framework_names(session.adapter, model)
        self._before = {(owner, name): self._marks.of(value) for owner, name, value in self._watched()}

    def changes(self) -> List[Change]:
        """What is another value than it was before."""
        now = {(owner, name): value for owner, name, value in self._watched()}
        found = [Change(owner, name, value) for (owner, name), value in now.items() if self._is_other(owner, name, value)]
        found += [Change(owner, name, None) for owner, name in self._before if (owner, name) not in now]
        for each in found:
            each.problem = self._problem_of(each)
        return sorted(found, key=lambda change: change.key)

    def _is_other(self, owner: str, name: str, value: Any) -> bool:
        return self._before.get((owner, name)) != self._marks.of(value)

    def _problem_of(self, change: Change) -> str:
        try:
            recorded(self._session, _Nowhere(), change.value, "", "", [], self._known)  # type: ignore[arg-type] # takes records, as a writer does
        except NotPlain as problem:
            return f"it changes {change.key!r}, which holds {problem} and is not compared"
        except UnsupportedTensor:
            return f"it changes {change.key!r}, which holds a tensor that cannot be read and is not compared"
        return ""

    def _watched(self) -> Iterator[Tuple[str, str, Any]]:
        for module in self._imported:
            for name, value in variables_of(module):
                yield f"{module}:", name, value
        if self._model is None:
            return
        adapter = self._session.adapter
        for each in adapter.state(self._model):
            if each.role == "buffer" and each.shared is None:
                owner, _, name = each.name.rpartition(".")
                yield owner, name, each.tensor
        for path, layer in adapter.modules(self._model):
            if type(layer).__module__ not in self._modules:  # the frameworks' own layers note other things in themselves
                continue
            for name, value in list(vars(layer).items()):
                if name not in self._hidden:
                    yield path, name, value


def told_changes(session: "Session", writer: "CaptureWriter", effects: Effects, known: "Optional[More]" = None) -> List[FunctionCall]:
    """Each change as the result of a call named ``effect:`` and its key."""
    found = []
    for each in effects.changes():
        call = FunctionCall(f"effect:{each.key}", 1, problem=each.problem)
        if not each.problem:
            call.result = recorded(session, writer, each.value, f"{call.name}#1", "output", [], known)
        found.append(call)
    return found


def classes_of(session: "Session") -> Dict[str, str]:
    """Path of each layer of a side's model -> ``module:Class``."""
    return {path: f"{type(each).__module__}:{type(each).__qualname__}" for path, each in session.adapter.modules(session.model)}


def variables_of(module: str) -> "Iterator[Tuple[str, Any]]":
    """What a module and its classes hold by name."""
    for name, value in list(vars(sys.modules[module]).items()):
        if name.startswith("__"):
            continue
        if not isinstance(value, (type, ModuleType, FunctionType)):  # what a call imports or defines is no value of its own
            yield name, value
        if isinstance(value, type) and value.__module__ == module and value.__name__ == name:
            own = list(vars(value).items())
            for inner, each in own:
                if not inner.startswith(("__", "_abc_")):
                    yield (f"{name}.{inner}", each)


def world(adapter: Any, modules: "Set[str]", objects: Dict[int, Any]) -> Dict[str, str]:
    """A mark of each module that was imported, and ``object#`` and number of each object.

    Args:
        adapter: of the side.
        modules: dotted names of the source's modules.
        objects: of the source's classes, by number.
    """
    marks = Marks(adapter, modules)
    found = {
        module: "".join(f"{name} {marks.of(value)} " for name, value in variables_of(module))
        for module in sorted(modules & set(sys.modules))
    }
    return {**found, **{f"object#{number}": marks.of(each) for number, each in objects.items()}}


class Marks:
    """Texts that change when values do; they say nothing to a reader.

    Args:
        adapter: whose tensors they may be.
        modules: whose classes' objects are looked into; of others it counts alone which object it is.
    """

    def __init__(self, adapter: Any, modules: "Set[str]") -> None:
        self._adapter, self._modules = adapter, modules
        self._left, self._within = 0, set()  # type: int, Set[int]

    def of(self, value: Any) -> str:
        """The text of a value."""
        self._left, self._within = LOOKED_AT, set()
        return hashlib.blake2b(self._text(value, 0).encode("utf-8", "surrogatepass")).hexdigest()

    def _text(self, value: Any, depth: int) -> str:
        self._left -= 1
        if value is None or type(value) in (bool, int, float, complex, str, bytes):
            return f"{type(value).__name__} {value!r}"
        if self._adapter.is_tensor(value):
            return self._of_tensor(value)
        if type(value) is np.ndarray and value.dtype.kind in "biufc":
            return _of_array(value)
        parts = None if self._left <= 0 or depth >= DEPTH or id(value) in self._within else self._parts(value)
        if parts is None:
            return f"{type(value).__name__} {id(value)} {_length(value)}"
        self._within.add(id(value))
        try:
            texts = [self._text(each, depth + 1) for each in parts]
            ordered = sorted(texts) if isinstance(value, (set, frozenset)) else texts
            return f"{type(value).__name__} ({', '.join(ordered)})"
        finally:
            self._within.discard(id(value))

    def _parts(self, value: Any) -> Optional[List[Any]]:
        if isinstance(value, dict):
            own = list(dict.items(value))
            return [each for pair in own for each in pair]
        if isinstance(value, _CONTAINERS):
            return list(value)
        if type(value) in (Namespace, SimpleNamespace):
            return [each for pair in vars(value).items() for each in pair]
        if type(value).__module__ in self._modules:
            return [each for pair in attributes_of(value).items() for each in pair]
        return None

    def _of_tensor(self, value: Any) -> str:
        try:
            found = self._adapter.to_array(value)
        except Exception:  # noqa: BLE001 - sparse and quantised tensors: another one is seen, not another value
            return f"tensor {id(value)}"
        return f"tensor {found.dtype} {_of_array(found.array)}"


def _of_array(value: "np.ndarray[Any, Any]") -> str:
    return f"{value.dtype} {value.shape} {hashlib.blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()}"


def _length(value: Any) -> str:
    return str(len(value)) if isinstance(value, (dict, *_CONTAINERS)) else ""


def says_something(adapter: Any, value: Any, depth: int = 0) -> bool:
    """Whether anything in a value can be right or wrong.

    None cannot, nor can an empty tensor, or infinities and NaN alone.
    """
    if isinstance(value, (dict, list, tuple)):
        parts = dict.values(value) if isinstance(value, dict) else value
        return depth < DEPTH and any(says_something(adapter, each, depth + 1) for each in parts)
    if adapter.is_tensor(value):
        try:
            return _has_finite(adapter.to_array(value))
        except UnsupportedTensor:  # a sparse or quantised one, which is not compared and said to be so
            return True
    if type(value) is np.ndarray and value.dtype.kind in "biufc":
        return bool(np.isfinite(value).any())
    return math.isfinite(value) if isinstance(value, float) else value is not None


def _has_finite(value: Any) -> bool:
    return bool(np.isfinite(widen(value)).any())


class _Nowhere:
    """Takes records as a writer does, and keeps none."""

    def add(self, *_: Any, **__: Any) -> None:
        """Take a record."""


__all__ = ["Change", "Effects", "Marks", "classes_of", "says_something", "told_changes", "variables_of"]
