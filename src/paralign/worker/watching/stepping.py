"""Steps of the optimizer with every operation watched, from gradients that are given.

The records are those of :mod:`paralign.worker.watching.operations`; the outputs are the parameters after the last step, under the
reference's names. A parameter hardly moves in one step, so a digest of it would show nothing of what moved it: a value near a
parameter (``NEAR``) has the digest of its difference from the parameter as that was before the step.
"""

from __future__ import annotations

import math
import sys
import weakref
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Tuple

from paralign.adapters._operations import unwatched
from paralign.adapters.base import Observing
from paralign.dtypes import Typed
from paralign.errors import UsageError
from paralign.worker.optimization.optimizers import apart
from paralign.worker.optimization.schedule import advance_after
from paralign.worker.passes.forward import attempt_run
from paralign.worker.protocol import Ran, Stepping, WatchedPass
from paralign.worker.sides.session import NATIVE, Session
from paralign.worker.steps.training import trainer
from paralign.worker.steps.update import give, prepared
from paralign.worker.values.fingerprints import Fingerprint
from paralign.worker.watching.fused import taken_apart
from paralign.worker.watching.operations import OperationRecorder

if TYPE_CHECKING:
    from types import FrameType

    from paralign.adapters.base import Operation
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.watching.operations import _Value

#: a value is near a parameter where it differs by no more than the second share of it; below the first it is rounding that differs
STILL, NEAR = 1e-9, 0.25

#: what differences from a parameter are multiplied by, so that none is taken for a value that was computed as it is
APART = 2.0**-30

#: numbers of the operations that another is taken apart into: its own and multiples of this
PARTS = 10**9


def stepping(session: Session, writer: "CaptureWriter", options: Stepping, values: "Dict[str, Capture]") -> Ran:
    """Watch the first steps from recorded gradients.

    What is done to other parameters alone is not recorded. Values: ``gradients``, and ``patches`` as of the task ``operations``.

    Raises:
        UsageError: operations of this framework cannot be watched.
    """
    answer = Ran()
    if not isinstance(session.adapter, Observing):
        raise UsageError(f"single operations of framework {session.adapter.name!r} cannot be watched", where=session.side)
    with session.untouched() as state:
        for run in options.runs:
            restore = None if run == NATIVE else partial(session.restore, state)
            attempt_run(answer, run, partial(_steps, session, writer, options, values, run), restore)
    return answer


def _steps(session: Session, writer: "CaptureWriter", options: Stepping, values: "Dict[str, Capture]", run: str) -> None:
    adapter: Any = trainer(session)
    optimizer, scheduler = prepared(session, run)
    apart(optimizer)
    adapter.clear_gradients(session.model, optimizer)
    recorder = StepRecorder(session, writer, run, options, values, sources_of(type(optimizer)))
    with recorder, adapter.operations(recorder):
        for number, (step, factor) in enumerate(options.steps):
            with unwatched():
                give(session, values["gradients"], options.given, step, factor)
                recorder.begin()
            adapter.step(optimizer)
            with unwatched():
                recorder.end()
                advance_after(adapter, optimizer, scheduler, options.pace, number + 1)
                adapter.clear_gradients(session.model, optimizer)


class StepRecorder(OperationRecorder):
    """A sink for the operations of steps."""

    def __init__(
        self,
        session: Session,
        writer: "CaptureWriter",
        run: str,
        options: Stepping,
        values: "Dict[str, Capture]",
        sources: Set[str],
    ) -> None:
        super().__init__(session, writer, run, options.watch, values)
        self._sources_of_rule = sources
        entries = [entry for entry in session.entries() if entry.role == "parameter" and entry.shared is None]
        watched = options.watched
        self._outputs = {watched[entry.name]: entry.tensor for entry in entries if entry.name in watched}
        self._others = [entry.tensor for entry in entries if entry.name not in watched]
        self._takes_apart = options.apart
        self._skips = False
        self._aside: Dict[int, Any] = {}
        self._gradients: Tuple[List[Any], Set[int]] = ([], set())
        self._begun: Dict[int, int] = {}
        self._before: Dict[int, Any] = {}
        self._anchors: List[Any] = []
        self._anchor_of: Dict[int, Any] = {}
        self._near: Any = None
        self._step = -1

    def begin(self) -> None:
        """A step begins: the gradients are in place."""
        self._step += 1
        self._gradients = [], set()
        for name, parameter in self._outputs.items():
            gradient = self.adapter.gradient(parameter)
            if gradient is not None:
                self._given[id(gradient)] = f"gradient {name}"
                self._gradients[0].append(gradient)
            self._anchors = self._anchors_of(parameter)
            record = self._begun[id(parameter)] = self._identify(parameter)
            self._before[id(parameter)] = self.adapter.from_array(_copied(self.adapter.to_array(parameter)))
            self._anchor_of[record] = self._before[id(parameter)]
        for parameter in self._others:
            self._put_aside(parameter)
            gradient = self.adapter.gradient(parameter)
            if gradient is not None:
                self._gradients[0].append(gradient)
                self._gradients[1].add(self.adapter.storage(gradient))
        self._gradients[1].discard(0)

    def end(self) -> None:
        """A step has ended; what changed parameters without being seen is found by what it left."""
        for parameter in self._outputs.values():
            self._anchors = self._anchors_of(parameter)
            if self._identify(parameter) == self._begun[id(parameter)] and self._has_moved(parameter):
                record = self._record("", parameter, role="input", attrs={"operation": "given"})
                self._known.pop(id(parameter), None)
                self._remember(parameter, record, seen=True)
        self.settle("outputs", self._outputs)

    def _has_moved(self, parameter: Any) -> bool:
        with self.adapter.no_grad():
            return bool((parameter != self._before[id(parameter)]).any())

    def before(self, inputs: List[Any]) -> None:
        """Know the inputs as they are now, unless the operation is none that is watched."""
        self._skips = self._is_others(inputs)
        if not self._skips:
            super().before(inputs)
            found = [self._anchor_of[record] for record in self._inputs if record in self._anchor_of]
            self._anchors = list({id(anchor): anchor for anchor in found}.values())

    def after(self, operation: "Operation") -> Optional[List[Any]]:
        """Record what an operation made."""
        if self._skips:
            for tensor in operation.outputs:
                self._put_aside(tensor)
            return None
        if not operation.stack:
            operation = replace(operation, stack=self._rule_line())
        parts = taken_apart(operation) if self._takes_apart else None
        if parts is None:
            return super().after(operation)
        inputs, self._inputs = self._inputs, []
        names = {id(tensor): record for tensor, record in zip(operation.inputs, inputs)}
        for number, part in enumerate(parts.steps, 1):
            call = operation.index + number * PARTS
            source, keep = next(iter(operation.stack), None), (call, 0) in self._keep
            attrs = {"operation": part.kind, "stack": list(operation.stack[1:]), "arguments": part.arguments}
            taken = tuple(names[id(tensor)] for tensor in part.inputs)
            fields: Dict[str, Any] = {"call": call, "op": operation.op, "source": source, "inputs": taken, "attrs": attrs}
            names[id(part.value)] = self._record("", part.value, role="output", keep=keep, **fields)
        self._inputs = [names[id(tensor)] for tensor in parts.last]
        return super().after(replace(operation, kind=parts.kind))

    def _rule_line(self) -> Tuple[str, ...]:
        """The line of the optimizer's own source that runs, where no user's line has called."""
        frame: Optional[FrameType] = sys._getframe(1)  # noqa: SLF001 - as the adapters find lines
        while frame is not None and frame.f_code.co_filename not in self._sources_of_rule:
            frame = frame.f_back
        return () if frame is None else (f"{frame.f_code.co_filename}:{frame.f_lineno}",)

    # -- what is watched ---------------------------------------------------------------------------------------------------

    def _put_aside(self, tensor: Any) -> None:
        self._aside[id(tensor)] = weakref.ref(tensor)

    def _is_aside(self, tensor: Any) -> bool:
        found = self._aside.get(id(tensor))
        if found is not None and found() is tensor:
            return True
        if self._lookup(tensor) is not None:
            return False
        return bool(self._gradients[1]) and self.adapter.storage(tensor) in self._gradients[1]

    def _is_others(self, inputs: List[Any]) -> bool:
        """Whether an operation is about parameters that are not watched.

        What is watched may scale it, no more.
        """
        aside = [self._is_aside(tensor) for tensor in inputs]
        if not any(aside):
            return False
        sizes = [math.prod(self.adapter.describe(tensor)[1]) for tensor in inputs]
        most = max(size for size, is_aside in zip(sizes, aside) if is_aside)
        return not any(size >= most for size, is_aside in zip(sizes, aside) if not is_aside)

    # -- near a parameter --------------------------------------------------------------------------------------------------

    def _anchors_of(self, tensor: Any) -> List[Any]:
        known, own = self._lookup(tensor), self._before.get(id(tensor))
        found = self._anchor_of.get(known.record) if known is not None else None
        return [anchor for anchor in (own, found) if anchor is not None]

    def _identify(self, tensor: Any) -> int:
        kept, self._anchors = self._anchors, self._anchors_of(tensor)
        try:
            return super()._identify(tensor)
        finally:
            self._anchors = kept

    def _record(self, name: str, tensor: Any, *, moved: Optional[int] = None, keep: bool = False, **fields: Any) -> int:
        self._near = self._anchor_of.get(-1 if moved is None else moved)
        record = super()._record(name, tensor, moved=moved, keep=keep, step=max(0, self._step), **fields)
        if self._near is not None:
            self._anchor_of[record] = self._near
        return record

    def _fingerprint(self, tensor: Any, known: "Optional[_Value]", kind: str, dtype: str = "") -> Fingerprint:
        """The digest of a value, or of its difference from the parameter that it is near.

        There is no sketch, as layouts may differ.
        """
        if known is not None and kind in ("view", "copy"):
            return Fingerprint(known.digest, None, known.rest)
        for anchor in self._anchors:
            change = self._change(tensor, anchor)
            if change is not None:
                self._near = anchor
                return Fingerprint(super()._fingerprint(change, None, "").digest, None, None)
        return super()._fingerprint(tensor, known, kind, dtype)._replace(sketch=None)

    def _change(self, tensor: Any, anchor: Any) -> Any:
        """What was added to a parameter, times ``APART``; None where it is no small part of it."""
        kinds, shapes = zip(self.adapter.describe(tensor), self.adapter.describe(anchor))
        if shapes[0] != shapes[1] or kinds[0] != kinds[1]:
            return None
        with self.adapter.no_grad():
            change = tensor - anchor
            far, whole = float((change * change).sum()), float((anchor * anchor).sum())
            return change * APART if STILL**2 * whole < far <= NEAR**2 * whole else None

    def _say_layers(self, said: WatchedPass) -> None:
        """Nothing: no module runs in a step."""


def sources_of(cls: type) -> Set[str]:
    """The files of a class and its bases, without the common base of optimizers."""
    own = [c for c in cls.__mro__[:-1] if c.__name__ != "Optimizer"]
    return {file for c in own if (file := getattr(sys.modules.get(c.__module__), "__file__", None))}


def _copied(value: Typed) -> Typed:
    return Typed(value.array.copy(), value.dtype)
