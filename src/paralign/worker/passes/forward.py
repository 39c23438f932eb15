"""One forward pass in eval mode, in one or several precisions.

Every module call is recorded beside the outputs.
"""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import numpy as np

from paralign.adapters.base import Casting
from paralign.capture.digest import moments
from paralign.dtypes import Typed, is_complex, is_floating, typed, widen
from paralign.errors import message_of
from paralign.model import Pass
from paralign.worker.calls.effects import Effects, classes_of, told_changes
from paralign.worker.datasets.feed import name_of
from paralign.worker.passes.asking import asked
from paralign.worker.protocol import Called, Calls, Forward, LayersTold, Passed, Ran
from paralign.worker.sides.session import DOUBLE, NATIVE, Session
from paralign.worker.values.trees import leaves, mapped

if TYPE_CHECKING:
    from paralign.adapters.base import Call
    from paralign.capture import Capture, CaptureWriter

#: tensors whose digests are remembered; they are kept alive for as long
RECENT = 4


def forward(session: Session, writer: CaptureWriter, options: Forward, values: Dict[str, Capture]) -> Passed:
    """Outputs under the name ``output``; module calls under their paths, marked ``module``.

    A float64 run that fails is said in the answer, with the reason, and its records do not count; any other failure is the side's.
    """
    answer = Passed()
    with session.untouched() as state:
        for run in options.runs:
            attempt_run(answer, run, partial(_pass, session, writer, options, values["inputs"], run, state, answer))
        answer.asks = asked(session)
    return answer


def calls(session: Session, writer: CaptureWriter, options: Calls, values: Dict[str, Capture]) -> Called:  # noqa: ARG001 - every task has these
    """List all modules in the order in which one native eval pass first completes them.

    Nothing is recorded.
    """
    found: Dict[str, None] = {}
    with session.untouched():
        session.adapter.train(session.model, "eval")
        session.seed()
        arguments = session.inputs(values["inputs"], NATIVE)
        with session.passing(), session.adapter.observe(session.model, lambda call: found.setdefault(call.name)):
            session.call(arguments)
    return Called(list(found))


def attempt(act: Callable[[], None], tolerate: bool) -> str:
    """Do what the framework may not be able to do, and say why it could not.

    '' where it was done; without ``tolerate``, errors pass.
    """
    if not tolerate:
        act()
        return ""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - frameworks raise anything for a missing float64 kernel; the native run raises again what is the user's
        lines = message_of(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[-1] if lines else ''}"
    return ""


def attempt_run(answer: Ran, name: str, act: Callable[[], None], restore: Optional[Callable[[], None]] = None) -> None:
    """Attempt one of a task's runs and put the model back.

    How it went is noted in the answer, under ``runs`` or ``failed``.

    Only a float64 run may fail.

    Args:
        answer: of the task.
        name: of the run, as the answer is to have it; what follows a colon is no part of the precision.
        act: does what the run is about.
        restore: puts back what the run changed; None where that is not asked for.
    """
    problem = attempt(act, tolerate=Pass.of(name).precision == DOUBLE)
    if restore is not None:
        restore()
    if problem:
        answer.failed[name] = problem
    else:
        answer.runs.append(name)


def _pass(
    session: Session,
    writer: CaptureWriter,
    options: Forward,
    inputs: Capture,
    run: str,
    state: Dict[str, Typed],
    answer: Passed,
) -> None:
    adapter = session.adapter
    try:
        if run == DOUBLE:
            session.to_double()
        arguments = session.inputs(inputs, run)
        if run.startswith("perturbed"):
            arguments = perturbed(session, arguments, state, seed=int(run.rsplit("-", 1)[1]))
        if run == NATIVE:  # before the call: a model may change what it is given
            writer.flush()  # inputs have shards of their own: equal ones of several captures become one file
            session.save_tree(writer, "input", arguments, run=run, role="input")
            writer.flush()
        adapter.train(session.model, "eval")
        session.seed()
        watch = options.modules
        with session.passing():
            outputs = session.call(arguments) if watch == "none" else _observed(session, writer, options, run, arguments, answer)
        session.save_tree(writer, "output", outputs, run=run)
        for number in range(1, options.draws):
            _pass_further(session, writer, inputs, run, number, state, answer)
        if run == NATIVE and options.repeat:
            session.restore(state)
            session.seed()
            casts = session.adapter.idle_casts(session.model) if isinstance(session.adapter, Casting) else nullcontext({})
            with session.passing(), casts as idle:
                again = session.call(session.inputs(inputs, run))
            answer.repeat, answer.idle_casts = _distance(session, outputs, again), list(idle)
    finally:
        if run != NATIVE:
            session.restore(state)


def _observed(session: Session, writer: CaptureWriter, options: Forward, run: str, arguments: Any, answer: Passed) -> Any:
    """The outputs of a pass whose module calls are recorded.

    What a watched one changes is noted in the answer.
    """
    sink = ModuleRecorder(session, writer, run, full=options.modules == "full", plain=bool(options.watched))
    effects = Effects(session, options.watched, model=session.model) if options.watched and run == DOUBLE else None
    with session.adapter.observe(session.model, sink):
        outputs = session.call(arguments)
    if effects is not None:
        answer.layers = LayersTold(classes_of(session), sorted(sink.empty), sink.unread, told_changes(session, writer, effects))
    return outputs


def _pass_further(
    session: Session, writer: CaptureWriter, inputs: Capture, run: str, number: int, state: Dict[str, Typed], answer: Passed
) -> None:
    """Run one more pass, on inputs of its own, in the precision of the first.

    One that fails is noted in the answer.
    """

    def act() -> None:
        given = session.inputs(inputs, run, name_of("inputs", number))
        if run.startswith("perturbed"):
            given = perturbed(session, given, state, seed=int(run.rsplit("-", 1)[1]))
        session.seed()
        with session.passing():
            outputs = session.call(given)
        session.save_tree(writer, name_of("output", number), outputs, run=run)

    problem = attempt(act, tolerate=True)
    if problem:
        answer.lost[f"{run} {number}"] = problem


def _distance(session: Session, one: Any, other: Any) -> float:
    """The greatest relative L2 distance of two trees' floating leaves."""
    known, found = session.adapter.is_tensor, 0.0
    for (_, first), (_, second) in zip(leaves(one, known), leaves(other, known)):
        values = [widen(session.adapter.to_array(leaf)) if known(leaf) else None for leaf in (first, second)]
        if values[0] is None or values[1] is None or values[0].dtype.kind not in "fc" or values[0].shape != values[1].shape:
            continue
        size, far = float(np.linalg.norm(values[0])), float(np.linalg.norm(values[0].astype(np.complex128) - values[1]))
        found = max(found, far / size if size and np.isfinite(far) else 0.0)
    return found


def perturbed(session: Session, arguments: Any, state: Dict[str, Typed], seed: int) -> Any:
    """Move floating inputs by one unit in the last place, up or down.

    Where there are none, the floating state is moved.
    """
    random = np.random.RandomState(seed)
    adapter = session.adapter
    tensors = [leaf for _, leaf in leaves(arguments, adapter.is_tensor) if adapter.is_tensor(leaf)]
    floating = [leaf for leaf in tensors if is_floating(adapter.to_array(leaf).dtype)]
    if not floating:
        adapter.load_state(
            session.model, {n: nudge(v, random) for n, v in state.items() if is_floating(v.dtype) and not is_complex(v.dtype)}
        )
        return arguments

    def move(value: Any) -> Any:
        typed = adapter.to_array(value) if adapter.is_tensor(value) else None
        if typed is None or not is_floating(typed.dtype) or is_complex(typed.dtype):
            return value
        return adapter.from_array(nudge(typed, random))

    return mapped(arguments, move)


def nudge(value: Typed, random: np.random.RandomState) -> Typed:
    """Move every element to one of its two neighbours at random.

    Zero stays: it is no result of rounding, and what is below it may be no time, count or place. Raw types are moved by their bits.
    """
    up = random.randint(0, 2, value.array.shape).astype(bool)
    if value.array.dtype.kind == "f":
        towards = np.where(up, np.inf, -np.inf).astype(value.array.dtype)
        with np.errstate(over="ignore", under="ignore"):
            moved = np.nextafter(value.array, towards)
        movable = np.isfinite(moved) & np.isfinite(value.array) & (value.array != 0)
        return Typed(np.where(movable, moved, value.array), value.dtype)
    bits = value.array
    exact = widen(value)
    movable = np.isfinite(exact) & (exact != 0)
    moved = np.where(movable, bits + np.where(up, 1, -1).astype(bits.dtype), bits).astype(bits.dtype)
    return Typed(np.where(np.isfinite(widen(Typed(moved, value.dtype))), moved, bits), value.dtype)


class ModuleRecorder:
    """A sink for module calls: digests of inputs, digests and values of outputs.

    Values are kept in full captures alone.

    With ``plain``, numbers and texts that a layer gives back are outputs too. ``unread`` says which layers give back anything else,
    ``empty`` which give back nothing.

    A tensor that is handed on unchanged, as an output is to the next module, is digested once.
    """

    def __init__(self, session: Session, writer: CaptureWriter, run: str, *, full: bool, plain: bool = False) -> None:
        self.session, self.writer, self.run, self.full, self._plain = session, writer, run, full, plain
        self.unread: Dict[str, str] = {}
        self.empty: Set[str] = set()
        self._recent: "deque[Tuple[Any, int, str]]" = deque(maxlen=RECENT)

    def __call__(self, call: Call) -> None:
        """Record one call."""
        attrs = {"module": True, "kind": call.kind, "depth": call.depth, "leaf": call.leaf, **call.attrs}
        fields: Dict[str, Any] = {"run": self.run, "call": call.number, "op": call.op, "source": call.source, "attrs": attrs}
        inputs: List[int] = []
        for path, tensor in self._tensors(call.inputs):
            value, digest = self._seen(tensor)
            inputs.append(self.writer.add(call.name, value, role="input", leaf=path, keep=False, digest=digest, **fields).id)
        for path, tensor in self._tensors(call.outputs):
            value, digest = self._seen(tensor)
            self.writer.add(call.name, value, role="output", leaf=path, keep=self.full, digest=digest, inputs=tuple(inputs), **fields)
        for path, value in self._plain_leaves(call):
            self.writer.add(call.name, value, role="output", leaf=path, keep=self.full, digest=moments(value), **fields)

    def _plain_leaves(self, call: Call) -> "Iterator[Tuple[str, Typed]]":
        known = self.session.adapter.is_tensor
        found = list(leaves(call.outputs, known)) if self._plain else []
        if not found:
            self.empty.add(call.name)
        for path, leaf in found:
            if known(leaf):
                continue
            value = plain_array(leaf)
            if value is None:
                self.unread.setdefault(call.name, f"its outputs hold a {type(leaf).__name__}, which is not compared")
            else:
                yield path, value

    def _tensors(self, value: Any) -> "Iterator[Tuple[str, Any]]":
        known = self.session.adapter.is_tensor
        return ((path, leaf) for path, leaf in leaves(value, known) if known(leaf))

    def _seen(self, tensor: Any) -> Tuple[Typed, str]:
        """The values of a tensor and their digest.

        Digests of the few tensors seen last are remembered.
        """
        adapter = self.session.adapter
        value, version = adapter.to_array(tensor), adapter.version(tensor)
        for other, its_version, digest in self._recent:
            if other is tensor and its_version == version:
                return value, digest
        digest = moments(value)
        if version is not None:
            self._recent.append((tensor, version, digest))
        return value, digest


def plain_array(value: Any) -> Optional[Typed]:
    """A number or text as an array, a text by its bytes; None of anything else.

    >>> plain_array(2.5).array, plain_array("ab").array, plain_array(object())
    (array(2.5), array([97, 98], dtype=uint8), None)
    """
    if isinstance(value, (bool, int, float, complex, np.generic, np.ndarray)):
        found = np.asarray(value)
        return typed(found) if found.dtype.kind in "biufc" else plain_array(str(value))
    if isinstance(value, str):
        return typed(np.frombuffer(value.encode("utf-8", "surrogatepass"), np.uint8))
    if type(value).__name__ in ("dtype", "DataType"):
        return plain_array(str(value).rpartition(".")[2])
    return None


__all__ = ["DOUBLE", "NATIVE", "ModuleRecorder", "attempt", "attempt_run", "forward", "nudge", "perturbed"]
