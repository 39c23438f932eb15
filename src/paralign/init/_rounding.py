"""Element types: which can be initialised, what they hold, what they round to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Dict

import numpy as np

from paralign.dtypes import STORAGE, Typed, narrow, widen
from paralign.init._problems import InvalidInit

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

#: the greatest finite value of each type that can be initialised
GREATEST: Dict[str, float] = {
    "float16": 65504.0,
    "bfloat16": float(np.array(0x7F7F0000, np.uint32).view(np.float32)),
    "float32": float(np.finfo(np.float32).max),
    "float64": float(np.finfo(np.float64).max),
}

#: elements that are rounded at a time
_BLOCK = 1 << 18


def computing(dtype: str) -> Any:
    """The numpy type in which values of a type are drawn.

    float64 for itself, float32 for the shorter ones.
    """
    return np.float64 if dtype == "float64" else np.float32


def rounded(values: Array, dtype: str) -> Array:
    """Values that the type can hold, still in the type in which they are computed.

    What is too great becomes infinite.
    """
    if values.dtype.name == dtype:
        return values
    return np.asarray(widen(Typed(stored(values, dtype), dtype)), computing(dtype))


def stored(values: Array, dtype: str) -> Array:
    """Values rounded to a type as numpy stores it, bfloat16 as raw bits.

    It is done block by block, which bounds the memory beside the result.
    """
    flat = np.ascontiguousarray(values).reshape(-1)  # never of rank 0, whose integer arithmetic numpy 1 does in floats
    found = np.empty(flat.shape, STORAGE[dtype])
    with np.errstate(over="ignore"):
        for start in range(0, flat.size, _BLOCK):
            found[start : start + _BLOCK] = narrow(flat[start : start + _BLOCK], dtype).array
    return np.asarray(found.reshape(values.shape))


def nearest(value: float, dtype: str) -> float:
    """The value of a type nearest to a number."""
    with np.errstate(over="ignore"):
        return float(rounded(np.asarray(value, computing(dtype)), dtype))


def number(value: Any, name: str, nan: bool = False) -> float:
    """An argument as a float.

    Raises:
        InvalidInit: it is not a number, or NaN where that is not allowed.
    """
    found, sound = math.nan, not isinstance(value, (bool, str, bytes))
    if sound:
        try:
            found = float(value)
        except (TypeError, ValueError):
            sound = False
    if not sound or (math.isnan(found) and not nan):
        raise InvalidInit(f"{name}={value!r} is not a number", where=name, hint="give an int or a float")
    return found


def held(value: float, dtype: str, name: str) -> None:
    """Refuse a number that a type cannot hold.

    Raises:
        InvalidInit: it is infinite or greater than the type's greatest.
    """
    if abs(value) > GREATEST[dtype]:
        raise InvalidInit(
            f"{name}={value:g} does not fit into {dtype}",
            where=name,
            hint=f"stay within ±{GREATEST[dtype]:.6g}, or use a tensor of a wider type",
        )
