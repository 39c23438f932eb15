"""What is drawn in a training, looked at by itself, under several seeds.

The batches of a loader, and the initial weights.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison.equivalence import student

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context

Array = np.ndarray[Any, Any]

#: probability by chance below which a figure of the batches or weights differs; a few dozen are looked at
CHANCE = 1e-4

#: relative differences below this are rounding of the arithmetic that made the batches
SMALL = 1e-4

#: initial weights whose deviations differ by less are not told apart: as in the stage ``init``, where a tenth is found
LEAST = 0.05


#: standard errors beyond which initial weights differ: hundreds of tensors are looked at
CERTAIN = 5.0

#: standard errors beyond which a ratio of variances differs: about CHANCE
SURE = 4.0


class Reading:
    """What a training's batches say of its loader, epoch by epoch."""

    def __init__(self, capture: Capture) -> None:
        self.sizes: list[int] = []
        self.counts: dict[int, int] = defaultdict(int)
        self.moments: dict[str, dict[int, list[tuple[float, float, int]]]] = defaultdict(lambda: defaultdict(list))
        self.rows: dict[int, list[bytes]] = defaultdict(list)
        first = next(iter(capture.select(name="batch")), None)
        for record in capture.select(name="batch"):
            if record.location is None:
                continue
            epoch, array = int(record.attrs["epoch"]), capture.array(record)
            if first is not None and record.leaf == first.leaf:
                self.sizes.append(len(array) if array.ndim else 1)
                self.counts[epoch] += 1
                self.rows[epoch] += (
                    [hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=8).digest() for row in array] if array.ndim else []
                )
            if array.dtype.kind in "fiub" and array.size:
                wide = array.astype(np.float64)
                self.moments[record.leaf][epoch].append((float(wide.mean()), float((wide**2).mean()), array.size))

    def whole(self, leaf: str) -> tuple[list[float], list[float], list[float]]:
        """Mean and deviation of a tensor in each epoch, and the deviation of the batches' means."""
        means, deviations, spreads = [], [], []
        for batches in self.moments[leaf].values():
            weights = np.array([size for _, _, size in batches], np.float64)
            mean = float(np.average([m for m, _, _ in batches], weights=weights))
            square = float(np.average([s for _, s, _ in batches], weights=weights))
            means.append(mean)
            deviations.append(float(np.sqrt(max(square - mean**2, 0.0))))
            spreads.append(float(np.std([m for m, _, _ in batches])) if len(batches) > 1 else 0.0)
        return means, deviations, spreads

    @property
    def repeats(self) -> float | None:
        """The share of epochs whose samples come in the order of the epoch before.

        None with one epoch.
        """
        epochs = list(self.rows.values())
        if len(epochs) > 1:
            return float(np.mean([one == other for one, other in pairwise(epochs)]))
        return None

    @property
    def distinct(self) -> float:
        """The share of an epoch's samples that differ from all others of it."""
        if self.rows:
            return float(np.mean([len(set(rows)) / max(len(rows), 1) for rows in self.rows.values()]))
        return 1.0


def data_evidence(reference: list[Capture], candidate: list[Capture]) -> list[str]:
    """What differs between the batches of both sides beyond what seeds explain.

    Nothing where a side's were not kept.
    """
    first, second = ([Reading(capture) for capture in captures] for captures in (reference, candidate))
    if not first or not second or not all(reading.sizes for reading in [*first, *second]):
        return []
    told = [*_amounts(first[0], second[0]), *_repeated_orders(first, second)]
    if not told:
        told += _fixed_starts(first, second)
    shares = [float(np.mean([r.distinct for r in side])) for side in (first, second)]
    if abs(shares[0] - shares[1]) > 0.02:  # noqa: PLR2004 - one sample in fifty
        told.append(f"of an epoch's samples {shares[0]:.0%} are distinct in the reference, {shares[1]:.0%} in the candidate")
    for one, other in zip(list(first[0].moments), list(second[0].moments), strict=False):
        told += _moments(one, [[r.whole(one) for r in first], [r.whole(other) for r in second]])
    return told


def _amounts(one: Reading, other: Reading) -> list[str]:
    """Numbers of samples and batches that differ."""
    told = []
    for what, here, there in (
        ("samples a batch", max(one.sizes), max(other.sizes)),
        ("batches an epoch", max(one.counts.values()), max(other.counts.values())),
        ("samples an epoch", len(_first_rows(one)), len(_first_rows(other))),
    ):
        if here != there:
            told.append(f"{what}: {here} in the reference, {there} in the candidate")
    return told


def _repeated_orders(first: list[Reading], second: list[Reading]) -> list[str]:
    """Whether one side's samples come in the same order in every epoch."""
    repeats = [[r.repeats for r in side if r.repeats is not None] for side in (first, second)]
    if not all(repeats):
        return []
    one, other = (float(np.mean(side)) for side in repeats)
    if abs(one - other) <= 0.5:  # noqa: PLR2004 - most epochs of one side, few of the other
        return []
    fixed = "candidate" if other > one else "reference"
    return [f"the {fixed}'s samples come in the same order in every epoch, the other side's do not"]


def _fixed_starts(first: list[Reading], second: list[Reading]) -> list[str]:
    """Whether one side's order is the same under every seed."""
    if min(len(first), len(second)) <= 1:
        return []
    fixed = [len({tuple(_first_rows(r)) for r in side}) == 1 for side in (first, second)]
    if fixed[0] == fixed[1]:
        return []
    return [f"the {'reference' if fixed[0] else 'candidate'}'s order is the same under every seed, the other side's is not"]


def _first_rows(reading: Reading) -> list[bytes]:
    """The samples of the first epoch."""
    return next(iter(reading.rows.values()))


def _moments(leaf: str, sides: list[list[tuple[list[float], list[float], list[float]]]]) -> list[str]:
    """Mean, deviation and spread of one tensor's batches, where the sides differ."""
    scale = max(float(np.mean([d for run in sides[0] for d in run[1]])), 1e-30)
    found = []
    for index, what in enumerate(("mean", "deviation", "deviation of the batches' means")):
        values = [np.array([value for run in side for value in run[index]]) for side in sides]
        gap = float(values[1].mean() - values[0].mean())
        if abs(gap) > SMALL * scale and chance(values[0], values[1]) < CHANCE:
            found.append(f"{what} of {leaf or 'a batch'}: {values[0].mean():.4g} in the reference, {values[1].mean():.4g} in the candidate")
    return found


def draw_evidence(reference: Array, candidate: Array) -> str:
    """How a figure of equal steps differs from seed to seed, in its mean or its spread.

    '' where it does not.

    Args:
        reference: shape ``(seeds, steps)``: each step with the same parameters and the same batch under every seed.
        candidate: the same.
    """
    count, steps = min(len(reference), len(candidate)), min(reference.shape[1], candidate.shape[1])
    if count < 2 or not steps:  # noqa: PLR2004 - a spread needs two
        return ""
    sides = [side[:count, :steps] for side in (reference, candidate)]
    spreads = [side.var(axis=0, ddof=1) for side in sides]
    size = float(np.abs(sides[0]).mean())
    drawn = [float(np.sqrt(spread.mean())) > SMALL * size for spread in spreads]
    if drawn[0] != drawn[1]:
        return f"the {'reference' if drawn[0] else 'candidate'} draws random numbers in a step, the other side does not"
    gap = float((sides[1] - sides[0]).mean())
    error = float(np.sqrt((spreads[0] + spreads[1]).sum() / count)) / steps
    if abs(gap) > SMALL * size and 2 * student().sf(abs(gap) / max(error, 1e-30), 2 * steps * (count - 1)) < CHANCE:
        means = [float(side.mean()) for side in sides]
        return (
            f"at equal parameters and batches, over {count} seeds, it is {means[0]:.5g} in the reference, {means[1]:.5g} in the candidate"
        )
    if not drawn[0]:
        return ""
    from scipy.special import polygamma

    ratio = float(np.mean(np.log(np.maximum(spreads[1], 1e-30)) - np.log(np.maximum(spreads[0], 1e-30))))
    sure = float(np.sqrt(2 * polygamma(1, (count - 1) / 2) / steps))  # standard error of the mean logarithm of a ratio of variances
    if abs(ratio) > SURE * sure:
        shown = [float(np.sqrt(spread.mean())) for spread in spreads]
        return (
            f"at equal parameters and batches it varies by {shown[0]:.3g} with the seed in the reference, {shown[1]:.3g} in the candidate"
        )
    return ""


def chance(one: Array, other: Array) -> float:
    """The probability, by Welch's t, of means so far apart.

    0 for equal values on each side that differ, 1 for a side with one value.
    """
    if min(len(one), len(other)) < 2:  # noqa: PLR2004 - a spread needs two
        return 1.0
    parts = [float(side.var(ddof=1)) / len(side) for side in (one, other)]
    gap, variance = abs(float(other.mean() - one.mean())), sum(parts)
    if variance <= (1e-9 * gap) ** 2:
        return 0.0 if gap > 0 else 1.0
    freedom = variance**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (one, other), strict=True))
    return float(2 * student().sf(gap / np.sqrt(variance), freedom))


def init_evidence(context: Context, groups: dict[str, list[Capture]]) -> list[str]:
    """Parameters whose initial values have another mean or deviation, over all seeds."""
    if context.plan is None:
        return []
    ours, theirs = (
        [{r.name: c.array(r) for r in c.select(run="start", role="parameter")} for c in groups[name]] for name in ("reference", "candidate")
    )
    told = []
    for reference, candidate in context.plan.whole_twins:
        one, other = _in_all_runs(ours, reference.name), _in_all_runs(theirs, candidate.name)
        if one is None or other is None:
            continue
        said = _laws(one, other)
        if said:
            told.append(f"{candidate.name}: {said}")
    if len(told) > 3:  # noqa: PLR2004 - a few suffice
        return [*told[:3], f"and {len(told) - 3} more"]
    return told


def _in_all_runs(runs: list[dict[str, Array]], name: str) -> Array | None:
    """A parameter's values, a row for each run; None where a run lacks it."""
    if not all(name in run for run in runs):
        return None
    return np.stack([run[name].astype(np.float64).ravel() for run in runs])


def _laws(one: Array, other: Array) -> str:
    """How the values of one parameter differ, runs by rows; '' where they do not."""
    spreads = [float(side.std()) for side in (one, other)]
    drawn = [len(side) > 1 and bool((side != side[0]).any()) for side in (one, other)]
    means = [float(side.mean()) for side in (one, other)]
    if drawn[0] != drawn[1]:
        return f"drawn in the {'reference' if drawn[0] else 'candidate'} only"
    if not any(drawn):
        constant = np.ptp(one) == np.ptp(other) == 0
        if not constant or np.allclose(one[0], other[0]):
            return ""
        return f"{means[0]:.4g} in the reference, {means[1]:.4g} in the candidate"
    ratio = spreads[1] / max(spreads[0], 1e-30)
    sure = CERTAIN * np.sqrt(1 / (2 * one.size) + 1 / (2 * other.size))  # of the logarithm of a normal's deviation
    if abs(np.log(max(ratio, 1e-30))) > max(LEAST, sure):
        return f"deviation {spreads[0]:.4g} in the reference, {spreads[1]:.4g} in the candidate"
    apart = abs(means[1] - means[0]) / (spreads[0] * np.sqrt(1 / one.size + 1 / other.size))
    if apart > CERTAIN and abs(means[1] - means[0]) > LEAST * spreads[0]:
        return f"mean {means[0]:.4g} in the reference, {means[1]:.4g} in the candidate"
    return ""
