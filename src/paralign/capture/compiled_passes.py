"""The passes of digest and sketch over memory of this process, compiled.

It is optional. Installing compiles ``native/fingerprint.c`` where there is a C compiler; without one the framework's kernels do the
same. All is added in float64, whatever the processor and the number of threads, in one order, so that the bits are the same.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from paralign.capture.digest import digested
from paralign.capture.sketch import CHUNK, SIZE, joined, signs

#: set to 0, the framework's kernels are used alone
SWITCH = "PARALIGN_KERNEL"

#: what the library has code for -> whether its elements take eight bytes
KINDS = {"float32": False, "float64": True}

#: elements up to which numpy's own passes are taken: a sketch has as many bins
FEW = SIZE

#: why a library is of no use
ABSENT, BROKEN, OUTDATED, STALE = "not compiled", "of another system", "of another version", "compiled from other sources"

#: what the library's ``interface`` has to be; the same number stands in ``native/fingerprint.c``
_INTERFACE = 2
#: where the sources lie beside an editable installation; a wheel has none
NATIVE = Path(__file__).resolve().parents[3] / "native"
#: what the library is made of, in the order of ``native/build_fused.py``
_MADE_OF = ("fingerprint.c", "rows.h", "build_fused.py")
#: the library, beside this file
LIBRARY = Path(__file__).resolve().with_name("_fingerprint.native")
#: uses all that the processor has; tests lower it
_LEVEL = 2
#: threads at most, and chunks below which one is enough
_THREADS, _WORTH = 4, 2
#: a child that is forked has none of the threads of OpenMP's pool, and would wait for them for ever
_LOADED_BY = os.getpid()
#: numbers of a chunk: of the survey, and of the excess
_SUMS, _LEVELS = 5, 3


def available(kind: str) -> bool:
    """Whether elements of a type, by its canonical name, can be taken here."""
    return kind in KINDS and os.environ.get(SWITCH) != "0" and library() is not None


def fingerprint(address: int, size: int, kind: str, *, ordered: bool) -> "Optional[Tuple[str, Optional[np.ndarray[Any, Any]]]]":
    """Digest and sketch of elements that lie one after another.

    They stay where they are until this returns.

    Args:
        address: of the first.
        size: how many, at least one.
        kind: their type, of which :func:`available` holds.
        ordered: whether they lie in row-major order, so that there is a sketch.

    Returns:
        None where numpy is to make them: elements are not finite, or beyond reach. No sketch where its sums are.
    """
    passes = _Passes(address, size, kind, fold=ordered)
    text = digested(passes)
    if text is None or passes.folds is None:
        return None if text is None else (text, None)
    if not np.isfinite(passes.folds).all():  # sums of the largest float32
        return text, None
    return text, joined(passes.folds, kind)


class _Passes:
    """See :class:`paralign.capture.passes.Passes`.

    With ``fold``, the folds of a sketch, shape ``(chunks, SIZE)``, are made along with the first pass.
    """

    reach = 1000

    def __init__(self, address: int, size: int, kind: str, *, fold: bool) -> None:
        self.size, self._address, self._wide = size, address, KINDS[kind]
        self._chunks = -(-size // CHUNK)
        self._threads = threads() if self._chunks >= _WORTH else Threads(1)
        self.folds: "Optional[np.ndarray[Any, Any]]" = np.empty((self._chunks, SIZE)) if fold else None

    def survey(self) -> "Tuple[float, float, Optional[Sequence[float]]]":
        """See ``Passes``."""
        sums = self._sums(1.0, self.folds)
        return float(sums[:, 0].min()), float(sums[:, 1].max()), _totals(sums[:, 2:])

    def powers(self, factor: float) -> Sequence[float]:
        """See ``Passes``."""
        return _totals(self._sums(factor, None)[:, 2:])

    def excess(self, factor: float, thresholds: Sequence[float]) -> Sequence[float]:
        """See ``Passes``."""
        levels = np.array([*thresholds, *[0.0] * (_LEVELS - len(thresholds))])
        sums = np.empty((self._chunks, _LEVELS))
        _loaded().excess(*self._elements(), factor, levels.ctypes.data, len(thresholds), sums.ctypes.data, *self._how())
        return _totals(sums[:, : len(thresholds)])

    def _sums(self, factor: float, folds: "Optional[np.ndarray[Any, Any]]") -> "np.ndarray[Any, Any]":
        """The figures of each chunk; the bins of its elements are put into ``folds``."""
        sums = np.empty((self._chunks, _SUMS))
        into = None if folds is None else folds.ctypes.data
        _loaded().survey(*self._elements(), factor, _signs().ctypes.data, into, sums.ctypes.data, *self._how())
        return sums

    def _elements(self) -> Tuple[int, int, int]:
        return self._address, self.size, int(self._wide)

    def _how(self) -> "Tuple[int, int, Optional[int]]":
        return self._threads.number, _LEVEL, self._threads.pool


def _totals(columns: "np.ndarray[Any, Any]") -> List[float]:
    """The sum of each column; NaN where one is not finite."""
    if not np.isfinite(columns).all():
        return [math.nan] * columns.shape[1]
    return [math.fsum(column) for column in columns.T.tolist()]


class Threads(NamedTuple):
    """How many threads take a large tensor.

    ``pool`` is the address of the call that has a framework's threads do it, None without one.
    """

    number: int
    pool: Optional[int] = None


def threads() -> Threads:
    """The threads that take a large tensor, no more than the process may use itself.

    A framework's own threads wait for its next operation without resting. Where they are OpenMP's and open to everybody, they do
    the passes too; else half the cores are left to them.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    pool = _pool() if os.getpid() == _LOADED_BY else None
    if pool is not None:
        return Threads(max(1, min(_THREADS, cores, pool.most())), pool.address)
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return Threads(max(1, min(_THREADS, cores // 2, int(asked) if asked.isdigit() else cores)))


class _Pool(NamedTuple):
    """OpenMP's threads.

    The address of its call in parallel, and what tells how many there are at most.
    """

    address: int
    most: Callable[[], int]


@lru_cache(maxsize=1)
def _pool() -> Optional[_Pool]:
    """The pool that a framework has loaded for all to see, if there is one."""
    try:
        everybody = ctypes.CDLL(None)
        address = ctypes.cast(everybody.GOMP_parallel, ctypes.c_void_p).value
        return None if address is None else _Pool(address, everybody.omp_get_max_threads)
    except (AttributeError, OSError, TypeError):  # none is there; or a system that has no name for the whole process
        return None


@lru_cache(maxsize=1)
def _signs() -> "np.ndarray[Any, Any]":
    return np.ascontiguousarray(signs())


def _loaded() -> Any:
    found = library()
    if found is None:
        raise AssertionError("asked for only where there is a library")
    return found


@lru_cache(maxsize=1)
def library() -> Any:
    """The compiled library beside this file; None where there is none of use.

    One for another system, of another version, or made from other sources than those beside it is of none.
    """
    if unusable():
        return None
    _pool()  # is found along with the library: loading is a deed that is watched later
    found = ctypes.CDLL(str(LIBRARY))
    at, count, whole, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_double
    found.survey.argtypes, found.survey.restype = [at, count, whole, real, at, at, at, whole, whole, at], None
    found.excess.argtypes, found.excess.restype = [at, count, whole, real, at, whole, at, whole, whole, at], None
    return found


def unusable() -> str:
    """Why the library beside this file is of no use here; empty where it is of use."""
    if not LIBRARY.exists():
        return ABSENT
    try:
        found = ctypes.CDLL(str(LIBRARY))
        found.sources.restype = ctypes.c_char_p
        if found.interface() != _INTERFACE:
            return OUTDATED
        return STALE if made_of(_MADE_OF) not in (None, found.sources().decode()) else ""
    except (OSError, AttributeError):
        return BROKEN


def made_of(names: Sequence[str]) -> Optional[str]:
    """SHA-256 of sources in ``native/``, in this order; None where they are not there."""
    try:
        return hashlib.sha256(b"".join((NATIVE / name).read_bytes() for name in names)).hexdigest()
    except OSError:
        return None
