"""Arrays of a model and what holds them.

JAX's arrays cannot be written to, so that a new value is put where the old one was held.

A model is an object, a ``functools.partial`` of a function over a tree of parameters, or a module of flax.nnx. Attributes, dicts, lists,
tuples and nnx variables are walked; what belongs to JAX, flax, numpy or Python itself is not looked into.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Optional, Set, Tuple

import jax
import numpy as np

from paralign.adapters._calls import in_stdlib
from paralign.dtypes import canonical
from paralign.errors import UnsupportedTensor

Put = Callable[[Any], None]

#: an attribute or argument of this name holds trained arrays; elsewhere they are buffers
PARAMETERS = frozenset({"params", "parameters"})

#: leaf of a layer of flax -> PyTorch's name for it
LEAVES = {"kernel": "weight", "scale": "weight", "embedding": "weight", "mean": "running_mean", "var": "running_var"}

#: layer class of flax -> PyTorch's, where they differ; of convolutions the axes follow
KINDS = {"Embed": "Embedding", "Conv": "Conv"}

#: packages whose objects hold no state of the user's
_FOREIGN = ("jax", "jaxlib", "flax", "numpy", "ml_dtypes", "optax")


@dataclass
class Slot:
    """An array where it is held; ``put`` puts another in its place.

    ``held`` is the nnx variable, or the array itself.
    """

    name: str
    owner: str
    leaf: str
    kind: str
    array: Any
    held: Any
    trained: bool
    put: Put


def nnx() -> Any:
    """flax.nnx, if the side has imported it."""
    return sys.modules.get("flax.nnx")


def is_array(value: Any) -> bool:
    """Whether a value is an array with values, neither traced nor a key of random numbers."""
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return False
    try:
        canonical(np.dtype(value.dtype))
    except (TypeError, UnsupportedTensor):  # keys have a type that numpy does not know; int4 and the like cannot be recorded
        return False
    return True


def is_module(value: Any) -> bool:
    """Whether a value's class defines ``__call__`` in Python, so that calls are seen."""
    flax = nnx()
    if flax is not None and isinstance(value, (flax.Variable, flax.List, flax.Dict)):
        return False
    return _is_object(value) and isinstance(inspect.getattr_static(type(value), "__call__", None), types.FunctionType)


def kind(module: Any) -> str:
    """PyTorch's name of the layer of flax that a module is or derives from.

    '' for one of the user's own.
    """
    flax = nnx()
    if flax is None or not isinstance(module, flax.Module):
        return ""
    found = next((cls.__name__ for cls in type(module).__mro__ if cls.__module__.startswith("flax.nnx.nn.")), "")
    if found == "Conv":
        sizes = module.kernel_size
        return f"Conv{len(sizes) if isinstance(sizes, (tuple, list)) else 1}d"
    return KINDS.get(found, found)


def owners(model: Any) -> Iterator[Tuple[str, Any]]:
    """Paths and objects, the root first, each object once, in the order of its attributes."""
    yield from _owners("", root(model), set())


def _owners(path: str, value: Any, seen: Set[int]) -> Iterator[Tuple[str, Any]]:
    if id(value) in seen or not (isinstance(value, (dict, list, tuple)) or _is_object(value)):
        return
    seen.add(id(value))
    if _is_object(value):
        yield path, value
    for key, item, _ in _items(value, lambda _: None):
        yield from _owners(_joined(path, key), item, seen)


def root(model: Any) -> Any:
    """The object behind a bound method."""
    return model.__self__ if isinstance(model, types.MethodType) else model


def slots(model: Any) -> List[Slot]:
    """Every array of a model, in the order in which it is held, aliases included."""
    start = root(model)
    return list(_slots(start, _At("", "", "", kind(start)), lambda _: None, set()))


@dataclass(frozen=True)
class _At:
    """Where a walk is: the whole path, the owner's, the path below it, the owner's kind."""

    path: str
    owner: str
    leaf: str
    kind: str
    trained: bool = False

    def below(self, key: str, *, trained: bool) -> _At:
        return _At(_joined(self.path, key), self.owner, _joined(self.leaf, key), self.kind, self.trained or trained)


def _slots(value: Any, at: _At, put: Put, seen: Set[int]) -> Iterator[Slot]:
    flax = nnx()
    if flax is not None and isinstance(value, flax.Variable):
        array = value.get_value()
        if not isinstance(value, flax.RngState) and is_array(array):
            yield _slot(at, array, value, value.set_value, trained=isinstance(value, flax.Param))
        return
    if is_array(value):
        yield _slot(at, value, value, put, trained=at.trained)
        return
    inner = _is_object(value)
    if id(value) in seen or not (inner or isinstance(value, (dict, list, tuple))):
        return
    seen.add(id(value))
    here = _At(at.path, at.path, "", kind(value), at.trained) if inner else at
    first = isinstance(value, functools.partial)
    for number, (key, item, setter) in enumerate(_items(value, put)):
        yield from _slots(item, here.below(key, trained=key in PARAMETERS or (first and number == 0)), setter, seen)


def _slot(at: _At, array: Any, held: Any, put: Put, *, trained: bool) -> Slot:
    leaf = LEAVES.get(at.leaf, at.leaf) if at.kind else at.leaf
    return Slot(at.path, at.owner, leaf, at.kind, array, held, trained, put)


def _items(value: Any, put: Put) -> Iterator[Tuple[str, Any, Put]]:
    """Keys and items of a container or object, and what puts something else there."""
    if isinstance(value, dict):
        yield from ((str(key), item, functools.partial(value.__setitem__, key)) for key, item in list(value.items()))
    elif isinstance(value, list):
        yield from ((str(index), item, functools.partial(value.__setitem__, index)) for index, item in enumerate(value))
    elif isinstance(value, tuple):
        names = getattr(value, "_fields", None) or [str(index) for index in range(len(value))]
        parts = list(value)
        for index, name in enumerate(names):
            yield name, parts[index], functools.partial(_rebuilt, value, parts, index, put)
    elif isinstance(value, functools.partial):
        yield from _arguments(value)
    else:
        space = vars(value)
        for key, item in list(space.items()):
            if not key.startswith("_pytree__"):  # flax's own notes on an object
                yield key, item, functools.partial(space.__setitem__, key)


def _rebuilt(value: Any, parts: List[Any], index: int, put: Put, new: Any) -> None:
    """Put a tuple with one other item in the place of a tuple."""
    parts[index] = new
    put(type(value)._make(parts) if hasattr(value, "_fields") else type(value)(parts))


def _arguments(value: Any) -> Iterator[Tuple[str, Any, Put]]:
    """The arguments of a ``functools.partial``, by the names that its function gives them."""
    try:
        names = list(inspect.signature(value.func).parameters)
    except (TypeError, ValueError):
        names = []

    def replace(index: int, new: Any) -> None:
        arguments = [*value.args[:index], new, *value.args[index + 1 :]]
        value.__setstate__((value.func, tuple(arguments), value.keywords, value.__dict__))

    for index, item in enumerate(value.args):
        yield names[index] if index < len(names) else str(index), item, functools.partial(replace, index)
    for key, item in list(value.keywords.items()):
        yield key, item, functools.partial(value.keywords.__setitem__, key)


def _is_object(value: Any) -> bool:
    """Whether a value is an object that may hold state of the user's.

    Classes of Python, numpy and JAX are not.
    """
    if isinstance(value, (types.SimpleNamespace, functools.partial)):
        return True
    flax = nnx()
    if flax is not None and isinstance(value, flax.Pytree):
        return not isinstance(value, (flax.Rngs, flax.RngStream))
    if not hasattr(value, "__dict__") or isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType)):
        return False
    home = type(value).__module__
    source: Optional[str] = getattr(sys.modules.get(home), "__file__", None)
    return home.split(".")[0] not in (*_FOREIGN, *sys.builtin_module_names) and not (source and in_stdlib(source))


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
