"""The learning rates beyond the steps that are trained: schedules stepped ahead without the model, compared rate by rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison import compare_pair
from paralign.dtypes import typed
from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import ALIGNED, DIVERGED, Coverage, Divergence, Noise, Pair, Point, StageResult
from paralign.stages.judging import CONSTANTS

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.model import Record, Tolerance

Array = np.ndarray[Any, Any]

#: steps that schedules are followed: some epochs of a large data set; 10,000 take less than half a second
STEPS = 10_000

#: rates below this share of the greatest are held to what rounding makes of that: schedules that end near zero cancel
VANISHING = 1e-3

#: what :class:`~paralign.model.Coverage` calls them
RATES = "learning rates"


@dataclass(frozen=True)
class Followed:
    """One side's schedule as it was followed: ``rates`` has shape ``(steps, groups)``."""

    rates: Array
    record: Record
    scheduled: bool
    ended: str
    built: str | None
    name: str

    @classmethod
    def read(cls, capture: Capture) -> Followed | None:
        """What the task ``backward`` recorded; None where it followed nothing."""
        about = capture.manifest.settings["answer"].get("schedule")
        record = next(iter(capture.select(name="schedule", role="scalar")), None)
        if about is None or record is None:
            return None
        return cls(capture.array(record), record, about["scheduled"], about["ended"], about["built"], about["class"])

    def until(self, count: int) -> Array:
        """The rates of so many steps; without a schedule the same in all of them."""
        return self.rates[:count] if self.scheduled else np.repeat(self.rates[:1], count, axis=0)


def judge(result: StageResult, reference: Capture, candidate: Capture, tolerance: Tolerance) -> Divergence | None:
    """Add the pair of both schedules to a result, and how far they were followed; gives the divergence where they differ.

    Without a schedule on either side nothing is added: the rates of the trained steps say it all.
    """
    sides = Followed.read(reference), Followed.read(candidate)
    if sides[0] is None or sides[1] is None or not (sides[0].scheduled or sides[1].scheduled):
        return None
    both = sides[0], sides[1]
    if not all(side.rates.shape[1] for side in both):
        result.notes.append("the schedules were not followed beyond the trained steps: an optimizer tells no rate")
        return None
    count = min(len(side.rates) for side in both if side.scheduled)
    result.coverage.append(Coverage(RATES, count))
    for name, side in zip(("reference", "candidate"), both, strict=True):
        if side.ended:
            result.notes.append(f"the {name}'s schedule goes no further than {len(side.rates)} steps: {side.ended}")
    rates = both[0].until(count), both[1].until(count)
    wrong = first_difference(*rates, tolerance)
    pair = _pair(both, rates, wrong)
    result.pairs.append(pair)
    return None if wrong is None else _divergence(pair, both, rates, wrong)


def _pair(both: tuple[Followed, Followed], rates: tuple[Array, Array], wrong: int | None) -> Pair:
    """Both schedules, measured whole where they agree, else at the first step that differs."""
    one, other = rates if wrong is None else (side[wrong : wrong + 1] for side in rates)
    values = (typed(np.ascontiguousarray(side)) if one.shape == other.shape else None for side in (one, other))
    pair = compare_pair("schedule", both[0].record, both[1].record, *values)
    if one.shape != other.shape:
        pair.notes = ["rates in other parameter groups: compared where they have one in common"]
    pair.noise = Noise(CONSTANTS, "constants that frameworks store in float32")
    pair.verdict = ALIGNED if wrong is None else DIVERGED
    return pair


def first_difference(first: Array, second: Array, tolerance: Tolerance) -> int | None:
    """The first step whose rates differ; groups may stand in another order, and where their number differs one rate must be common.

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
        wrong = differ(first, second).any(axis=1) & differ(np.sort(first, axis=1), np.sort(second, axis=1)).any(axis=1)
    else:
        wrong = differ(first[:, :, None], second[:, None, :]).all(axis=(1, 2))
    found = np.flatnonzero(wrong)
    return int(found[0]) if found.size else None


def _divergence(pair: Pair, both: tuple[Followed, Followed], rates: tuple[Array, Array], step: int) -> Divergence:
    told = [", ".join(f"{rate:.6g}" for rate in side[step]) for side in rates]
    pair.notes.append(f"step {step} is the first whose rate differs: {told[0]} in the reference, {told[1]} in the candidate")
    ends = [Point("learning rate", side.name, side.built, code_at(side.built)) for side in both]
    return Divergence(ends[0], ends[1], pair, last_agreeing=f"the rates of the {step} steps before" if step else None)
