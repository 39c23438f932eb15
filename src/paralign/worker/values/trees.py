"""Nested values: taken apart into named leaves, and put together again.

A tree is a leaf, a list or tuple, a dict (or any mapping), a named tuple or a dataclass instance. A leaf's path joins
indices, keys and field names with dots: ``0``, ``logits``, ``1.0``; it is empty for a value that is itself a leaf.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from paralign.dtypes import Typed, typed
from paralign.errors import UnsupportedTensor

if TYPE_CHECKING:
    from paralign.adapters.base import Adapter

#: a structure as JSON: {"leaf": path} | {"list"|"tuple": [...]} | {"dict": {...}} | {"none": null}; a dict that was an object has its kind
#: beside it, {"dict": {...}, "fields": "tuple"|"object"|"mapping"}
Structure = Dict[str, Any]
Known = Callable[[Any], bool]


#: kinds of objects whose parts are attributes: a named tuple; a dataclass; a mapping of a class of its own
TUPLE, OBJECT, MAPPING = "tuple", "object", "mapping"


class Fields(Dict[str, Any]):
    """The fields of an object of the user's, as items and as attributes.

    By number too, without those that are None, as outputs of models that are mappings have it.

    >>> given = Fields(logits=1, loss=None, hidden=2)
    >>> given.logits, given["hidden"], given[1]
    (1, 2, 2)
    """

    def __getattr__(self, name: str) -> Any:
        """The field of a name."""
        if name in self:
            return self[name]
        raise AttributeError(f"no field {name!r}: there are {', '.join(self) or 'none'}")

    def __getitem__(self, key: Any) -> Any:
        """The field of a name, of a number, or those of a slice."""
        if isinstance(key, (int, slice)) and not dict.__contains__(self, key):
            return tuple(value for value in dict.values(self) if value is not None)[key]
        return dict.__getitem__(self, key)


class Attributes(Fields):
    """The fields of a dataclass, which are its attributes whatever methods a dictionary has.

    >>> given = Attributes(values=1, keys=None)
    >>> given.values, given.keys, list(given.items())
    (1, None, [('values', 1), ('keys', None)])
    """

    def __getattribute__(self, name: str) -> Any:
        """The field of a name, before the method of a dictionary."""
        if not name.startswith("__") and dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        return super().__getattribute__(name)

    def __reduce__(self) -> Tuple[Any, ...]:
        """As a dictionary: pickling would ask for a method that a field may hide."""
        return type(self), (dict(self),)


@lru_cache(maxsize=None)
def _named(names: Tuple[str, ...]) -> Any:
    """A class of named tuples, whose fields are found by name in brackets too."""
    make: Any = namedtuple  # noqa: PYI024 - its fields are not known before
    base = make("Fields", names, rename=True)

    def item(self: Any, key: Any) -> Any:
        return getattr(self, key) if isinstance(key, str) else tuple.__getitem__(self, key)

    return type("Fields", (base,), {"__slots__": (), "__getitem__": item})


def _object_of(kind: Optional[str], parts: Dict[str, Any]) -> Any:
    """What stands for an object of the user's with these fields."""
    if kind == TUPLE:
        return _named(tuple(parts))(*parts.values())
    return Attributes(parts) if kind == OBJECT else Fields(parts) if kind == MAPPING else parts


def mapped(value: Any, act: Callable[[Any], Any]) -> Any:
    """A tree with every leaf replaced; its containers are of the same kinds."""
    if isinstance(value, dict):
        parts = {key: mapped(part, act) for key, part in dict.items(value)}
        return type(value)(parts) if isinstance(value, Fields) else parts
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(part, act) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(part, act) for part in value)
    return act(value)


def children(value: Any) -> Optional[List[Tuple[str, Any]]]:
    """The named children of a container, None for anything else."""
    if isinstance(value, Mapping):
        return [(str(k), v) for k, v in (dict.items(value) if isinstance(value, Attributes) else value.items())]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value))
    if isinstance(value, (list, tuple)):
        return [(str(i), v) for i, v in enumerate(value)]
    if hasattr(type(value), "__dataclass_fields__") and not isinstance(value, type):
        return [(name, getattr(value, name)) for name in value.__dataclass_fields__]
    return None


def leaves(value: Any, known: Known, path: str = "") -> Iterator[Tuple[str, Any]]:
    """Path and value of every leaf, depth first.

    ``known`` says what is a leaf although it may look like a container.
    """
    parts = None if known(value) else children(value)
    if parts is None:
        if value is not None:
            yield path, value
        return
    for name, child in parts:
        yield from leaves(child, known, f"{path}.{name}" if path else name)


def structure(value: Any, known: Known, path: str = "") -> Structure:
    """The shape of a tree without its values, as JSON."""
    parts = None if known(value) else children(value)
    if parts is None:
        return {"none": None} if value is None else {"leaf": path}
    inner = [(name, structure(child, known, f"{path}.{name}" if path else name)) for name, child in parts]
    if isinstance(value, list):
        return {"list": [s for _, s in inner]}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return {"tuple": [s for _, s in inner]}
    if type(value) is dict:
        return {"dict": dict(inner)}
    if isinstance(value, tuple):
        return {"dict": dict(inner), "fields": TUPLE}
    is_object = isinstance(value, Attributes) or hasattr(type(value), "__dataclass_fields__")
    return {"dict": dict(inner), "fields": OBJECT if is_object else MAPPING}


def rebuild(shape: Structure, leaf: Callable[[str], Any], *, plain: bool = False) -> Any:
    """The tree of a structure, with ``leaf(path)`` at each leaf.

    Named tuples, dataclasses and mappings of other classes come back as :class:`Fields` or named tuples: their fields are attributes.

    Args:
        shape: of the tree.
        leaf: gives the leaf at a path.
        plain: give dicts in their place, as for arguments that are handed over by keyword.
    """
    if "leaf" in shape:
        return leaf(shape["leaf"])
    if "list" in shape:
        return [rebuild(s, leaf, plain=plain) for s in shape["list"]]
    if "tuple" in shape:
        return tuple(rebuild(s, leaf, plain=plain) for s in shape["tuple"])
    if "dict" in shape:
        parts = {k: rebuild(s, leaf, plain=plain) for k, s in shape["dict"].items()}
        return parts if plain else _object_of(shape.get("fields"), parts)
    return None


def _holds_array(leaf: Any) -> bool:
    """Whether numpy can read an object.

    One that fails when it is asked holds no array: it may be half made where its steps are followed.
    """
    try:
        return hasattr(leaf, "__array__") or hasattr(leaf, "__array_interface__")
    except Exception:  # noqa: BLE001 - a property of the user's, or of a library's, may raise anything
        return False


def to_value(leaf: Any, adapter: "Adapter") -> "Typed | str":
    """A leaf as it can be recorded: tensor, array, number, picture, or text.

    A picture is anything that numpy can read.

    Raises:
        UnsupportedTensor: an object that holds no array and no text.
    """
    if adapter.is_tensor(leaf):
        return adapter.to_array(leaf)
    if isinstance(leaf, str):
        return leaf
    if isinstance(leaf, (bool, int, float, complex, np.ndarray, np.generic)):
        return typed(leaf)
    if _holds_array(leaf):
        return typed(np.asarray(leaf))
    raise UnsupportedTensor(
        f"a value of type {type(leaf).__module__}.{type(leaf).__qualname__} cannot be recorded",
        hint="return tensors, arrays, numbers, text, or lists, tuples and dicts of them",
    )
