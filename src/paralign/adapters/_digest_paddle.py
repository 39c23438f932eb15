"""Digests and sketches by Paddle's kernels, on the tensor's device.

Elements of up to 16 bits are computed with in float32, which holds them exactly, 32- and 64-bit integers in float64, other types in
their own. On the CPU short rows are summed by matrix products with ones: Paddle's own sums add a thousand elements one after another,
and lose two digits where values repeat. (The caller switches automatic mixed precision off.) Chunks are added up in float64 on the host.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import paddle
from paddle.nn.functional import relu_

from paralign.capture.digest import EMPTY, digested
from paralign.capture.sketch import CHUNK, SIZE, joined, signs

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

#: elements that are copied at once where they do not lie in order
_COPIED = 1 << 22


def digest(tensor: Any) -> Optional[str]:
    """The digest of a dense tensor, or None where numpy is to make it."""
    if tensor.dtype not in _COMPUTED or (tensor.size <= _SMALL and tensor.place.is_cpu_place()):
        return None
    return digested(_Passes(tensor)) if tensor.size else EMPTY


def sketch(tensor: Any, dtype: str) -> "np.ndarray[Any, Any]":
    """The sketch of a dense tensor of which :func:`digest` made a digest; ``dtype`` is its type's canonical name."""
    kind = _COMPUTED[tensor.dtype]
    drawn, folds = _signs(kind, str(tensor.place)), []
    for number, part in enumerate(_ordered(tensor, kind)):
        folds.append(_folded(part, drawn[number % len(drawn)]))
    parts = np.zeros((-(-len(folds) // len(drawn)) * len(drawn), SIZE))
    if folds:
        parts[: len(folds)] = paddle.stack(folds).numpy()
    return joined(parts.reshape(-1, len(drawn), SIZE).sum(axis=1), dtype)


def _folded(part: Any, drawn: Any) -> Any:
    """Sums of the bins of a part of a chunk; a whole part is folded in halves, which rounds less than a sum and is faster."""
    size = part.shape[0]
    if size == _PART:
        bins, rows = (part * drawn).reshape([-1, SIZE]), _PART // SIZE
        while rows > 1:
            rows //= 2
            bins = bins[:rows] + bins[rows:]
        return bins[0]
    rows, rest = divmod(size, SIZE)
    signed = part * drawn[:size]
    bins = signed[: rows * SIZE].reshape([rows, SIZE]).sum(0) if rows else paddle.zeros([SIZE], signed.dtype)
    return paddle.concat((bins[:rest] + signed[rows * SIZE :], bins[rest:])) if rest else bins


class _Passes:
    """See :class:`paralign.capture.passes.Passes`."""

    def __init__(self, tensor: Any) -> None:
        self.size, self.kind = int(tensor.size), _COMPUTED[tensor.dtype]
        self.reach = _REACH[self.kind]
        self._tensor, self._low = tensor, -math.inf
        self._step = _PART if tensor.place.is_cpu_place() else CHUNK * _ON_GPU
        self._dense = _dense(tensor)

    def extremes(self) -> Tuple[float, float]:
        """See ``Passes``. A NaN does not come through every maximum of Paddle's, but through every sum."""
        found = [paddle.stack((block.min(), block.max(), block.sum())) for block in self._blocks()]
        lows, highs, sums = paddle.stack(found, axis=1).numpy()
        self._low = float(lows.min()) if np.isfinite(sums).all() else math.nan
        return self._low, float(highs.max())

    def powers(self, factor: float) -> Sequence[float]:
        """See ``Passes``."""
        sums: List[Any] = []
        for x in self._scaled(factor):
            power = x.abs()
            sums += [_sum(x), _sum(power)]
            for other in (power, x, x):  # in place, to ask for fewer buffers
                power.multiply_(other)
                sums.append(_sum(power))
        return _totals(sums, 5)

    def excess(self, factor: float, thresholds: Sequence[float]) -> Sequence[float]:
        """See ``Passes``."""
        rounded = [float(np.float32(level)) if self.kind == "float32" else level for level in thresholds]
        sums: List[Any] = []
        for x in self._scaled(factor):
            above, below = x.clone(), 0.0
            for level in rounded:  # they ascend, so that what is cut off for one would be for the next
                above = relu_(above.scale_(1.0, bias=below - level))
                below = level
                sums.append(_sum(above))
        return _totals(sums, len(rounded))

    def _scaled(self, factor: float) -> Iterator[Any]:
        for block in self._blocks():
            yield block if factor == 1.0 else block * factor

    def _blocks(self) -> Iterator[Any]:
        """All elements, in any order, of the type computed in, a few chunks at a time."""
        for piece in [self._dense] if self._dense is not None else _pieces(self._tensor):
            for start in range(0, piece.shape[0], self._step):
                yield _cast(piece[start : start + self._step], self.kind)


def _cast(tensor: Any, kind: str) -> Any:
    return tensor.cast(kind) if tensor.dtype != getattr(paddle, kind) else tensor


def _sum(x: Any) -> Any:
    """The sum of a block; on the CPU, of sums of its rows."""
    size = x.shape[0]
    whole = size // _ROW * _ROW
    if not whole or not x.place.is_cpu_place():
        return x.sum()
    total = paddle.matmul((x if whole == size else x[:whole]).reshape([-1, _ROW]), _ones(x.dtype)).sum()
    return total if whole == size else total + x[whole:].sum()


def _totals(sums: List[Any], width: int) -> List[float]:
    """Sums of columns, in float64 on the host."""
    table = paddle.stack(sums).numpy().astype(np.float64).reshape(-1, width).tolist()
    return [math.fsum(column) for column in zip(*table)]


def _dense(tensor: Any) -> Any:
    """A view of all elements as they lie in memory, or None where others lie between them or one stands for several."""
    if tensor.ndim == 0 or tensor.is_contiguous():
        return tensor.reshape([-1])
    strides = tensor.strides
    by_stride = sorted(range(tensor.ndim), key=lambda dim: (-strides[dim], -tensor.shape[dim]))
    memory = tensor.transpose(by_stride)
    return memory.reshape([-1]) if memory.is_contiguous() else None


def _pieces(tensor: Any) -> Iterator[Any]:
    """The elements in row-major order, as contiguous vectors of bounded length; copies where they do not lie so."""
    if tensor.size <= _COPIED or tensor.is_contiguous():
        yield tensor.contiguous().reshape([-1])
        return
    inner = int(tensor[0].size)
    for start in range(0, len(tensor), max(1, _COPIED // inner)):
        if inner > _COPIED:
            yield from _pieces(tensor[start])
        else:
            yield tensor[start : start + _COPIED // inner].contiguous().reshape([-1])


def _ordered(tensor: Any, kind: str) -> Iterator[Any]:
    """The elements in row-major order, of the type computed in, in parts of a chunk; the last may be shorter."""
    carried = None
    for piece in _pieces(tensor):
        vector = piece if carried is None else paddle.concat((carried, piece))
        whole = vector.shape[0] // _PART * _PART
        for start in range(0, whole, _PART):
            yield _cast(vector[start : start + _PART], kind)
        carried = vector[whole:] if whole < vector.shape[0] else None
    if carried is not None:
        yield _cast(carried, kind)


@lru_cache(maxsize=4)
def _signs(kind: str, place: str) -> List[Any]:  # noqa: ARG001 - the place is that of new tensors, and part of what is remembered
    """The signs of a chunk's elements, a part at a time."""
    drawn = paddle.to_tensor(np.array(signs())).cast(kind)
    return [drawn[start : start + _PART].contiguous() for start in range(0, CHUNK, _PART)]


@lru_cache(maxsize=4)
def _ones(dtype: Any) -> Any:
    return paddle.ones([_ROW, 1], dtype)
