"""The statistics of a pair of tensors, in one pass whose memory does not grow with them."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison.compiled import Absorbing, new_kernel, serves
from paralign.comparison.sums import Part, quotient, root, scaled
from paralign.comparison.ulp import distances, unit
from paralign.dtypes import RAW, STORAGE, Typed, canonical, widen
from paralign.errors import UsageError
from paralign.model import Stats

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

#: elements that are handled at a time: few enough for the second-level cache, and enough to outlast what Python does between
BLOCK = 65536
#: blocks that one thread handles in a row; smaller tensors start no thread
_STRETCH = 8
#: stretches for each thread that is started unasked (4 million elements, 2 ms of the compiled kernel): starting one takes 0.1 ms
_WORTH = 8
#: threads that are started unasked: memory has no more to give to further ones, and both sides' workers run beside them
_UNASKED = 4
#: elements that quantiles are taken from
_SAMPLE = 65536
#: of them at a time: temporaries of this length stay in the cache, those of the whole sample are mapped anew each time
_PIECE = 8192
_QUANTILES = (0.5, 0.9, 0.99)


def measure(
    reference: Typed | Array,
    candidate: Typed | Array,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    threads: int | None = None,
    block: int = BLOCK,
    shown: bool = True,
) -> Stats:
    """How far a candidate tensor is from its reference.

    See :class:`~paralign.model.Stats` for every field.

    The data are read once, block by block; beside them a few MB a thread are used. The result does not depend on the
    number of threads. Greatest values and counts are exact. Quantiles of ``ulp`` below 1 are exact up to 65,536
    elements; beyond, they are those of 65,536 elements, one drawn from each of as many equal stretches with a fixed seed:
    the share of elements at or below the stated ``0.5`` is then within 0.01 of a half, but for one time in a million.

    Args:
        reference: the trusted values, of any type of :mod:`paralign.dtypes`, any layout, memory-mapped or not.
        candidate: as many values, of any such type; shapes may differ by axes of length 1.
        atol: absolute part of the user's tolerance; with ``rtol`` it sets ``exceeding``.
        rtol: part of the user's tolerance that is relative to the reference.
        threads: how many to use; None takes up to four for large tensors where the compiled kernel serves, else one: numpy's calls on
            a block are so short that two threads wait for the interpreter's lock more than they gain
            (`python benchmarks/speed/compare.py` shows it).
        block: elements that are handled at a time; the compiled kernel takes eight of these.
        shown: measure what a person looks at too. False: what a verdict needs alone, in about half the time; ``mean_abs``, ``max_rel``
            and ``max_rel_at`` are None then and ``ulp`` is empty, unless all values are equal.

    Raises:
        ValueError: shapes differ by more than axes of length 1.
        UsageError: a tolerance that is negative or not finite, or fewer than one thread.
        UnsupportedTensor: elements of a type that cannot be recorded.

    >>> stats = measure(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    >>> stats.mismatched, stats.max_abs, stats.max_abs_at
    (1, 0.5, (1,))
    """
    for name, value in (("atol", atol), ("rtol", rtol)):
        if value is not None and not 0.0 <= value < math.inf:
            raise UsageError(f"{name} is {value}", where=name, hint="a tolerance is a finite number of at least 0")
    if threads is not None and threads < 1:
        raise UsageError(f"threads is {threads}", where="threads", hint="at least one thread is needed")
    sides = as_typed(reference), as_typed(candidate)
    scan = _Scan(*sides, (atol, rtol), block, shown=shown)
    stats = _stats(scan.run(threads), scan.ulps(), sides[0].array.shape, tolerant=atol is not None or rtol is not None)
    if not shown:
        _leave_unmeasured(stats, rounded=unit(sides[0].dtype, sides[1].dtype) is not None)
    return stats


def _leave_unmeasured(stats: Stats, *, rounded: bool) -> None:
    """Mark the figures that a verdict does not need as not measured.

    Of equal values all are known.
    """
    stats.ulp = {}
    if stats.mismatched:
        stats.mean_abs = stats.max_rel = stats.max_rel_at = None
    elif rounded and stats.count > stats.nan_reference + stats.inf_reference:
        stats.ulp = dict.fromkeys((*map(str, _QUANTILES), "1"), 0.0)


def as_typed(value: Typed | Array) -> Typed:
    """An array with its canonical element type, never copied.

    Foreign byte order is kept, to be resolved block by block.
    """
    if isinstance(value, Typed):
        return Typed(np.asarray(value.array), value.dtype)
    array = np.asarray(value)
    name = canonical(array.dtype)
    return Typed(array.view(STORAGE[name]) if name in RAW else array, name)


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its axes of length 1."""
    return tuple(length for length in shape if length != 1)


class _Scan:
    """One pass over one pair of tensors."""

    def __init__(
        self, reference: Typed, candidate: Typed, tolerance: tuple[float | None, float | None], block: int, *, shown: bool
    ) -> None:
        shapes = reference.array.shape, candidate.array.shape
        if squeezed(shapes[0]) != squeezed(shapes[1]):
            raise ValueError(f"shapes {shapes[0]} and {shapes[1]} differ by more than axes of length 1")
        self._names = reference.dtype, candidate.dtype
        self._arrays: tuple[Array, ...] = tuple(side.array.reshape(squeezed(side.array.shape) or (1,)) for side in (reference, candidate))
        self._flat = all(a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative for a in self._arrays)
        if self._flat:
            self._arrays = tuple(a.reshape(-1) for a in self._arrays)
        self._count = self._arrays[0].size
        self._block = max(1, min(block, self._count))
        self._tolerance, self._shown = tolerance, shown
        self._fused = serves(*self._names)
        self._places: Array | None = None
        self._sampled: tuple[Array, ...] | None = None
        if shown and unit(*self._names) and self._count:
            if self._count > _SAMPLE:
                drawn = np.random.default_rng(0).random(_SAMPLE)
                self._places = ((np.arange(_SAMPLE) + drawn) * (self._count / _SAMPLE)).astype(np.int64)
            self._sampled = tuple(np.empty(min(self._count, _SAMPLE), STORAGE[name]) for name in self._names)

    def run(self, threads: int | None) -> Part:
        """Everything but the quantiles."""
        step = self._block * _STRETCH
        starts = range(0, self._count, step)
        workers = min(threads or self._threads(len(starts)), len(starts))
        kernels: SimpleQueue[Absorbing] = SimpleQueue()
        for _ in range(workers):
            kernels.put(new_kernel(self._names, self._tolerance, shown=self._shown))

        def stretch(start: int) -> Part:
            kernel, part = kernels.get(), Part()
            with np.errstate(all="ignore"):  # overflow and NaN are results here; the setting is one of the thread
                stop = min(start + step, self._count)
                for at, reference, candidate in self._blocks(start, stop):
                    kernel.absorb(part, at, reference, candidate)
                    if not self._flat:
                        self._draw(at, reference, candidate)
                if self._flat:
                    self._draw(start, *(array[start:stop] for array in self._arrays))
            kernels.put(kernel)
            return part

        total = Part()
        if workers <= 1:
            for start in starts:
                total.merge(stretch(start))
            return total
        with ThreadPoolExecutor(workers) as pool:
            for part in pool.map(stretch, starts):
                total.merge(part)
        return total

    def _threads(self, stretches: int) -> int:
        """How many threads are worth their start, where the caller leaves it open."""
        return max(1, min(_UNASKED, _cores(), stretches // _WORTH)) if self._fused else 1

    def ulps(self) -> dict[str, float]:
        """Quantiles of the distance in units in the last place.

        Empty where there is no such unit or nothing finite.
        """
        if self._sampled is None:
            return {}
        pieces = range(0, self._sampled[0].size, _PIECE)
        found = np.concatenate([np.empty(0), *(self._distances(*(side[at : at + _PIECE] for side in self._sampled)) for at in pieces)])
        if not found.size:
            return {}
        ranks = [max(0, math.ceil(quantile * found.size) - 1) for quantile in _QUANTILES]
        found.partition(ranks)
        return {str(quantile): float(found[rank]) for quantile, rank in zip(_QUANTILES, ranks, strict=True)}

    def _distances(self, reference: Array, candidate: Array) -> Array:
        """Distances in units in the last place of what is finite on both sides."""
        sides = [Typed(side, name) for side, name in zip((reference, candidate), self._names, strict=True)]
        with np.errstate(invalid="ignore"):  # signalling NaN
            finite = np.isfinite(widen(sides[0])) & np.isfinite(widen(sides[1]))
        if not finite.any():
            return np.empty(0)
        return distances(*(Typed(side.array[finite], side.dtype) for side in sides))

    def _blocks(self, start: int, stop: int) -> Iterator[tuple[int, Array, Array]]:
        """Flat index and both sides of each block between two flat indices."""
        if self._flat:
            reference, candidate = self._arrays
            step = stop - start if self._fused else self._block
            for at in range(start, stop, step):
                end = min(at + step, stop)
                yield at, reference[at:end], candidate[at:end]
            return
        each = np.nditer(  # type: ignore[call-overload] # numpy's stub misspells "contig"
            list(self._arrays),
            flags=["external_loop", "buffered", "ranged", "delay_bufalloc"],
            op_flags=[["readonly", "contig", "aligned"]] * 2,
            op_dtypes=[STORAGE[name] for name in self._names],
            order="C",
            casting="equiv",
            buffersize=self._block,
        )
        each.iterrange = (start, stop)
        each.reset()
        at = start
        for reference, candidate in each:
            yield at, reference, candidate
            at += reference.size

    def _draw(self, start: int, reference: Array, candidate: Array) -> None:
        """Keep those of the block's elements that are in the sample."""
        if self._sampled is None:
            return
        if self._places is None:
            rows, here = slice(start, start + reference.size), slice(None)
            self._sampled[0][rows], self._sampled[1][rows] = reference[here], candidate[here]
            return
        first, last = np.searchsorted(self._places, (start, start + reference.size))
        inside = self._places[first:last] - start
        self._sampled[0][first:last], self._sampled[1][first:last] = reference[inside], candidate[inside]


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stats(part: Part, ulps: dict[str, float], shape: tuple[int, ...], *, tolerant: bool) -> Stats:
    count = math.prod(shape)
    stats = Stats(
        count=count,
        mismatched=part.mismatched,
        nan=part.nan,
        inf=part.inf,
        nan_reference=part.nan_reference,
        nan_candidate=part.nan_candidate,
        inf_reference=part.inf_reference,
        inf_candidate=part.inf_candidate,
        exceeding=part.exceeding if tolerant else None,
    )
    if not part.finite:
        return stats
    for name, peak in (("max_abs", part.max_abs), ("max_rel", part.max_rel)):
        setattr(stats, name, peak.value)
        if peak.at >= 0:
            setattr(stats, f"{name}_at", tuple(int(i) for i in np.unravel_index(peak.at, shape)))
    value, exponent = part.absolute.split()
    stats.mean_abs = scaled(value / part.finite, exponent)
    stats.rms_reference, stats.rms_candidate = root(part.reference, part.finite), root(part.candidate, part.finite)
    stats.rel_l2 = quotient(part.error, part.reference) if part.reference.split()[0] else root(part.error)
    stats.cosine = _cosine(part)
    stats.ulp = {**ulps, "1": part.ulp} if ulps else {}
    return stats


def _cosine(part: Part) -> float:
    (reference, up), (candidate, down) = part.reference.split(), part.candidate.split()
    if not reference or not candidate:
        return 1.0 if reference == candidate else 0.0
    product, exponent = part.product.split()
    shift = exponent - (up + down) // 2
    rest = 2.0 ** ((up + down) % 2)
    return min(1.0, max(-1.0, scaled(product / math.sqrt(reference) / math.sqrt(candidate * rest), shift)))
