"""The log of ``train(log)``, which watches the training.

It can put values of the other side in place.
"""

from __future__ import annotations

import math
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from paralign.adapters import _modes
from paralign.adapters.base import Observing, Training
from paralign.dtypes import Typed, is_complex, is_floating, widen
from paralign.errors import UsageError
from paralign.trainlog import Band, TrainLog
from paralign.trainlog.lines import EVAL, TRAIN, Row
from paralign.worker.draws.redrawing import Redrawing
from paralign.worker.process.files import PACKAGE, real_place, system_folders
from paralign.worker.protocol import Redraw
from paralign.worker.trainings.handed_outputs import Outputs
from paralign.worker.trainings.handover import Given, Keeping
from paralign.worker.trainings.witness import Witness

if TYPE_CHECKING:
    from paralign.adapters.base import Entry
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.protocol import Train
    from paralign.worker.sides.session import Session

#: elements of a model up to which all parameters are looked at after every step; of a larger one before the first and after the last only
LOOKED_AT = 20_000_000

#: a norm of all parameters so many times the first one is not a training any more
EXPLODED = 1e4

#: steps after the first beyond its bounds that are still made, so that a text can say whether the curves come together again
AFTER = 10

#: size of an element that is granted to parameters that start at zero
LEAST = 1e-2

#: the run under which draws are recorded
DRAWS = "draws"

#: names that the log keeps for itself
RATE = "rate"


class Stopped(BaseException):
    """The training is ended from outside.

    No ``except Exception`` of the user's takes it for a failure.
    """

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind, self.why = kind, why


@dataclass
class Step:
    """One step of a training.

    Where it stands, what the log was told, the rates that the optimizers had, and norms of the parameters after it.
    """

    epoch: int
    number: int
    samples: int
    values: Dict[str, float]
    rates: List[float] = field(default_factory=list)
    norm: float = math.nan
    moved: float = math.nan


class WatchedLog(TrainLog):
    """The log of a training under paralign's eyes; writes no files and prints nothing.

    Args:
        session: the side.
        writer: of the run's capture.
        orders: what the run is to be.
        given: captures of what is put in place: ``state`` (initial weights by this side's names), ``batches``, ``bounds``, ``forced``
            (parameters before single steps), ``draws`` and ``outputs`` (another training's, kept), ``band N`` (trainings whose band this
            one is ended for leaving).
        folder: a folder for files that the training writes, removed afterwards.
        resume: the training goes on from the checkpoint in it.
    """

    def __init__(
        self, session: "Session", writer: "CaptureWriter", orders: Train, given: "Dict[str, Capture]", folder: str, *, resume: bool = False
    ) -> None:
        super().__init__(None, every=1, show=False, rank=0, folder=folder, resume=resume, against=_band(given))
        self.seed = orders.seed
        self.checkpoints, self.resumed = 0, False
        self.orders, self.steps = orders, []  # type: Train, List[Step]
        self.models: List[Any] = []
        self.optimizers: List[Any] = []
        self.lines: Dict[str, Optional[str]] = {}
        self.problems: List[str] = []
        self._session, self._writer, self._state = session, writer, given.get("state")
        self._forced = _by_step(given.get("forced"))
        self.witness = Witness(session)
        self._drawn, self._sink = given.get("draws"), None  # type: Optional[Capture], Optional[Redrawing]
        self.draws: List[Tuple[int, int]] = []
        self.outputs = Outputs(session, writer, given.get("outputs")) if orders.outputs else None
        self.keeping = Keeping(session, writer) if orders.keep else None
        self.given = Given(session, given["batches"]) if "batches" in given else None
        self._bounds = _bounds(given.get("bounds"))
        self._parted: Optional[int] = None
        self._began = time.perf_counter()
        self._stack = ExitStack()
        self._inside = False
        self._random = None if orders.moved is None else np.random.RandomState(orders.moved)
        self.first: Dict[str, Any] = {}
        self._before: Dict[str, Any] = {}
        self._rates: List[float] = []

    # -- what the user calls ------------------------------------------------------------------------------------------------

    def model(self, model: Any) -> Any:
        """Take the model that is trained; gives it back.

        It is then on the side's device, with the initial weights that this run is to have.
        """
        session = self._session
        if not session.adapter.is_model(model):
            raise UsageError(f"log.model() takes the model, not a {type(model).__name__}", hint="model = log.model(build_model())")
        model = session.adapter.place(model)
        self.models.append(model)
        if len(self.models) == 1:
            self.lines["model"] = caller()
            if self._state is not None:
                self._load(model, self._state)
            self.first = self._before = self._parameters()
            if self.outputs is not None:
                self.outputs.attach(model)
            if self.orders.starts:
                self._record("start", 0)
        elif self._state is not None:
            self.problems.append(
                f"model {len(self.models)} has initial weights of its own: log.model() of one model that holds all gives equal ones"
            )
        return model

    def optimizer(self, optimizer: Any, scheduler: Any = None) -> Any:  # noqa: ARG002 - as the user's loop has it
        """Take an optimizer of the training, and record its rates before every step."""
        self.optimizers.append(optimizer)
        self.lines.setdefault("optimizer", caller())
        return optimizer

    def batches(self, loader: Iterable[Any], epoch: int) -> Iterator[Tuple[int, Any]]:
        """The batches of a loader with their numbers.

        Or those of the other training in their place.
        """
        source = loader if self.given is None else self.given.batches(loader, epoch)
        for number, batch in super().batches(source, epoch):
            self._own += self._timing(self._begin, batch, epoch, number)
            self._inside = True
            try:
                yield number, batch
            except GeneratorExit:  # the loop was left: what is wrong shows at the next step
                self._ended(epoch, number)
                self._end_epoch(epoch)
                raise
            self._ended(epoch, number)
            self._look()
        self._end_epoch(epoch)
        if self.given is not None and not self.given.is_whole(epoch):
            raise Stopped("steps", f"after {len(self.steps)} steps: the other training was stopped within epoch {epoch}")

    def step(self, samples: int, **values: Any) -> None:
        """What a batch came to: its size, and figures such as ``loss``, ``acc``."""
        super().step(samples, **values)
        if not self._inside:  # a loop that does not take its batches from the log
            number = len(self.steps)
            self._at = (0, number)
            self._end(0, number)
            self._write_interval()
            self._look()
            self._end_where_left()
            self._limit()

    def checkpoint(self, epoch: int, save: Any) -> None:
        """Count it; written only where the training is interrupted after it."""
        self.checkpoints += 1
        if self.orders.interrupt and not self.resuming:
            super().checkpoint(epoch, save)
            raise Stopped("checkpoint", f"after {len(self.steps)} steps, at the first checkpoint")

    def resume(self, load: Any) -> int:
        """The epoch to begin with."""
        self.resumed = self.resumed or self.resuming
        return super().resume(load)

    def _end_epoch(self, epoch: int) -> None:
        if self.keeping is not None:
            self.keeping.end(epoch)

    # -- around a step -------------------------------------------------------------------------------------------------------

    def _ended(self, epoch: int, number: int) -> None:
        self._inside = False
        self._synchronize()
        self._own += self._timing(self._end, epoch, number)

    def _timing(self, act: Any, *arguments: Any) -> float:
        began = time.perf_counter()
        act(*arguments)
        return time.perf_counter() - began

    def _limit(self) -> None:
        orders = self.orders
        if orders.steps is not None and len(self.steps) >= orders.steps:
            raise Stopped("steps", f"after {orders.steps} steps, as many as are compared one by one")
        if time.perf_counter() - self._began > orders.seconds:
            raise Stopped("time", f"after {len(self.steps)} steps: {orders.seconds:g} s have passed ([training] seconds)")

    def _begin(self, batch: Any, epoch: int, number: int) -> None:
        self._limit()
        adapter = self._session.adapter
        if self.keeping is not None:
            self.keeping.add(batch, epoch, number)
            if self.keeping.why:
                raise Stopped("batches", self.keeping.why)
        for model in self.models:
            self._prepare(model)
        if self.models and len(self.steps) < self.orders.states:
            self._record("before", len(self.steps))
        if len(self.steps) in self._forced:
            adapter.load_state(self.models[0], self._forced[len(self.steps)])
            self._before = self._parameters()
        if len(self.steps) == self.orders.watch:
            self.witness.open(self.models[0] if self.models else None)
        self._watch_draws()
        if self.outputs is not None:
            self.outputs.begin(len(self.steps))
        trains = adapter if isinstance(adapter, Training) else None
        self._rates = [] if trains is None else [rate for each in self.optimizers for rate in trains.learning_rates(each)]

    def _watch_draws(self) -> None:
        """Record what the operations of a step draw, or put another training's draws in place."""
        adapter, step = self._session.adapter, len(self.steps)
        if not self.orders.draws or not isinstance(adapter, Observing):
            return
        redraw = Redraw(keep=True)
        if self.orders.draws == "use":
            known = [] if self._drawn is None else self._drawn.select(role="sample", run=DRAWS, step=step)
            use = {r.name.rpartition(" ")[2]: r.name for r in known if r.name.split(" ")[1:][-1].isdigit()}
            redraw = Redraw(by_order=True, use=use)
        self._sink = Redrawing(adapter, self._writer, DRAWS, redraw, self._drawn, step)
        self._stack.enter_context(adapter.operations(self._sink, self.models[0] if self.models else None))

    def _prepare(self, model: Any) -> None:
        if self.orders.quiet:
            _modes.hush([module for _, module in self._session.adapter.modules(model)])
        if self._random is not None:
            _move(self._session, model, self._random)

    def _end(self, epoch: int, number: int) -> None:
        self.witness.close()
        self._stack.close()
        if self.outputs is not None:
            self.outputs.begin(None)
        if self._sink is not None:
            self.draws.append((len(self._sink.random), sum(said.given is not None for said in self._sink.random)))
            self._sink = None
        step = Step(epoch, number, self._interval.last_samples, dict(self._interval.last), self._rates)
        self.steps.append(step)
        if self.models and (self._small or not self._before):
            after = self._parameters()
            step.norm, step.moved = _norm(after.values()), _norm(after[n] - self._before[n] for n in after if n in self._before)
            self._before = after

    def _look(self) -> None:
        """End the training where it cannot come to anything any more."""
        step = self.steps[-1]
        where = f"epoch {step.epoch}, batch {step.number}"
        wrong = [name for name, value in step.values.items() if not math.isfinite(value)]
        if wrong:
            raise Stopped("nonfinite", f"{wrong[0]} is {step.values[wrong[0]]} at {where}")
        broken = [name for name, value in self._before.items() if not np.isfinite(value).all()]
        if broken:
            raise Stopped("nonfinite", f"the update at {where} makes {broken[0]} ({len(broken)} of {len(self._before)}) not finite")
        if step.norm > EXPLODED * max(_norm(self.first.values()), 1e-6):
            raise Stopped("exploded", f"the parameters' norm has grown to {step.norm:.3g} by {where}")
        self._compare(step)

    def _compare(self, step: Step) -> None:
        """Stop some steps after the first that is beyond what rounding explains."""
        at = len(self.steps) - 1
        for name, (values, allowed) in self._bounds.items():
            if self._parted is None and at < len(values) and name in step.values and abs(step.values[name] - values[at]) > allowed[at]:
                self._parted = at
        if self._parted is not None and at - self._parted >= AFTER:
            raise Stopped("parted", f"the curves part at step {self._parted}; {AFTER} more steps were made")

    def _part(self, why: str) -> None:
        raise Stopped("left", why)

    @property
    def _small(self) -> bool:
        return sum(int(value.size) for value in self.first.values()) <= LOOKED_AT

    def _parameters(self) -> Dict[str, Any]:
        return {e.name: _wide(self._session, e).copy() for e in self.entries() if e.role == "parameter"}

    def _record(self, run: str, step: int) -> None:
        for entry in self.entries():
            value = self._session.adapter.to_array(entry.tensor)
            self._writer.add(entry.name, value, role=entry.role, run=run, step=step, op=entry.kind)

    def grown(self) -> "Optional[str]":
        """The parameter that has grown most since the start; one that is not finite comes first."""
        with np.errstate(all="ignore"):
            sizes = {
                name: _norm([value]) / max(_norm([self.first[name]]), 1e-6) for name, value in self._before.items() if name in self.first
            }
        return max(sizes, key=lambda name: sizes[name] if math.isfinite(sizes[name]) else math.inf, default=None)

    def entries(self) -> "List[Entry]":
        """The tensors of the first model, each once."""
        if self.models:
            return [e for e in self._session.entries(self.models[0]) if e.shared is None]
        return []

    def close_watches(self) -> None:
        """Stop watching operations, whatever ended the training."""
        self.witness.close()
        self._stack.close()

    def moves(self) -> Dict[str, float]:
        """How far each parameter has moved from its start, as a share of its size.

        0 where it is the same bit for bit.
        """
        found = {}
        for entry in self.entries():
            if entry.name in self.first:
                start = self.first[entry.name]
                size = max(_norm([start]), LEAST * math.sqrt(max(start.size, 1)))
                found[entry.name] = _norm([_wide(self._session, entry) - start]) / size
        return {name: value if math.isfinite(value) else 1.0 for name, value in found.items()}

    def evaluations(self) -> "List[Tuple[int, int, Dict[str, float]]]":
        """Epoch, number of the step before it, and figures of every evaluation."""
        found, steps = [], 0
        for row in self.rows:
            if row.kind == EVAL:
                found.append((row.epoch, steps, row.values))
            else:
                steps += 1
        return found

    def _load(self, model: Any, state: "Capture") -> None:
        values = {r.name: state.value(r) for r in state.records if r.location is not None}
        known = {e.name for e in self._session.entries(model)}
        missing = [name for name in values if name not in known]
        if missing or not values:
            told = f"has no tensor {missing[0]!r}" if missing else "has no tensors"
            self.problems.append(
                f"the model given to log.model() {told}, as that of build_model() has: it keeps initial weights of its own"
            )
            return
        self._session.adapter.load_state(model, values)


def _by_step(capture: "Optional[Capture]") -> Dict[int, Dict[str, Typed]]:
    """Step -> parameters by name."""
    found: Dict[int, Dict[str, Typed]] = {}
    for record in [] if capture is None else [r for r in capture.records if r.role == "parameter" and r.run in ("", "before")]:
        found.setdefault(record.step, {})[record.name] = capture.value(record)  # type: ignore[union-attr]
    return found


def _band(given: "Dict[str, Capture]") -> "Optional[Band]":
    """The band of the trainings that are given.

    None without any, or where they have no figure in common.
    """
    captures = [capture for name, capture in given.items() if name.startswith("band ")]
    if captures:
        return Band.of_rows([_rows(capture) for capture in captures])
    return None


def _rows(capture: "Capture") -> List[Row]:
    """The rows of a training that was recorded, as a log has them."""
    places = {r.run: capture.array(r).tolist() for r in capture.select(name="place")}
    rows = {
        kind: [Row(kind, int(epoch), int(number) if kind == TRAIN else -1) for epoch, number in found] for kind, found in places.items()
    }
    for record in capture.select(name="curve"):
        if not record.leaf.startswith(RATE):
            for row, value in zip(rows[record.run], capture.array(record).tolist()):
                row.values[record.leaf] = value
    return [row for found in rows.values() for row in found]


def _bounds(capture: "Optional[Capture]") -> Dict[str, Tuple[Any, Any]]:
    """Figure -> the reference's value at every step, and how far from it this side may be."""
    if capture is None:
        return {}
    found = {(r.name, r.leaf): capture.array(r) for r in capture.records}
    return {leaf: (found["values", leaf], found["allowed", leaf]) for name, leaf in found if name == "values"}


def _wide(session: "Session", entry: "Entry") -> Any:
    value = widen(session.adapter.to_array(entry.tensor))
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)


def _norm(values: Iterable[Any]) -> float:
    with np.errstate(all="ignore"):
        return math.sqrt(sum(float(np.square(np.abs(value)).sum()) for value in values))


def _move(session: "Session", model: Any, random: Any) -> None:
    """Move every parameter by one unit in the last place, up or down."""
    moved = {}
    for entry in session.entries(model):
        if entry.role != "parameter" or entry.shared is not None:
            continue
        value = session.adapter.to_array(entry.tensor)
        if is_floating(value.dtype) and not is_complex(value.dtype) and value.array.dtype.kind == "f":
            away = np.where(random.randint(0, 2, value.array.shape) > 0, np.inf, -np.inf).astype(value.array.dtype)
            moved[entry.name] = Typed(np.nextafter(value.array, away), value.dtype)
    session.adapter.load_state(model, moved)


def caller() -> Optional[str]:
    """The innermost line of the user's code that is being executed, ``file:line``."""
    system = system_folders()
    frame: Any = sys._getframe(1)  # noqa: SLF001 - Python's own way to look at its stack
    while frame is not None:
        path = real_place(frame.f_code.co_filename)
        if not frame.f_code.co_filename.startswith("<") and not any(path.startswith(folder + os.sep) for folder in (*system, PACKAGE)):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None
