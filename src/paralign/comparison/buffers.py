"""The memory that one thread works in, and sums of products over it.

Blocks are short, so what Python does between two operations counts: the views of the buffers are made once a length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

#: elements in one dot product: below the size from which BLAS libraries start threads of their own
_RUN = 8192
#: elements in one dot product in float32, see :func:`product`
ROUGH_RUN = 1024
_LINE = 64


class Runs(NamedTuple):
    """Views of a one-dimensional array as runs of equal length, and what is left over.

    As rows and as columns of matrices.
    """

    rows: Array
    columns: Array
    rest: Array


def runs(array: Array, length: int = _RUN) -> Runs:
    """An array cut into runs."""
    whole = array.size // length * length
    head = array[:whole]
    return Runs(head.reshape(-1, 1, length), head.reshape(-1, length, 1), array[whole:])


def product(left: Runs, right: Runs) -> float:
    """Sum of products: each run in the type of the arrays, their sum in float64.

    However a run of n elements is added up, its sum is off by at most n * EPS / 2 times the product of the norms.
    """
    total = float(np.dot(left.rest, right.rest)) if left.rest.size else 0.0
    if left.rows.size:
        total += sum(np.matmul(left.rows, right.columns).reshape(-1).tolist())
    return total


def dot(left: Array, right: Array) -> float:
    """Sum of products of two float64 arrays."""
    cut = runs(left)
    return product(cut, cut if right is left else runs(right))


class Desk:
    """Buffers for blocks of one length.

    Args:
        size: elements in a block.
        narrow: whether blocks come as float32: only then is the float32 buffer there.
        bits: width of the integers that units in the last place are counted in, or None.
    """

    def __init__(self, size: int, *, narrow: bool, bits: int | None) -> None:
        self.mask = np.empty(size, np.bool_)
        self.first, self.second = _room(size, np.float64), _room(size, np.float64)
        self.first_runs, self.second_runs = runs(self.first), runs(self.second)
        ones = np.ones(_RUN)
        self.ones = Runs(ones.reshape(1, 1, -1), ones.reshape(1, -1, 1), ones[: self.first_runs.rest.size])
        self.rough = _room(size if narrow else 0, np.float32)
        self.rough_bits, self.rough_runs = self.rough.view(np.int32), runs(self.rough, ROUGH_RUN)
        self.ratio = _room(size if narrow else 0, np.float32)
        single = np.ones(ROUGH_RUN, np.float32)
        self.rough_ones = Runs(single.reshape(1, 1, -1), single.reshape(1, -1, 1), single[: self.rough_runs.rest.size])
        self.bits = None if bits is None else _room(size, f"int{bits}")


def _room(size: int, dtype: Any) -> Array:
    """A buffer that starts on a cache line: vector instructions are twice as fast on it."""
    kind = np.dtype(dtype)
    raw = np.empty(size * kind.itemsize + _LINE, np.uint8)
    start = -raw.ctypes.data % _LINE
    return raw[start : start + size * kind.itemsize].view(kind)
