"""The task ``train``: a side's ``train(log)`` run under orders, and its curves."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

import numpy as np

from paralign.adapters.base import Observing
from paralign.trainlog.lines import EVAL, TRAIN
from paralign.worker.protocol import Train, Trained
from paralign.worker.steps.resuming import names_anew
from paralign.worker.trainings.watchedlog import RATE, Stopped, WatchedLog

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session


def train(session: "Session", writer: "CaptureWriter", options: Train, values: "Dict[str, Capture]") -> Trained:
    """Run the side's ``train(log)`` once, and record its curves.

    Values: ``state``, ``batches``, ``bounds``, each where it is to be used.
    Recorded: ``curve`` (leaf: the figure; run: ``TRAIN`` or ``EVAL``), ``place`` (epoch, number of the batch or of the step before),
    ``cost`` (samples, seconds of reading, seconds of the whole step; NaN for the first), ``norms`` (of the parameters, and of what the
    step moved).
    """
    began = time.perf_counter()
    with ExitStack() as stack:
        if session.is_live and "build_model" in session.functions:
            stack.enter_context(session.untouched())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="paralign-train-"))
        built = stack.enter_context(session.adapter.constructions() if isinstance(session.adapter, Observing) else nullcontext({}))
        log = WatchedLog(session, writer, options, values, folder)
        stopped, interrupted = _run(session, log), None
        if options.interrupt and stopped[0] == "checkpoint":
            interrupted = len(log.steps)
            log, stopped = _resumed(session, writer, options, values, log)
        answer = _answer(log, stopped, time.perf_counter() - began)
        answer.interrupted = interrupted
        if log.models:
            modules = session.adapter.modules(log.models[0])
            answer.modules = {path: list(built[id(module)]) for path, module in modules if id(module) in built}
        _record(session, writer, log)
    return answer


def _run(session: "Session", log: WatchedLog) -> "Tuple[str, str]":
    """The side's training with a log.

    Kind and why it was stopped, '' where it came to its end.
    """
    session.adapter.seed(log.seed)
    try:
        with names_anew(session) if log.orders.interrupt else nullcontext():
            session.function("train")(log)
    except Stopped as reason:
        return reason.kind, reason.why
    finally:
        log.close_watches()
    return "", ""


def _resumed(
    session: "Session", writer: "CaptureWriter", options: Train, values: "Dict[str, Capture]", first: WatchedLog
) -> "Tuple[WatchedLog, Tuple[str, str]]":
    """A second training that goes on from the first one's checkpoint, as a new program does.

    Its log has the steps of both.
    """
    made = len(first.steps)
    orders = replace(options, steps=None if options.steps is None else options.steps - made)
    own = {name: value for name, value in values.items() if name not in ("state", "bounds")}
    log = WatchedLog(session, writer, orders, own, first.folder, resume=True)
    stopped = _run(session, log)
    log.steps, log.rows = [*first.steps, *log.steps], [*first.rows, *log.rows]
    return log, stopped


def _answer(log: WatchedLog, stopped: "Tuple[str, str]", seconds: float) -> Trained:
    why = log.keeping.why if log.keeping is not None else "" if log.given is None else log.given.why
    return Trained(
        stopped=stopped,
        steps=len(log.steps),
        epochs=len({step.epoch for step in log.steps}),
        evaluations=len(log.evaluations()),
        models=len(log.models),
        optimizers=len(log.optimizers),
        problems=log.problems,
        moves=log.moves(),
        draws=log.draws,
        grown=log.grown(),
        witness=log.witness.found,
        watched=log.witness.watched,
        lines=log.lines,
        batches=why,
        seconds=seconds,
        checkpoints=log.checkpoints,
        resumed=log.resumed,
        outputs=(log.outputs.calls, log.outputs.replaced) if log.outputs is not None else (0, 0),
    )


def _record(session: "Session", writer: "CaptureWriter", log: WatchedLog) -> None:
    steps, evaluations = log.steps, log.evaluations()
    groups = max((len(step.rates) for step in steps), default=0)
    rates = {RATE if not group else f"{RATE}.{group}": group for group in range(groups)}
    told = [{**step.values, **{n: step.rates[g] for n, g in rates.items() if g < len(step.rates)}} for step in steps]
    _curves(writer, TRAIN, [(step.epoch, step.number) for step in steps], told)
    _curves(writer, EVAL, [(epoch, number) for epoch, number, _ in evaluations], [values for _, _, values in evaluations])
    rows = [row for row in log.rows if row.kind == TRAIN]
    costs = [(row.samples, row.reader_cost, row.batch_cost) if row.batch_cost > 0 else (row.samples, np.nan, np.nan) for row in rows]
    writer.add("cost", np.array(costs, np.float64).reshape(-1, 3), role="scalar")
    writer.add("norms", np.array([(step.norm, step.moved) for step in steps], np.float64).reshape(-1, 2), role="scalar")
    if log.orders.ends:
        for entry in log.entries():
            writer.add(entry.name, session.adapter.to_array(entry.tensor), role=entry.role, run="end", op=entry.kind)


def _curves(writer: "CaptureWriter", kind: str, places: List[Any], told: List[Dict[str, float]]) -> None:
    writer.add("place", np.array(places, np.int64).reshape(-1, 2), role="scalar", run=kind)
    for name in dict.fromkeys(name for values in told for name in values):
        curve = np.array([values.get(name, np.nan) for values in told], np.float64)
        writer.add("curve", curve, role="scalar", leaf=name, run=kind)
