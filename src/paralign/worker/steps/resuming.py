"""Updates that are interrupted.

What the optimizer remembers is saved in between and loaded into a new one, its own or the other side's.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

import numpy as np

from paralign.adapters.base import Numbering
from paralign.adapters.finding import frameworks
from paralign.dtypes import typed, widen
from paralign.errors import UsageError
from paralign.worker.optimization.kept_state import forgotten, kept
from paralign.worker.optimization.optimizer_state import State, read, write
from paralign.worker.optimization.optimizers import is_own
from paralign.worker.optimization.schedule import advance_after, schedule_of
from paralign.worker.optimization.several import loader_of
from paralign.worker.passes.forward import attempt_run
from paralign.worker.protocol import Resumed, Resuming
from paralign.worker.steps.training import add_changes, optimizer_of, trainer
from paralign.worker.steps.update import give, prepared
from paralign.worker.values.trees import leaves

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed
    from paralign.worker.sides.session import Session


def resuming(session: "Session", writer: "CaptureWriter", options: Resuming, values: "Dict[str, Capture]") -> Resumed:
    """Take steps from given gradients, interrupted after ``at`` of them.

    Without ``state`` among the values the optimizer's ``state_dict()`` (and the schedule's) is loaded into a new one, as a program does;
    with it, the new one gets that state, in which role ``state``, name and leaf are a parameter and a slot.
    Recorded: what the first optimizer remembered, likewise; every parameter's whole change after the last step.
    """
    answer = Resumed()
    with session.untouched() as state:
        for run in options.runs:
            act = partial(_steps, session, writer, run, state, options, values, answer)
            attempt_run(answer, run, act, partial(session.restore, state))
    return answer


def _steps(
    session: "Session",
    writer: "CaptureWriter",
    run: str,
    state: "Dict[str, Typed]",
    options: Resuming,
    values: "Dict[str, Capture]",
    answer: Resumed,
) -> None:
    at, steps = options.at, list(enumerate(options.steps))
    with names_anew(session):
        made = prepared(session, run)
        _take(session, made, steps[:at], options, values["gradients"])
        try:
            add_state(writer, read(session, made[0]), run)
        except UsageError as error:
            answer.unmapped = str(error)
        answer.unsaved, answer.apart = not _is_saved(made[0]), _keeps_apart(session, made[0])
        before = kept(session, made[0])
        saved = [copy.deepcopy(part.state_dict()) for part in _parts(made)] if "state" not in values else []
    with names_anew(session):
        again = optimizer_of(session)
        if "state" in values:
            for number in range(at):
                advance_after(trainer(session), *again, options.pace, number + 1)
            write(session, again[0], state_of(values["state"]))
        for part, given in zip(_parts(again), saved):
            load = loader_of(part)
            if load is not None:
                load(given)
        answer.forgotten = forgotten(before, kept(session, again[0])) if "state" not in values else []
        _take(session, again, steps[at:], options, values["gradients"])
    add_changes(session, writer, state, {"run": run, "step": len(steps) - 1})


def _parts(made: Tuple[Any, Any]) -> List[Any]:
    """The optimizer and its schedule, as far as they can be saved."""
    return [part for part in (made[0], schedule_of(*made)) if _is_saved(part)]


def _is_saved(part: Any) -> bool:
    return callable(getattr(part, "state_dict", None))


def _keeps_apart(session: "Session", optimizer: Any) -> bool:
    """Whether an optimizer of the user's own saves nothing of what it remembers.

    Its class has no ``state_dict`` of its own, and that of the framework holds no values.
    """
    if not is_own(optimizer) or not _is_saved(optimizer):
        return False
    home = next((cls for cls in type(optimizer).__mro__ if "state_dict" in vars(cls)), None)
    if home is None or home.__module__.split(".")[0] not in frameworks():
        return False
    adapter = session.adapter
    return not any(adapter.is_tensor(leaf) or isinstance(leaf, np.ndarray) for _, leaf in leaves(optimizer.state_dict(), adapter.is_tensor))


def _take(session: "Session", made: Tuple[Any, Any], steps: List[Any], options: Resuming, gradients: "Capture") -> None:
    """Some steps of an optimizer."""
    adapter = trainer(session)
    adapter.clear_gradients(session.model, made[0])
    for number, (step, factor) in steps:
        give(session, gradients, options.given, step, factor)
        adapter.step(made[0])
        advance_after(adapter, *made, options.pace, number + 1)
        adapter.clear_gradients(session.model, made[0])


def names_anew(session: "Session") -> "AbstractContextManager[None]":
    """Have a framework's optimizers number what they keep from the start again, inside."""
    return session.adapter.numbered_anew() if isinstance(session.adapter, Numbering) else nullcontext()


def add_state(writer: "CaptureWriter", state: State, run: str = "") -> None:
    """Record what an optimizer remembers: role ``state``, a record a parameter and slot."""
    for name, slots in state.items():
        for slot, value in slots.items():
            writer.add(name, typed(value), role="state", leaf=slot, run=run)


def state_of(capture: "Capture") -> State:
    """What :func:`add_state` recorded."""
    found: State = {}
    for record in capture.select(role="state"):
        found.setdefault(record.name, {})[record.leaf] = widen(capture.value(record))
    return found
