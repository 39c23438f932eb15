"""The user's own optimizer and schedule in a check.

They work on copies of what they keep, and get their own back.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class Borrowed:
    """Objects whose attributes are copies for the time of a check.

    A function that is to build an optimizer may hand out one that has taken steps: every run of a check starts from what it had kept
    before the check. What cannot be copied (handles of a framework's graphs) stays shared.
    """

    def __init__(self) -> None:
        self._own: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._copies: dict[int, Any] = {}

    def take(self, made: Any, fixed: Iterable[Any]) -> Any:
        """The object, or the copy of it that is part of another one that was taken.

        ``fixed`` are not copied (the model's parameters).
        """
        if id(made) not in self._own and id(made) in self._copies:
            return self._copies[id(made)]
        space = getattr(made, "__dict__", None)
        if not isinstance(space, dict):
            return made
        _, own = self._own.setdefault(id(made), (made, dict(space)))
        memo: dict[int, Any] = {id(value): value for value in (*fixed, *_parameters(own), *(each for each, _ in self._own.values()))}
        copies = {name: _copied(value, memo) for name, value in own.items()}
        space.clear()
        space.update(copies)
        self._copies.update(memo)
        return made

    def give_back(self) -> None:
        """Put every object's own attributes back."""
        for made, own in self._own.values():
            vars(made).clear()
            vars(made).update(own)
        self._own.clear()
        self._copies.clear()


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # noqa: BLE001 - whatever a foreign object raises that cannot be copied: it stays as it is, which the docs say
        return value


def _parameters(space: dict[str, Any]) -> list[Any]:
    """The parameters that an optimizer works on, as PyTorch and Paddle keep them."""
    found: list[Any] = []
    for name in ("param_groups", "_param_groups", "_parameter_list"):
        for entry in space.get(name) or []:
            found += entry.get("params", []) if isinstance(entry, dict) else [entry]
    return found
