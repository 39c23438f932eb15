"""The loss of several batches of an evaluation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Dict

from paralign.worker.draws import repeating
from paralign.worker.passes.forward import attempt, attempt_run
from paralign.worker.protocol import BatchesJudged, BatchLosses, Evaluate
from paralign.worker.sides.session import DOUBLE
from paralign.worker.steps.training import trainer
from paralign.worker.values.trees import leaves, mapped

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session


def batch_losses(session: "Session", writer: "CaptureWriter", options: BatchLosses, values: "Dict[str, Capture]") -> BatchesJudged:
    """The side's loss of the reference's outputs and labels, as ``batch_<number>``.

    A batch on which it fails is told in the answer.
    """
    evaluation, session.widens = values["evaluation"], options.widens
    answer = BatchesJudged(batches=Evaluate.answer(evaluation).batches)
    for run in options.runs:
        attempt_run(answer, run, partial(_losses, session, writer, run, evaluation, answer))
    return answer


def _losses(session: "Session", writer: "CaptureWriter", run: str, evaluation: "Capture", answer: BatchesJudged) -> None:
    for number in range(answer.batches):
        problem = attempt(partial(_loss, session, writer, run, evaluation, number, answer), tolerate=True)
        if problem and run != DOUBLE:
            answer.refused[str(number)] = problem


def _loss(session: "Session", writer: "CaptureWriter", run: str, evaluation: "Capture", number: int, answer: BatchesJudged) -> None:
    result = _made(session, run, evaluation, number, session.base_seed)
    if run != DOUBLE:
        again = _made(session, run, evaluation, number, session.base_seed + 1)
        answer.repeats[str(number)] = repeating.distance(_sampled(session, result), _sampled(session, again))
    session.save_tree(writer, f"batch_{number}", result, run=run, role="scalar")


def _made(session: "Session", run: str, evaluation: "Capture", number: int, seed: int) -> Any:
    """The loss of one batch; outputs can be differentiated by, as a loss may do itself."""
    adapter, known = trainer(session), session.adapter.is_tensor

    def watch(value: Any) -> Any:
        return adapter.watch(value) if known(value) else value

    outputs = mapped(session.tree(evaluation, f"output_{number}", run, whole=True), watch)
    labels = session.tree(evaluation, f"labels_{number}", run)
    session.adapter.seed(seed)
    with session.in_precision_of(run):
        return session.function("loss")(outputs, labels)


def _sampled(session: "Session", value: Any) -> "Dict[str, Any]":
    """The tensors of a loss, by their paths."""
    known = session.adapter.is_tensor
    return {path: repeating.sampled(session, leaf) for path, leaf in leaves(value, known) if known(leaf)}
