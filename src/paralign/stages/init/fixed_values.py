"""Initial values that no seed changes, by element: a law does not tell places."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.dtypes import Typed
from paralign.errors import ParalignError

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.model import Record
    from paralign.weights.plan import Plan

Array = np.ndarray[Any, Any]

#: error of a value that float32 makes of one formula in two frameworks, relative to the greatest: for one element, growing with their root
ROUNDED = 1e-6

#: times that error that a value has to be off by to stand at another place
APART = 100.0


@dataclass(frozen=True)
class Moved:
    """The first element of a tensor that has the reference's values at other places.

    ``place`` counts in order of memory. ``due`` is the reference's value there, as the candidate lays it out, ``own`` the candidate's.
    ``is_permutation``: the values are 0, 1, … in an order that is not theirs on either side, as one that a generator drew once.
    """

    place: int
    due: float
    own: float
    is_permutation: bool


def wholes(capture: Capture) -> dict[str, Record]:
    """The tensors that are the same under every seed, and were kept whole."""
    return {record.name: record for record in capture.records if record.leaf == "whole"}


def elsewhere(plan: Plan, captures: tuple[Capture, Capture], kept: tuple[dict[str, Record], dict[str, Record]], name: str) -> Moved | None:
    """Where a tensor of the candidate has the reference's values at other places.

    None where its values are drawn, are not the same ones, or stand where they should.

    Args:
        plan: which tensor of the candidate is made of which of the reference.
        captures: of the models built under many seeds.
        kept: of each, its :func:`wholes`.
        name: of the tensor of the candidate.
    """
    if name not in kept[1]:
        return None
    own = np.array(captures[1].array(kept[1][name]), np.float64)
    try:
        found = plan.assemble(name, lambda each: _typed(captures[0], kept[0].get(each)))
    except ParalignError:  # a part that the plan does not fill
        return None
    if found is None or found.array.shape != own.shape or np.isnan(own).any() or np.isnan(found.array).any():
        return None
    return _moved(np.array(found.array, np.float64).reshape(-1), own.reshape(-1))


def _moved(due: Array, own: Array) -> Moved | None:
    """The first element that stands elsewhere; None where none does, or the values are others."""
    slack = ROUNDED * math.sqrt(own.size) * float(np.abs(own[np.isfinite(own)]).max(initial=0.0))
    if not _near(np.sort(due), np.sort(own), slack).all():
        return None
    apart = np.flatnonzero(~_near(due, own, APART * slack))
    if not apart.size:
        return None
    place, counted = int(apart[0]), np.arange(own.size)
    drawn = all(np.array_equal(np.sort(side), counted) and not np.array_equal(side, counted) for side in (due, own))
    return Moved(place, float(due[place]), float(own[place]), drawn)


def _near(one: Array, other: Array, far: float) -> Array:
    """Which elements are equal, infinities included, or apart by no more than that."""
    with np.errstate(invalid="ignore"):
        found: Array = (one == other) | (np.abs(one - other) <= far)
    return found


def _typed(capture: Capture, record: Record | None) -> Typed | None:
    return None if record is None else Typed(np.array(capture.array(record)), "float32")
