"""The port answers before the reference does.

Recorders of the two sides keep this order.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paralign.capture import Capture, CaptureWriter, clear
from paralign.errors import WorkerFailed
from paralign.model import Manifest
from paralign.run.process import Process
from paralign.run.recorder import Recorder
from paralign.verification.code_in_memory import code_of
from paralign.worker.protocol import Backward, Forward, Load, Loss, Operations

if TYPE_CHECKING:
    from paralign.worker.protocol import Task

#: tasks whose results are answers; the others carry weights over, and tell nothing of what the reference computes
ANSWERS = frozenset({Forward.task, Loss.task, Backward.task, Operations.task})

#: seconds that a wait looks again whether the check was ended
_LOOK = 0.5


@dataclass
class Turn:
    """Which of the port's answers are given: the names of its captures.

    ``free``: passes are no answers yet. While weights are carried over, passes of both sides show which place a tensor goes to; no verdict
    comes from them.
    """

    given: set[str] = field(default_factory=set)
    free: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def give(self, name: str) -> None:
        """The port has answered, or failed to."""
        with self.changed:
            self.given.add(name)
            self.changed.notify_all()

    def asks(self, order: Task[Any]) -> bool:
        """Whether the result of a task is an answer."""
        return order.task in ANSWERS and not self.free

    def wait(self, name: str, seconds: float) -> bool:
        """Wait until the port has answered; False where it has not within so many seconds."""
        with self.changed:
            return self.changed.wait_for(lambda: name in self.given, seconds)


@dataclass
class Committed(Recorder):
    """The port's recorder: each answer comes from a fresh process, which ends with it.

    That process sees nothing of what the reference says.

    ``handed`` are the captures that its tasks were given; ``captures`` all that it made.
    ``code`` are the files of compiled code that its processes had loaded when they had answered.
    ``loaded`` are the weights that every process is given first.
    """

    turn: Turn = field(default_factory=Turn)
    handed: set[str] = field(default_factory=set)
    captures: list[Capture] = field(default_factory=list)
    code: set[str] = field(default_factory=set)
    loaded: Capture | None = None

    def record(
        self,
        name: str,
        order: Task[Any],
        values: dict[str, Capture] | None = None,
        *,
        prelude: bool = False,
    ) -> Capture:
        """As of any recorder."""
        values = {name: self._draws_of(each) if name == "draws" else each for name, each in (values or {}).items()}
        self.handed.update(str(capture.path.resolve()) for capture in values.values())
        if prelude and order.task == Load.task:
            self.loaded = (values or {}).get("state")
        answering = self.turn.asks(order)
        if answering:
            self._end_worker()  # what the model did in earlier tasks must not prepare the answer
        try:
            capture = super().record(name, order, values, prelude=prelude)
            self.captures.append(capture)
            if isinstance(self._worker, Process):
                self.code |= code_of(self._worker.pid)
            return capture
        finally:
            if answering:
                self._end_worker()
                self.turn.give(name)

    def _draws_of(self, reference: Capture) -> Capture:
        """What the reference drew, without anything that it computed."""
        folder = reference.path.parent / f"{reference.path.name}-draws"
        clear(folder)
        with CaptureWriter(folder, Manifest(side="reference", stage=reference.manifest.stage)) as writer:
            for record in reference.records:
                if record.attrs.get("operation") == "draw":
                    value = reference.value(record)
                    writer.add(record.name, value, role=record.role, run=record.run, step=record.step, attrs=record.attrs)
        return Capture.open(folder)


@dataclass
class Waiting(Recorder):
    """The reference's recorder: it answers only what the port has answered before.

    Passes that it draws numbers for are excepted.
    """

    turn: Turn = field(default_factory=Turn)
    timeout: float = 600.0

    def record(
        self,
        name: str,
        order: Task[Any],
        values: dict[str, Capture] | None = None,
        *,
        prelude: bool = False,
    ) -> Capture:
        """As of any recorder.

        Raises:
            WorkerFailed: as ever; or the port has not answered.
        """
        if self.turn.asks(order) and not _draws(order) and not self.turn.wait(name.removesuffix("-perturbed"), self.timeout):
            raise WorkerFailed("timeout", f"{name}: the candidate has not answered within {self.timeout:g} s", side="candidate")
        return super().record(name, order, values, prelude=prelude)


def _draws(order: Task[Any]) -> bool:
    """Whether a pass is to say which numbers it draws: the port draws them too, afterwards."""
    if isinstance(order, Operations):
        return order.watch.redraw.keep
    return isinstance(order, Backward) and order.redraw.keep
