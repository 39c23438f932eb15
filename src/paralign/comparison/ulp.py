"""Distances in units in the last place.

How many values of a type lie between two of its values.

The values of a floating type are numbered in order: the bits of a magnitude, read as an integer, are its number, and
negative values count down from zero (both zeros are number 0). Two types are compared in the coarser of them, to which
the values of the other are rounded first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paralign.dtypes import EPS, Typed, is_complex, is_floating, narrow, widen

Array = np.ndarray[Any, Any]

_BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8}
_PARTS = {"complex64": "float32", "complex128": "float64"}


def _middles(name: str, count: int) -> Array:
    values = widen(Typed(np.arange(count, dtype=np.uint8), name)).astype(np.float64)
    middles: Array = (values[1:] + values[:-1]) / 2
    return middles


#: midpoints between neighbouring positive values of the types of one byte; their infinity and NaN are left out
_MIDDLES = {"float8_e4m3fn": _middles("float8_e4m3fn", 127), "float8_e5m2": _middles("float8_e5m2", 124)}


def unit(reference: str, candidate: str) -> str | None:
    """The coarser of two floating types; None where either is not floating.

    Of complex types, that of their parts.
    """
    if not (is_floating(reference) and is_floating(candidate)):
        return None
    return max((_PARTS.get(name, name) for name in (reference, candidate)), key=lambda name: (EPS[name], name))


def distances(reference: Typed, candidate: Typed) -> Array:
    """Distance of each element, float64, exact up to 2**53.

    NaN and infinities are not allowed; complex gives both parts in turn.

    Args:
        reference: one-dimensional, of a floating type.
        candidate: as many elements, of a floating type.
    """
    kind = unit(reference.dtype, candidate.dtype)
    if kind is None:
        raise ValueError(f"no unit in the last place for {reference.dtype} and {candidate.dtype}")
    sides = [_rounded(_parts(side), kind) for side in _equally_complex(reference, candidate)]
    sign = sides[0].dtype.type(1 << (_BITS[kind] - 1))
    magnitudes = [(side & ~sign).astype(np.uint64) for side in sides]
    low, high = np.minimum(*magnitudes), np.maximum(*magnitudes)
    opposite = ((sides[0] ^ sides[1]) & sign) != 0
    apart: Array = np.where(opposite, high + low, high - low).astype(np.float64)
    return apart


def greatest(reference: Array, candidate: Array, room: Array) -> int:
    """The greatest distance between values of one type, finite on both sides.

    Args:
        reference: the bits as signed integers of the type's width.
        candidate: as ``reference``.
        room: as ``reference``; overwritten.
    """
    np.bitwise_xor(reference, candidate, out=room)
    opposite = np.flatnonzero(room < 0) if room.min() < 0 else None
    np.subtract(reference, candidate, out=room)
    if opposite is None:
        return max(int(room.max()), -int(room.min()))
    room[opposite] = 0
    mask = np.iinfo(room.dtype).max
    across = (reference[opposite] & mask).astype(np.uint64) + (candidate[opposite] & mask).astype(np.uint64)
    return max(int(room.max()), -int(room.min()), int(across.max()))


def _equally_complex(reference: Typed, candidate: Typed) -> tuple[Typed, Typed]:
    """Both sides complex where one of them is.

    A real value is compared with the real part, zero with the imaginary one.
    """
    if is_complex(reference.dtype) == is_complex(candidate.dtype):
        return reference, candidate
    wide = [side if is_complex(side.dtype) else Typed(widen(side).astype(np.complex128), "complex128") for side in (reference, candidate)]
    return wide[0], wide[1]


def _parts(value: Typed) -> Typed:
    if not is_complex(value.dtype):
        return value
    name = _PARTS[value.dtype]
    return Typed(np.ascontiguousarray(value.array).view(name), name)


def _rounded(value: Typed, kind: str) -> Array:
    """The bits of the values, rounded to ``kind``, as unsigned integers."""
    bits = np.dtype(f"uint{_BITS[kind]}")
    if value.dtype == kind:
        return np.ascontiguousarray(value.array).view(bits)
    wide = widen(value)
    if kind in _MIDDLES:
        return _nearest(wide, _MIDDLES[kind])
    with np.errstate(over="ignore", under="ignore"):
        if kind == "bfloat16":  # float64 is rounded to float32 first: one in 2**29 values can be off by one
            return narrow(wide, kind).array
        rounded: Array = wide.astype(kind).view(bits)
        return rounded


def _nearest(wide: Array, middles: Array) -> Array:
    """The bits of the nearest value of a type of one byte, ties to even.

    Greater values become its greatest.
    """
    size = np.abs(wide)
    number = np.searchsorted(middles, size)
    number += (number % 2 == 1) & (size == middles[np.minimum(number, middles.size - 1)])
    signed: Array = number.astype(np.uint8) | (np.signbit(wide).astype(np.uint8) << np.uint8(7))
    return signed
