"""The jobs that a session can do, by name.

A job is a dict: ``task``; ``capture`` (the folder to write); ``options``; ``values`` (name -> folder of a capture to read);
``settings`` (kept in the capture's manifest).
"""

from __future__ import annotations

from typing import Any, Callable, Dict

from paralign.capture import Capture, CaptureWriter
from paralign.worker import constants, data, forward, operations, program, sample, state, stepping, training, update
from paralign.worker.session import Session

Task = Callable[[Session, CaptureWriter, Dict[str, Any], Dict[str, Capture]], Dict[str, Any]]

TASKS: Dict[str, Task] = {
    "describe": state.describe,
    "weights": state.weights,
    "load": state.load,
    "calls": forward.calls,
    "forward": forward.forward,
    "operations": operations.operations,
    "constants": constants.constants,
    "loss": training.loss,
    "backward": training.backward,
    "update": update.update,
    "stepping": stepping.stepping,
    "metric": data.metric,
    "data": data.data,
    "trace": sample.trace,
    "batch": data.batch,
    "given": data.given,
    "evaluate": data.evaluate,
    "infer": program.infer,
}


def perform(session: Session, job: Dict[str, Any]) -> Dict[str, Any]:
    """Do one job and return its short answer; the values are in the capture."""
    values = {name: Capture.open(path) for name, path in job.get("values", {}).items()}
    with session.capture(job["capture"], job["task"], job.get("settings", {})) as writer:
        answer = TASKS[job["task"]](session, writer, job.get("options", {}), values)
        writer.manifest.settings["answer"] = answer
    return answer
