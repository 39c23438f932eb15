"""Constant parameters moved by noise on both sides: a layer that starts at zero hides what is before it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from paralign.capture import Capture, CaptureWriter, clear
from paralign.model import Manifest
from paralign.stages.assignment import fetching, told_apart, write
from paralign.worker.protocol import Load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.context import Context
    from paralign.dtypes import Typed

#: names of moved parameters that are shown
SHOWN = 3


def movable(context: Context) -> dict[str, Typed]:
    """Other values for the reference's parameters that are constant; none where weights were not carried over, or not surely."""
    weights, plan = context.weights, context.plan
    if weights is None or plan is None or context.guessed or not plan.complete or context.settings.weights != "copy":
        return {}
    return told_apart(weights, [record for record in plan.sources if record.role == "parameter"])


@contextmanager
def moved(context: Context, values: dict[str, Typed]) -> Iterator[None]:
    """Both sides with other values for some parameters, as long as the block lasts.

    Captures that are recorded meanwhile are known by these values too, so that none is taken for one of the weights as they are.

    Args:
        context: the check, its weights carried over.
        values: name of the reference's parameter -> value.

    Raises:
        WorkerFailed: a side cannot load them.
    """
    recorders, known = (context.reference, context.candidate), (context.reference.identity, context.candidate.identity)
    mark = uuid4().hex
    try:
        _load(context, values)
        for recorder, identity in zip(recorders, known, strict=True):
            recorder.identity = {**identity, "moved": mark}
        yield
    finally:
        for recorder, identity in zip(recorders, known, strict=True):
            recorder.identity = identity
        _load(context, {})


def _load(context: Context, values: dict[str, Typed]) -> None:
    """Load the reference's weights into both sides, some of them with other values."""
    weights, plan = context.weights, context.plan
    if weights is None or plan is None:
        raise ValueError("the weights are carried over first")
    own = fetching(weights)
    folder = context.reference.folder / "moved"
    clear(folder)
    with CaptureWriter(folder, Manifest(side="reference", stage="weights")) as writer:
        for record in weights.records:
            if record.location is not None:
                writer.add(record.name, values.get(record.name) or weights.value(record), role=record.role)
    order = replace(Load(), record=False, attempt=uuid4().hex)
    context.reference.record("moved-load", order, {"state": Capture.open(folder)}, prelude=True)
    given = write(context, plan, lambda name: values.get(name) or own(name))
    context.candidate.record("moved-load", order, {"state": given}, prelude=True)


def told(values: dict[str, Typed]) -> str:
    """What was done, for the result."""
    names = list(values)
    listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return (
        f"with the weights as constructed outputs are constant, and show nothing: judged with the {len(names)} constant parameters "
        f"moved by noise, the same on both sides, as a training would move them: {listed}"
    )
