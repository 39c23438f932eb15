"""The update alone: given gradients, equal on both sides, and what each of them moves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

import numpy as np

from paralign.adapters.base import KeepingRows
from paralign.dtypes import Typed, narrow, widen
from paralign.worker.optimization.optimizers import Built, construction, describe, steps
from paralign.worker.optimization.schedule import advance_after, schedule_of
from paralign.worker.optimization.several import Several, members_of, rates_of, required, schedules_of
from paralign.worker.passes.forward import attempt_run
from paralign.worker.protocol import Update, Updated
from paralign.worker.sides.session import DOUBLE, Session
from paralign.worker.steps.training import optimizer_of, trainer

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter


def update(session: Session, writer: CaptureWriter, options: Update, values: Dict[str, Capture]) -> Updated:
    """Steps of the optimizer from recorded gradients instead of a backward pass.

    Recorded for every step: ``lr``, and every parameter's whole change since the start under its name (role
    ``parameter``, in float64).
    """
    answer = Updated()
    with session.untouched() as state:
        for run in options.runs:
            act = partial(_steps, session, writer, run, state, options, values["gradients"], answer)
            attempt_run(answer, run, act, partial(session.restore, state))
    return answer


def _steps(
    session: Session,
    writer: CaptureWriter,
    run: str,
    state: Dict[str, Typed],
    options: Update,
    gradients: Capture,
    answer: Updated,
) -> None:
    adapter = trainer(session)
    with construction(steps) as built:
        optimizer, scheduler = prepared(session, run)
    answer.optimizer = describe(session, optimizer)
    answer.built = _sources(built, optimizer, scheduler)
    answer.arguments = built.arguments(optimizer)
    if isinstance(optimizer, Several):
        parts = zip(optimizer.members, schedules_of(optimizer, scheduler))
        answer.members = [_sources(built, member, schedule) for member, schedule in parts for _ in describe(session, member)["groups"]]
    rates: List[List[float]] = []
    adapter.clear_gradients(session.model, optimizer)
    for number, (step, factor) in enumerate(options.steps):
        give(session, gradients, options.given, step, factor)
        rates.append(rates_of(adapter, optimizer))
        adapter.step(optimizer)
        advance_after(adapter, optimizer, scheduler, options.pace, number + 1)
        adapter.clear_gradients(session.model, optimizer)
        _record(session, writer, state, run, number)
    answer.rates = rates


def _sources(built: Built, optimizer: Any, scheduler: Any) -> Dict[str, Any]:
    """The lines that built an optimizer and its schedule; of several the first one's."""
    schedule = schedule_of(optimizer, scheduler)
    return {"optimizer": built.source(members_of(optimizer)[0]), "scheduler": built.source(members_of(schedule)[0])}


def prepared(session: Session, run: str) -> Tuple[Any, Any]:
    """The model made ready for steps in a run, its optimizer, and its schedule or None."""
    if run == DOUBLE:
        session.to_double()
    session.adapter.train(session.model, "eval")
    session.seed()
    optimizer, scheduler = optimizer_of(session)
    return required(optimizer, session.side), scheduler


def give(session: Session, gradients: Capture, run: str, step: int, factor: float) -> None:
    """Lay the recorded gradients on the parameters; one that has none keeps none."""
    recorded = {r.name: r for r in gradients.select(role="gradient", run=run, step=step)}
    adapter = session.adapter
    by_rows = adapter.row_parameters(session.model) if isinstance(adapter, KeepingRows) else set()
    for entry in session.entries():
        record = recorded.get(entry.name)
        if entry.role != "parameter" or entry.shared is not None or record is None or record.location is None or not entry.trainable:
            continue
        own = adapter.to_array(entry.tensor).dtype
        gradient = adapter.from_array(narrow(widen(gradients.value(record)) * factor, own))
        if id(entry.tensor) in by_rows:
            adapter.lay_rows(entry.tensor, gradient)  # type: ignore[attr-defined] # asked for above
        else:
            entry.tensor.grad = gradient


def _record(session: Session, writer: CaptureWriter, state: Dict[str, Typed], run: str, step: int) -> None:
    for entry in session.entries():
        if entry.role == "parameter" and entry.shared is None:
            change = widen(session.adapter.to_array(entry.tensor)).astype(np.float64) - widen(state[entry.name])
            writer.add(entry.name, change, role="parameter", op=entry.kind, run=run, step=step)
