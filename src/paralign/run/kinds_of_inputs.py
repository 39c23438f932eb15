"""Inputs drawn otherwise than a project file says.

They show what a port does with values that small draws hardly ever have.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.dtypes import Typed, is_complex, narrow, typed, widen

if TYPE_CHECKING:
    from collections.abc import Callable

#: whole numbers beyond which float64 does not tell them apart
EXACT = 1 << 53

#: how far inputs lie from their middle where they are wide, and narrow, in units of the distribution's own spread
FAR, NEAR = 10.0, 0.01

#: how far an outlier lies from the middle, at least, in the same units, and one element in so many that is one
OUT, RARE = 30.0, 16

#: one element in so many is exactly 0 where there are zeros, as padding is
PADDED = 3

#: a uniform distribution's values are pushed towards its ends by this power of their distance from the middle, up to this share of it
PUSHED, WITHIN = 1 / 8, 0.999


class Kind(Enum):
    """How a set of inputs is drawn."""

    SPECIFIED = "as specified"
    ONE_SIDED = "each row on one side of the middle"
    WIDE = "wide"
    OUTLIERS = "with outliers"
    NARROW = "narrow"
    ZEROS = "with zeros"


#: what is drawn after the first set, in this order; then as specified
_ORDER = (Kind.SPECIFIED, Kind.ONE_SIDED, Kind.WIDE, Kind.OUTLIERS, Kind.NARROW, Kind.ZEROS)


def kinds(count: int) -> tuple[Kind, ...]:
    """The kinds of so many sets of inputs beside the first."""
    return (*_ORDER, *[Kind.SPECIFIED] * count)[:count]


def varied(spec: Any, value: Any, kind: Kind, random: np.random.Generator) -> Any:
    """Inputs that were drawn for an ``[inputs]`` entry, as inputs of a kind.

    Uniform values and whole numbers stay within the entry's bounds; those of ``zeros``, ``ones`` and ``arange`` stay as they are.

    Args:
        spec: the entry, as :func:`paralign.run.inputs.make` takes it.
        value: what that has drawn.
        kind: what becomes of it.
        random: draws where outliers, zeros and ends lie.
    """
    if kind is Kind.SPECIFIED:
        return value
    if isinstance(spec, list):
        return tuple(varied(part, each, kind, random) for part, each in zip(spec, value, strict=True))
    if "keywords" in spec:
        return {key: varied(part, value[key], kind, random) for key, part in spec["keywords"].items()}
    known = value if isinstance(value, Typed) else typed(value)
    floating = known.dtype.startswith(("float", "bfloat", "complex"))
    change = _CHANGES.get(spec.get("distribution", "normal" if floating else "integers"))
    if change is None or known.array.size == 0 or is_complex(known.dtype):
        return value
    if not floating and max(abs(spec.get("low", 0)), abs(spec.get("high", 2))) > EXACT:
        return value
    return narrow(_within(change(spec, widen(known).astype(np.float64), kind, random), known.dtype), known.dtype)


def _within(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Values no greater than a type of numpy's holds; as they are for other types."""
    if not hasattr(np, dtype) or dtype == "bool":
        return values
    bounds = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    return np.asarray(np.clip(values, float(bounds.min), float(bounds.max)))


def _normal(spec: dict[str, Any], values: np.ndarray[Any, Any], kind: Kind, random: np.random.Generator) -> np.ndarray[Any, Any]:
    middle = spec.get("mean", 0.0)
    if kind is Kind.ZEROS:
        return _with_zeros(values, random)
    off = values - middle
    if kind is Kind.ONE_SIDED:
        off = np.abs(off) * _sides(values)
    elif kind is Kind.OUTLIERS:
        spread = spec.get("std", 1.0)
        off = np.where(_rare(values, random), OUT * np.copysign(np.maximum(np.abs(off), spread), off), off)
    else:
        off = off * (FAR if kind is Kind.WIDE else NEAR)
    return np.asarray(middle + off)


def _uniform(spec: dict[str, Any], values: np.ndarray[Any, Any], kind: Kind, random: np.random.Generator) -> np.ndarray[Any, Any]:
    low, high = spec.get("low", 0.0), spec.get("high", 1.0)
    middle, half = (low + high) / 2, (high - low) / 2
    if kind is Kind.ZEROS:
        return _with_zeros(values, random) if low <= 0 < high else values
    off = (values - middle) / half
    pushed = np.minimum(np.abs(off) ** PUSHED, WITHIN) * np.sign(off)
    if kind is Kind.ONE_SIDED:
        off = np.minimum(np.abs(off), WITHIN) * _sides(values)
    elif kind is Kind.NARROW:
        off = off * NEAR
    else:
        off = pushed if kind is Kind.WIDE else np.where(_rare(values, random), pushed, off)
    return np.asarray(middle + half * off)


def _integers(spec: dict[str, Any], values: np.ndarray[Any, Any], kind: Kind, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Draw the least and the greatest whole number more often.

    Rows of one number alone could be masked as a whole, which nobody asks for.
    """
    if kind not in (Kind.WIDE, Kind.OUTLIERS):
        return values
    ends = [int(spec.get("low", 0)), int(spec.get("high", 2)) - 1]
    chosen = random.integers(0, 3, values.shape)
    return np.asarray(np.select([chosen == 0, chosen == 1], ends, values))


def _with_zeros(values: np.ndarray[Any, Any], random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Set some elements to exactly 0, which a continuous distribution never gives.

    What a program does with padding, it does there.
    """
    return np.asarray(np.where(_rare(values, random, PADDED), 0.0, values))


def _sides(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """1 and -1 in turn along the first axis, for values of any shape."""
    rows = len(values) if values.ndim else 1
    signs = np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    return np.asarray(signs.reshape([rows, *[1] * (values.ndim - 1)] if values.ndim else []))


def _rare(values: np.ndarray[Any, Any], random: np.random.Generator, many: int = RARE) -> np.ndarray[Any, Any]:
    """Which elements are changed: one in so many, and never none."""
    count = max(1, values.size // many)
    chosen = np.zeros(values.size, bool)
    chosen[random.choice(values.size, count, replace=False)] = True
    return np.asarray(chosen.reshape(values.shape))


_CHANGES: dict[str, Callable[[dict[str, Any], np.ndarray[Any, Any], Kind, np.random.Generator], np.ndarray[Any, Any]]] = {
    "normal": _normal,
    "uniform": _uniform,
    "integers": _integers,
}
