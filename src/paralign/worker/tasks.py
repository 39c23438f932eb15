"""The jobs that a session can do, by name.

A job is a dict: ``task``; ``capture`` (the folder to write); ``options``; ``values`` (name -> folder of a capture to read);
``settings`` (kept in the capture's manifest).
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from paralign.capture import Capture, CaptureWriter, discard
from paralign.worker import (
    changing,
    constants,
    data,
    feed,
    forward,
    initial,
    loading,
    lowered,
    memory,
    metric_steps,
    metrics,
    operations,
    optimizer_file,
    own_step,
    prediction,
    probes,
    program,
    redrawn,
    resuming,
    sample,
    scheduled,
    second,
    single,
    state,
    stepping,
    trained,
    training,
    update,
)
from paralign.worker.provenance import recording
from paralign.worker.session import Session

Task = Callable[[Session, CaptureWriter, Dict[str, Any], Dict[str, Capture]], Dict[str, Any]]

TASKS: Dict[str, Task] = {
    "describe": state.describe,
    "weights": state.weights,
    "load": state.load,
    "rebuilt": state.rebuilt,
    "changing": changing.changing,
    "initial": initial.initial,
    "calls": forward.calls,
    "forward": forward.forward,
    "operations": operations.operations,
    "constants": constants.constants,
    "provenance": recording.provenance,
    "lowered": lowered.lowered,
    "loss": training.loss,
    "attached": training.attached,
    "second": second.second,
    "backward": training.backward,
    "schedule": scheduled.schedule,
    "measures": scheduled.measures,
    "update": update.update,
    "state_read": optimizer_file.state_read,
    "state_write": optimizer_file.state_write,
    "resuming": resuming.resuming,
    "own_steps": own_step.own_steps,
    "stepping": stepping.stepping,
    "train": trained.train,
    "metric": metrics.metric,
    "metric_steps": metric_steps.metric_steps,
    "data": data.data,
    "samples": data.samples,
    "replayed": redrawn.replayed,
    "trace": sample.trace,
    "batch": data.batch,
    "feed": feed.feed,
    "given": data.given,
    "evaluate": metrics.evaluate,
    "own": metrics.own,
    "probes": probes.probes,
    "infer": program.infer,
    "predicted": prediction.predicted,
    "single": single.single,
    "memory": memory.memory,
    "loading": loading.loading,
}


def perform(session: Session, job: Dict[str, Any]) -> Dict[str, Any]:
    """Do one job and return its short answer; the values are in the capture.

    Passes that only record outputs go without gradients. Where one fails so, the job is done once more with them. An experiment with
    values of the other side may fail because these do not fit: it says nothing of gradients.
    """
    if "patches" in job.get("values", {}):
        return _do(session, job)
    failed = None
    try:
        answer = _do(session, job)
    except Exception as error:
        if not session.keep_gradients():
            raise
        failed = error
    else:
        if not answer.get("failed") or not session.keep_gradients():
            return answer
    try:
        answer = _again(session, job)
    except Exception:  # noqa: BLE001 - any: then the first attempt stands, with its failure if it had one
        session.forgo_gradients()
        if failed is not None:
            raise failed from None
        return _again(session, job)
    if answer.get("failed"):
        session.forgo_gradients()
    return answer


def _again(session: Session, job: Dict[str, Any]) -> Dict[str, Any]:
    discard(job["capture"])
    return _do(session, job)


def _do(session: Session, job: Dict[str, Any]) -> Dict[str, Any]:
    values = {name: Capture.open(path) for name, path in job.get("values", {}).items()}
    with session.capture(job["capture"], job["task"], job.get("settings", {})) as writer:
        answer = TASKS[job["task"]](session, writer, job.get("options", {}), values)
        writer.manifest.settings["answer"] = answer
    return answer
