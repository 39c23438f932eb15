"""How a side comes to what it computes of numbers alone.

Tables, indices and masks are made by numpy, by lists or by the framework.

Operations are watched while the model runs; what numpy makes, or what was made while the model was constructed, is only met where an
operation takes it. So the model is constructed once more and runs once, with the user's lines traced; while it is constructed, tensors
that are made of numbers alone count as well.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import numpy as np

from paralign.adapters.base import Observing
from paralign.capture.digest import moments
from paralign.errors import UnsupportedTensor
from paralign.worker.protocol import Constants, Traced
from paralign.worker.sides.session import NATIVE
from paralign.worker.traces.tracing import Tracer
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from paralign.adapters.base import Operation
    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed
    from paralign.worker.sides.session import Session

#: elements of a value that is kept, and values of operations that are kept, at most
ELEMENTS, VALUES = 1 << 20, 600

#: elements of a tensor of the constructor's that is kept
TABLE = 1 << 18


def constants(session: Session, writer: CaptureWriter, options: Constants, values: Dict[str, Capture]) -> Traced:  # noqa: ARG001 - every task has these
    """Trace the construction of the model and one pass in eval mode.

    Recorded as ``step_<n>``: every array and list of numbers that a line of the user's makes, while constructing every such tensor too,
    with the line and the steps it was made of. As ``value_<n>``: what operations make of numbers alone, of neither inputs nor parameters
    nor draws. Values: ``inputs``.
    """
    numbers = _Numbers(session)
    tracer = Tracer(lambda value: numbers.table(value) if session.adapter.is_tensor(value) else _array(session, value), lambda _: None)
    session.seed()
    if isinstance(session.adapter, Observing):
        with session.adapter.operations(numbers), tracer.watching():
            model = session.adapter.place(session.function("build_model")())
        numbers.constructing = False
        numbers.keep([entry.tensor for entry in session.entries(model) if entry.role == "buffer"])
        inputs = session.inputs(values["inputs"], NATIVE)
        numbers.exclude([entry.tensor for entry in session.entries(model) if entry.role == "parameter"])
        numbers.exclude([leaf for _, leaf in leaves(inputs, session.adapter.is_tensor) if session.adapter.is_tensor(leaf)])
        session.adapter.train(model, "eval")
        with session.passing(), session.adapter.operations(numbers), tracer.watching():
            session.call(inputs, model)
    ids: List[int] = []
    for step in tracer.steps:
        known = tuple(ids[n] for n in step.inputs)
        attrs = {"kind": step.kind, "number": step.number, "function": step.function}
        digest = moments(step.value)
        name = f"step_{step.number}"
        ids.append(writer.add(name, step.value, role="sample", op=step.op, source=step.source, inputs=known, digest=digest, attrs=attrs).id)
    for number, value in enumerate(numbers.values):
        writer.add(f"value_{number}", value, role="sample", attrs={"kind": "operation"})
    return Traced(tracer.exhausted)


def _array(session: Session, value: Any) -> "Optional[Typed]":
    """What a line makes without a framework, as an array.

    Arrays of numpy and lists of numbers are; None for all else.
    """
    if isinstance(value, (list, tuple)):
        if not value or not all(isinstance(item, (int, float)) for item in value):
            return None
        value = np.asarray(value)
    elif isinstance(value, bool) or not isinstance(value, (int, float, np.ndarray, np.generic)):
        return None
    try:
        found = to_value(value, session.adapter)
    except UnsupportedTensor:
        return None
    if not isinstance(found, str) and found.array.size <= ELEMENTS:
        return found
    return None


class _Numbers:
    """A sink that keeps what operations make of numbers alone: of no input, parameter or draw."""

    def __init__(self, session: Session) -> None:
        self.values: List[Typed] = []
        self._adapter = session.adapter
        self._others: Dict[int, Any] = {}
        self._foreign = False
        self._reading = False
        self.constructing = True

    def table(self, tensor: Any) -> "Optional[Typed]":
        """A tensor that the constructor makes of numbers alone, no draw among them.

        None for all others.
        """
        if not self.constructing or self._is_excluded(tensor):
            return None
        self._reading = True  # what that takes is no operation of the model
        try:
            size = np.prod(self._adapter.describe(tensor)[1], dtype=np.int64)  # type: ignore[attr-defined]
            return self._adapter.to_array(tensor) if size <= TABLE else None
        except UnsupportedTensor:
            return None
        finally:
            self._reading = False

    def exclude(self, tensors: List[Any]) -> None:
        """Take note of tensors that are more than numbers."""
        for tensor in tensors:
            with suppress(TypeError):
                self._others[id(tensor)] = weakref.ref(tensor)

    def before(self, inputs: List[Any]) -> None:
        """See of what an operation computes, before it changes that."""
        self._foreign = any(self._is_excluded(tensor) for tensor in inputs)

    def _is_excluded(self, tensor: Any) -> bool:
        known = self._others.get(id(tensor))
        return known is not None and known() is tensor

    def after(self, operation: Operation) -> None:
        """Keep what it made, or take note that it is more than numbers."""
        if self._reading:
            return
        if self._foreign or operation.random:
            self.exclude(operation.outputs)
        else:
            self.keep(operation.outputs)

    def keep(self, tensors: List[Any]) -> None:
        """Keep the values of tensors as they are now."""
        for tensor in tensors if len(self.values) < VALUES else ():
            with suppress(UnsupportedTensor):
                if 1 < np.prod(self._adapter.describe(tensor)[1], dtype=np.int64) <= ELEMENTS:  # type: ignore[attr-defined]
                    value = self._adapter.to_array(tensor)
                    self.values.append(value._replace(array=value.array.copy()))
