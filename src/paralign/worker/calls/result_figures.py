"""A few figures of what a call gave back, to ask whether a call made again gives the same.

They are of each tensor, array and number in it: how many elements, their root mean square, and their sum with fixed signs.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any, Dict, List

import numpy as np

from paralign.dtypes import is_complex, is_floating, typed, widen

if TYPE_CHECKING:
    from paralign.adapters.base import Adapter

#: elements of a tensor that are looked at
ELEMENTS = 1 << 22

#: tensors and numbers of one result; of more, nothing is said
LEAVES = 10_000

#: levels of containers
DEPTH = 8

#: numbers beyond this are infinities or the least number of a type, which is another one in float64
ENDLESS = 1e30

#: how far results in float32, and in half precision, may be from those in float64, relatively
NEAR, HALF_NEAR = 1e-3, 5e-2

#: root mean squares up to this may be what rounding in float32 leaves of nothing
SMALL = 1e-6


def figures(adapter: "Adapter", value: Any) -> str:
    """The figures of a value as JSON; '' where there are too many or it cannot be read."""
    found: List[List[float]] = []
    try:
        _gather(adapter, value, found, 0)
    except Exception:  # noqa: BLE001 - tensors that have no elements to read: sparse ones, say
        return ""
    return json.dumps(found) if len(found) <= LEAVES else ""


class Agreement(Enum):
    """Whether two results may be the same."""

    SAME = "the same"
    SMALL = "they differ where both are as small as rounding leaves of nothing"
    OTHER = "they differ"


def figures_agree(one: str, other: str) -> Agreement:
    """Whether two results may be the same, whatever their size.

    >>> figures_agree("[[1, 0, 2.0, 2.0, 0.001]]", "[[1, 0, 2.0001, 2.0001, 0.001]]").name
    'SAME'
    >>> figures_agree("[[1, 0, 2e-9, 2e-9, 0.001]]", "[[1, 0, 3e-9, 3e-9, 0.001]]").name
    'SMALL'
    >>> figures_agree("[[1, 0, 2.0, 2.0, 0.001]]", "[[1, 0, 3.0, 3.0, 0.001]]").name
    'OTHER'
    """
    ours, theirs = json.loads(one), json.loads(other)
    if len(ours) != len(theirs):
        return Agreement.OTHER
    apart = [(first, second) for first, second in zip(ours, theirs) if not _near(first, second)]
    if not apart:
        return Agreement.SAME
    small = all(first[:2] == second[:2] and max(first[2], second[2]) <= SMALL for first, second in apart)
    return Agreement.SMALL if small else Agreement.OTHER


def _near(one: List[float], other: List[float]) -> bool:
    if one[:2] != other[:2]:
        return False
    room = max(one[4], other[4]) * max(one[2], other[2])
    return abs(one[2] - other[2]) <= room and abs(one[3] - other[3]) <= room


def _gather(adapter: "Adapter", value: Any, found: List[List[float]], depth: int) -> None:
    if depth > DEPTH or len(found) > LEAVES:
        return
    if adapter.is_tensor(value):
        array = adapter.to_array(value)
        floating = is_floating(array.dtype) or is_complex(array.dtype)
        half = floating and array.dtype not in ("float32", "float64", "complex64", "complex128")
        found.append(_figures(widen(array), half=half))
    elif type(value) is np.ndarray and value.dtype.kind in "biufc":
        found.append(_figures(widen(typed(value)), half=value.dtype == np.float16))
    elif type(value) in (bool, int, float):
        found.append(_figures(np.asarray(value, np.float64), half=False))
    elif isinstance(value, dict):
        for each in dict.values(value):
            _gather(adapter, each, found, depth + 1)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _gather(adapter, each, found, depth + 1)


def _figures(value: "np.ndarray[Any, Any]", *, half: bool) -> List[float]:
    """Count, endless ones, root mean square, signed sum, and how near another has to be."""
    size = int(value.size)
    part = value.reshape(-1)[:ELEMENTS]
    if part.dtype.kind == "c":
        part = np.stack([part.real, part.imag], -1).reshape(-1)
    part = part.astype(np.float64)
    with np.errstate(invalid="ignore"):
        kept = np.abs(part) <= ENDLESS
    part = np.where(kept, part, 0.0)
    number = max(len(part), 1)
    signs = 1.0 - 2.0 * ((np.arange(len(part), dtype=np.int64) * 2654435761 >> 13) & 1)
    rms = float(np.sqrt(np.sum(part * part) / number))
    return [size, int(len(part) - np.sum(kept)), rms, float(np.dot(part, signs) / np.sqrt(number)), HALF_NEAR if half else NEAR]


def attributes_of(owner: Any) -> Dict[str, Any]:
    """The attributes of an object, those in slots too."""
    found = dict(getattr(owner, "__dict__", {}))
    for kind in type(owner).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(owner, name):
                found[name] = getattr(owner, name)
    return dict(sorted(found.items()))


__all__ = ["SMALL", "Agreement", "attributes_of", "figures", "figures_agree"]
