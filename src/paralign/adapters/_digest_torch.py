"""Digests and sketches by PyTorch's kernels, on the tensor's device.

Elements of up to 16 bits are computed with in float32, which holds them exactly, 32- and 64-bit integers in float64, other types in
their own. Sums are PyTorch's, which adds in a tree, over a chunk of elements; chunks are added up in float64 on the host.
"""

from __future__ import annotations

import math
import threading
from functools import lru_cache
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch

from paralign.capture import compiled_passes
from paralign.capture.digest import EMPTY, digested
from paralign.capture.sketch import CHUNK, ROWS, SIZE, joined, signs
from paralign.capture.sketch import sketch as host_sketch
from paralign.dtypes import typed

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

#: chunks that are taken at once on the CPU: with their buffer still in its cache, and half as many kernels to start
_ON_HOST = 2

#: elements that are copied at once where they do not lie in order
_COPIED = 1 << 22


#: classes of tensors that have memory of their own, which none of the libraries' can be sure to have
_PLAIN = (torch.Tensor, torch.nn.Parameter)


#: buffers of each thread
_kept = threading.local()


compiled_passes.library()  # while no code of the user's is on the stack: loading is a deed that is watched


def fingerprint(tensor: Any, dtype: str, *, ordered: bool) -> "Optional[Tuple[str, Optional[np.ndarray[Any, Any]]]]":
    """Digest and sketch of a strided tensor, or None where numpy is to make them.

    ``dtype`` is its type's canonical name.
    """
    size = tensor.numel()
    if size > compiled_passes.FEW and compiled_passes.available(dtype):
        found = _compiled(tensor, dtype, ordered=ordered)
        if found is not None:
            return found
    if tensor.dtype not in _COMPUTED or (size <= _SMALL and tensor.device.type == "cpu"):
        return None
    passes = _Passes(tensor, fold=ordered and tensor.is_contiguous())
    text = digested(passes) if size else EMPTY
    if text is None or not ordered:
        return None if text is None else (text, None)
    if passes.folds is None:
        return text, sketch(tensor, dtype)
    return text, _joined(passes.folds, dtype)


def _compiled(tensor: Any, dtype: str, *, ordered: bool) -> "Optional[Tuple[str, Optional[np.ndarray[Any, Any]]]]":
    """Digest and sketch of a tensor that lies on the host as a block; None of any other."""
    if type(tensor) not in _PLAIN or tensor.device.type != "cpu" or tensor.is_neg():
        return None
    in_order = tensor.is_contiguous()
    block = tensor if in_order else _dense(tensor)
    if block is None:
        return None
    held = block.untyped_storage().nbytes() - block.storage_offset() * block.element_size()
    if not block.data_ptr() or held < block.numel() * block.element_size():  # memory that was given back, or is another's
        return None
    found = compiled_passes.fingerprint(block.data_ptr(), block.numel(), dtype, ordered=ordered and in_order)
    if found is None or not ordered or found[1] is not None:
        return found
    drawn = sketch(tensor, dtype)  # the digest is that of an unordered one all the same
    return found[0], drawn if drawn is not None else host_sketch(typed(tensor.detach().numpy()))


def sketch(tensor: Any, dtype: str) -> "Optional[np.ndarray[Any, Any]]":
    """The sketch alone of a strided tensor, or None where numpy is to make it.

    Numpy makes that of elements that are not finite.
    """
    if tensor.dtype not in _COMPUTED or (tensor.numel() <= _SMALL and tensor.device.type == "cpu"):
        return None
    folds = [fold for block in _ordered(tensor, _COMPUTED[tensor.dtype]) for fold in _folds(_signed(block))]
    found = _joined(folds, dtype)
    return found if np.isfinite(found).all() else None


def _joined(folds: List[Any], dtype: str) -> "np.ndarray[Any, Any]":
    return joined(torch.cat(folds).cpu().double().numpy() if folds else np.zeros((0, SIZE)), dtype)


def _signed(block: Any) -> Any:
    """The elements of a block times their signs, in the buffer."""
    drawn, signed = _signs(block.dtype, block.device), _buffer(block)[: block.numel()]
    whole = block.numel() // CHUNK * CHUNK
    if whole:
        torch.mul(block[:whole].view(-1, CHUNK), drawn, out=signed[:whole].view(-1, CHUNK))
    if whole < block.numel():
        torch.mul(block[whole:], drawn[: block.numel() - whole], out=signed[whole:])
    return signed


def _folds(signed: Any) -> List[Any]:
    """Sums of the bins of each chunk of signed elements, and of the part that is left."""
    chunks, rest = divmod(signed.numel(), CHUNK)
    folds = [signed[: chunks * CHUNK].view(chunks, ROWS, SIZE).sum(1)] if chunks else []
    if rest:
        part = signed[chunks * CHUNK :]
        rows, left = divmod(rest, SIZE)
        bins = part[: rows * SIZE].view(rows, SIZE).sum(0)
        bins[:left] += part[rows * SIZE :]
        folds.append(bins[None])
    return folds


class _Passes:
    """See :class:`paralign.capture.passes.Passes`.

    With ``fold``, the folds of a sketch are made along with the first pass.
    """

    def __init__(self, tensor: Any, *, fold: bool) -> None:
        self.size, self.kind = tensor.numel(), _COMPUTED[tensor.dtype]
        self.reach = _REACH[self.kind]
        self.folds: Optional[List[Any]] = [] if fold else None
        self._tensor, self._dense = tensor, _dense(tensor)

    def survey(self) -> "Tuple[float, float, Optional[Sequence[float]]]":
        """See ``Passes``."""
        sums: List[Any] = []
        for x in self._blocks():
            known = None
            if self.folds is not None:
                known = _signed(x)
                self.folds += _folds(known)
            sums += [*torch.aminmax(x), *_powers(x, known)]
        table = _table(sums, 5)
        lows, highs, *columns = zip(*table)
        spoiled = not all(math.isfinite(value) for row in table for value in row[:2])
        return (math.nan if spoiled else min(lows)), max(highs), [math.fsum(column) if not spoiled else math.nan for column in columns]

    def powers(self, factor: float) -> Sequence[float]:
        """See ``Passes``."""
        table = _table([total for x in self._blocks() for total in _powers(x * factor)], 3)
        return [math.fsum(column) for column in zip(*table)]

    def excess(self, factor: float, thresholds: Sequence[float]) -> Sequence[float]:
        """See ``Passes``."""
        rounded = [float(np.float32(level)) if self.kind is torch.float32 else level for level in thresholds]
        sums: List[Any] = []
        for block in self._blocks():
            x, clipped = block if factor == 1.0 else block * factor, _buffer(block)[: block.numel()]
            for level in rounded:  # they ascend: what is cut off for one would be for the next
                x = torch.clamp(x, min=level, out=clipped)
                sums.append(x.sum())
        columns = zip(*_table(sums, len(rounded)))
        return [math.fsum(column) - self.size * level for column, level in zip(columns, rounded)]

    def _blocks(self) -> Iterator[Any]:
        """All elements, in any order, no more at a time than the buffers hold.

        They are of the type computed in.
        """
        for piece in [self._dense] if self._dense is not None else _pieces(self._tensor):
            for block in piece.split(_step(self._tensor)):
                yield block.to(self.kind)


def _step(tensor: Any) -> int:
    return CHUNK * (_ON_HOST if tensor.device.type == "cpu" else _ON_GPU)


def _powers(x: Any, signed: Any = None) -> List[Any]:
    """The three sums of ``Passes.powers``, of ``x`` with any signs.

    If the elements lie in the buffer, squares are made there faster.
    """
    base = x if signed is None else signed
    square = torch.mul(base, base, out=_buffer(x)[: x.numel()])
    squares = square.sum()
    return [x.sum(), squares, torch.mul(square, square, out=square).sum()]


def _buffer(block: Any) -> Any:
    """A buffer for a block, on the CPU always the same.

    The system clears new memory page by page.
    """
    if block.device.type != "cpu":
        return torch.empty_like(block)
    kept = _kept.__dict__
    if block.dtype not in kept:
        with torch.inference_mode(False):  # what is made in that mode cannot be written to outside of it
            kept[block.dtype] = torch.empty(CHUNK * _ON_HOST, dtype=block.dtype)
    return kept[block.dtype]


def _table(sums: List[Any], width: int) -> List[List[float]]:
    """Rows of sums, in float64 on the host."""
    rows: List[List[float]] = torch.stack(sums).cpu().double().view(-1, width).tolist()
    return rows


def _dense(tensor: Any) -> Any:
    """A view of all elements as they lie in memory.

    None where others lie between them or one stands for several.
    """
    by_stride = sorted(range(tensor.dim()), key=lambda dim: (-tensor.stride(dim), -tensor.shape[dim]))
    memory = tensor.permute(by_stride)
    return memory.view(-1) if memory.is_contiguous() else None


def _pieces(tensor: Any) -> Iterator[Any]:
    """The elements in row-major order, as contiguous vectors of bounded length.

    They are copies where they do not lie so.
    """
    if tensor.is_contiguous() or tensor.numel() <= _COPIED:
        yield tensor.reshape(-1)
    elif len(tensor) == 1 or tensor[0].numel() > _COPIED:
        for part in tensor:
            yield from _pieces(part)
    else:
        for part in tensor.split(_COPIED // tensor[0].numel()):
            yield part.reshape(-1)


def _ordered(tensor: Any, kind: Any) -> Iterator[Any]:
    """The elements in row-major order, of the type computed in.

    All blocks but the last hold whole chunks.
    """
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
