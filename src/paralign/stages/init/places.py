"""Initial values that no seed changes, by element: a law does not tell places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.dtypes import Typed
from paralign.errors import ParalignError

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.weights.plan import Plan

Array = np.ndarray[Any, Any]

#: relative distance of values that float32 makes of one formula in two frameworks, with a reserve
ROUNDED = 1e-5


def elsewhere(plan: Plan, captures: tuple[Capture, Capture], name: str) -> tuple[int, float, float] | None:
    """Where a tensor of the candidate has the reference's values at other places.

    None where its values are drawn, are not the same ones, or stand where they should.

    Args:
        plan: which tensor of the candidate is made of which of the reference.
        captures: of the models built under many seeds.
        name: of the tensor of the candidate.

    Returns:
        The first element that differs, in order of memory, with the reference's value there, as the candidate lays it out, and its own.
    """
    own = _whole(captures[1], name)
    if own is None or own.size < 2 or own.min() == own.max():  # noqa: PLR2004 - two elements may change places
        return None
    try:
        due = plan.assemble(name, lambda each: _typed(_whole(captures[0], each)))
    except ParalignError:  # a part that the plan does not fill
        return None
    if due is None or due.array.shape != own.shape:
        return None
    far = ROUNDED * float(np.abs(own).max())
    apart = np.flatnonzero(np.abs(due.array - own).reshape(-1) > far)
    same = np.abs(np.sort(due.array, axis=None) - np.sort(own, axis=None)).max() <= far
    if not apart.size or not same:
        return None
    place = int(apart[0])
    return place, float(due.array.reshape(-1)[place]), float(own.reshape(-1)[place])


def _whole(capture: Capture, name: str) -> Array | None:
    """The finite values that a tensor has under every seed; None where they are not known."""
    found = [record for record in capture.select(name=name) if record.leaf == "whole"]
    values = capture.array(found[0]) if found else None
    return None if values is None or not np.isfinite(values).all() else np.array(values)


def _typed(values: Array | None) -> Typed | None:
    return None if values is None else Typed(values, "float32")
