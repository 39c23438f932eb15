"""Faults of gradients, by experiment.

The reference's gradient is put in place of a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np

from paralign.dtypes import Typed
from paralign.locate.gradients.gradient_faults import Wrong
from paralign.locate.suspects.arranging import arranged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.locate.gradients.gradient_faults import Fault, Gradients
    from paralign.locate.runs.dataflow import Graph, Value


@dataclass(frozen=True)
class GradientPatch:
    """A gradient to be put in place of what the candidate's backward pass brings to a value."""

    number: int
    place: int | str
    value: Typed


class Laboratory(Protocol):
    """What runs the two sides again, with a backward pass."""

    def backward(self, gradients: Sequence[GradientPatch], undo: Sequence[int]) -> Graph | None:
        """The candidate's run with replaced gradients and undone operations; None if it fails."""

    def gradients(self, wanted: Sequence[Value]) -> dict[Value, Typed]:
        """The whole gradients of the reference's values, as far as it makes them again."""


def proven(laboratory: Laboratory, gradients: Gradients, judge: Callable[[Graph], Gradients], most: int = 8, runs: int = 24) -> list[Fault]:
    """All independent faults, confirmed by runs with the reference's gradient in place.

    Those that could be confirmed come first.

    Faults at the same line are tried together, and all that are left at once where none helps alone: two may cancel each other.

    Args:
        laboratory: runs the sides again.
        gradients: of the candidate's run as it is.
        judge: makes :class:`Gradients` of another run of the candidate.
        most: faults that are looked for.
        runs: runs that may be spent.
    """
    hunt = _Hunt(laboratory, gradients, judge, runs)
    while len(hunt.lines) < most and hunt.next():
        pass
    return hunt.found + hunt.left()


class _Hunt:
    """The search for one fault after the other, found ones put right."""

    def __init__(self, laboratory: Laboratory, gradients: Gradients, judge: Callable[[Graph], Gradients], runs: int) -> None:
        self.laboratory, self.current, self.judge, self.runs = laboratory, gradients, judge, runs
        self.found: list[Fault] = []
        self.lines: set[tuple[Wrong, str]] = set()
        self._patches: list[GradientPatch] = []
        self._undo: list[int] = []
        self._seen: set[tuple[int, int | str]] = set()

    def next(self) -> bool:
        """Confirm the faults of one more line; False where none is left, or none can be confirmed."""
        groups: dict[tuple[Wrong, str], list[Fault]] = {}
        for fault in self._fresh():
            groups.setdefault(_line(fault), []).append(fault)
        attempts = list(groups.values())
        if len(attempts) > 1:
            attempts.append(list(chain.from_iterable(attempts)))
        return any(map(self._try, attempts))

    def left(self) -> list[Fault]:
        """The faults that are still there, and could not be confirmed."""
        fresh = self._fresh()
        for fault in fresh:
            fault.wrong_before = fault.wrong_before or len(self.current.wrong_parameters())
        return fresh

    def _fresh(self) -> list[Fault]:
        return [fault for fault in self.current.faults() if _where(fault.value) not in self._seen]

    def _try(self, faults: list[Fault]) -> bool:
        """Put the reference's gradients in place of wrong ones; keep them if less is wrong."""
        undo, wanted = _undone(faults), [f for f in faults if f.value.gradient is not None and f.what is not Wrong.DETACHED]
        if self.runs <= 0 or not (undo or wanted):
            return False
        self.runs -= 1
        new = [_patch(fault, self.laboratory) for fault in wanted]
        patches = [*self._patches, *(patch for patch in new if patch is not None)]
        if None in new:
            return False
        graph = self.laboratory.backward(patches, [*self._undo, *undo])
        if graph is None:
            return False
        after = self.judge(graph)
        wrong, still = ({v.record.name for v in judged.wrong_parameters()} for judged in (self.current, after))
        if wrong <= still:  # those that are wrong only now were made right by another fault before
            return False
        for fault in faults:
            fault.confirmed, fault.wrong_before, fault.wrong_after = True, len(wrong), len(still)
            self._seen.add(_where(fault.value))
            self.lines.add(_line(fault))
        self.found += faults
        self.current, self._patches = after, patches
        self._undo += undo
        return True


def _undone(faults: list[Fault]) -> list[int]:
    """The numbers of the copies that cut values off: a run without them may show the fault."""
    found: list[int] = []
    for fault in faults:
        if fault.what is not Wrong.DETACHED or fault.operation is None:
            continue
        if fault.operation.kind == "copy":
            found.append(fault.operation.number)
    return found


def _line(fault: Fault) -> tuple[Wrong, str]:
    """What is wrong, and the line, operation or parameter that it is wrong at."""
    if fault.operation is None:
        return fault.what, fault.value.record.name
    return fault.what, fault.operation.source or str(fault.operation.number)


def _patch(fault: Fault, laboratory: Laboratory) -> GradientPatch | None:
    number, place = _where(fault.value)
    if fault.what is Wrong.KEPT and fault.due.gradient is None:
        return GradientPatch(number, place, Typed(np.zeros(fault.value.shape), "float64"))
    given = laboratory.gradients([fault.due]).get(fault.due)
    if given is None:
        return None
    return GradientPatch(number, place, Typed(arranged(given.array, fault.value.shape), given.dtype))


def _where(value: Value) -> tuple[int, int | str]:
    return (-1, value.record.name) if value.maker is None else (value.maker.number, value.place)
