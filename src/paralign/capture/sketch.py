"""An ordered sketch of a tensor, from which distances can be estimated.

It is a few thousand numbers, which tell the relative L2 distance of two tensors.

A tensor's elements, in logical row-major order whatever the memory layout, are given random signs and dealt to ``SIZE`` bins; the
sketch holds the sums of the bins. It is linear, so the difference of two sketches is the sketch of the difference, and the expected
square of its length is that of the difference itself (Charikar, Chen, Farach-Colton, "Finding frequent items in data streams", 2002;
Weinberger et al., "Feature hashing for large scale multitask learning", 2009).

Element ``i`` of chunk ``c`` (``CHUNK`` elements) has the sign ``signs()[i]`` times the chunk's own and goes to bin
``(i + shift of c) % SIZE``. All signs within a chunk are independent; ``SIZE`` is prime, so that elements at a stride (one channel, one
column, one token) spread over the bins; and chunks are shifted against each other, so that what repeats from chunk to chunk does not
add up in one bin. Nothing depends on values, shapes, frameworks or the time: the constants are part of the format of captures.

Elements that are NaN or infinite count as zero: their numbers are in the digest. Complex elements are two real ones, the real part
first. Integers beyond 2**53 are rounded to float64.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Iterator, Sequence, Union

import numpy as np

from paralign.dtypes import Typed, typed, widen

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
else:
    Array = "numpy.ndarray"

#: numbers of a sketch; prime, for the sake of elements at a stride
SIZE = 1021

#: rows of bins that have signs of their own; a power of two, so that they can be folded in halves
ROWS = 512

#: elements that have signs of their own
CHUNK = SIZE * ROWS

#: standard error of :func:`distance`, relatively, for a difference of many elements
STANDARD_ERROR = 1.0 / math.sqrt(2 * SIZE)

_SEED, _STEP, _TURNS = 20240229, 389, 4093

#: types whose sketch is float64: those with more digits than float32
_WIDE = frozenset({"float64", "complex128", "int32", "int64", "uint32", "uint64"})

#: values up to this are sketched in float32
_LARGE = 1e30


@lru_cache(maxsize=1)
def signs() -> Array:
    """The signs of a chunk's elements, +1 and -1 as int8, shape ``(CHUNK,)``; read-only."""
    drawn = np.random.RandomState(_SEED).randint(0, 2, CHUNK) * 2 - 1
    made: Array = drawn.astype(np.int8)
    made.setflags(write=False)
    return made


def sketch(array: Union[Array, Typed]) -> Array:
    """The sketch of an array of any supported type, or of a :class:`Typed` with raw bits.

    Shape and strides may be any.

    Returns:
        Shape ``(SIZE,)``; float64 for types of more digits than float32 and for values beyond 1e30, else float32. Every number
        is within 1e-12 (1e-6 in float32) of the true one, relatively to the root of the sum of squares of its bin.

    Raises:
        UnsupportedTensor: elements that are no numbers.

    >>> x = np.arange(6.0)
    >>> round(distance(sketch(x), sketch(x * 1.5)), 6), distance(sketch(x), sketch(x.reshape(2, 3)))
    (0.5, 0.0)
    """
    value = array if isinstance(array, Typed) else typed(array)
    if 0 < value.array.size <= SIZE and value.array.dtype.kind in "fiub":
        return _short(value)
    folds = []
    with np.errstate(all="ignore"):
        for chunk in _chunks(value):
            finite = chunk if np.isfinite(chunk).all() else np.where(np.isfinite(chunk), chunk, 0.0)
            folds.append(folded(finite * signs()[: chunk.size]))
    return joined(np.array(folds).reshape(len(folds), SIZE), value.dtype)


def _short(value: Typed) -> Array:
    """The sketch of so few real elements that no two share a bin."""
    with np.errstate(invalid="ignore"):  # bits that are no number and say so when they are cast
        piece = widen(value).reshape(-1).astype(np.float64) * signs()[: value.array.size]
    finite = np.isfinite(piece)
    whole = np.zeros(SIZE)
    whole[: piece.size] = piece if finite.all() else np.where(finite, piece, 0.0)
    return _stored(whole * _turns()[0], value.dtype)


def folded(signed: Array) -> Array:
    """Sums of the bins of one chunk of signed elements, before it is shifted.

    The shape is ``(SIZE,)``.
    """
    whole = signed.size - signed.size % SIZE
    bins: Array = signed[:whole].reshape(-1, SIZE).sum(axis=0) if whole else np.zeros(SIZE, signed.dtype)
    bins[: signed.size - whole] += signed[whole:]
    return bins


def joined(folds: Array, dtype: str) -> Array:
    """The sketch of a tensor from its folded chunks in order, shape ``(chunks, SIZE)``.

    ``dtype`` is the canonical name of the tensor's element type.
    """
    turns, whole = _turns(), np.zeros(SIZE)
    for number, fold in enumerate(folds):
        shift = number * _STEP % SIZE
        turned = np.concatenate((fold[SIZE - shift :], fold[: SIZE - shift])) if shift else fold
        whole += turned * turns[number % _TURNS]
    return _stored(whole, dtype)


def _stored(whole: Array, dtype: str) -> Array:
    """A sketch in the type in which it is kept."""
    narrow = dtype not in _WIDE and float(np.abs(whole).max()) < _LARGE
    return whole.astype(np.float32) if narrow else whole


def distance(one: Array, other: Array) -> float:
    """The relative L2 distance ``||x - y|| / ||x||``, estimated from two sketches.

    The tensors are of equal size.

    The standard error is at most ``1/sqrt(2 * SIZE)`` of it, 2.2 %, for a difference spread over many elements, and less for one of fewer;
    as much again comes from the length of ``x``. Rounding of float32 sketches adds about 1e-7. The estimate is exact where no
    two elements share a bin. 0 if both are zero; infinite if only ``x`` is, or if
    values near the largest of float64 have overflowed.

    Raises:
        ValueError: a sketch of another length.
    """
    if one.shape != (SIZE,) or other.shape != (SIZE,):
        raise ValueError(f"a sketch has shape ({SIZE},), these have {one.shape} and {other.shape}")
    first, second = one.astype(np.float64), other.astype(np.float64)
    scale = max(float(np.abs(first).max()), float(np.abs(second).max()))
    if scale == 0.0:
        return 0.0
    if not math.isfinite(scale):
        return math.inf
    apart = float(np.sqrt(np.square(first / scale - second / scale).sum()))
    length = float(np.sqrt(np.square(first / scale).sum()))
    if apart == 0.0:
        return 0.0
    return apart / length if length else math.inf


@lru_cache(maxsize=1)
def _turns() -> Sequence[float]:
    drawn = np.random.RandomState(_SEED + 1).randint(0, 2, _TURNS) * 2.0 - 1.0
    return tuple(drawn.tolist())


def _chunks(value: Typed) -> Iterator[Array]:
    """The elements in row-major order, ``CHUNK`` at a time, as float64."""
    array = value.array
    flat: Any = array.reshape(-1) if array.flags.c_contiguous else array.flat  # ``flat`` copies what a slice takes and no more
    is_complex = array.dtype.kind == "c"
    step = CHUNK // 2 if is_complex else CHUNK
    for start in range(0, array.size, step):
        piece = widen(Typed(flat[start : start + step], value.dtype))
        if is_complex:
            piece = piece.astype(np.complex128, copy=False).view(np.float64)
        yield piece.astype(np.float64, copy=False)
