"""What two calls gave back beside their tensors, compared."""

from __future__ import annotations

import json
import math
from typing import Any

#: lists, and PyTorch's shapes, which Paddle has as lists
_LISTS = ("list", "size")


def told_apart(one: str, other: str) -> float:
    """How far the numbers of two results are apart, relatively.

    Infinite where anything else differs.

    Tensors stand in them by number alone; they are compared by themselves.

    Args:
        one: as ``worker/calls/plain_values.py`` tells a value: JSON.
        other: as well.

    >>> told_apart('{"plain": "0.5", "kind": "float"}', '{"plain": "0.5", "kind": "float"}')
    0.0
    >>> told_apart('{"plain": 1, "kind": "int"}', '{"plain": "1.0", "kind": "float"}')
    inf
    """
    return _apart(json.loads(one), json.loads(other))


def _apart(one: Any, other: Any) -> float:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return 0.0 if one == other else math.inf
    parts, others = _parts(one), _parts(other)
    if parts is not None and others is not None:
        return _all_apart(parts, others)
    if "dict" in one and "dict" in other and one.get("kind") == other.get("kind"):
        first, second = one["dict"], other["dict"]
        if one.get("kind") == "OrderedDict" and list(first) != list(second):
            return math.inf
        return _all_apart([first[key] for key in first], [second[key] for key in first]) if set(first) == set(second) else math.inf
    if one.get("kind") == other.get("kind") == "float":
        return _distance(float(one["plain"]), float(other["plain"]))
    return 0.0 if one == other else math.inf


def _parts(told: dict[str, Any]) -> list[Any] | None:
    """The elements of a list or shape, or of a tuple or partial with a mark before them."""
    for kind in _LISTS:
        if kind in told:
            return ["list", *told[kind]]
    return next(([kind, *told[kind]] for kind in ("tuple", "partial") if kind in told), None)


def _all_apart(first: list[Any], second: list[Any]) -> float:
    if len(first) != len(second):
        return math.inf
    return max((_apart(one, other) for one, other in zip(first, second, strict=True)), default=0.0)


def _distance(one: float, other: float) -> float:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    size = max(abs(one), abs(other))
    if math.isfinite(size) and not math.isnan(one - other):
        return abs(one - other) / size
    return math.inf
