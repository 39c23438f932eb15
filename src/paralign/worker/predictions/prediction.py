"""One prediction in detail: every step from the path to the result.

It is that of ``predict`` or of the side's own program.
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Set

import numpy as np

from paralign.adapters.base import Training
from paralign.errors import UnsupportedTensor, UsageError
from paralign.worker.optimization.optimizers import construction
from paralign.worker.predictions.program import predict
from paralign.worker.protocol import Predicted, PredictionTraced
from paralign.worker.traces.tracing import Tracer
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from types import FrameType

    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed
    from paralign.worker.sides.session import Session

#: functions of layers under which everything is the model's own business, which `forward` looks at
_CALLS = frozenset(("forward", "__call__", "_call_impl", "_wrapped_call_impl", "_dygraph_call_func"))


def predicted(session: Session, writer: CaptureWriter, options: Predicted, values: Dict[str, Capture]) -> PredictionTraced:  # noqa: ARG001 - every task has these
    """Trace one prediction.

    Recorded in run ``seed-0``: ``step_<n>`` for every step outside
    of networks, with its line and the records that it was made from, and, of ``predict``, the result as ``sample``.
    """
    session.seed()
    with construction(_wanted) as built:
        tracer = _Outside(session, built.source)
        if options.script:
            with _as_program(options.script, options.root) as script, tracer.watching():
                _run(script)
            result: Any = None
        else:
            result = _predicted(session, options.path, tracer)
    record_steps(session, writer, tracer, result)
    return PredictionTraced(len(tracer.steps), tracer.exhausted)


def _predicted(session: Session, path: str, tracer: Tracer) -> Any:
    with session.untouched():
        session.adapter.train(session.model, "eval")
        with session.passing(), tracer.watching():
            return predict(session, path)


def _wanted(made: Any) -> bool:
    return callable(made)


class _Outside(Tracer):
    """Follows what lies outside of networks: before and behind them."""

    def __init__(self, session: Session, made: Any) -> None:
        super().__init__(lambda value: as_array(session, value), made)
        self._session = session
        self._networks: Dict[int, Any] = {}
        self._others: Set[int] = set()

    def _called(self, frame: "FrameType", event: str, argument: Any) -> Any:
        above: Optional[FrameType] = frame
        while above is not None:
            if above.f_code.co_name in _CALLS and self._is_network(above.f_locals.get("self")):
                return None
            above = above.f_back
        return super()._called(frame, event, argument)

    def _composed(self, frame: "FrameType") -> List[Any]:
        """The callables of a composition; layers that a network holds are none."""
        found = super()._composed(frame)
        return [] if found and self._is_network(frame.f_locals.get("self")) else found

    def _is_network(self, value: Any) -> bool:
        """Whether something is a model with parameters: transforms may be modules, too."""
        if value is None or id(value) in self._others:
            return False
        if id(value) in self._networks:
            return True
        adapter = self._session.adapter
        being_built = False
        if isinstance(adapter, Training):
            being_built = bool(adapter.is_model(value))  # and may be given parameters later
            network = being_built and bool(list(adapter.parameters(value)))
        else:
            network = "build_model" in self._session.functions and value is self._session.model
        if network:
            self._networks[id(value)] = value  # kept: its id is not used again
        elif not being_built and len(self._others) < _REMEMBERED:
            self._others.add(id(value))
        return network


#: ids of objects that are no networks: a few are in use at once
_REMEMBERED = 10_000


def as_array(session: Session, value: Any) -> "Optional[Typed]":
    """A value as an array; a text, or a list of texts, by checksums.

    None for what holds none of these.
    """
    if value is None or isinstance(value, (bytes, type)) or callable(value):
        return None
    try:
        if isinstance(value, str):
            value = np.asarray(zlib.crc32(value.encode("utf-8", "surrogateescape")))
        elif isinstance(value, (list, tuple)):
            texts = value and isinstance(value[0], str)
            value = np.asarray([zlib.crc32(str(v).encode("utf-8", "surrogateescape")) for v in value] if texts else value)
        found = to_value(value, session.adapter)
    except (UnsupportedTensor, ValueError):  # ValueError: lists of different lengths
        return None
    return None if isinstance(found, str) else found


def record_steps(session: Session, writer: CaptureWriter, tracer: Tracer, result: Any) -> None:
    """Record what was traced, and its result as ``sample``, in run ``seed-0``."""
    ids: List[int] = []
    for step in tracer.steps:
        attrs = {"kind": step.kind, "number": step.number, "function": step.function}
        inputs = tuple(ids[n] for n in step.inputs)
        record = writer.add(
            f"step_{step.number}", step.value, role="sample", run="seed-0", op=step.op, source=step.source, inputs=inputs, attrs=attrs
        )
        ids.append(record.id)
    for path, leaf in leaves(result, session.adapter.is_tensor):
        value = as_array(session, leaf)
        if value is not None:
            made = tracer.result.get(path, _alike(tracer, value))
            writer.add("sample" + (f".{path}" if path else ""), value, role="sample", run="seed-0", attrs={"made": made})


def _alike(tracer: Tracer, value: "Typed") -> Optional[int]:
    """The last step that holds the same values."""
    for step in reversed(tracer.steps):
        if step.value.dtype == value.dtype and np.array_equal(step.value.array, value.array):
            return int(step.number)
    return None


#: what stands for the file to write in a program's words: no word of a user's can hold it
OUT = "\0out"

# -- programs ------------------------------------------------------------------------------------------------------------------


@contextmanager
def _as_program(words: List[str], root: str) -> Iterator[List[str]]:
    """Set arguments, folder and path as of a program started from a terminal.

    Gives the program's words, the file to write filled in.
    """
    before = sys.argv, sys.path[:], os.getcwd()
    with tempfile.TemporaryDirectory(prefix="paralign-program-") as folder:
        script = [word.replace(OUT, os.path.join(folder, "out")) for word in words]
        module = script[0] == "-m"
        sys.argv = script[1:] if module else list(script)
        os.chdir(root)
        sys.path.insert(0, root if module else os.path.dirname(os.path.abspath(script[0])))
        try:
            yield script
        finally:
            sys.argv, sys.path[:] = before[0], before[1]
            os.chdir(before[2])


def _run(script: List[str]) -> None:
    """Run a script, or a module, as the main program.

    Raises:
        UsageError: it ended with an error.
    """
    try:
        if script[0] == "-m":
            runpy.run_module(script[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise UsageError(f"the program ended with {ended.code!r} when it was traced", where=script[0]) from ended
