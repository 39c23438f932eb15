"""The tasks of the stage ``optimizer``.

The schedule of a whole training, and a metric for schedules that wait for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Optional

import numpy as np

from paralign.worker.optimization.schedule import Walk, ahead
from paralign.worker.protocol import Measured, Measures, Schedule, Scheduled
from paralign.worker.steps.training import optimizer_of, trainer

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session


def schedule(session: Session, writer: CaptureWriter, options: Schedule, values: Dict[str, Capture]) -> Scheduled:
    """Record the learning rates of a whole training, and of one resumed in its middle.

    Values:
    ``measures``, where there are any. Recorded: ``schedule`` and ``resumed``, as :func:`ahead` does.
    """
    given = values.get("measures")
    measures = None if given is None else given.array(next(iter(given.select(name="measures")))).astype(np.float64).ravel()
    batches = _batches(session, options.loader) if options.loader else None
    count = options.count
    if not count:
        count = options.otherwise if batches is None else options.epochs * max(1, batches // options.accumulate)
    walk = Walk(count, options.by_update, options.patience, measures)
    with session.untouched():
        answer = ahead(session, writer, walk, trainer(session), optimizer_of, whole=True)
    return Scheduled(answer, batches, count)


def measures(session: Session, writer: CaptureWriter, options: Measures, values: Dict[str, Capture]) -> Measured:  # noqa: ARG001 - every task has these
    """Record what ``schedule_metric(epoch)`` gives for epochs 0, 1, … as ``measures``."""
    session.seed()
    function = session.function("schedule_metric")
    made = np.array([float(function(epoch)) for epoch in range(options.count)], np.float64)
    writer.add("measures", made, role="scalar")
    return Measured(len(made))


def _batches(session: Session, split: str) -> Optional[int]:
    """The length of the side's data loader; None where it has none or does not tell."""
    if "build_dataloader" not in session.functions:
        return None
    session.seed()
    try:
        return len(session.function("build_dataloader")(split))
    except TypeError:  # a generator
        return None
