"""Which untrained tensors training changes, whatever they are called.

Running statistics, queues, averages of weights are such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict

from paralign.adapters.base import Training
from paralign.worker.datasets.feed import batches
from paralign.worker.protocol import Changed, Changing
from paralign.worker.sides.session import NATIVE
from paralign.worker.sides.state import equal
from paralign.worker.steps.training import train

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session


def changing(session: Session, writer: CaptureWriter, options: Changing, values: Dict[str, Capture]) -> Changed:  # noqa: ARG001 - every task has these
    """Run one pass in train mode, or one training step where ``labels`` are given.

    Then the model is put back.

    Values: ``inputs``, ``labels``. A step shows more than a pass: averages of the weights are updated after the optimizer.
    """
    with session.untouched() as before:
        session.adapter.train(session.model, "train")
        session.seed()
        if "labels" in values and "build_optimizer" in session.functions and isinstance(session.adapter, Training):
            train(session, batches(session, values, NATIVE)[:1], 1)
        else:
            session.call(session.fresh(session.inputs(values["inputs"], NATIVE)))
        after = session.snapshot()
    asked = [name for name in options.names if name in before and name in after]
    return Changed([name for name in asked if not equal(before[name], after[name])])
