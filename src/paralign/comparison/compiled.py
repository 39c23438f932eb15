"""The compiled kernel, which does in one pass what numpy does in several.

See :mod:`~paralign.comparison.kernel`.

It is optional. Installing compiles ``native/fused.c`` where there is a C compiler; without one, and for what the kernel has no
code for, numpy does the same. Counts, greatest values and their places are equal to the last bit. Sums over n elements are within
1e-12 of the exact ones, relative to the sum of the magnitudes; numpy's are within 4e-6 for narrow types, which it adds in float32.
"""

from __future__ import annotations

import importlib
import os
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from paralign.capture import compiled_passes
from paralign.comparison.kernel import Kernel

if TYPE_CHECKING:
    from paralign.comparison.sums import Part

Array = np.ndarray[Any, Any]

#: set to 0, numpy is used alone
SWITCH = compiled_passes.SWITCH
#: what the kernel has code for -> its number there
KINDS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3}
#: what the module's ``INTERFACE`` has to be; the same number stands in ``native/fused.c``
_INTERFACE = 1
#: what the module is made of, in the order of ``native/build_fused.py``
_MADE_OF = ("fused.c", "lanes.h", "build_fused.py")
#: uses all that the processor has; tests lower it
_LEVEL = 2
#: elements that numpy takes over where the kernel stops: float64 with NaN, infinities, or squares that leave float64
_PIECE = 16384


class State(Enum):
    """Whether the compiled kernel is in use, or why it is not."""

    IN_USE = "in use"
    SWITCHED_OFF = "switched off"
    ABSENT = "not compiled: no C compiler, or no headers of Python"
    BROKEN = "of another system or another Python"
    OUTDATED = "of another version of paralign"
    STALE = "compiled from other sources than those beside it"


class _Library(Protocol):
    """The compiled module."""

    def compare(
        self, reference: Array, candidate: Array, kind: int, atol: float, rtol: float, tolerant: bool, shown: bool, level: int, /
    ) -> tuple[Any, ...]:
        """The figures of two buffers, up to where numpy has to go on."""


class Absorbing(Protocol):
    """Compares blocks of one pair of element types, for one thread."""

    def absorb(self, part: Part, start: int, reference: Array, candidate: Array) -> None:
        """Add one block to ``part``."""


def state() -> State:
    """Whether the compiled kernel is in use."""
    return State.SWITCHED_OFF if os.environ.get(SWITCH) == "0" else _load()[1]


def serves(reference: str, candidate: str) -> bool:
    """Whether the compiled kernel is in use for two element types."""
    return reference == candidate and reference in KINDS and state() is State.IN_USE


def new_kernel(names: tuple[str, str], tolerance: tuple[float | None, float | None], *, shown: bool) -> Absorbing:
    """What compares blocks of two element types: compiled where that is possible.

    Args:
        names: canonical element types of reference and candidate.
        tolerance: the user's ``atol`` and ``rtol``, each may be None.
        shown: whether to measure what only a person looks at.
    """
    numpy_kernel = Kernel(*names, *tolerance, shown=shown)
    library = _load()[0] if serves(*names) else None
    return numpy_kernel if library is None else FusedKernel(library, names[0], tolerance, numpy_kernel, shown=shown)


class FusedKernel:
    """The compiled kernel for one element type; for one thread.

    Args:
        library: the compiled module.
        name: canonical element type of both sides, one of ``KINDS``.
        tolerance: the user's ``atol`` and ``rtol``, each may be None.
        rest: takes over where the compiled kernel stops.
        shown: whether to measure what only a person looks at.
    """

    def __init__(
        self, library: _Library, name: str, tolerance: tuple[float | None, float | None], rest: Kernel, *, shown: bool = True
    ) -> None:
        self._compare, self._rest = library.compare, rest
        tolerant = any(limit is not None for limit in tolerance)
        self._settings = (KINDS[name], tolerance[0] or 0.0, tolerance[1] or 0.0, tolerant, shown, _LEVEL)

    def absorb(self, part: Part, start: int, reference: Array, candidate: Array) -> None:
        """Add one block to ``part``; as :meth:`Kernel.absorb`, but for blocks of any length."""
        at = 0
        while at < reference.size:
            found = _Found(*self._compare(reference[at:], candidate[at:], *self._settings))
            found.add_to(part, start + at)
            at += found.done
            if at < reference.size:
                piece = slice(at, at + _PIECE)
                self._rest.absorb(part, start + at, reference[piece], candidate[piece])
                at += _PIECE


class _Found(NamedTuple):
    """What the compiled kernel returns.

    ``done`` elements are in it, and indices count from the first of them.
    """

    done: int
    finite: int
    mismatched: int
    exceeding: int
    nan: int
    inf: int
    nan_reference: int
    nan_candidate: int
    inf_reference: int
    inf_candidate: int
    reference: float
    candidate: float
    error: float
    product: float
    absolute: float
    max_abs: float
    max_abs_at: int
    max_rel: float
    max_rel_at: int
    ulp: int

    def add_to(self, part: Part, start: int) -> None:
        """Add the figures to those of the stretch.

        ``start`` is the flat index of the first element.
        """
        for name in _COUNTS:
            setattr(part, name, getattr(part, name) + getattr(self, name))
        for name in _SUMS:
            getattr(part, name).add(getattr(self, name))
        if self.max_abs_at >= 0:
            part.max_abs.offer(self.max_abs, start + self.max_abs_at)
        if self.max_rel_at >= 0:
            part.max_rel.offer(self.max_rel, start + self.max_rel_at)
        part.ulp = max(part.ulp, float(self.ulp))


_COUNTS = _Found._fields[1:10]
_SUMS = _Found._fields[10:15]


@lru_cache(maxsize=1)
def _load() -> tuple[_Library | None, State]:
    """The compiled module from the package's own folder, if it is of use."""
    try:
        library: Any = importlib.import_module("paralign.comparison._fused")
    except ModuleNotFoundError:
        return None, State.ABSENT
    except ImportError:
        return None, State.BROKEN
    if getattr(library, "INTERFACE", None) != _INTERFACE:
        return None, State.OUTDATED
    if compiled_passes.made_of(_MADE_OF) not in (None, getattr(library, "SOURCES", "")):
        return None, State.STALE
    return library, State.IN_USE
