"""Operations that compute in a lower precision than the model is given.

Everything that it is given is float64: it casts by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

import numpy as np

from paralign.adapters._kinds import MOVES
from paralign.adapters.base import Observing
from paralign.dtypes import EPS, is_complex, is_floating, widen
from paralign.errors import UnsupportedTensor
from paralign.worker.predictions.program import predict
from paralign.worker.protocol import Lowered, LoweredPlaces
from paralign.worker.sides.session import DOUBLE
from paralign.worker.steps.training import MODES, optimizer_of, scalar_of, trainer
from paralign.worker.values.trees import mapped

if TYPE_CHECKING:
    from paralign.adapters.base import Operation
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session


def lowered(session: Session, writer: CaptureWriter, options: Lowered, values: Dict[str, Capture]) -> LoweredPlaces:  # noqa: ARG001 - every task has these
    """Watch the element types of one float64 run.

    Values: ``inputs``, ``labels``; for the loss ``outputs`` in place of the inputs.
    """
    if not isinstance(session.adapter, Observing):
        return LoweredPlaces([], watched=False)
    predicting = options.stage == "infer"
    watch = _Coarse(session) if predicting else _Lowered(session)
    act = {"forward": _forward, "loss": _loss, "backward": _step, "infer": _infer}[options.stage]
    with session.untouched() as state:
        session.to_double(mixed=not predicting)  # as predictions in float64 are made
        try:
            act(session, watch, options, values)
        finally:
            if predicting:
                session.restore(state)
    return LoweredPlaces(list(watch.found))


def _forward(session: Session, watch: "_Lowered", options: Lowered, values: Dict[str, Capture]) -> None:  # noqa: ARG001 - one of three
    adapter: Any = session.adapter
    inputs = session.inputs(values["inputs"], DOUBLE)
    adapter.train(session.model, "eval")
    session.seed()
    with session.passing(), adapter.operations(watch, session.model):
        session.call(inputs)


def _loss(session: Session, watch: "_Lowered", options: Lowered, values: Dict[str, Capture]) -> None:  # noqa: ARG001 - one of three
    adapter: Any = session.adapter
    given = session.tree(values["outputs"], "output", DOUBLE, values_of=DOUBLE)
    outputs = mapped(given, lambda value: adapter.watch(value) if adapter.is_tensor(value) else value)
    labels = session.tree(values["labels"], "labels", DOUBLE)
    session.seed()
    with adapter.operations(watch):
        adapter.backward(scalar_of(session.function("loss")(outputs, labels), adapter.is_tensor))


def _step(session: Session, watch: "_Lowered", options: Lowered, values: Dict[str, Capture]) -> None:
    adapter: Any = trainer(session)
    inputs, labels = session.inputs(values["inputs"], DOUBLE), session.tree(values["labels"], "labels", DOUBLE)
    adapter.train(session.model, MODES[options.mode])
    session.seed()
    adapter.clear_gradients(session.model, None)
    optimizer = optimizer_of(session)[0] if options.update else None
    with adapter.operations(watch, session.model):
        result = session.function("loss")(session.call(inputs), labels)
        adapter.backward(scalar_of(result, adapter.is_tensor))
        if optimizer is not None:
            adapter.step(optimizer)


def _infer(session: Session, watch: "_Lowered", options: Lowered, values: Dict[str, Capture]) -> None:  # noqa: ARG001 - as above
    adapter: Any = session.adapter
    adapter.train(session.model, "eval")
    session.seed()
    with session.passing(), adapter.operations(watch, session.model):
        for path in options.paths:
            predict(session, path)


class _Lowered:
    """A sink that notes which operations round to less than float64.

    What only moves values does not round, nor does what makes whole numbers (masks, counts) or fills in constants. Kernels that give
    something in float64 too compute in it, whatever they keep beside it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._adapter: Any = session.adapter
        self.found: Dict[str, None] = {}

    def before(self, inputs: List[Any]) -> None:
        """Nothing is to be seen before an operation."""

    def after(self, operation: Operation) -> None:
        """Note an operation whose floating results are all in a lower precision, and rounded."""
        made = [tensor for tensor in operation.outputs if _is_real(self._dtype(tensor))]
        given = [tensor for tensor in operation.inputs if _is_real(self._dtype(tensor))]
        if not made or not given or operation.random or any(self._dtype(tensor) == DOUBLE for tensor in made):
            return
        moved = operation.kind in MOVES and all(self._dtype(tensor) != DOUBLE for tensor in given)
        if moved or all(self._is_exact(tensor, operation.kind, given) for tensor in made):
            return
        line = operation.stack[0].rpartition("/")[2] if operation.stack else operation.op
        self.found[f"{operation.module or 'the model'} ({self._dtype(made[0])}, {line})"] = None

    def _dtype(self, tensor: Any) -> str:
        try:
            return str(self._adapter.describe(tensor)[0])
        except UnsupportedTensor:
            return ""

    def _is_exact(self, tensor: Any, kind: str, given: List[Any]) -> bool:
        """Whether a result holds whole numbers, or what was cast and has lost nothing."""
        try:
            value = widen(self._adapter.to_array(tensor))
            if bool(np.all(value == np.rint(value))):
                return True
            if kind not in MOVES:
                return False
            return len(given) == 1 and bool(np.array_equal(value, widen(self._adapter.to_array(given[0]))))
        except UnsupportedTensor:
            return False


class _Coarse(_Lowered):
    """A sink that notes which operations take or make rounded numbers of less than float64.

    Whole numbers (masks, counts, words) are none.
    """

    def after(self, operation: Operation) -> None:
        """Note an operation that something in a lower precision goes into or comes out of."""
        for tensor in [*operation.inputs, *operation.outputs]:
            dtype = self._dtype(tensor)
            if not _is_real(dtype) or dtype == DOUBLE or self._is_exact(tensor, "", []):
                continue
            line = operation.stack[0].rpartition("/")[2] if operation.stack else operation.op
            self.found[f"{operation.module or 'the program'} ({dtype}, {line})"] = None
            return


def _is_real(dtype: str) -> bool:
    return is_floating(dtype) and not is_complex(dtype) and dtype in EPS
