"""Element types by their canonical names, with or without a numpy type of the same name.

numpy has no bfloat16 and no float8. Such tensors travel as raw bits (``uint16``, ``uint8``) beside the name of their
true type, in a :class:`Typed`; :func:`widen` gives their exact values as float32.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

import numpy as np

from paralign.errors import UnsupportedTensor

#: canonical name -> the numpy type that stores it (raw bits where numpy has no such type)
STORAGE: Dict[str, "np.dtype[Any]"] = {
    name: np.dtype(name)
    for name in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    )
}
STORAGE.update({"bfloat16": np.dtype("uint16"), "float8_e4m3fn": np.dtype("uint8"), "float8_e5m2": np.dtype("uint8")})

#: types that are stored as raw bits
RAW = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})

#: unit roundoff spacing (distance from 1 to the next value) of each floating type
EPS: Dict[str, float] = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}


class Typed(NamedTuple):
    """An array and the canonical name of its element type.

    ``array`` holds raw bits where the name is in ``RAW``.
    """

    array: "np.ndarray[Any, Any]"
    dtype: str


def canonical(dtype: "np.dtype[Any]") -> str:
    """The canonical name of a numpy type, in any byte order.

    Raises:
        UnsupportedTensor: for objects, strings, dates, structures and extended precision.
    """
    name = np.dtype(dtype).newbyteorder("=").name
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return str(name)  # a type of the ml_dtypes package
    if name not in STORAGE:
        raise UnsupportedTensor(f"elements of type {dtype} cannot be recorded", hint="convert it to one of: " + ", ".join(sorted(STORAGE)))
    return str(name)


def typed(array: Any) -> Typed:
    """An array in native byte order with its canonical type; extension types become raw bits."""
    array = np.asarray(array)
    name = canonical(array.dtype)
    if name in RAW:
        return Typed(array.view(STORAGE[name]), name)
    return Typed(array.astype(STORAGE[name], copy=False), name)


def unboxed(value: Any) -> Any:
    """A numpy scalar as Python's own number, one in an array without axes too.

    Anything else is given back as it is.
    """
    is_scalar = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return value.item() if is_scalar else value


def is_floating(dtype: str) -> bool:
    """Whether elements of this type are rounded (floating or complex)."""
    return dtype in EPS


def is_whole(dtype: str) -> bool:
    """Whether elements are integers or booleans, which rounding does not move."""
    return not is_floating(dtype) and not is_complex(dtype)


def is_complex(dtype: str) -> bool:
    """Whether elements of this type are complex."""
    return dtype in ("complex64", "complex128")


def widen(value: Typed) -> "np.ndarray[Any, Any]":
    """The exact values as a numpy array.

    Raw types become float32, all others are returned as they are, without a copy.
    """
    if value.dtype == "bfloat16":
        return np.asarray(np.left_shift(value.array.astype(np.uint32), np.uint32(16)), np.uint32).view(np.float32)
    if value.dtype == "float8_e5m2":
        return np.asarray(np.left_shift(value.array.astype(np.uint16), np.uint16(8)), np.uint16).view(np.float16).astype(np.float32)
    if value.dtype == "float8_e4m3fn":
        return np.asarray(_E4M3[value.array])
    return value.array


def narrow(array: "np.ndarray[Any, Any]", dtype: str) -> Typed:
    """Values rounded to a type, bfloat16 included.

    To nearest, ties to even, as hardware does.

    Raises:
        UnsupportedTensor: float8, for which frameworks differ in how they round.
    """
    if dtype not in RAW:
        return Typed(np.asarray(array).astype(STORAGE[dtype]), dtype)
    if dtype != "bfloat16":
        raise UnsupportedTensor(f"values cannot be rounded to {dtype} here", hint="give them in a file, already of that type")
    bits = np.asarray(array, np.float32).view(np.uint32).astype(np.uint64)  # room for the carry
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return Typed(np.where(np.isnan(np.asarray(array, np.float32)), 0x7FC0, rounded).astype(np.uint16), dtype)


def _e4m3_table() -> "np.ndarray[Any, Any]":
    bits = np.arange(256)
    exponent, mantissa = (bits >> 3) & 15, bits & 7
    value = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    value[(bits & 127) == 127] = np.nan  # noqa: PLR2004 - all seven bits set
    signed: "np.ndarray[Any, Any]" = np.where(bits & 128, -value, value).astype(np.float32)
    return signed


_E4M3 = _e4m3_table()
