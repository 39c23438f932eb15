"""Digests and sketches by PyTorch's kernels, on the tensor's device.

Elements of up to 16 bits are computed with in float32, which holds them exactly, 32- and 64-bit integers in float64, other types in
their own. Sums are PyTorch's, which adds in a tree, over a chunk of elements; chunks are added up in float64 on the host.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch

from paralign.capture.digest import EMPTY, digested
from paralign.capture.sketch import CHUNK, ROWS, SIZE, joined, signs

_SINGLE = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "uint8", "int8", "int16")
_DOUBLE = ("float64", "int32", "int64")

#: types that the kernels take -> the type computed in
_COMPUTED = {
    getattr(torch, name): kind
    for names, kind in ((_SINGLE, torch.float32), (_DOUBLE, torch.float64))
    for name in names
    if hasattr(torch, name)
}

#: elements up to which numpy is faster, on a tensor that lies on the host
_SMALL = 1 << 13

#: exponents that factors may have, see ``Passes``
_REACH = {torch.float32: 120, torch.float64: 1000}

#: chunks that are taken at once on a GPU: what a kernel's start costs is then little, and a buffer is of 33 MB or 67
_ON_GPU = 16

#: elements that are copied at once where they do not lie in order
_COPIED = 1 << 22


def digest(tensor: Any) -> Optional[str]:
    """The digest of a strided tensor, or None where numpy is to make it."""
    if tensor.dtype not in _COMPUTED or (tensor.numel() <= _SMALL and tensor.device.type == "cpu"):
        return None
    return digested(_Passes(tensor)) if tensor.numel() else EMPTY


def sketch(tensor: Any, dtype: str) -> "np.ndarray[Any, Any]":
    """The sketch of a strided tensor of which :func:`digest` made a digest; ``dtype`` is its type's canonical name."""
    kind = _COMPUTED[tensor.dtype]
    drawn, folds = _signs(kind, tensor.device), []
    signed = torch.empty(min(tensor.numel(), _step(tensor)), dtype=kind, device=tensor.device)
    for block in _ordered(tensor, kind):
        chunks = block.numel() // CHUNK
        if chunks:
            whole = signed[: chunks * CHUNK].view(chunks, CHUNK)
            folds.append(torch.mul(block[: chunks * CHUNK].view(chunks, CHUNK), drawn, out=whole).view(chunks, ROWS, SIZE).sum(1))
        rest = block[chunks * CHUNK :]
        if rest.numel():
            folds.append(_folded(torch.mul(rest, drawn[: rest.numel()], out=signed[: rest.numel()]))[None])
    return joined(torch.cat(folds).cpu().double().numpy() if folds else np.zeros((0, SIZE)), dtype)


def _folded(signed: Any) -> Any:
    """Sums of the bins of a part of a chunk."""
    rows, rest = divmod(signed.numel(), SIZE)
    bins = signed[: rows * SIZE].view(rows, SIZE).sum(0)
    bins[:rest] += signed[rows * SIZE :]
    return bins


class _Passes:
    """See :class:`paralign.capture.passes.Passes`."""

    def __init__(self, tensor: Any) -> None:
        self.size, self.kind = tensor.numel(), _COMPUTED[tensor.dtype]
        self.reach = _REACH[self.kind]
        self._tensor, self._low = tensor, -math.inf
        self._dense = _dense(tensor)
        length = min(self.size, _step(tensor))
        self._one, self._other = (torch.empty(length, dtype=self.kind, device=tensor.device) for _ in range(2))

    def extremes(self) -> Tuple[float, float]:
        """See ``Passes``."""
        blocks = self._blocks() if self._dense is None or self._dense.dtype != self.kind else [self._dense]
        lows, highs = zip(*(torch.aminmax(block) for block in blocks))
        self._low = float(torch.stack(lows).min())
        return self._low, float(torch.stack(highs).max())

    def powers(self, factor: float) -> Sequence[float]:
        """See ``Passes``."""
        sums: List[Any] = []
        for x in self._scaled(factor):
            square, power = self._one[: x.numel()], self._other[: x.numel()]
            sums += [x.sum(), torch.mul(x, x, out=square).sum(), torch.mul(square, x, out=power).sum()]
            sums += [torch.mul(square, square, out=power).sum()]
            sums += [sums[-4] if self._low >= 0 else torch.abs(x, out=power).sum()]
        total, square_sum, cube, fourth, absolute = _totals(sums, 5)
        return total, absolute, square_sum, cube, fourth

    def excess(self, factor: float, thresholds: Sequence[float]) -> Sequence[float]:
        """See ``Passes``."""
        rounded = [float(np.float32(level)) if self.kind is torch.float32 else level for level in thresholds]
        sums: List[Any] = []
        for x in self._scaled(factor):
            clipped = self._one[: x.numel()]
            sums += [torch.clamp(x, min=level, out=clipped).sum() for level in rounded]
        return [total - self.size * level for total, level in zip(_totals(sums, len(rounded)), rounded)]

    def _scaled(self, factor: float) -> Iterator[Any]:
        for block in self._blocks():
            yield block if factor == 1.0 else block * factor

    def _blocks(self) -> Iterator[Any]:
        """All elements, in any order, of the type computed in, no more at a time than the buffers hold."""
        for piece in [self._dense] if self._dense is not None else _pieces(self._tensor):
            for block in piece.split(self._one.numel()):
                yield block.to(self.kind)


def _step(tensor: Any) -> int:
    return CHUNK if tensor.device.type == "cpu" else CHUNK * _ON_GPU


def _totals(sums: List[Any], width: int) -> List[float]:
    """Sums of columns, in float64 on the host."""
    table = torch.stack(sums).cpu().double().view(-1, width).tolist()
    return [math.fsum(column) for column in zip(*table)]


def _dense(tensor: Any) -> Any:
    """A view of all elements as they lie in memory, or None where others lie between them or one stands for several."""
    by_stride = sorted(range(tensor.dim()), key=lambda dim: (-tensor.stride(dim), -tensor.shape[dim]))
    memory = tensor.permute(by_stride)
    return memory.view(-1) if memory.is_contiguous() else None


def _pieces(tensor: Any) -> Iterator[Any]:
    """The elements in row-major order, as contiguous vectors of bounded length; copies where they do not lie so."""
    if tensor.is_contiguous() or tensor.numel() <= _COPIED:
        yield tensor.reshape(-1)
    elif len(tensor) == 1 or tensor[0].numel() > _COPIED:
        for part in tensor:
            yield from _pieces(part)
    else:
        for part in tensor.split(_COPIED // tensor[0].numel()):
            yield part.reshape(-1)


def _ordered(tensor: Any, kind: Any) -> Iterator[Any]:
    """The elements in row-major order, of the type computed in; all blocks but the last hold whole chunks."""
    step, carried = _step(tensor), None
    for piece in _pieces(tensor):
        vector = piece if carried is None else torch.cat((carried, piece))
        carried = None
        for block in vector.split(step):
            if block.numel() < step:
                carried = block
            else:
                yield block.to(kind)
    if carried is not None:
        yield carried.to(kind)


@lru_cache(maxsize=4)
def _signs(kind: Any, device: Any) -> Any:
    return torch.from_numpy(np.array(signs())).to(device).to(kind)
