"""Buffers that are the same in every construction, and which of them are moved by noise.

A port that ignores a buffer of ones agrees as long as it holds ones. A table of several values is another thing: a port may register it
and compute it where it needs it, which is the same model. So only buffers of one value throughout are moved, and only those that the
reference's outputs depend on; of the others the certificate says that they were not.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from paralign.dtypes import is_floating, widen
from paralign.errors import WorkerFailed
from paralign.stages.common.judging import final
from paralign.stages.forward import moved_weights
from paralign.weights.proof import STATISTICS
from paralign.worker.protocol import Forward
from paralign.worker.sides.session import NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import Record

#: passes of the reference at most that show on which buffers its outputs depend; what is left after so many is asked about together
PASSES = 16

#: buffers that a sentence names
NAMED = 5


@dataclass
class Effects:
    """What other values of buffers do to the reference's outputs.

    Args:
        acting: other values that change them.
        unknown: names of buffers with whose other values the reference fails, or gives what cannot be compared.
    """

    acting: dict[str, Typed] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


def movable(context: Context, parameters: dict[str, Typed]) -> dict[str, Typed]:
    """Other values for the reference's buffers that a right port has to use.

    Of one value throughout (zeros and ones where it is a single element), with a place in the port, and with an effect on the reference's
    outputs. The statistics of a normalisation have one. Nothing of the port runs.

    Args:
        context: its weights carried over, its inputs drawn.
        parameters: other values for parameters, which are moved with them: a factor of zero hides what it multiplies.
    """
    weights = context.weights
    found = moved_weights.movable(context, single=True, role="buffer")
    if weights is None or not found:
        return {}
    records = {record.name: record for record in weights.records}
    uniform = {name: value for name, value in found.items() if _is_uniform(weights, records[name])}
    sure = {name: value for name, value in uniform.items() if records[name].attrs.get("leaf") in STATISTICS}
    others = [name for name in uniform if name not in sure]
    if not others:
        return sure
    groups = [[name] for name in others[: PASSES - 1]] + [others[PASSES - 1 :]]
    known = {**parameters, **sure}
    return {**sure, **acting(context, known, [{name: uniform[name] for name in group} for group in groups if group]).acting}


def acting(context: Context, known: dict[str, Typed], groups: list[dict[str, Typed]]) -> Effects:
    """The groups of buffers whose other values change the reference's outputs.

    These have to stay finite.
    """
    try:
        before = _outputs(context, known)
    except WorkerFailed:
        return Effects(unknown={name for group in groups for name in group})
    found = Effects()
    for group in groups:
        try:
            after = _outputs(context, {**known, **group})
        except WorkerFailed:
            after = []
        differ = _differ(before, after)
        if differ is None:
            found.unknown.update(group)
        elif differ:
            found.acting.update(group)
    return found


def _outputs(context: Context, values: dict[str, Typed]) -> list[np.ndarray[Any, Any]]:
    """The reference's outputs with some other values in its state, always run anew."""
    if context.inputs is None:
        return []
    moved_weights.load_reference(context, values)
    capture = context.reference.record(f"buffers-{uuid4().hex}", Forward([NATIVE], "none"), {"inputs": context.inputs})
    return [capture.array(record) for record in final(capture, name="output", run=NATIVE) if record.location is not None]


def _differ(before: list[np.ndarray[Any, Any]], after: list[np.ndarray[Any, Any]]) -> bool | None:
    """Whether outputs differ; None where they are not finite or of another shape."""
    if len(before) != len(after) or any(one.shape != other.shape for one, other in zip(before, after, strict=True)):
        return None
    if not all(np.isfinite(each).all() for each in after if each.dtype.kind in "fc"):
        return None
    return any(not np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def _is_uniform(weights: Capture, record: Record) -> bool:
    """Whether a tensor holds one value throughout."""
    if record.location is None:
        return False
    values = widen(weights.value(record))
    return values.size > 0 and bool(np.all(values == values.flat[0]))


def digests(context: Context) -> dict[str, str]:
    """Floating buffers of the reference -> digest of their values, as they are now."""
    weights = context.weights
    if weights is None:
        return {}
    found = {}
    for record in weights.records:
        if record.role == "buffer" and record.location is not None and is_floating(record.dtype):
            found[record.name] = hashlib.sha256(np.ascontiguousarray(weights.value(record).array).tobytes()).hexdigest()
    return found


def told(moved: set[str]) -> str:
    """Which buffers were moved, for what was looked at; statistics are not named."""
    own = sorted(name for name in moved if name.rpartition(".")[2] not in STATISTICS)
    return f"; constant buffers moved by noise: {named(own)}" if own else ""


def weaknesses(rounds: list[dict[str, str]], moved: set[str]) -> list[str]:
    """Which buffers no round has changed.

    Args:
        rounds: the digests of each, as constructed.
        moved: names of the buffers that were moved in some round.
    """
    first = rounds[0] if rounds else {}
    still = sorted(name for name in first if name not in moved and all(each.get(name) == first[name] for each in rounds))
    if not still:
        return []
    return [f"buffers that were not moved by noise, as a port may compute them itself; one that ignores them passes: {named(still)}"]


def named(names: list[str]) -> str:
    """The first of several names, and how many there are beyond them."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
