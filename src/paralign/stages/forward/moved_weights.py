"""Constant parameters moved by noise on both sides.

A layer that starts at zero hides what is before it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from paralign.capture import Capture, CaptureWriter, clear
from paralign.dtypes import narrow, widen
from paralign.errors import WorkerFailed
from paralign.model import Manifest
from paralign.stages.weights.assignment import MOVABLE, MOVED, fetching, told_apart, write
from paralign.worker.protocol import Load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.context import Context
    from paralign.dtypes import Typed

#: what names of parameters that are added hold
BIASES = ("bias", "beta")

#: names of moved parameters that are shown
SHOWN = 3


def movable(context: Context, *, single: bool = False, role: str = "parameter") -> dict[str, Typed]:
    """Other values for the reference's parameters that are constant.

    None where weights were not carried over, or not surely.

    Args:
        context: the check.
        single: those of one element too, where they are 0 or 1.
        role: ``buffer`` for the buffers instead, among them the running statistics of a normalisation.
    """
    weights, plan = context.weights, context.plan
    if weights is None or plan is None or not are_carried(context):
        return {}
    return told_apart(weights, [record for record in plan.sources if record.role == role], single=single)


def numbers(context: Context) -> dict[str, Typed]:
    """Other values for the reference's parameters of one element, whatever they are.

    None where weights were not carried over, or not surely.
    """
    weights, plan = context.weights, context.plan
    if weights is None or plan is None or not are_carried(context):
        return {}
    records = [each for each in plan.sources if each.role == "parameter" and each.location is not None and each.dtype in MOVABLE]
    return {each.name: _another(weights.value(each)) for each in records if weights.value(each).array.size == 1}


def _another(value: Typed) -> Typed:
    """A number beside a number, and beside 0 if it is that."""
    return narrow(widen(value) * (1 + MOVED) + MOVED / 2, value.dtype)


def are_carried(context: Context) -> bool:
    """Whether all of the reference's weights were carried over, and surely."""
    if context.weights is None or context.plan is None or context.settings.weights != "copy":
        return False
    return not context.guessed and context.plan.complete


def hiding(context: Context) -> dict[str, Typed]:
    """Other values for the reference's parameters that are zeros and may be factors.

    What they multiply does not show.

    A bias of zeros hides nothing; it is told by its name, which costs a run at most where it is called otherwise.
    """
    weights = context.weights
    values = movable(context, single=True)
    if weights is None or not values:
        return {}
    zeros = {r.name for r in weights.records if r.name in values and not weights.array(r).any()}
    return {name: value for name, value in values.items() if name in zeros and not _is_bias(name)}


def _is_bias(name: str) -> bool:
    """Whether a parameter's name says that it is added."""
    leaf = name.rpartition(".")[2]
    return any(word in leaf for word in BIASES)


@contextmanager
def moved(context: Context, values: dict[str, Typed]) -> Iterator[None]:
    """Both sides with other values for some parameters, as long as the block lasts.

    What a block around it has moved stays moved.

    Captures that are recorded meanwhile are known by these values too, so that none is taken for one of the weights as they are.

    Args:
        context: the check, its weights carried over.
        values: name of the reference's parameter -> value.

    Raises:
        WorkerFailed: a side cannot load them.
    """
    recorders = context.reference, context.candidate
    known = [(recorder.identity, recorder.folder) for recorder in recorders]
    kept = dict(context.artifacts), dict(context.replays)
    drawn, forwarded, before = context.drawn, context.forwarded, context.moved
    clipping, rates = context.clipping, context.rates
    mark = uuid4().hex
    try:
        context.moved = {**before, **values}
        load(context, context.moved)
        for recorder, (identity, folder) in zip(recorders, known, strict=True):
            recorder.identity, recorder.folder = {**identity, "moved": mark}, folder / "moved-run"
        yield
    finally:
        for recorder, (identity, folder) in zip(recorders, known, strict=True):
            recorder.identity, recorder.folder = identity, folder
        context.drawn, context.forwarded, context.moved = drawn, forwarded, before
        context.clipping, context.rates = clipping, rates
        for current, earlier in zip((context.artifacts, context.replays), kept, strict=True):
            current.clear()
            current.update(earlier)
        _restore(context)


def _restore(context: Context) -> None:
    """Load the weights as they were before they were moved.

    Workers that cannot are started anew, and load the reference's first.
    """
    try:
        load(context, context.moved)
    except WorkerFailed:
        context.reference.restart()
        context.candidate.restart()
        if context.moved:
            load(context, context.moved)


def load(context: Context, values: dict[str, Typed]) -> Capture:
    """Load the reference's weights into both sides, some of them with other values.

    Gives what the reference holds then.

    Raises:
        WorkerFailed: a side cannot.
    """
    weights, plan = context.weights, context.plan
    if weights is None or plan is None:
        raise ValueError("the weights are carried over first")
    own = fetching(weights)
    given = write(context, plan, lambda name: values.get(name) or own(name))  # both are there before either side is asked
    held = load_reference(context, values)
    context.candidate.record("moved-load", replace(Load(), record=False, attempt=uuid4().hex), {"state": given}, prelude=True)
    return held


def load_reference(context: Context, values: dict[str, Typed]) -> Capture:
    """Load the reference's weights into the reference alone, some of them with other values.

    Gives what it holds then.

    Raises:
        WorkerFailed: it cannot.
    """
    if context.weights is None:
        raise ValueError("the weights are recorded first")
    folder = context.reference.folder / "moved"
    clear(folder)
    with CaptureWriter(folder, Manifest(side="reference", stage="weights")) as writer:
        for record in context.weights.records:
            if record.location is not None:
                value = values.get(record.name) or context.weights.value(record)
                writer.add(record.name, value, role=record.role, op=record.op, source=record.source, attrs=record.attrs)
    held = Capture.open(folder)
    context.reference.record("moved-load", replace(Load(), record=False, attempt=uuid4().hex), {"state": held}, prelude=True)
    return held


def _listed(values: dict[str, Typed]) -> str:
    names = list(values)
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def hidden(values: dict[str, Typed]) -> str:
    """What the moved zeros have shown, for the result."""
    return (
        f"with the weights as constructed the outputs agree, as {len(values)} parameters of zeros hide what they multiply; judged with "
        f"these moved by noise, the same on both sides, as a training would move them: {_listed(values)}"
    )


def shown(values: dict[str, Typed]) -> str:
    """That the moved zeros hide nothing, for the result."""
    return f"the outputs agree also with {len(values)} parameters of zeros moved by noise, which hide what they multiply: {_listed(values)}"


def by_numbers(values: dict[str, Typed]) -> str:
    """What was done with parameters of one number, for a result that differs then."""
    return f"judged with the {len(values)} parameters of one number moved by noise, the same on both sides: {_listed(values)}"


def told(values: dict[str, Typed]) -> str:
    """What was done, for the result."""
    return (
        f"with the weights as constructed outputs are constant, and show nothing: judged with the {len(values)} constant parameters "
        f"moved by noise, the same on both sides, as a training would move them: {_listed(values)}"
    )
