"""A schedule of learning rates, stepped ahead without the model."""

from __future__ import annotations

import copy
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from paralign.dtypes import unboxed
from paralign.worker.optimization.optimizers import Built, construction, is_own, is_stock, steps
from paralign.worker.optimization.pacing import advancing, made_up, wants_metric
from paralign.worker.optimization.several import Several, loader_of, members_of, rates_of, required, schedules_of
from paralign.worker.protocol import Followed

if TYPE_CHECKING:
    from paralign.adapters.base import Training
    from paralign.capture import CaptureWriter
    from paralign.worker.sides.session import Session

#: seconds that stepping ahead may take beside training steps: 10,000 steps of the frameworks' own schedules take 0.1 to 0.3
PATIENCE = 10.0

#: numbers that are kept of a schedule: 256 MB as float64
MOST = 1 << 25

#: steps of a resumed schedule that are held against the uninterrupted one
RESUMED = 10_000

#: steps that an optimizer which has no schedule is asked for its rate
ALONE = 1000

#: steps between two looks at the clock
_CHECKED = 1024


@dataclass
class Walk:
    """How far a schedule is followed.

    Args:
        count: steps of the schedule.
        by_update: whether it is advanced after every update, else after every epoch.
        patience: seconds.
        measures: a metric for each step, for schedules that wait for one; None: made up.
    """

    count: int
    by_update: bool = True
    patience: float = PATIENCE
    measures: "Optional[np.ndarray[Any, Any]]" = None


def ahead(
    session: Session,
    writer: CaptureWriter,
    walk: Walk,
    adapter: Training,
    build: "Callable[[Session], Tuple[Any, Any]]",
    *,
    whole: bool = False,
) -> Followed:
    """Record the learning rates of a schedule as ``schedule``; no update is made.

    The shape is ``(steps, groups)``, the type float64.

    Args:
        session: of the side.
        writer: of the capture.
        walk: how far.
        adapter: the session's, which trains.
        build: makes the optimizer and its schedule, which may be None.
        whole: also save everything in the middle, build anew, load, and record how that goes on as ``resumed``; and step an optimizer of
            the user's own that has no schedule, as it may set its rate itself.
    """
    session.seed()
    with construction(steps) as built:
        optimizer, scheduler = build(session)
        made = _Made(adapter, required(optimizer, session.side), scheduler, alone=whole)
    answer = Followed(
        scheduled=made.schedule is not None,
        built=built.source(members_of(made.schedule)[0]) or built.source(members_of(made.optimizer)[0]),
        lines=made.lines(built),
        class_=type(members_of(made.optimizer if made.schedule is None else made.schedule)[0]).__name__,
        metric=wants_metric(made.schedule),
        made_up=wants_metric(made.schedule) and walk.measures is None,
        stock=made.schedule is not None and is_stock(made.schedule),
    )
    if answer.made_up:
        walk.measures = np.array(made_up(walk.count))
    with made.kept(), _without_warnings():
        rates, saved = made.follow(walk, answer, save=whole)
    if made.alone and (rates == rates[:1]).all():
        answer.scheduled, rates = False, rates[:1]
    writer.add("schedule", rates, role="scalar")
    if saved is not None and made.schedule is not None:
        _resume(session, writer, walk, (adapter, build), saved, answer, len(rates))
    return answer


@dataclass
class _Saved:
    """What a training saves in the middle.

    The states of optimizer and schedule, and the plain numbers that the schedule holds then.
    """

    step: int
    states: List[Any]
    settings: Dict[str, Any]


def _settings(schedule: Any) -> Dict[str, Any]:
    """The attributes of a schedule that are plain numbers or texts.

    Of several they stand behind the member's name.
    """
    if isinstance(schedule, Several):
        return {f"{key}.{name}": value for key, member in schedule.named.items() for name, value in _settings(member).items()}
    found = {name: unboxed(value) for name, value in getattr(schedule, "__dict__", {}).items()}
    return {name: value for name, value in found.items() if isinstance(value, (bool, int, float, str))}


class _Made:
    """An optimizer and its schedule, as a user's code made them."""

    def __init__(self, adapter: Training, optimizer: Any, scheduler: Any, *, alone: bool = False) -> None:
        self.adapter, self.optimizer = adapter, optimizer
        self.schedule = schedule_of(optimizer, scheduler)
        #: an optimizer of the user's own may set its rate as it steps; without gradients nothing moves
        self.alone = alone and self.schedule is None and is_own(optimizer)
        self.schedule = optimizer if self.alone else self.schedule

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A schedule that the user's module made once is used by later stages as it was."""
        kept = [(member, dict(vars(member))) for member in members_of(self.schedule) if hasattr(member, "__dict__")]
        try:
            yield
        finally:
            for member, before in kept:
                vars(member).update(before)

    def lines(self, built: Built) -> List[Optional[str]]:
        """The line that built its schedule, else its optimizer, for each group of several."""
        if not isinstance(self.optimizer, Several):
            return []
        found = []
        for member, schedule in zip(self.optimizer.members, schedules_of(self.optimizer, self.schedule)):
            line = built.source(schedule) or built.source(member)
            found += [line] * len(self.adapter.learning_rates(member))
        return found

    def rates(self) -> List[float]:
        """The rates that the next update uses."""
        return rates_of(self.adapter, self.optimizer)

    def follow(
        self, walk: Walk, answer: Followed, *, save: bool = False, first: int = 0
    ) -> "Tuple[np.ndarray[Any, Any], Optional[_Saved]]":
        """The rates of steps from ``first`` on, and what was saved in the middle."""
        count = walk.count - first if self.schedule is not None else 1
        width = len(self.rates())
        count = min(count, MOST // max(1, width), ALONE if self.alone else count)
        rates = np.empty((count, width), np.float64)
        middle = count // 2 if save and self.schedule is not None and not self.alone else -1
        saved: Optional[_Saved] = None
        seen, began = 0, time.perf_counter()
        advance = None if self.schedule is None else advancing(self.schedule, walk.measures, by_update=walk.by_update)
        several = len(members_of(self.optimizer)) > 1
        read = partial(rates_of, self.adapter) if several else self.adapter.learning_rates  # a million steps: what a loop looks up counts
        optimizer = self.optimizer if several else members_of(self.optimizer)[0]
        try:
            for number in range(count):
                row = read(optimizer)
                late = number % _CHECKED == _CHECKED - 1 and time.perf_counter() - began > walk.patience
                if late or len(row) != width:
                    break
                rates[number], seen = row, number + 1
                if number == middle:
                    saved = self._saved(first + number, answer)
                if advance is not None and seen < count:
                    advance(first + number)
        except Exception as error:  # noqa: BLE001 - a schedule may end by raising anything; what was seen before is compared
            answer.ended = answer.ended or f"{type(error).__name__}: {error}"
        return rates[:seen], saved

    def _saved(self, step: int, answer: Followed) -> "Optional[_Saved]":
        """What a training would save here; None where the schedule or the optimizer cannot."""
        found = []
        for part in (self.optimizer, self.schedule):
            save = getattr(part, "state_dict", None)
            if not callable(save) or loader_of(part) is None:
                answer.unresumed = f"{type(part).__name__} has no state_dict() that can be loaded"
                return None
            try:
                found.append(copy.deepcopy(save()))
            except Exception as error:  # noqa: BLE001 - whatever a user's state_dict raises: it cannot be saved, which is said
                answer.unresumed = f"the state of {type(part).__name__} cannot be saved: {type(error).__name__}: {error}"
                return None
        return _Saved(step, found, _settings(self.schedule))

    def load(self, saved: List[Any]) -> None:
        """Take what was saved: first the optimizer's, then the schedule's."""
        for part, state in zip((self.optimizer, self.schedule), saved):
            load = loader_of(part)
            if load is not None:
                load(state)


def schedule_of(optimizer: Any, scheduler: Any) -> Any:
    """The schedule of ``build_scheduler``, or Paddle's in the optimizer; None without one."""
    inside = getattr(optimizer, "_learning_rate", None)
    if scheduler is None and steps(inside):
        return inside
    return scheduler


def advance_after(adapter: Training, optimizer: Any, scheduler: Any, pace: int, updates: int) -> None:
    """Advance a schedule after so many updates.

    One that waits for a metric stays as it is: the stage ``optimizer`` follows it.

    Args:
        adapter: that trains.
        optimizer: whose schedule it is.
        scheduler: what ``build_scheduler`` gave, or None.
        pace: updates after which the schedule is advanced by one; 0 for more than are made here.
        updates: that were made.
    """
    if pace and updates % pace == 0 and not wants_metric(schedule_of(optimizer, scheduler)):
        adapter.step_scheduler(optimizer, scheduler)


def _resume(
    session: Session,
    writer: CaptureWriter,
    walk: Walk,
    build: "Tuple[Training, Callable[[Session], Tuple[Any, Any]]]",
    saved: "_Saved",
    answer: Followed,
    walked: int,
) -> None:
    """Build anew, load what was saved in the middle, and record the rates from there on."""
    session.seed()
    made = _Made(build[0], *build[1](session))
    until = Walk(min(walked, saved.step + RESUMED), walk.by_update, walk.patience, walk.measures)
    with made.kept(), _without_warnings():
        try:
            made.load(saved.states)
        except Exception as error:  # noqa: BLE001 - a checkpoint that does not load is what is looked for
            answer.unresumed = f"what was saved at step {saved.step} does not load: {type(error).__name__}: {error}"
            return
        now = _settings(made.schedule)
        answer.forgotten = sorted(name for name, value in saved.settings.items() if name not in now or now[name] != value)
        rates, _ = made.follow(until, answer, first=saved.step)
    answer.resumed = saved.step
    writer.add("resumed", rates, role="scalar")


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence PyTorch's warnings of a schedule that is stepped before its optimizer."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Detected call of `lr_scheduler\.step\(\)` before")
        warnings.filterwarnings("ignore", message=r"The epoch parameter in `scheduler\.step\(\)`")
        yield
