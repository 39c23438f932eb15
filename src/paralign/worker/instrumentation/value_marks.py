"""What is kept of a value.

A number or text itself, of an array its shape, its order and where its numbers are, of an object its name.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from paralign.dtypes import Typed, widen

if TYPE_CHECKING:
    Convert = Callable[[Any], Optional[Typed]]

#: characters of a text, entries of a list that are kept as they are: enough for settings
TEXT, LISTED = 200, 64

#: entries of a list whose texts are told by their order, at least and at most
ORDERED = 8, 20_000

#: elements of an array whose numbers are kept, and numbers in all (8 bytes each)
DISTINCT, KEPT = 1 << 16, 1 << 21

#: elements of an array beyond which it is not looked at: looking takes about 50 ns an element
LARGEST = 1 << 20

#: radians between the weights of neighbouring elements in the two sums that tell one order from another
_TURNS = 0.7, 1.9

#: tables of weights that are kept, one for each power of two up to ``LARGEST``: 32 MB together
KNOWN = 21


def attribute(value: Any, name: str, default: Any = None) -> Any:
    """An attribute of a value of the user's, or ``default`` where that raises anything."""
    try:
        return getattr(value, name, default)
    except Exception:  # noqa: BLE001 - a dictionary with attributes raises KeyError
        return default


def array_of(value: Any) -> Optional[Typed]:
    """An array of numpy as a typed one; None for all else."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return Typed(value, str(value.dtype))
    return None


def picture_of(value: Any) -> Optional[Typed]:
    """The pixels of a picture of PIL; None of all else, and of one that cannot be read.

    One that was only opened is left alone: to read it would decide what the program may still choose.
    """
    if not hasattr(type(value), "__array_interface__") or attribute(value, "im") is None:
        return None
    try:
        return array_of(np.asarray(value))
    except Exception:  # noqa: BLE001 - whatever a decoder raises
        return None


class Numbers:
    """The distinct numbers of arrays; arrays that hold the same are kept once."""

    def __init__(self) -> None:
        self.parts: List[Any] = []
        self._known: Dict[bytes, Tuple[int, int]] = {}
        self._count = 0

    def keep(self, flat: "np.ndarray[Any, Any]") -> Optional[List[int]]:
        """Where the numbers begin and how many they are; None where there are too many of them."""
        digest = hashlib.blake2b(flat.tobytes(), digest_size=16).digest()
        if digest not in self._known:
            distinct = np.unique(flat[np.isfinite(flat)]) if flat.size <= DISTINCT else flat[:0]
            if flat.size > DISTINCT or self._count + distinct.size > KEPT:
                return None
            self.parts.append(distinct)
            self._known[digest] = (self._count, int(distinct.size))
            self._count += int(distinct.size)
        return list(self._known[digest])

    def array(self) -> "np.ndarray[Any, Any]":
        """All of them."""
        return np.concatenate(self.parts) if self.parts else np.zeros(0)


def mark(value: Any, convert: "Convert" = array_of, numbers: Optional[Numbers] = None) -> List[Any]:
    """What is kept of a value, as JSON.

    ``["s", scalar]``, ``["l", [...]]``, ``["a", shape, order, place]`` or ``["k", name]``.

    Args:
        value: of any kind.
        convert: a tensor as an array, None for what is none.
        numbers: keeps the numbers of arrays; ``place`` says where.

    >>> mark(0.5), mark((3, "x")), mark(np.arange(3))[:2]
    (['s', 0.5], ['l', [3, 'x']], ['a', [3]])
    """
    if value is None or isinstance(value, (bool, int, float)):
        return ["s", value]
    if isinstance(value, str):
        return ["s", value[:TEXT]]
    if isinstance(value, np.generic):
        return ["s", value.item()] if value.dtype.kind in "biuf" else ["k", str(value.dtype)]
    if isinstance(value, (list, tuple)):
        plain = len(value) <= LISTED and all(
            item is None or isinstance(item, (bool, int, float, str, np.integer, np.floating)) for item in value
        )
        return ["l", [item.item() if isinstance(item, np.generic) else item for item in value]] if plain else ["k", type(value).__name__]
    known = convert(value)
    if known is not None:
        return _array(known, numbers)
    return ["k", str(attribute(value, "__qualname__", None) or attribute(value, "__name__", None) or type(value).__qualname__)]


def texts_of(value: Any) -> Optional[List[str]]:
    """What tells a list's texts, in pairs or alone; None of few texts.

    A digest of them in their order, and one of them sorted.
    """
    if not isinstance(value, (list, tuple)) or not ORDERED[0] <= len(value) <= ORDERED[1]:
        return None
    found = [text for item in value for text in (item if isinstance(item, tuple) else (item,)) if isinstance(text, str)]
    if len(found) < ORDERED[0]:
        return None
    return [hashlib.blake2b("\0".join(part).encode("utf-8", "replace"), digest_size=16).hexdigest() for part in (found, sorted(found))]


def _array(value: Typed, kept: Optional[Numbers]) -> List[Any]:
    shape = [int(n) for n in value.array.shape]
    if value.array.size > LARGEST:
        return ["k", f"array {shape}"]
    wide = widen(value) if value.array.dtype.kind != "c" else _parts(value.array)
    shape = [int(n) for n in wide.shape]
    if wide.dtype.kind not in "biuf":
        return ["k", f"{value.dtype} {shape}"]
    flat = np.ravel(wide).astype(np.float64)
    order = order_of(flat)
    return ["a", shape, order, kept.keep(flat) if kept is not None else None]


def _parts(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The real and imaginary parts of complex numbers, along a last axis of their own."""
    return np.stack([array.real, array.imag], axis=-1).astype(np.float64)


def _rounded_up(size: int) -> int:
    """The next power of two: so many tables are few."""
    return 1 << max(0, size - 1).bit_length()


@lru_cache(maxsize=KNOWN)
def _turned(size: int) -> "np.ndarray[Any, Any]":
    """The weights of elements by their places, a row for each turn."""
    weights: "np.ndarray[Any, Any]" = np.cos(np.multiply.outer(np.array(_TURNS), np.arange(size)))
    return weights


def order_of(flat: "np.ndarray[Any, Any]") -> List[float]:
    """The root mean square, and sums that depend on the order of the elements.

    Sums are of the elements that are finite, over their size.
    """
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(flat), flat, 0.0)
        size = float(np.sqrt(np.dot(finite, finite)))
        sums = [float(np.dot(finite, turned)) / size if size else 0.0 for turned in _turned(_rounded_up(flat.size))[:, : flat.size]]
        return [size / max(1.0, float(np.sqrt(flat.size))), *sums]
