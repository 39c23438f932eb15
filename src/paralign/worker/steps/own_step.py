"""The side's own ``train_step(model, optimizer, batch)``, run as it is.

What it returns, and what it does to the model.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

from paralign.adapters.base import KeepingRows, Observing
from paralign.errors import UnsupportedTensor, UsageError
from paralign.worker.calls.own_attributes import keep_attributes, keep_globals
from paralign.worker.datasets.feed import batches, form_of, joined, own_form
from paralign.worker.optimization.optimizers import construction, steps
from paralign.worker.optimization.schedule import advance_after
from paralign.worker.optimization.several import as_given
from paralign.worker.passes.forward import attempt_run, perturbed
from paralign.worker.process.files import system_folders
from paralign.worker.protocol import OwnStepped, OwnSteps
from paralign.worker.sides.session import DOUBLE, Session
from paralign.worker.steps.training import add_buffers, add_changes, add_gradient, drawing, optimizer_of, trainer
from paralign.worker.values.trees import leaves, to_value

if TYPE_CHECKING:
    from types import FrameType

    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed

#: the run under another seed: what changes with it is random
RESEEDED = "reseeded"

#: updates of one step whose gradients are recorded: a critic is often updated five times for each update of a generator
RECORDED = 8


def own_steps(session: Session, writer: "CaptureWriter", options: OwnSteps, values: "Dict[str, Capture]") -> OwnStepped:
    """Run steps of the side's ``train_step`` from the same weights on the same batches.

    They run in train mode without dropout.

    Recorded for every step: ``result`` (what
    ``train_step`` returned, as far as it is numbers and tensors; role ``scalar``); every parameter's whole change since the start under
    its name (role ``parameter``); buffers; and the gradients at the first calls of an optimizer's ``step`` (role ``gradient``, ``call``
    counts them). Where draws are kept, replaced or listed, everything random is on.
    """
    answer = OwnStepped(defined=defined_at(session, "train_step"))
    form = own_form(session) or form_of(values)
    with started_anew(session) as (state, restore):
        for run in options.runs:
            attempt_run(answer, run, partial(_steps, session, writer, run, state, options, values, form, answer), restore)
    return answer


def defined_at(session: Session, function: str) -> "Optional[str]":
    """The line that defines one of the side's functions; None where it has no code."""
    code = getattr(session.function(function), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


@contextmanager
def started_anew(session: Session) -> "Iterator[Tuple[Dict[str, Typed], Callable[[], None]]]":
    """The model's state as it is now, and what puts it back before another run of a step.

    Put back as well are the attributes and variables that the user's code keeps beside it.
    """
    with session.untouched() as state:
        attributes = keep_attributes(session.adapter, session.model)
        variables = keep_globals(session.functions)

        def restore() -> None:
            attributes()
            variables()
            session.restore(state)

        yield state, restore


def _steps(
    session: Session,
    writer: "CaptureWriter",
    run: str,
    state: "Dict[str, Typed]",
    options: OwnSteps,
    values: "Dict[str, Capture]",
    form: Dict[str, Any],
    answer: OwnStepped,
) -> None:
    adapter = trainer(session)
    if run == DOUBLE:
        session.to_double()
    given = batches(session, values, run)
    if run.startswith("perturbed"):
        given = [(perturbed(session, i, state, seed=int(run.rsplit("-", 1)[1])), labels) for i, labels in given]
    adapter.clear_gradients(session.model, None)
    mode = "quiet" if options.redraw is None else "apart"
    session.adapter.train(session.model, mode)
    session.seed()
    with construction(steps) as built:
        optimizer, scheduler = optimizer_of(session)
    answer.optimizer = built.source(next(iter(_optimizers(optimizer)), optimizer))
    counted = []
    for step in range(options.steps):
        inputs, labels = given[step % len(given)]
        batch = session.fresh(joined(inputs, labels, form))
        session.adapter.seed(session.base_seed + step + (1 if run == RESEEDED else 0))
        fields = {"run": run, "step": step}
        draws = None if options.redraw is None else drawing(session, writer, options.redraw, values.get("draws"), fields)
        seen = nullcontext() if draws is None else session.adapter.operations(draws, session.model)  # type: ignore[attr-defined] # asked for in drawing
        larger = _enlarged(session, options.enlarged)
        with larger, kept(session, session.model, mode), _watched(session, writer, optimizer, fields, answer) as calls, seen:
            result = session.function("train_step")(session.model, as_given(optimizer), batch)
        answer.random += [] if draws is None else [draws.random]
        counted.append(calls[0])
        advance_after(adapter, optimizer, scheduler, options.pace, step + 1)
        _add_result(session, writer, result, fields)
        add_changes(session, writer, state, fields)
        add_buffers(session, writer, fields, whole_numbers=0 < step < options.steps - 1)
    answer.updates[run] = counted


@contextmanager
def _enlarged(session: Session, factor: float) -> "Iterator[None]":
    """Multiply the gradient of every parameter as it arrives, inside.

    Raises:
        UsageError: the framework cannot, or a layer makes gradients of rows alone.
    """
    adapter, removed = session.adapter, []
    if factor != 1.0:
        if not isinstance(adapter, Observing) or (isinstance(adapter, KeepingRows) and adapter.row_parameters(session.model)):
            raise UsageError("gradients of this model cannot be made larger", where="train_step", hint="they are whole tensors elsewhere")
        parameters = {id(each): each for each in trainer(session).parameters(session.model)}
        removed = [adapter.on_gradient(each, lambda gradient: gradient * factor) for each in parameters.values()]
    try:
        yield
    finally:
        for remove in removed:
            if remove is not None:
                remove()


def _optimizers(made: Any) -> List[Any]:
    """The optimizers in what ``build_optimizer`` returned.

    Itself, or those in a list, tuple or dict.
    """
    made = as_given(made)
    parts = list(made.values()) if isinstance(made, dict) else list(made) if isinstance(made, (list, tuple)) else [made]
    return [part for part in parts if callable(getattr(part, "step", None))]


@contextmanager
def _watched(session: Session, writer: "CaptureWriter", made: Any, fields: Dict[str, Any], answer: OwnStepped) -> "Iterator[List[int]]":
    """Record gradients when an optimizer's ``step`` is called inside, and count the calls.

    Afterwards nothing is changed.
    """
    calls = [0]

    def note() -> None:
        if calls[0] < RECORDED:
            answer.line = answer.line or _caller()
            for name, gradient in trainer(session).gradients(session.model).items():
                add_gradient(session, writer, name, gradient, call=calls[0], **fields)
        calls[0] += 1

    with before_updates(made, note):
        yield calls


@contextmanager
def before_updates(made: Any, act: "Callable[[], None]") -> "Iterator[None]":
    """Do something whenever an optimizer's ``step`` is called inside.

    Afterwards nothing is changed.

    Args:
        made: what ``build_optimizer`` returned.
        act: done before each update.
    """
    kept = []

    def watch(optimizer: Any) -> None:
        step = optimizer.step
        kept.append((optimizer, vars(optimizer).get("step")))

        def watched(*args: Any, **kwargs: Any) -> Any:
            act()
            return step(*args, **kwargs)

        optimizer.step = watched

    for optimizer in _optimizers(made):
        watch(optimizer)
    try:
        yield
    finally:
        for optimizer, own in kept:
            if own is None:
                del optimizer.step
            else:
                optimizer.step = own


@contextmanager
def kept(session: Session, model: Any, training: str) -> Iterator[None]:
    """Keep a model's training mode where ``train_step`` itself calls ``model.train()``.

    ``quiet`` is the mode with dropout off.
    """

    def train(*args: Any, **kwargs: Any) -> Any:
        mode = kwargs.get("mode", args[0] if args else True)
        del model.train
        session.adapter.train(model, training if mode else "eval")
        model.train = train
        return model

    model.train = train
    try:
        yield
    finally:
        del model.train


def _caller() -> "Optional[str]":
    """The innermost line of the user's that led here."""
    folders = system_folders()
    frame: "Optional[FrameType]" = sys._getframe(2)  # noqa: SLF001 - the way to the caller's line
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith("<") and not any(path.startswith(folder) for folder in folders):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _add_result(session: Session, writer: "CaptureWriter", result: Any, fields: Dict[str, Any]) -> None:
    """Record what a step returned, as far as that can be recorded."""
    for path, leaf in leaves(result, session.adapter.is_tensor):
        try:
            value = to_value(leaf, session.adapter)
        except UnsupportedTensor as error:
            note = f"train_step returns {path or 'a value'} that is not compared: {error.what}"
            if note not in writer.manifest.notes:
                writer.manifest.notes.append(note)
            continue
        writer.add("result", value, role="scalar", leaf=path, **fields)
