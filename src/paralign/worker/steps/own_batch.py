"""The side's own training step, natively, on the first batch of its own loader.

Nothing is cast, as in the user's program. Other tasks hand both sides the same values in the model's own element type, so that a loader
whose batches the model does not take is not seen there.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from paralign.adapters._kinds import MOVES
from paralign.adapters.base import Casting, Observing
from paralign.dtypes import Typed, is_complex, is_floating, narrow, widen
from paralign.errors import UnsupportedTensor
from paralign.worker.datasets.data import split_batch
from paralign.worker.datasets.feed import tensors_of
from paralign.worker.optimization.several import as_given
from paralign.worker.protocol import OwnBatch, OwnBatchTaken
from paralign.worker.sides.frames import told
from paralign.worker.sides.session import HALVES, SINGLE
from paralign.worker.steps.own_step import defined_at, started_anew
from paralign.worker.steps.training import optimizer_of, scalar_of, trainer
from paralign.worker.values.trees import leaves, rebuild, structure, to_value

if TYPE_CHECKING:
    from paralign.adapters.base import Operation
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session


def own_batch(session: Session, writer: CaptureWriter, options: OwnBatch, values: Dict[str, Capture]) -> OwnBatchTaken:  # noqa: ARG001 - every task has these
    """Run the side's ``train_step`` once; without one, its model and its loss.

    The model's state and what the user's code keeps are put back. Arrays that a step does not take become tensors of the same type, as
    they do wherever paralign reads a loader.
    """
    answer, act = OwnBatchTaken(), _function_of(session, options.step)
    if act is None:
        return answer
    batch = _first(session, options.split)
    if batch is None:
        return answer
    batch = _cast(session, batch, options.types)
    answer.ran, answer.line = options.step, defined_at(session, options.step)
    answer.types = {path: _type_of(session, leaf) for path, leaf in leaves(batch, session.adapter.is_tensor)}
    given = [batch]
    if any(isinstance(leaf, np.ndarray) for _, leaf in leaves(batch, session.adapter.is_tensor)):
        given.append(tensors_of(session, batch))
    with started_anew(session) as (_, restore):
        for each in given:
            answer.raised = _raised(session, act, each)
            restore()
            if answer.raised is None:
                if not options.types:
                    _note_precisions(session, act, each, answer)
                    restore()
                break
    return answer


def _note_precisions(session: Session, act: Callable[[Any], Any], batch: Any, answer: OwnBatchTaken) -> None:
    """Run a step that is known to run once more, and note its precisions.

    Those are what automatic casts make of its operations.
    """
    adapter: Any = session.adapter
    if not isinstance(adapter, Observing) or not session.precisions() <= {SINGLE}:
        return
    casts = adapter.idle_casts(session.model) if isinstance(adapter, Casting) else nullcontext({})
    with casts as idle, adapter.operations(_Halves(session, answer), session.model):
        _raised(session, act, batch)
    answer.watched, answer.idle_casts = True, list(idle)


class _Halves:
    """A sink that counts the operations that compute in float16 or bfloat16."""

    def __init__(self, session: Session, answer: OwnBatchTaken) -> None:
        self._adapter: Any = session.adapter
        self._answer = answer

    def before(self, inputs: List[Any]) -> None:
        """Nothing is to be seen before an operation."""

    def after(self, operation: Operation) -> None:
        """Count an operation that makes something in a half precision, and does not only move it."""
        if operation.kind in MOVES:
            return
        for tensor in operation.outputs:
            try:
                dtype = str(self._adapter.describe(tensor)[0])
            except UnsupportedTensor:
                continue
            if dtype in HALVES:
                self._answer.halves[dtype] = self._answer.halves.get(dtype, 0) + 1
                self._answer.half_line = self._answer.half_line or next(iter(operation.stack), None)
                return


def _first(session: Session, split: str) -> Any:
    """The first batch of the side's loader.

    None where it gives none, or fails: the stages that read it tell that.
    """
    session.seed()
    try:
        return next(iter(session.function("build_dataloader")(split)), None)
    except Exception:  # noqa: BLE001 - a loader of the user's may raise anything
        return None


def _parts(session: Session, batch: Any) -> Tuple[Any, Any]:
    """The inputs and the labels of a batch, as tensors."""
    inputs, labels = split_batch(batch)
    return tensors_of(session, inputs, inputs=True), tensors_of(session, labels)


def _function_of(session: Session, step: str) -> Optional[Callable[[Any], Any]]:
    """What takes a batch; None where the side has no such function."""
    needed = {"train_step": ("train_step", "build_optimizer"), "loss": ("loss",), "metric": ("metric",)}[step]
    if any(name not in session.functions for name in ("build_dataloader", *needed)):
        return None

    def stepped(batch: Any) -> Any:
        optimizer, _ = optimizer_of(session)
        return session.function("train_step")(session.model, as_given(optimizer), batch)

    def differentiated(batch: Any) -> Any:
        inputs, labels = _parts(session, batch)
        result = session.function("loss")(session.call(inputs), labels)
        trainer(session).backward(scalar_of(result, session.adapter.is_tensor))
        return result

    def evaluated(batch: Any) -> Any:
        inputs, labels = _parts(session, batch)
        session.adapter.train(session.model, "eval")
        with session.adapter.no_grad():
            return session.function("metric")(session.call(inputs), labels)

    return {"train_step": stepped, "loss": differentiated, "metric": evaluated}[step]


def _raised(session: Session, act: Callable[[Any], Any], batch: Any) -> Any:
    """What a step raises on a batch; None where it takes it."""
    trainer(session).clear_gradients(session.model, None)
    session.adapter.train(session.model, "train")
    session.seed()
    try:
        act(session.fresh(batch))
    except Exception as error:  # noqa: BLE001 - the user's step may raise anything: it is what is asked for
        return told(error)
    return None


def _type_of(session: Session, leaf: Any) -> str:
    try:
        value = to_value(leaf, session.adapter)
    except UnsupportedTensor:
        return type(leaf).__name__
    return "text" if isinstance(value, str) else value.dtype


def _cast(session: Session, batch: Any, types: Dict[str, str]) -> Any:
    """A batch with some of its leaves in other element types, by path."""
    if not types:
        return batch
    known = session.adapter.is_tensor
    found = dict(leaves(batch, known))

    def leaf(path: str) -> Any:
        if path not in types:
            return found[path]
        value = to_value(found[path], session.adapter)
        if isinstance(value, str):
            return value
        made = _in_type(value, types[path])
        return session.adapter.from_array(made) if known(found[path]) else made.array

    return rebuild(structure(batch, known), leaf)


def _in_type(value: Typed, dtype: str) -> Typed:
    if is_floating(dtype) and not is_complex(dtype):
        return narrow(widen(value), dtype)
    return Typed(value.array.astype(dtype), dtype)
