"""The program that users run: prediction from a path, and the exported model against the eager one."""

from __future__ import annotations

import inspect
import os
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Dict

from paralign.adapters.base import Exporting
from paralign.errors import UsageError
from paralign.worker.data import add_leaves
from paralign.worker.session import NATIVE, Session
from paralign.worker.trees import leaves

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter


def infer(session: Session, writer: CaptureWriter, options: Dict[str, Any], values: Dict[str, Capture]) -> Dict[str, Any]:
    """``predict(path)`` for every given path, and the exported program beside the eager model on the same inputs.

    Options: ``paths``. Recorded: ``predict_N`` (N counts the paths); ``eager`` and ``exported``, both as seen by this side.
    """
    answer: Dict[str, Any] = {"predictions": 0, "export": "no export(model, path)"}
    with session.untouched():
        session.adapter.train(session.model, "eval")
        session.seed()
        with session.passing():
            if "predict" in session.functions:
                for number, path in enumerate(options["paths"]):
                    add_leaves(session, writer, f"predict_{number}", predict(session, path), role="output", attrs={"path": path})
                    answer["predictions"] += 1
            if "export" in session.functions and "inputs" in values:
                answer["export"] = _export(session, writer, values["inputs"])
    return answer


def predict(session: Session, path: str) -> Any:
    """Call ``predict(path)``, or ``predict(path, model)`` with the checked model where it takes one."""
    if not os.path.exists(path):
        raise UsageError(
            "a path to predict from is not there", where=path, hint="set [infer] paths to files that exist, relative to paralign.toml"
        )
    predict = session.function("predict")
    return predict(path, session.model) if _takes(predict, 2) else predict(path)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with this many positional arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True


def _export(session: Session, writer: CaptureWriter, inputs: Capture) -> str:
    adapter = session.adapter
    if not isinstance(adapter, Exporting):
        return f"framework {adapter.name} has no exported programs"
    arguments = session.inputs(inputs, NATIVE)
    with tempfile.TemporaryDirectory(prefix="paralign-export-") as folder:
        path = os.path.join(folder, "model")
        written = session.function("export")(session.model, path) or path
        session.adapter.train(session.model, "eval")
        add_leaves(session, writer, "eager", session.call(arguments), role="output")
        known = adapter.is_tensor
        arrays = [adapter.to_array(leaf).array for _, leaf in leaves(arguments, known) if known(leaf)]
        add_leaves(session, writer, "exported", adapter.run_exported(str(written), arrays), role="output")
    return "compared"
