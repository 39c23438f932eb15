"""One use of a metric in detail.

Every value that the side's own lines make of the reference's outputs and labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict

from paralign.worker.evaluation.metrics import as_tensors, batch_of, joined_batches
from paralign.worker.predictions.prediction import as_array, record_steps
from paralign.worker.protocol import Evaluate, MetricSteps, StepsTraced
from paralign.worker.sides import stateful
from paralign.worker.traces.tracing import Tracer

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session

#: steps that are recorded, and how often those of one line: metrics run over classes, thresholds and boxes in loops, with small values
STEPS, TIMES = 4_000, 400


def metric_steps(session: Session, writer: CaptureWriter, options: MetricSteps, values: Dict[str, Capture]) -> StepsTraced:
    """Trace the side's metric on the reference's outputs.

    Recorded in
    run ``seed-0``: ``step_<n>`` for every step, with its line and the records that it was made from, and the result as ``sample``.
    """
    given = values["evaluation"]
    count = Evaluate.answer(given).batches
    tracer = Tracer(lambda value: as_array(session, value), lambda _: None, most=STEPS, times=TIMES)
    function = stateful.function_of(session)
    session.seed()
    with session.adapter.no_grad():
        if options.point == "running":
            batches = [batch_of(session, given, number) for number in range(count)]
            with tracer.watching():
                result = stateful.running(session, batches)
        else:
            joined = joined_batches(given, count) if options.point == "all" else None
            number = 0 if options.point == "all" else int(options.point.partition("_")[2])
            tensors = batch_of(session, given, number) if joined is None else tuple(as_tensors(session, part) for part in joined)
            with tracer.watching():
                result = function(*tensors)
    record_steps(session, writer, tracer, result)
    return StepsTraced(len(tracer.steps), tracer.exhausted)
