"""The learning rates beyond the steps that are trained.

Schedules are stepped ahead without the model, and compared rate by rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison import compare_pair
from paralign.dtypes import typed
from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import ALIGNED, DIVERGED, Coverage, Divergence, Noise, Pair, Point, StageResult
from paralign.run.pace import EPOCH, ITERATION
from paralign.stages.common.judging import CONSTANTS
from paralign.worker import protocol
from paralign.worker.optimization.schedule import PATIENCE
from paralign.worker.protocol import Ahead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Record, Tolerance
    from paralign.run.pace import Pace

Array = np.ndarray[Any, Any]

#: steps that schedules are followed: some epochs of a large data set; 10,000 take less than half a second
STEPS = 10_000

#: rates below this share of the greatest are held to what rounding makes of that: schedules that end near zero cancel
VANISHING = 1e-3

#: digits in which rates are shown: more where fewer do not tell two rates apart
DIGITS = (6, 9, 17)

#: what :class:`~paralign.model.Coverage` calls them
RATES = "learning rates"


@dataclass(frozen=True)
class Followed:
    """One side's schedule as it was followed: ``rates`` ``(steps of the schedule, groups)``.

    ``every`` is the number of updates that one step of the schedule lasts, where the sides do not count alike.
    """

    rates: Array
    record: Record
    scheduled: bool
    ended: str
    built: str | None
    name: str
    every: int = 1
    lines: Sequence[str | None] = ()

    @classmethod
    def read(cls, capture: Capture, every: int = 1, name: str = "schedule") -> Followed | None:
        """What a task recorded under a name; None where it followed nothing."""
        about = _told(capture)
        record = next(iter(capture.select(name=name, role="scalar")), None)
        if about is None or record is None:
            return None
        return cls(capture.array(record), record, about.scheduled, about.ended, about.built, about.class_, every, about.lines)

    @property
    def steps(self) -> int:
        """How far it was followed, in the steps that both sides count."""
        return len(self.rates) * self.every

    def until(self, count: int) -> Array:
        """The rates of so many steps; without a schedule the same in all of them."""
        if not self.scheduled:
            return np.repeat(self.rates[:1], count, axis=0)
        return self.rates[:count] if self.every == 1 else np.repeat(self.rates, self.every, axis=0)[:count]


def _told(capture: Capture) -> protocol.Followed | None:
    """What a task said of the schedule that it followed."""
    task = protocol.Schedule if capture.manifest.stage == protocol.Schedule.task else protocol.Backward
    answer: protocol.Scheduled | protocol.Stepped = task.answer(capture)
    return answer.schedule


def every(pace: Pace) -> tuple[int, int]:
    """How many updates a step of each side's schedule lasts.

    1 for both where they count alike.
    """
    if pace.step_on[0] == pace.step_on[1]:
        return 1, 1
    return pace.steps_between(0), pace.steps_between(1)


def unit(pace: Pace) -> str:
    """What the steps that both sides count are."""
    return EPOCH if pace.step_on == (EPOCH, EPOCH) else "step"


def asked(pace: Pace, side: int) -> int | None:
    """The steps of a side's schedule in the whole training.

    None where nobody said how long it is.
    """
    if pace.epochs is None:
        return None
    if pace.step_on[side] == EPOCH:
        return pace.epochs
    return None if pace.steps_per_epoch is None else pace.epochs * pace.steps_per_epoch


def ahead(context: Context, side: int) -> Ahead:
    """How far a side's schedule is followed beyond the trained steps."""
    pace = context.settings.pace
    return Ahead(asked(pace, side) or STEPS, pace.step_on[side] == ITERATION, PATIENCE)


def judge(result: StageResult, reference: Capture, candidate: Capture, tolerance: Tolerance, pace: Pace) -> Divergence | None:
    """Add the pair of both schedules to a result, and how far they were followed.

    Gives the divergence where they differ.

    Without a schedule on either side nothing is added: the rates of the trained steps say it all.
    """
    one, other = (Followed.read(c, each) for c, each in zip((reference, candidate), every(pace), strict=True))
    if one is None or other is None:
        return None
    if not one.scheduled and not other.scheduled:
        return None
    if any(about is not None and about.metric for about in (_told(reference), _told(candidate))):
        result.notes.append("a schedule waits for a metric: it was not advanced after the trained steps; the stage optimizer follows it")
    return compared(result, (one, other), tolerance, unit(pace))


def compared(result: StageResult, both: tuple[Followed, Followed], tolerance: Tolerance, counted: str) -> Divergence | None:
    """:func:`judge`, of schedules that were read, the steps of which are called ``counted``."""
    if not all(side.rates.shape[1] for side in both):
        result.notes.append("the schedules were not followed beyond the trained steps: an optimizer tells no rate")
        return None
    count = min((side.steps for side in both if side.scheduled), default=1)
    result.coverage.append(Coverage(RATES, count))
    for name, side in zip(("reference", "candidate"), both, strict=True):
        if side.ended:
            result.notes.append(f"the {name}'s schedule goes no further than {len(side.rates)} steps: {side.ended}")
    rates = both[0].until(count), both[1].until(count)
    wrong = first_difference(*rates, tolerance)
    pair = _pair(both, rates, wrong)
    result.pairs.append(pair)
    return None if wrong is None else _divergence(pair, both, rates, (wrong, counted))


def _pair(both: tuple[Followed, Followed], rates: tuple[Array, Array], wrong: int | None) -> Pair:
    """Both schedules, measured whole where they agree, else at the first step that differs.

    Of groups that the other side does not have, the two rates that are nearest are measured: they differ by no less.
    """
    one, other = rates if wrong is None else (side[wrong : wrong + 1] for side in rates)
    grouped = one.shape != other.shape
    measured = _nearest(one, other) if grouped else _in_one_order(one, other)
    pair = compare_pair("schedule", both[0].record, both[1].record, *(typed(np.ascontiguousarray(side)) for side in measured))
    if grouped:
        pair.notes = ["rates in other parameter groups: compared where they have one in common"]
    elif measured[0] is not one:
        pair.notes = ["the parameter groups stand in another order: compared are the rates in order of size"]
    pair.noise = Noise(CONSTANTS, "constants that frameworks store in float32")
    pair.verdict = ALIGNED if wrong is None else DIVERGED
    return pair


def _in_one_order(one: Array, other: Array) -> tuple[Array, Array]:
    """Rates of as many groups, sorted where they lie nearer to each other so."""
    ordered = np.sort(one, axis=1), np.sort(other, axis=1)
    if np.nansum(np.abs(ordered[0] - ordered[1])) < np.nansum(np.abs(one - other)):
        return ordered
    return one, other


def _nearest(first: Array, second: Array) -> tuple[Array, Array]:
    """Of every step the rate of each side that is nearest to one of the other's.

    Shape ``(steps, 1)`` each.
    """
    apart = np.abs(first[:, :, None] - second[:, None, :])
    apart[np.isnan(apart)] = np.inf
    at = apart.reshape(len(apart), -1).argmin(axis=1)
    rows = np.arange(len(apart))
    one, other = first[rows, at // second.shape[1]], second[rows, at % second.shape[1]]
    return one[:, None], other[:, None]


def first_difference(first: Array, second: Array, tolerance: Tolerance) -> int | None:
    """The first step whose rates differ: see :func:`differing`."""
    found = np.flatnonzero(differing(first, second, tolerance))
    return int(found[0]) if found.size else None


def differing(first: Array, second: Array, tolerance: Tolerance) -> Array:
    """At which steps rates differ.

    Groups may stand in another order, and where their number differs one rate must be common.

    Args:
        first: the reference's rates, shape ``(steps, groups)``.
        second: the candidate's, of as many steps.
        tolerance: what the user set.
    """
    slack = CONSTANTS * (1.0 if tolerance.ratio is None else tolerance.ratio)
    greatest = max(float(np.abs(side[np.isfinite(side)]).max(initial=0.0)) for side in (first, second))

    def differ(one: Array, other: Array) -> Array:
        allowed = slack * np.maximum(np.maximum(np.abs(one), np.abs(other)), VANISHING * greatest)
        if tolerance.atol is not None or tolerance.rtol is not None:
            allowed = (tolerance.atol or 0.0) + (tolerance.rtol or 0.0) * np.abs(one)
        with np.errstate(invalid="ignore"):
            wrong: Array = ~((np.abs(one - other) <= allowed) | (one == other) | (np.isnan(one) & np.isnan(other)))
        return wrong

    if first.shape == second.shape:
        return np.asarray(differ(first, second).any(axis=1) & differ(np.sort(first, axis=1), np.sort(second, axis=1)).any(axis=1))
    return np.asarray(differ(first[:, :, None], second[:, None, :]).all(axis=(1, 2)))


def in_digits(*sides: Array, alike: bool = False) -> list[str]:
    """Rates of one step in as many digits as show that they differ.

    Few digits where they are ``alike``.
    """
    told: list[str] = []
    for digits in DIGITS[: 1 if alike else None]:
        told = [", ".join(f"{rate:.{digits}g}" for rate in side) for side in sides]
        if len(set(told)) > 1:
            break
    return told


def _divergence(pair: Pair, both: tuple[Followed, Followed], rates: tuple[Array, Array], at: tuple[int, str]) -> Divergence:
    step, counted = at
    told = in_digits(rates[0][step], rates[1][step])
    pair.notes.append(f"{counted} {step} is the first whose rate differs: {told[0]} in the reference, {told[1]} in the candidate")
    places = [_line_of(side, rates, step) for side in both]
    ends = [Point("learning rate", side.name, line, code_at(line)) for side, line in zip(both, places, strict=True)]
    return Divergence(ends[0], ends[1], pair, last_agreeing=f"the rates of the {step} {counted}s before" if step else None)


def _line_of(side: Followed, rates: tuple[Array, Array], step: int) -> str | None:
    """The line that built a schedule.

    Of several optimizers it is that of the group whose rate is furthest off.
    """
    first, second = rates[0][step], rates[1][step]
    if first.shape != second.shape or len(side.lines) != len(first):
        return side.built
    return side.lines[int(np.argmax(np.abs(first - second)))] or side.built
