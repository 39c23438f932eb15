"""The loss, and training steps: loss, learning rate, every gradient, every update."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from paralign.adapters.base import Observing, Training
from paralign.dtypes import Typed, is_floating, is_whole
from paralign.errors import UsageError
from paralign.worker.calls.own_attributes import keep_attributes
from paralign.worker.datasets.feed import batches
from paralign.worker.draws import repeating
from paralign.worker.draws.redrawing import Redrawing
from paralign.worker.optimization.optimizers import describe
from paralign.worker.optimization.schedule import Walk, advance_after, ahead
from paralign.worker.optimization.several import as_one, rates_of
from paralign.worker.passes.forward import attempt, attempt_run, perturbed
from paralign.worker.protocol import Ahead, Attached, AttachedOutputs, Backward, Forward, Loss, LossRan, Redraw, Stepped
from paralign.worker.sides.session import DOUBLE, NATIVE, Session
from paralign.worker.values.trees import leaves, mapped

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter

#: modes of the backward task -> mode of the adapter
MODES = {"eval": "differentiable", "train": "quiet"}

#: the same where draws are kept or put in place: every draw is to be seen
DRAWING = {"eval": "differentiable", "train": "apart"}


def trainer(session: Session) -> Training:
    """The session's adapter, which must have gradients.

    Raises:
        UsageError: it has not.
    """
    if not isinstance(session.adapter, Training):
        raise UsageError(
            f"framework {session.adapter.name!r} has no gradients",
            where=session.side,
            hint="leave the stages loss and backward out, or give a side of a framework that trains",
        )
    return session.adapter


def scalar_of(value: Any, known: Any) -> Any:
    """The scalar that is differentiated: the value, the entry ``loss``, or the first leaf.

    Raises:
        UsageError: there is no tensor in it.
    """
    if isinstance(value, dict) and "loss" in value:
        return value["loss"]
    for _, leaf in leaves(value, known):
        if known(leaf):
            return leaf
    raise UsageError(f"loss(outputs, labels) returned a {type(value).__name__} without a tensor", hint="return the loss as a scalar tensor")


def loss(session: Session, writer: CaptureWriter, options: Loss, values: Dict[str, Capture]) -> LossRan:
    """The loss of given outputs and labels, and its gradient with respect to the outputs.

    Both sides get the reference's outputs, so that a wrong model does not blur the loss.
    """
    answer, session.widens = LossRan(), options.widens
    for run in options.runs:
        attempt_run(answer, run, partial(_loss, session, writer, run, values))
    if answer.runs and not answer.runs[0].startswith("perturbed"):
        attempt(partial(_loss_repeat, session, answer, values), tolerate=True)
    return answer


def _loss(session: Session, writer: CaptureWriter, run: str, values: Dict[str, Capture]) -> None:
    outputs, result = _loss_pass(session, run, values, session.base_seed)
    session.save_tree(writer, "loss", result, run=run, role="scalar")
    for path, gradient in _loss_gradients(session, outputs):
        add_gradient(session, writer, "gradient", gradient, leaf=path, run=run)


def _loss_pass(session: Session, run: str, values: Dict[str, Capture], seed: int) -> Tuple[Any, Any]:
    """The outputs that were given and the loss of them, differentiated."""
    adapter, known = trainer(session), session.adapter.is_tensor

    def watch(value: Any) -> Any:
        return adapter.watch(value) if known(value) else value

    recorded = Forward.answer(values["outputs"]).runs
    given = session.tree(values["outputs"], "output", run, values_of=run if run in recorded else NATIVE, whole=True)
    if run.startswith("perturbed"):
        given = perturbed(session, given, {}, seed=int(run.rsplit("-", 1)[1]))
    outputs = mapped(given, watch)
    labels = session.tree(values["labels"], "labels", run)
    session.adapter.seed(seed)
    with session.in_precision_of(run):
        result = session.function("loss")(outputs, labels)
        adapter.backward(scalar_of(result, known))
    return outputs, result


def _loss_gradients(session: Session, outputs: Any) -> "List[Tuple[str, Any]]":
    """Path and gradient of every floating tensor among the outputs."""
    adapter, known = trainer(session), session.adapter.is_tensor
    tensors = [(path, leaf) for path, leaf in leaves(outputs, known) if known(leaf)]
    return [(path, adapter.gradient(leaf)) for path, leaf in tensors if is_floating(session.adapter.to_array(leaf).dtype)]


def _loss_repeat(session: Session, answer: LossRan, values: Dict[str, Capture]) -> None:
    """Measure how far the loss and its gradients are from themselves with another seed."""
    passes, run = [], answer.runs[0]
    for seed in (session.base_seed, session.base_seed + 1):
        outputs, result = _loss_pass(session, run, values, seed)
        found = {f"gradient {path}": repeating.sampled(session, gradient) for path, gradient in _loss_gradients(session, outputs)}
        found[repeating.LOSS] = repeating.sampled(session, scalar_of(result, session.adapter.is_tensor))
        passes.append(found)
    answer.repeat = repeating.farthest(*passes)


def attached(session: Session, writer: CaptureWriter, options: Attached, values: Dict[str, Capture]) -> AttachedOutputs:  # noqa: ARG001 - every task has these
    """Tell of each output tensor whether anything trainable lies behind it in training."""
    adapter, known, found = session.adapter, session.adapter.is_tensor, []
    if not isinstance(adapter, Observing):
        return AttachedOutputs(None)
    with session.untouched():
        session.adapter.train(session.model, MODES["eval"])
        session.seed()
        outputs = session.call(session.inputs(values["inputs"], NATIVE))
        for path, leaf in leaves(outputs, known):
            if known(leaf):
                remove = adapter.on_gradient(leaf, lambda _: None)
                found.append((path, remove is not None))
                if remove is not None:
                    remove()
    return AttachedOutputs(found)


def add_gradient(session: Session, writer: CaptureWriter, name: str, gradient: Any, **fields: Any) -> None:
    """Record a gradient, or that there is none."""
    value: Optional[Typed] = None if gradient is None else session.adapter.to_array(gradient)
    writer.add(name, value, role="gradient", **fields)


def backward(session: Session, writer: CaptureWriter, options: Backward, values: Dict[str, Capture]) -> Stepped:
    """Training steps on one batch, from the same weights, in eval and in train mode.

    In train mode dropout and other random layers are off; a model that is random all the same is not trained, and the answer
    says so. Where draws are kept or put in place everything random is on.

    Sparing runs are one forward and backward pass in train mode. Recorded for every step:
    ``loss`` and ``lr``; in train mode the first step's ``output``. In eval mode, every gradient, and after the last step every
    parameter's whole change under its name (role ``parameter``). In train mode, after the first step, every gradient: later steps would
    only multiply the differences of the first; and the buffers (:func:`add_buffers`), which may part later, as a pointer into a queue
    does that starts over at its end.
    """
    answer = Stepped()
    put_back = keep_attributes(session.adapter, session.model) if options.anew else _as_it_is
    with session.untouched() as state:
        for run in options.runs:
            for mode in options.modes:
                spare = options.sparing and f"{DOUBLE}:{mode}" in answer.runs
                training = _Training(session, writer, run, mode, state, scalars_only=spare)
                if options.redraw.keep or options.redraw.use:
                    training.drawing = partial(drawing, session, writer, options.redraw, values.get("draws"))
                training.pace, training.accumulate, training.put_back = options.pace, options.accumulate, put_back
                act = partial(training.perform, values, 0 if spare and mode == "train" else options.steps, answer)
                attempt_run(answer, f"{run}:{mode}", act, partial(session.restore, state))
        if options.ahead and options.steps:
            answer.schedule = ahead(session, writer, _walk(options.ahead), trainer(session), optimizer_of)
    return answer


def _as_it_is() -> None:
    """Leave the model's own attributes as a run has left them."""


def _walk(wanted: Ahead) -> Walk:
    return Walk(wanted.count, wanted.by_update, wanted.patience)


def optimizer_of(session: Session) -> Tuple[Any, Any]:
    """The optimizer that the user's code builds for the model, and its schedule or None.

    Several, in a list, tuple or dict, are one (:class:`paralign.worker.optimization.several.Several`).
    """
    optimizer = session.function("build_optimizer")(session.model)
    build_scheduler = session.functions.get("build_scheduler")
    return as_one(trainer(session), optimizer, build_scheduler(optimizer) if build_scheduler else None)


def part_of(given: "List[Tuple[Any, Any]]", step: int, accumulate: int) -> "List[Tuple[Any, Any]]":
    """The batches of a step; after the last comes the first again."""
    return [given[number % len(given)] for number in range(step * accumulate, (step + 1) * accumulate)]


def share(loss: Any, accumulate: int) -> Any:
    """A batch's share of the loss of a step: gradients that are accumulated make a mean."""
    return loss if accumulate == 1 else loss / accumulate


def train(session: Session, given: "List[Tuple[Any, Any]]", steps: int, accumulate: int = 1) -> None:
    """Train for some steps, in the mode and precision that the model is in.

    Nothing is recorded.

    Args:
        session: of the side.
        given: inputs and labels of the batches, one after the other; after the last the first again.
        steps: updates.
        accumulate: batches whose gradients make one update.
    """
    adapter = trainer(session)
    adapter.clear_gradients(session.model, None)
    optimizer, scheduler = optimizer_of(session)
    for number in range(steps):
        for inputs, labels in part_of(given, number, accumulate):
            result = session.function("loss")(session.call(session.fresh(inputs)), session.fresh(labels))
            adapter.backward(share(scalar_of(result, session.adapter.is_tensor), accumulate))
        adapter.step(optimizer)
        advance_after(adapter, optimizer, scheduler, 1, number + 1)
        adapter.clear_gradients(session.model, optimizer)


class _Training:
    """The steps of one run in one mode."""

    def __init__(
        self, session: Session, writer: CaptureWriter, run: str, mode: str, state: Dict[str, Typed], *, scalars_only: bool
    ) -> None:
        self.session, self.writer, self.run, self.mode, self.state = session, writer, run, mode, state
        self.drawing: Optional[Callable[[Dict[str, Any]], Redrawing]] = None
        self.scalars_only, self.pace, self.accumulate = scalars_only, 1, 1
        self.put_back: Callable[[], None] = _as_it_is
        self.first: Dict[str, Any] = {}
        self.adapter = trainer(session)

    def perform(self, values: Dict[str, Capture], steps: int, answer: Stepped) -> None:
        """Train and record."""
        session, adapter = self.session, self.adapter
        adapter.clear_gradients(session.model, None)  # a run that failed half-way has left its own
        if self.run == DOUBLE:
            session.to_double()
        given = batches(session, values, self.run)
        if self.run.startswith("perturbed"):
            seed = int(self.run.rsplit("-", 1)[1])
            given = [(perturbed(session, inputs, self.state, seed=seed), labels) for inputs, labels in given]
        mode = (MODES if self.drawing is None else DRAWING)[self.mode]
        session.adapter.train(session.model, mode)
        self._say_trained()
        if self.mode == "train" and self.drawing is None and _is_random(session, given[0][0], self.state, self.put_back):
            answer.random[self.run] = "two passes with different seeds differ although dropout layers are off"
            return
        self.put_back()
        session.adapter.train(session.model, mode)
        session.seed()
        optimizer, scheduler = optimizer_of(session) if steps else (None, None)
        answer.optimizer = answer.optimizer or ({} if optimizer is None else describe(session, optimizer))
        for step in range(max(1, steps)):
            said = self._one(step, part_of(given, step, self.accumulate), optimizer)
            if self.drawing is not None:
                answer.drawn.setdefault(f"{self.run}:{self.mode}", []).append(said)
            if steps:
                adapter.step(optimizer)
                advance_after(adapter, optimizer, scheduler, self.pace, step + 1)
            adapter.clear_gradients(session.model, optimizer)
            if self.mode == "train" and not self.scalars_only:
                add_buffers(session, self.writer, self._fields(step), whole_numbers=0 < step < steps - 1)
        if steps and self.mode == "eval":
            add_changes(session, self.writer, self.state, self._fields(steps - 1))
        if self.mode not in answer.repeat and self.drawing is None and not self.run.startswith("perturbed"):
            attempt(partial(self._repeat, part_of(given, 0, self.accumulate), answer), tolerate=True)

    def _repeat(self, given: "List[Tuple[Any, Any]]", answer: Stepped) -> None:
        """Measure how far the first step's gradients are from themselves with another seed.

        That is done when all steps are.
        """
        session, adapter = self.session, self.adapter
        precision = session.precisions()
        session.restore(self.state)
        for dtype in precision - session.precisions():
            session.cast(dtype)
        adapter.clear_gradients(session.model, None)
        self.put_back()
        session.adapter.seed(session.base_seed + 1)
        for inputs, labels in given:
            result = session.function("loss")(session.call(session.fresh(inputs)), session.fresh(labels))
            adapter.backward(share(scalar_of(result, session.adapter.is_tensor), len(given)))
        again = {name: repeating.sampled(session, each) for name, each in adapter.gradients(session.model).items()}
        adapter.clear_gradients(session.model, None)
        again[repeating.LOSS] = repeating.sampled(session, scalar_of(result, session.adapter.is_tensor))
        answer.repeat[self.mode] = repeating.farthest(self.first, again)

    def _fields(self, step: int) -> Dict[str, Any]:
        return {"run": f"{self.run}:{self.mode}", "step": step}

    def _say_trained(self) -> None:
        """Note in the capture that layers were in train mode in spite of eval mode's steps."""
        modes = self.session.adapter.mode(self.session.model) if self.mode == "eval" else None
        kinds = sorted({type(layer).__name__ for layer, training, *_ in modes or () if training})
        note = f"{', '.join(kinds)} ran in train mode without dropout: the kernels of recurrent layers have no backward pass in eval mode"
        if kinds and note not in self.writer.manifest.notes:
            self.writer.manifest.notes.append(note)

    def _one(self, step: int, given: "List[Tuple[Any, Any]]", optimizer: Any) -> "Tuple[int, int]":
        """Run forward and backward of one step; gives how many operations draw, and were given."""
        session, fields = self.session, self._fields(step)
        draws = None if self.drawing is None else self.drawing(fields)
        whole: Any = None
        last: Any = None
        for number, (inputs, labels) in enumerate(given):
            with nullcontext() if draws is None else session.adapter.operations(draws, session.model):  # type: ignore[attr-defined] # asked for in drawing
                outputs = session.call(session.fresh(inputs))
                result = session.function("loss")(outputs, session.fresh(labels))
            if step == number == 0 and self.mode == "train":
                session.save_tree(self.writer, "output", outputs, **fields)
            last = scalar_of(result, session.adapter.is_tensor)
            scalar = share(last, len(given))
            with nullcontext() if draws is None else draws.recomputing():
                self.adapter.backward(scalar)
            with session.adapter.no_grad():
                whole = result if len(given) == 1 else scalar if whole is None else whole + scalar
        session.save_tree(self.writer, "loss", whole, role="scalar", **fields)
        for group, rate in enumerate([] if optimizer is None else rates_of(self.adapter, optimizer)):
            self.writer.add("lr", np.float64(rate), role="scalar", leaf=str(group) if group else "", **fields)
        gradients = self.adapter.gradients(session.model)
        if step == 0 and self.drawing is None:
            self.first = {name: repeating.sampled(session, gradient) for name, gradient in gradients.items()}
            self.first[repeating.LOSS] = repeating.sampled(session, last)
        if step == 0 if self.mode == "train" else not self.scalars_only:
            for name, gradient in gradients.items():
                add_gradient(session, self.writer, name, gradient, **fields)
        random = [] if draws is None else draws.random
        return len(random), sum(said.given is not None for said in random)


def drawing(session: Session, writer: CaptureWriter, redraw: Redraw, given: "Optional[Capture]", fields: Dict[str, Any]) -> Redrawing:
    """What keeps the draws of a step, or puts others in their place.

    Raises:
        UsageError: the framework's operations cannot be watched.
    """
    if not isinstance(session.adapter, Observing):
        raise UsageError(f"single operations of framework {session.adapter.name!r} cannot be watched", where=session.side)
    return Redrawing(session.adapter, writer, fields["run"], replace(redraw, by_order=True), given, fields["step"])


def _is_random(session: Session, inputs: Any, state: Dict[str, Typed], put_back: Callable[[], None]) -> bool:
    """Whether two forward passes with different seeds differ; the state is put back."""
    seen = []
    precision = session.precisions()
    with session.passing():
        for seed in (session.base_seed, session.base_seed + 1):
            put_back()
            session.adapter.seed(seed)
            outputs = session.call(session.fresh(inputs))
            known = session.adapter.is_tensor
            seen.append([session.adapter.to_array(leaf).array.copy() for _, leaf in leaves(outputs, known) if known(leaf)])
            session.restore(state)
            for dtype in precision - session.precisions():
                session.cast(dtype)
    return any(not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(*seen))


def add_buffers(session: Session, writer: CaptureWriter, fields: Dict[str, Any], *, whole_numbers: bool = False) -> None:
    """Record every buffer of the model.

    Args:
        session: of the side.
        writer: takes the records.
        fields: of the records.
        whole_numbers: leave out floating ones, as between the first and the last step: what these hold then shows at the end as well.
    """
    from paralign.worker.sides.state import attributes

    for entry in session.entries():
        if entry.role != "buffer" or entry.shared is not None:
            continue
        value = session.adapter.to_array(entry.tensor)
        if not whole_numbers or is_whole(value.dtype):
            writer.add(entry.name, value, role="buffer", op=entry.kind, attrs=attributes(entry), **fields)


def add_changes(session: Session, writer: CaptureWriter, state: Dict[str, Typed], fields: Dict[str, Any]) -> None:
    """What the steps changed, parameter by parameter, in float64."""
    from paralign.dtypes import widen

    for entry in session.entries():
        if entry.role == "parameter" and entry.shared is None:
            after = widen(session.adapter.to_array(entry.tensor))
            before = widen(state[entry.name])
            writer.add(entry.name, after.astype(np.float64) - before, role="parameter", op=entry.kind, **fields)
