"""What one process makes of the ranks' first batches, alone and joined."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import numpy as np

from paralign.adapters.base import Training
from paralign.dtypes import EPS, is_floating, narrow, widen
from paralign.errors import UsageError
from paralign.worker.passes.forward import attempt_run
from paralign.worker.protocol import InOneProcess, Single
from paralign.worker.ranks import share
from paralign.worker.sides.session import DOUBLE, NATIVE, Session
from paralign.worker.values.trees import rebuild

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed
    from paralign.model import Record

#: the number that the joined batch has in place of a rank's
JOINED = -1

#: the run whose gradients are those of the ranks: what the optimizer makes of them, whatever it clips or adapts
GIVEN = "given"


def single(session: Session, writer: "CaptureWriter", options: Single, values: "Dict[str, Capture]") -> InOneProcess:
    """Take a step from the same weights on each rank's first batch, and on all joined.

    In float64 and natively.

    Values: the captures of the ranks,
    ``rank-0`` and so on. Every record has the rank whose batch it comes from, ``JOINED`` for all of them: gradients, parameters' whole
    changes, buffers.
    """
    answer = InOneProcess()
    with session.untouched() as state:
        for run in (DOUBLE, NATIVE):
            act = partial(_steps, session, writer, run, values, options.nproc, answer)
            attempt_run(answer, run, act, partial(session.restore, state))
        session.adapter.train(session.model, "quiet")
        session.seed()
        built, _ = share.optimizer(session, session.model)
        answer.rates = share.rates(session, built)
        loader = session.function("build_dataloader")(options.split)
        next(iter(loader), None)
        answer.share = share.share(session, loader)
        if "evaluate" in session.functions:
            session.adapter.train(session.model, "eval")
            with session.passing():
                answer.metrics = share.numbers(session, session.function("evaluate")(session.model))
            answer.local = share.local_metric(session, session.model, options.evaluation, options.most)
            answer.pooled = _pooled(session, [values[f"rank-{rank}"] for rank in range(options.nproc)])
    return answer


def _pooled(session: Session, ranks: "List[Capture]") -> Optional[Dict[str, float]]:
    """The side's metric over what all ranks evaluated; None where it is not known.

    A metric of the user's may not take it, whatever it raises: it was written for the batches of one process.
    """
    if "metric" not in session.functions:
        return None
    try:
        kept = [share.kept_evaluated(session, capture) for capture in ranks]
        return share.metric_over(session, [batch for rank in kept for batch in rank]) if all(kept) else None
    except Exception:  # noqa: BLE001 - as said above; nothing else depends on it
        return None


def _steps(
    session: Session,
    writer: "CaptureWriter",
    run: str,
    values: "Dict[str, Capture]",
    nproc: int,
    answer: InOneProcess,
) -> None:
    if run == DOUBLE:
        session.to_double()
    batches = [_batch(session, values[f"rank-{rank}"], run) for rank in range(nproc)]
    start = session.snapshot()
    try:
        every = [*enumerate(batches), (JOINED, share.joined(session, batches))]
    except UsageError as fault:  # text that is padded to the longest of its batch
        answer.unjoined, every = fault.what, list(enumerate(batches))
    for rank, batch in every:
        answer.losses.setdefault(run, {})[str(rank)] = _step(session, writer, run, rank, batch, start)
    ranks = [values[f"rank-{rank}"] for rank in range(nproc)]
    at = share.gradients_of_ranks(ranks)
    found = ranks[0].select(role="gradient", call=at) or ranks[0].select(role="gradient", call=share.LEFT)
    given = {record.name: ranks[0].value(record) for record in found if record.location is not None}
    if run == NATIVE and given:
        _step(session, writer, GIVEN, JOINED, every[-1][1], start, given, at)
        answer.resolution = _resolution([start[name] for name in given if name in start])


def _step(
    session: Session,
    writer: "CaptureWriter",
    run: str,
    rank: int,
    batch: Any,
    start: "Dict[str, Typed]",
    given: "Optional[Dict[str, Typed]]" = None,
    at: int = share.LEFT,
) -> Optional[float]:
    """One step from the start, recorded; the model is put back."""
    session.adapter.train(session.model, "quiet")
    session.seed()
    built, scheduler = share.optimizer(session, session.model)
    stepped = share.step(session, session.model, built, scheduler, batch, given, at)
    stepped.record(writer, run=run, rank=rank)
    for entry in session.entries():
        if entry.shared is not None:
            continue
        now = session.adapter.to_array(entry.tensor)
        if entry.role == "parameter":
            change = widen(now).astype(np.float64) - widen(start[entry.name])
            writer.add(entry.name, change, role="parameter", run=run, rank=rank)
        else:
            writer.add(entry.name, now, role="buffer", run=run, rank=rank)
    session.adapter.load_state(session.model, start)
    if isinstance(session.adapter, Training):
        session.adapter.clear_gradients(session.model, None)
    return share.loss_of(session, stepped.result)


def _resolution(values: "List[Typed]") -> float:
    """The L2 norm of what rounding may take from weights: half a unit in the last place each."""
    floats = [value for value in values if is_floating(value.dtype)]
    each = [np.linalg.norm(widen(value).astype(np.float64)) * EPS[value.dtype] / 2 for value in floats]
    return float(np.linalg.norm(each)) if each else 0.0


def _batch(session: Session, capture: "Capture", run: str) -> Any:
    """The batch that a rank was given first, as its loader gave it.

    Tensors as tensors, in float64 in that run.
    """
    found: Dict[str, Record] = {r.leaf: r for r in capture.select(name="batch")}
    if not found:
        raise UsageError("a rank has recorded no batch", where=session.side)

    def leaf(path: str) -> Any:
        record = found[path]
        if record.text is not None:
            return record.text
        value = capture.value(record)
        if run == DOUBLE and is_floating(value.dtype):
            value = narrow(widen(value), DOUBLE)
        return session.adapter.from_array(value)

    return rebuild(capture.manifest.settings["trees"]["batch"], leaf)
