"""Digests and sketches by Paddle's kernels, on the tensor's device.

Elements of up to 16 bits are computed with in float32, which holds them exactly, 32- and 64-bit integers in float64, other types in
their own. On the CPU short rows are summed by matrix products with ones: Paddle's own sums add a thousand elements one after another,
and lose two digits where values repeat. (The caller switches automatic mixed precision off.) Chunks are added up in float64 on the host.
"""

from __future__ import annotations

import math
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import paddle
from paddle import _C_ops

from paralign.capture import compiled_passes
from paralign.capture.digest import EMPTY, digested
from paralign.capture.sketch import CHUNK, SIZE, joined, signs
from paralign.capture.sketch import sketch as host_sketch
from paralign.dtypes import typed

#: the kernels themselves: Paddle's Python functions take longer than what they call, and an observer of operations watches those
_NAMES = [
    "add",
    "cast",
    "concat",
    "full",
    "matmul",
    "max",
    "min",
    "multiply",
    "multiply_",
    "relu_",
    "reshape",
    "scale",
    "slice",
    "stack",
    "sum",
]
_ops = SimpleNamespace(**{name: getattr(_C_ops, name) for name in _NAMES})

_SINGLE = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "uint8", "int8", "int16")
_DOUBLE = ("float64", "int32", "int64")

#: types that the kernels take -> the type computed in
_COMPUTED = {
    getattr(paddle, name): kind for names, kind in ((_SINGLE, "float32"), (_DOUBLE, "float64")) for name in names if hasattr(paddle, name)
}

#: elements up to which numpy is faster, on a tensor that lies on the host
_SMALL = 1 << 16

#: exponents that factors may have, see ``Passes``
_REACH = {"float32": 120, "float64": 1000}

#: chunks that are taken at once on a GPU: what a kernel's start costs is then little, and a buffer is of 33 MB or 67
_ON_GPU = 16

#: elements of a part of a chunk: on the CPU, Paddle asks the system for every buffer, and a large one costs more than what is done in it
_PART = 64 * SIZE

#: elements that a matrix product adds up
_ROW = 64

_PARTS = CHUNK // _PART

#: elements that are copied at once where they do not lie in order
_COPIED = 1 << 22


compiled_passes.library()  # while no code of the user's is on the stack: loading is a deed that is watched


def fingerprint(tensor: Any, dtype: str, *, ordered: bool) -> "Optional[Tuple[str, Optional[np.ndarray[Any, Any]]]]":
    """Digest and sketch of a dense tensor, or None where numpy is to make them.

    ``dtype`` is its type's canonical name.
    """
    if tensor.dtype not in _COMPUTED:
        return None
    size = int(np.prod(tensor.shape, dtype=np.int64))
    if size > compiled_passes.FEW and compiled_passes.available(dtype):
        found = _compiled(tensor, size, dtype, ordered=ordered)
        if found is not None:
            return found
    if size <= _SMALL and tensor.place.is_cpu_place():
        return None
    passes = _Passes(tensor, size, fold=ordered and tensor.is_contiguous())
    text = digested(passes) if size else EMPTY
    if text is None or not ordered:
        return None if text is None else (text, None)
    return text, _joined(passes.folds, dtype) if passes.folds is not None else _ordered_sketch(tensor, dtype)


def _compiled(tensor: Any, size: int, dtype: str, *, ordered: bool) -> "Optional[Tuple[str, Optional[np.ndarray[Any, Any]]]]":
    """Digest and sketch of a tensor that lies on the host as a block; None of any other."""
    if not tensor.place.is_cpu_place() or not hasattr(tensor, "data_ptr"):
        return None
    in_order = tensor.is_contiguous()
    block = tensor if in_order else _dense(tensor)
    if block is None or not block.data_ptr():
        return None
    found = compiled_passes.fingerprint(block.data_ptr(), size, dtype, ordered=ordered and in_order)
    if found is None or not ordered or found[1] is not None:
        return found
    drawn = sketch(tensor, dtype)  # the digest is that of an unordered one all the same
    return found[0], drawn if drawn is not None else host_sketch(typed(tensor.numpy()))


def sketch(tensor: Any, dtype: str) -> "Optional[np.ndarray[Any, Any]]":
    """The sketch alone of a dense tensor, or None where numpy is to make it.

    Numpy makes that of elements that are not finite.
    """
    size = int(np.prod(tensor.shape, dtype=np.int64))
    if tensor.dtype not in _COMPUTED or (size <= _SMALL and tensor.place.is_cpu_place()):
        return None
    found = _ordered_sketch(tensor, dtype)
    return found if np.isfinite(found).all() else None


def _ordered_sketch(tensor: Any, dtype: str) -> "np.ndarray[Any, Any]":
    folds: List[Any] = []
    for block in _ordered(tensor, _COMPUTED[tensor.dtype]):
        folds += _folded(block, len(folds))
    return _joined(folds, dtype)


def _joined(folds: List[Any], dtype: str) -> "np.ndarray[Any, Any]":
    parts = np.zeros((-(-len(folds) // _PARTS) * _PARTS, SIZE))
    if folds:
        parts[: len(folds)] = _ops.stack(folds, 0).numpy()
    return joined(parts.reshape(-1, _PARTS, SIZE).sum(axis=1), dtype)


def _folded(block: Any, number: int) -> List[Any]:
    """Sums of the bins of each part of a block, which begins with the part of this number."""
    drawn, size = _signs(block.dtype, str(block.place)), block.shape[0]
    folds: List[Any] = []
    for start in range(0, size, _PART):
        part = _cut(block, start, min(start + _PART, size))
        signs_, length = drawn[(number + len(folds)) % _PARTS], part.shape[0]
        rows, rest = divmod(length, SIZE)
        signed = _ops.multiply(part, signs_ if length == _PART else _cut(signs_, 0, length))
        if rest:  # the end of the tensor
            signed, rows = _ops.concat([signed, _ops.full([SIZE - rest], 0.0, block.dtype, block.place)], 0), rows + 1
        folds.append(_row_sums(_ops.reshape(signed, [rows, SIZE])))
    return folds


def _row_sums(rows: Any) -> Any:
    """The sum of the rows of a matrix, shape ``(SIZE,)``.

    On the CPU by a matrix product, which is faster.
    """
    if not rows.place.is_cpu_place():
        return _ops.sum(rows, [0], None, False)
    ones = _ones(rows.dtype, str(rows.place))
    count = rows.shape[0]
    row = _ops.reshape(ones if count == _ROW else _cut(ones, 0, count), [1, count])
    return _ops.reshape(_ops.matmul(row, rows, False, False), [SIZE])


class _Passes:
    """See :class:`paralign.capture.passes.Passes`.

    With ``fold``, the folds of a sketch are made along with the first pass.
    """

    def __init__(self, tensor: Any, size: int, *, fold: bool) -> None:
        self.size, self.kind = size, _COMPUTED[tensor.dtype]
        self.reach = _REACH[self.kind]
        self.folds: Optional[List[Any]] = [] if fold else None
        self._tensor, self._dense = tensor, _dense(tensor)
        self._step = _PART if tensor.place.is_cpu_place() else CHUNK * _ON_GPU

    def survey(self) -> "Tuple[float, float, Optional[Sequence[float]]]":
        """See ``Passes``.

        A NaN does not come through every maximum of Paddle's, but through every sum.
        """
        sums: List[Any] = []
        for x in self._blocks():
            sums += [_ops.min(x, [], False), _ops.max(x, [], False), *_powers(x)]
            if self.folds is not None:
                self.folds += _folded(x, len(self.folds))
        lows, highs, *columns = zip(*_table(sums, 5))
        spoiled = not all(math.isfinite(value) for column in (lows, highs, columns[0]) for value in column)
        low = math.nan if spoiled else min(lows)
        return low, max(highs), [math.nan if spoiled else math.fsum(column) for column in columns]

    def powers(self, factor: float) -> Sequence[float]:
        """See ``Passes``."""
        table = _table([total for x in self._blocks() for total in _powers(_ops.scale(x, factor, 0.0, True))], 3)
        return [math.fsum(column) for column in zip(*table)]

    def excess(self, factor: float, thresholds: Sequence[float]) -> Sequence[float]:
        """See ``Passes``."""
        rounded = [float(np.float32(level)) if self.kind == "float32" else level for level in thresholds]
        sums: List[Any] = []
        for x in self._blocks():
            above = x
            for before, level in zip([0.0, *rounded], rounded):  # they ascend: what is cut off for one would be for the next
                above = _ops.relu_(_ops.scale(above, factor if above is x else 1.0, before - level, True))
                sums.append(_sum(above))
        return [math.fsum(column) for column in zip(*_table(sums, len(rounded)))]

    def _blocks(self) -> Iterator[Any]:
        """All elements, of the type computed in, a few chunks at a time.

        They are in order where a sketch is made along with it.
        """
        for piece in [self._dense] if self._dense is not None else _pieces(self._tensor):
            size = piece.shape[0]
            for start in range(0, size, self._step):
                yield _cast(_cut(piece, start, min(start + self._step, size)), self.kind)


def _powers(x: Any) -> List[Any]:
    """The three sums of ``Passes.powers``."""
    square = _ops.multiply(x, x)
    squares = _sum(square)
    return [_sum(x), squares, _sum(_ops.multiply_(square, square))]  # in place, to ask the system for fewer buffers


def _sum(x: Any) -> Any:
    """The sum of a block; on the CPU, of sums of its rows."""
    size = x.shape[0]
    whole = size // _ROW * _ROW
    if not whole or not x.place.is_cpu_place():
        return _ops.sum(x, [], None, False)
    rows = _ops.reshape(x if whole == size else _cut(x, 0, whole), [whole // _ROW, _ROW])
    total = _ops.sum(_ops.matmul(rows, _ones(x.dtype, str(x.place)), False, False), [], None, False)
    return total if whole == size else _ops.add(total, _ops.sum(_cut(x, whole, size), [], None, False))


def _cut(vector: Any, start: int, stop: int) -> Any:
    if start == 0 and stop == vector.shape[0]:
        return vector
    return _ops.slice(vector, [0], [start], [stop], [], [])


def _cast(tensor: Any, kind: str) -> Any:
    target = getattr(paddle, kind)
    return tensor if tensor.dtype == target else _ops.cast(tensor, target)


def _table(sums: List[Any], width: int) -> List[List[float]]:
    """Rows of sums, in float64 on the host."""
    rows: List[List[float]] = _ops.stack(sums, 0).numpy().astype(np.float64).reshape(-1, width).tolist()
    return rows


def _dense(tensor: Any) -> Any:
    """A view of all elements as they lie in memory.

    None where others lie between them or one stands for several.
    """
    if tensor.ndim == 0 or tensor.is_contiguous():
        return tensor.reshape([-1])
    strides = tensor.strides
    by_stride = sorted(range(tensor.ndim), key=lambda dim: (-strides[dim], -tensor.shape[dim]))
    memory = tensor.transpose(by_stride)
    return memory.reshape([-1]) if memory.is_contiguous() else None


def _pieces(tensor: Any) -> Iterator[Any]:
    """The elements in row-major order, as contiguous vectors of bounded length.

    They are copies where they do not lie so.
    """
    size = int(np.prod(tensor.shape, dtype=np.int64))
    if size <= _COPIED or tensor.is_contiguous():
        view = tensor if tensor.is_contiguous() else tensor.transpose(list(range(tensor.ndim)))
        yield view.contiguous().reshape([-1])  # of a view: Paddle puts the memory of the tensor itself into this order
        return
    inner = size // tensor.shape[0]
    for start in range(0, tensor.shape[0], max(1, _COPIED // inner)):
        if inner > _COPIED:
            yield from _pieces(tensor[start])
        else:
            yield tensor[start : start + _COPIED // inner].contiguous().reshape([-1])


def _ordered(tensor: Any, kind: str) -> Iterator[Any]:
    """The elements in row-major order, of the type computed in.

    All blocks but the last hold whole parts of chunks.
    """
    carried = None
    for piece in _pieces(tensor):
        vector = piece if carried is None else _ops.concat([carried, piece], 0)
        size = vector.shape[0]
        whole = size // _PART * _PART
        if whole:
            yield _cast(_cut(vector, 0, whole), kind)
        carried = _cut(vector, whole, size) if whole < size else None
    if carried is not None:
        yield _cast(carried, kind)


@lru_cache(maxsize=4)
def _signs(dtype: Any, place: str) -> List[Any]:  # noqa: ARG001 - the place is that of new tensors, and part of what is remembered
    """The signs of a chunk's elements, a part at a time."""
    return [paddle.to_tensor(np.array(signs()[start : start + _PART])).cast(dtype) for start in range(0, CHUNK, _PART)]


@lru_cache(maxsize=4)
def _ones(dtype: Any, place: str) -> Any:  # noqa: ARG001 - as above
    return paddle.ones([_ROW, 1], dtype)
