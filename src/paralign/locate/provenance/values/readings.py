"""What an expression reads or was read from: entries of files, places in arrays and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.locate.provenance.values.value_graph import SETTING, behind
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from paralign.locate.provenance.values.value_graph import Expression


def setting_of(reading: Expression | None) -> Expression | None:
    """The entry of a file of settings that was read; None where none is known."""
    return None if reading is None else taken_as(reading, SETTING)


def taken_as(each: Expression, role: str) -> Expression | None:
    """The first thing that an expression takes in a role."""
    return next((inner for name, inner in each.inputs if name == role), None)


def is_part_of_path(each: Expression) -> bool:
    """Whether a text, or an object of it, says where a file lies."""
    if is_path(each):
        return True
    return isinstance(each.scalar, str) and any(map(is_path, reached(each.users, _following_text)))


def is_path(each: Expression) -> bool:
    """Whether a value is an object that says where a file lies."""
    return bool(each.mark[0] == "k") and str(each.mark[1]).endswith("Path")


def _following_text(each: Expression) -> list[Expression]:
    """What is made of a text as long as it is a text."""
    return each.users if isinstance(each.scalar, str) else []


def is_length(each: Expression, user: Expression) -> bool:
    """Whether a whole number was made of an array: how long it is tells nothing of it."""
    return bool(each.mark[0] == "a") and isinstance(user.scalar, int)


def stored_in(reading: Expression) -> Expression | None:
    """What was put at the place that is read from an array; None where that was not seen."""
    places = _places(reading)
    if reading.kind != "item" or not places or not all(type(place) is int for place in places):
        return None
    container = taken_as(reading, "object")
    while container is not None and container.kind == "change":
        written = _places(container)
        values = [inner for role, inner in container.inputs if role == "value"]
        if values and written and written == places[: len(written)]:
            return values[-1]
        container = taken_as(container, "object")
    return None


def _places(each: Expression) -> list[Any]:
    """The numbers in an expression's brackets."""
    return [inner.scalar for role, inner in each.inputs if role == "index"]


def is_from_file(each: Expression) -> bool:
    """Whether a value was made of an entry of a file of settings."""
    return any(inner.kind == SETTING for inner in behind(each))
