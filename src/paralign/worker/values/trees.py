"""Nested values: taken apart into named leaves, and put together again.

A tree is a leaf, a list or tuple, a dict (or any mapping), a named tuple or a dataclass instance. A leaf's path joins
indices, keys and field names with dots: ``0``, ``logits``, ``1.0``; it is empty for a value that is itself a leaf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from paralign.dtypes import Typed, typed
from paralign.errors import UnsupportedTensor

if TYPE_CHECKING:
    from paralign.adapters.base import Adapter

#: a structure as JSON: {"leaf": path} | {"list"|"tuple": [...]} | {"dict": {...}} | {"none": null}
Structure = Dict[str, Any]
Known = Callable[[Any], bool]


def children(value: Any) -> Optional[List[Tuple[str, Any]]]:
    """The named children of a container, None for anything else."""
    if isinstance(value, Mapping):
        return [(str(k), v) for k, v in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value))
    if isinstance(value, (list, tuple)):
        return [(str(i), v) for i, v in enumerate(value)]
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
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
    return {"dict": dict(inner)}


def rebuild(shape: Structure, leaf: Callable[[str], Any]) -> Any:
    """The tree of a structure, with ``leaf(path)`` at each leaf.

    Named tuples and dataclasses come back as dicts.
    """
    if "leaf" in shape:
        return leaf(shape["leaf"])
    if "list" in shape:
        return [rebuild(s, leaf) for s in shape["list"]]
    if "tuple" in shape:
        return tuple(rebuild(s, leaf) for s in shape["tuple"])
    if "dict" in shape:
        return {k: rebuild(s, leaf) for k, s in shape["dict"].items()}
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
