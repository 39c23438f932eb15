"""A live model lent to a check: its layers' attributes are put back as they were.

They are the same objects with the same contents.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any, Dict, Iterable, List, Tuple

#: attributes of these types are put back with their contents; deeper ones, and those of other types, are not looked into
_CONTAINERS = (dict, OrderedDict, defaultdict, list, set)


class Attributes:
    """The attributes of objects, and what lies in the lists, dicts and sets among them."""

    def __init__(self, owners: Iterable[Any]) -> None:
        self._kept: List[Tuple[Any, Dict[str, Any], List[Tuple[Any, Any]]]] = []
        for owner in owners:
            values = dict(vars(owner))
            contents = [(value, value.copy()) for value in values.values() if type(value) in _CONTAINERS]
            self._kept.append((owner, values, contents))

    def values(self) -> List[Any]:
        """Every attribute, and every entry of a container among them."""
        found: List[Any] = []
        for _, values, contents in self._kept:
            found += values.values()
            for _, content in contents:
                found += content.values() if isinstance(content, dict) else content
        return found

    def restore(self) -> None:
        """Put all of them back."""
        for owner, values, contents in self._kept:
            space = vars(owner)
            if not _same(space, values):
                space.clear()
                space.update(values)
            for container, content in contents:
                _refill(container, content)


def _same(one: Dict[Any, Any], other: Dict[Any, Any]) -> bool:
    if list(one) != list(other):
        return False
    return all(a is b for a, b in zip(one.values(), other.values()))


def _refill(container: Any, content: Any) -> None:
    """Give a container its contents back, unless they are the same objects still."""
    if isinstance(container, dict):
        if not _same(container, content):
            container.clear()
            container.update(content)
    elif isinstance(container, list):
        if len(container) != len(content) or any(a is not b for a, b in zip(container, content)):
            container[:] = content
    elif container != content:
        container.clear()
        container.update(content)
