"""The loss of several batches of an evaluation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Dict

from paralign.worker.forward import attempt, attempt_run
from paralign.worker.protocol import BatchesJudged, BatchLosses, Evaluate
from paralign.worker.session import DOUBLE

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.session import Session


def batch_losses(session: "Session", writer: "CaptureWriter", options: BatchLosses, values: "Dict[str, Capture]") -> BatchesJudged:
    """The side's loss of the reference's outputs and labels, as ``batch_<number>``.

    A batch on which it fails is told in the answer.
    """
    evaluation = values["evaluation"]
    answer = BatchesJudged(batches=Evaluate.answer(evaluation).batches)
    for run in options.runs:
        attempt_run(answer, run, partial(_losses, session, writer, run, evaluation, answer))
    return answer


def _losses(session: "Session", writer: "CaptureWriter", run: str, evaluation: "Capture", answer: BatchesJudged) -> None:
    with session.adapter.no_grad():
        for number in range(answer.batches):
            problem = attempt(partial(_loss, session, writer, run, evaluation, number), tolerate=True)
            if problem and run != DOUBLE:
                answer.refused[str(number)] = problem


def _loss(session: "Session", writer: "CaptureWriter", run: str, evaluation: "Capture", number: int) -> None:
    outputs, labels = (session.tree(evaluation, f"{what}_{number}", run) for what in ("output", "labels"))
    session.adapter.seed(session.base_seed)
    result = session.function("loss")(outputs, labels)
    session.save_tree(writer, f"batch_{number}", result, run=run, role="scalar")
