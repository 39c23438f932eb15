"""The program that users run.

Prediction from a path, and the exported model against the eager one.
"""

from __future__ import annotations

import inspect
import os
import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import numpy as np

from paralign.adapters.base import Exporting, Timing
from paralign.dtypes import Typed, is_complex, is_floating, widen
from paralign.errors import ParalignError, UsageError, message_of
from paralign.worker.datasets.data import add_leaves
from paralign.worker.passes.forward import nudge
from paralign.worker.predictions.output_order import in_order
from paralign.worker.protocol import Infer, Inferred, OperatorTimes, PartFailed
from paralign.worker.sides.frames import told
from paralign.worker.sides.session import NATIVE, Session
from paralign.worker.values.trees import leaves, mapped

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter


#: sizes of batches on which an exported program is tried besides that of the inputs: alone, and a number that no program was made for
BATCHES = (1, 3)

#: times that every weight is moved to one of its neighbours, at random: rounding adds up through the layers
UNITS = 4


def infer(session: Session, writer: CaptureWriter, options: Infer, values: Dict[str, Capture]) -> Inferred:
    """Run ``predict(path)`` for every given path, and the exported program.

    The latter runs beside the eager model on the same inputs.

    What a part raised is under ``failed`` of the answer, by part (``predict``, ``export``): the other part is recorded all the same.
    Recorded: ``predict_N`` (N counts the paths); ``eager`` and ``exported``, both as seen by this side,
    and again in runs ``batch-<size>`` for batches of other sizes. Of moved weights ``predict_N`` in runs ``moved-<seed>``.
    In float64 ``predict_N`` alone.
    """
    answer = Inferred(0, "no export(model, path)")
    if options.moved:
        _moved(session, writer, options, answer)
        return answer
    if options.double:
        _doubled(session, writer, options, answer)
        return answer
    with session.untouched():
        session.adapter.train(session.model, "eval")
        session.seed()
        with session.passing():
            if "predict" in session.functions:
                answer.failed.update(_predictions(session, writer, options.paths, answer))
            if "export" in session.functions and "inputs" in values:
                timed = answer if options.operators else None
                try:
                    answer.export = _export(session, writer, values["inputs"], timed)
                except Exception as error:  # noqa: BLE001 - the user's code may raise anything; it is told as this part's failure
                    answer.export = "failed"
                    answer.failed["export"] = PartFailed(told(error))
    return answer


def _moved(session: Session, writer: CaptureWriter, options: Infer, answer: Inferred) -> None:
    """Record predictions of a model whose weights are moved by rounding, for every seed.

    They are some units in the last place away.
    """
    with session.untouched() as state:
        floating = {n: v for n, v in state.items() if is_floating(v.dtype) and not is_complex(v.dtype) and not _is_whole(v)}
        for seed in options.moved:
            random, weights = np.random.RandomState(max(0, seed)), floating
            for _ in range(UNITS if seed >= 0 else 0):
                weights = {name: nudge(value, random) for name, value in weights.items()}
            session.adapter.load_state(session.model, weights)
            session.adapter.train(session.model, "eval")
            session.seed()
            with session.passing():
                answer.failed.update(_predictions(session, writer, options.paths, answer, run=f"moved-{seed}"))


def _is_whole(value: Typed) -> bool:
    """Whether a tensor holds whole numbers alone, which no rounding moves."""
    wide = widen(value)
    return bool(np.isfinite(wide).all() and (wide == np.round(wide)).all())


def _doubled(session: Session, writer: CaptureWriter, options: Infer, answer: Inferred) -> None:
    """Record predictions of the model in float64.

    A program that turns its inputs to float32 by itself may fail then.
    """
    with session.untouched() as state:
        session.to_double(mixed=False)  # a program that makes its inputs in float32 computes in it
        try:
            session.adapter.train(session.model, "eval")
            session.seed()
            with session.passing():
                answer.failed.update(_predictions(session, writer, options.paths, answer))
        finally:
            session.restore(state)


def _predictions(session: Session, writer: CaptureWriter, paths: List[str], answer: Inferred, run: str = "") -> Dict[str, PartFailed]:
    """Record ``predict(path)`` of every path.

    What it raised under ``predict``, nothing where it gave all.

    Raises:
        UsageError: a path is not there.
    """
    for number, path in enumerate(paths):
        try:
            found = predict(session, path)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            return {"predict": PartFailed(told(error), path)}
        add_leaves(session, writer, f"predict_{number}", found, role="output", attrs={"path": path}, run=run)
        answer.predictions += 1
    return {}


def predict(session: Session, path: str) -> Any:
    """Call ``predict(path)``, or ``predict(path, model)`` where it takes one.

    The model is the checked one.
    """
    if not os.path.exists(path):
        raise UsageError(
            "a path to predict from is not there", where=path, hint="set [infer] paths to files that exist, relative to paralign.toml"
        )
    predict = session.function("predict")
    call = session.beside.wrapped(session, "predict", lambda: predict(path, session.model) if takes(predict, 2) else predict(path))
    return call()


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with this many positional arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True


def _export(session: Session, writer: CaptureWriter, inputs: Capture, timed: Optional[Inferred]) -> str:
    """The exported program beside the eager model.

    ``timed`` gets its operators' times, where it is given.
    """
    adapter = session.adapter
    if not isinstance(adapter, Exporting):
        return f"framework {adapter.name} has no exported programs"
    arguments = session.inputs(inputs, NATIVE)
    with tempfile.TemporaryDirectory(prefix="paralign-export-") as folder:
        path = os.path.join(folder, "model")
        written = session.function("export")(session.model, path) or path
        session.adapter.train(session.model, "eval")
        eager, known = session.call(arguments), adapter.is_tensor
        add_leaves(session, writer, "eager", eager, role="output")
        arrays = [adapter.to_array(leaf).array for _, leaf in leaves(arguments, known) if known(leaf)]
        exported, order = in_order(session, eager, adapter.run_exported(str(written), arrays))
        add_leaves(session, writer, "exported", exported, role="output")
        if timed is not None:
            timed.operators = _operator_times(adapter, str(written), arrays)
        fixed = _other_batches(session, writer, inputs, str(written))
    told = f"compared; its outputs come in the order of their names: {', '.join(order)}" if order else "compared"
    return told + (f"; it takes no other batch size than that of the inputs ({fixed})" if fixed else "")


def _operator_times(adapter: Any, path: str, arrays: List[Any]) -> OperatorTimes:
    if not isinstance(adapter, Timing):
        return OperatorTimes(f"framework {adapter.name} gives no times of operators", [])
    try:
        return OperatorTimes("", list(adapter.operator_times(path, arrays)))
    except ParalignError as error:
        return OperatorTimes(error.what, [])


def _other_batches(session: Session, writer: CaptureWriter, inputs: Capture, path: str) -> str:
    """Run the program on batches of other sizes, in runs ``batch-<size>``.

    Gives why it takes none, '' where it takes one or none can be made.

    A program that was exported for one size is no fault: it is said. One that takes a size and computes something else is.
    """
    adapter: Any = session.adapter
    known, why, taken = adapter.is_tensor, "", 0
    for size in BATCHES:
        arguments = session.inputs(inputs, NATIVE)
        lengths = {tuple(leaf.shape)[:1] for _, leaf in leaves(arguments, known) if known(leaf)}
        if len(lengths) != 1 or not all(lengths) or lengths == {(size,)}:
            continue  # no batch, or this very size
        resized = mapped(arguments, partial(_resized, session, size=size))
        try:
            eager = session.call(resized)
            arrays = [adapter.to_array(leaf).array for _, leaf in leaves(resized, known) if known(leaf)]
            exported = adapter.run_exported(path, arrays)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises for a shape that it was not made for
            why = (message_of(error).strip().splitlines() or [type(error).__name__])[0]
            continue
        taken += 1
        add_leaves(session, writer, "eager", eager, role="output", run=f"batch-{size}")
        add_leaves(session, writer, "exported", in_order(session, eager, exported)[0], role="output", run=f"batch-{size}")
    return "" if taken else why


def _resized(session: Session, leaf: Any, size: int) -> Any:
    """A tensor with so many rows: its own, repeated where there are too few."""
    adapter = session.adapter
    if not adapter.is_tensor(leaf):
        return leaf
    value = adapter.to_array(leaf)
    rows = np.arange(size) % len(value.array)
    return adapter.from_array(value._replace(array=np.ascontiguousarray(value.array[rows])))
