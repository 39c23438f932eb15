"""How fast both sides train, with the spread.

Samples a second, the time of a step, and the share that reading has of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from paralign.stages.train.curves import Run


@dataclass(frozen=True)
class Pace:
    """Of one side's runs.

    Args:
        samples: a second, over all timed steps.
        seconds: of a step: lower quartile, median, upper quartile.
        reading: share of the time that the loader took, over all timed steps.
        steps: how many were timed; the first of each run is not.
        runs: samples a second of the slowest and the fastest run.
    """

    samples: float
    seconds: tuple[float, float, float]
    reading: float
    steps: int
    runs: tuple[float, float]

    def __str__(self) -> str:
        low, middle, high = (f"{1e3 * value:.3g}" for value in self.seconds)
        spread = f" ({self.runs[0]:,.0f} to {self.runs[1]:,.0f} over the runs)" if self.runs[0] != self.runs[1] else ""
        return (
            f"{self.samples:,.0f} samples/s{spread}, a step {middle} ms (quartiles {low} to {high}), "
            f"reading {self.reading:.0%} of it, {self.steps:,} steps timed"
        )


def pace(runs: list[Run]) -> Pace | None:
    """How fast a side trains; None where no step was timed."""
    costs, rates, samples = [], [], 0.0
    for run in runs:
        timed = np.isfinite(run.costs[:, 1])
        if not timed.any():
            continue
        cost, count = run.costs[timed], float(run.samples[timed].sum())
        costs.append(cost)
        rates.append(count / float(cost[:, 1].sum()))
        samples += count
    if not costs:
        return None
    whole = np.concatenate(costs)
    low, middle, high = (float(q) for q in np.quantile(whole[:, 1], [0.25, 0.5, 0.75]))
    total = float(whole[:, 1].sum())
    return Pace(samples / total, (low, middle, high), float(whole[:, 0].sum()) / total, len(whole), (min(rates), max(rates)))


def told(sides: tuple[list[Run], list[Run]], *, at_once: bool) -> list[str]:
    """Notes about the speed of both sides; nothing is judged by them."""
    found = [pace(runs) for runs in sides]
    notes = [f"{name}: {each}" for name, each in zip(("reference", "candidate"), found, strict=True) if each is not None]
    if found[0] is not None and found[1] is not None:
        ratio = found[1].samples / found[0].samples
        notes.append(
            f"the candidate trains {ratio:.2g} times as fast as the reference" + (", both at once on this machine" if at_once else "")
        )
    return notes
