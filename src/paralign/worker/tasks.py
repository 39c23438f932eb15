"""The functions that do the tasks of :mod:`paralign.worker.protocol`, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict

from paralign.capture import Capture, CaptureWriter, discard
from paralign.worker.calls import entry, own_functions
from paralign.worker.datasets import collated, data, feed, redrawn, regrouped
from paralign.worker.draws import initial
from paralign.worker.evaluation import ignored, metric_steps, metrics, probes
from paralign.worker.passes import again, blockwise, forward
from paralign.worker.predictions import prediction, program
from paralign.worker.protocol import Operations
from paralign.worker.protocol.wire import encode
from paralign.worker.provenance import recording
from paralign.worker.ranks import single
from paralign.worker.sides import state
from paralign.worker.sides.session import Session
from paralign.worker.steps import (
    batch_losses,
    called_modes,
    changing,
    optimizer_file,
    own_batch,
    own_step,
    resuming,
    scheduled,
    second,
    training,
    update,
)
from paralign.worker.traces import constants, sample
from paralign.worker.trainings import loading, memory, trained
from paralign.worker.watching import lowered, operations, stepping

if TYPE_CHECKING:
    from paralign.worker.protocol import Job

#: what does a task: gets its options, and gives its answer, of the classes that the protocol says
Act = Callable[[Session, CaptureWriter, Any, Dict[str, Capture]], Any]

TASKS: Dict[str, Act] = {
    "describe": state.describe,
    "weights": state.weights,
    "load": state.load,
    "rebuilt": state.rebuilt,
    "changing": changing.changing,
    "initial": initial.initial,
    "calls": forward.calls,
    "forward": forward.forward,
    "functions": own_functions.functions,
    "entry": entry.entry,
    "again": again.again,
    "operations": operations.operations,
    "constants": constants.constants,
    "provenance": recording.provenance,
    "lowered": lowered.lowered,
    "loss": training.loss,
    "attached": training.attached,
    "batch_losses": batch_losses.batch_losses,
    "second": second.second,
    "backward": training.backward,
    "schedule": scheduled.schedule,
    "measures": scheduled.measures,
    "update": update.update,
    "state_read": optimizer_file.state_read,
    "state_write": optimizer_file.state_write,
    "resuming": resuming.resuming,
    "own_steps": own_step.own_steps,
    "own_batch": own_batch.own_batch,
    "layer_modes": called_modes.layer_modes,
    "stepping": stepping.stepping,
    "train": trained.train,
    "metric": metrics.metric,
    "metric_steps": metric_steps.metric_steps,
    "data": data.data,
    "samples": data.samples,
    "groups": regrouped.groups,
    "replayed": redrawn.replayed,
    "collated": collated.collated,
    "trace": sample.trace,
    "batch": data.batch,
    "feed": feed.feed,
    "given": data.given,
    "evaluate": metrics.evaluate,
    "own": metrics.own,
    "probes": probes.probes,
    "ignorable": ignored.ignorable,
    "infer": program.infer,
    "predicted": prediction.predicted,
    "single": single.single,
    "streamed": blockwise.streamed,
    "free-running": blockwise.free_running,
    "memory": memory.memory,
    "loading": loading.loading,
}


def perform(session: Session, job: Job) -> Any:
    """Do one job and return its answer, which the capture holds too, beside the values.

    Passes that only record outputs go without gradients. Where one fails so, the job is done once more with them. An experiment with
    values of the other side may fail because these do not fit: it says nothing of gradients.

    Raises:
        MalformedMessage: the job is none that there is.
    """
    if "patches" in job.values:
        return _do(session, job)
    failed = None
    try:
        answer = _do(session, job)
    except Exception as error:  # any: it is the user's model that fails; raised again unless gradients help
        if not session.keep_gradients():
            raise
        failed = error
    else:
        if not _failed(answer) or not session.keep_gradients():
            return answer
    try:
        answer = _again(session, job)
    except Exception:  # noqa: BLE001 - any, of the user's model: then the first attempt stands, with its failure if it had one
        session.forgo_gradients()
        if failed is not None:
            raise failed from None
        return _again(session, job)
    if _failed(answer):
        session.forgo_gradients()
    return answer


def _failed(answer: Any) -> bool:
    """Whether an answer tells of something that did not succeed."""
    return bool(getattr(answer, "failed", None))


def _again(session: Session, job: Job) -> Any:
    discard(job.capture)
    return _do(session, job)


def _do(session: Session, job: Job) -> Any:
    order = job.order
    if job.task != Operations.task:  # experiments follow each other
        session.results.clear()
    values = {name: Capture.open(path) for name, path in job.values.items()}
    with session.capture(job.capture, job.task, job.settings) as writer:
        answer = TASKS[job.task](session, writer, order, values)
        writer.manifest.notes += session.beside.notes(session.device)
        writer.manifest.settings["answer"] = encode(answer)
    return answer
