"""Dataclasses as JSON between processes, and back with every field checked.

A field is called on the wire as in the class; an underscore at its end, as in ``class_``, is dropped.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, Dict, List, Tuple, Type, TypeVar, Union, get_args, get_origin, get_type_hints

from paralign.errors import ParalignError, quoted

T = TypeVar("T")

#: what types of JSON are called in messages
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}


class MalformedMessage(ParalignError):
    """What another process sent is not what both sides of paralign have agreed on."""


@dataclasses.dataclass(frozen=True)
class _Field:
    """A field of a class.

    Its name there and on the wire, its type, and whether it has to be given.
    """

    name: str
    key: str
    kind: Any
    required: bool


def _fields_of(kind: Any) -> Tuple[_Field, ...]:
    return _looked_up(kind)


@lru_cache(maxsize=None)
def _looked_up(kind: Any) -> Tuple[_Field, ...]:
    hints = get_type_hints(kind)
    found = []
    for each in dataclasses.fields(kind):
        required = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
        found.append(_Field(each.name, each.name.rstrip("_"), hints[each.name], required))
    return tuple(found)


def encode(value: Any) -> Any:
    """A value as JSON has it: dataclasses as objects, tuples as lists."""
    if dataclasses.is_dataclass(value):
        return {field.key: encode(getattr(value, field.name)) for field in _fields_of(type(value))}
    if isinstance(value, dict):
        return {key: encode(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(each) for each in value]
    return value


def decode(kind: Type[T], value: Any, where: str) -> T:
    """A value of JSON as an object of a dataclass.

    Args:
        kind: the class; its fields have types that JSON can hold, other such classes, lists, tuples, dicts of texts and Optional.
        value: what was received.
        where: what it is, for the message: the name of a task, say.

    Raises:
        MalformedMessage: a field is unknown, missing, or of another type.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int
    ...     name: str = ""
    >>> decode(Point, {"x": 1}, "point")
    Point(x=1, name='')
    >>> decode(Point, {"x": "1"}, "point")
    Traceback (most recent call last):
        ...
    paralign.worker.protocol.wire.MalformedMessage: 'x' must be a whole number, not '1'
      where: point
      fix:   use the same version of paralign on both ends
    """
    if not isinstance(value, dict):
        raise _wrong("the message", "an object", value, where)
    known = {field.key: field for field in _fields_of(kind)}
    for key in value:
        if key not in known:
            raise _malformed(f"there is no field {quoted(key)}", where)
    given: Dict[str, Any] = {}
    for key, field in known.items():
        if key in value:
            given[field.name] = _decoded(field.kind, value[key], key, where)
        elif field.required:
            raise _malformed(f"the field {key!r} is missing", where)
    return kind(**given)


def _decoded(kind: Any, value: Any, name: str, where: str) -> Any:
    """A value of any type that a field may have; ``name`` is the way to it."""
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return decode(kind, value, f"{where}: {name}")  # type: ignore[arg-type] # a class: fields' types are no instances
    if get_origin(kind) is Union:
        if value is None and type(None) in get_args(kind):
            return None
        return _decoded(get_args(kind)[0], value, name, where)
    if get_origin(kind) is not None:
        return _container(kind, value, name, where)
    fits = isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))
    if not fits:
        raise _wrong(name, _WORDS.get(kind, kind.__name__), value, where)
    return value


def _container(kind: Any, value: Any, name: str, where: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(name, "an object", value, where)
        return {key: _decoded(inner[1], each, f"{name}.{key}", where) for key, each in value.items()}
    if not isinstance(value, (list, tuple)):
        raise _wrong(name, "a list", value, where)
    if origin is list or inner[-1] is Ellipsis:
        found = [_decoded(inner[0], each, f"{name}[{place}]", where) for place, each in enumerate(value)]
        return found if origin is list else tuple(found)
    if len(value) != len(inner):
        raise _wrong(name, f"a list of {len(inner)}", value, where)
    pairs = enumerate(zip(inner, value))
    return tuple(_decoded(each, item, f"{name}[{place}]", where) for place, (each, item) in pairs)


def _wrong(name: str, wanted: str, value: Any, where: str) -> MalformedMessage:
    return _malformed(f"{name if name == 'the message' else repr(name)} must be {wanted}, not {quoted(value)}", where)


def _malformed(what: str, where: str) -> MalformedMessage:
    return MalformedMessage(what, where=where, hint="use the same version of paralign on both ends")


def names_of(kind: Any) -> List[str]:
    """The names of a class's fields on the wire."""
    return [field.key for field in _fields_of(kind)]
