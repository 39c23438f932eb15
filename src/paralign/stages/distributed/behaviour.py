"""What a data-parallel program does, told from numbers.

How gradients are brought together, who gets which samples, who saves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paralign.worker.protocol import Share

Array = np.ndarray[Any, Any]

#: error ÷ noise up to which a value is taken for what it was computed as: as `native against float64` in judging.py
LIMIT = 10.0

#: the least noise that is granted, relative: sums over ranks are made in float32
LEAST = 1e-6

#: how far a metric may be from what it is taken for, relative: a float32 mean over a million samples
METRIC = 1e-5


class Way(Enum):
    """How something of the ranks relates to what one process makes of the joined batch."""

    JOINED = "as of one process on the joined batch"
    SAMPLES = "the mean over all samples of what the ranks have, each alone"
    MEAN = "the mean of what the ranks have, each alone"
    SUM = "the sum of what the ranks have, not the mean"
    TIMES = "as of one process on the joined batch, times the number of ranks"
    PART = "as of one process on the joined batch, divided by the number of ranks"
    OWN = "each rank keeps its own: nothing is exchanged"
    FIRST = "rank 0's"
    SOME = "some ranks keep their own, the others do not: not all take part in the exchange"
    GIVEN = "what one process's optimizer makes of the ranks' gradients"
    OTHER = "nothing that the ranks' batches explain"
    NOTHING = "there is none"


@dataclass
class Found:
    """What values were taken for.

    ``error`` is the relative distance from that (from the joined batch's for ``OTHER``). ``also`` are further ways that
    these batches do not tell from it: ranks whose losses have equal weights bring the same together in several ways.
    """

    way: Way
    error: float = 0.0
    noise: float = LEAST
    worst: str = ""
    also: tuple[Way, ...] = ()


Tensors = "Mapping[str, Array]"


def distance(one: Mapping[str, Array], other: Mapping[str, Array]) -> float:
    """The relative L2 distance of two sets of tensors, of the first from the second.

    Infinite where names or NaN disagree.
    """
    if set(one) != set(other):
        return float("inf")
    far = whole = 0.0
    for name, value in one.items():
        a, b = value.astype(np.float64), other[name].astype(np.float64)
        if a.shape != b.shape or bool(np.any(np.isfinite(a) != np.isfinite(b))):
            return float("inf")
        kept = np.isfinite(a)
        far += float(np.sum((a[kept] - b[kept]) ** 2))
        whole += float(np.sum(b[kept] ** 2))
    return float(np.sqrt(far / whole)) if whole else float(np.sqrt(far))


def worst(one: Mapping[str, Array], other: Mapping[str, Array]) -> str:
    """The tensor that contributes most to a distance."""
    far = {name: float(np.linalg.norm(value.astype(np.float64) - other[name])) for name, value in one.items() if name in other}
    return max(far, key=lambda name: far[name], default="")


@dataclass
class Evidence:
    """One kind of tensors: of the ranks, of one process on each batch, and on all joined.

    Args:
        ranks: of each rank, what it had after its step.
        alone: of each rank's batch, what one process makes of it.
        joined: what one process makes of the joined batch; empty where the batches cannot be joined.
        native: ``alone`` and ``joined`` natively, where those are in float64; None where they are not.
        sizes: samples of each rank's batch.
    """

    ranks: Sequence[Mapping[str, Array]]
    alone: Sequence[Mapping[str, Array]]
    joined: Mapping[str, Array]
    native: Sequence[Mapping[str, Array]] | None
    sizes: Sequence[int]

    @property
    def noise(self) -> float:
        """How far one process is from itself by rounding, on the worst batch.

        A rank has only its own.
        """
        if self.native is None:
            return LEAST
        return max(LEAST, *(distance(rough, exact) for rough, exact in zip(self.native, (*self.alone, self.joined), strict=True)))

    def told(self, scale: float = 1.0) -> Found:
        """What the ranks have, as the first way that explains it within rounding.

        Args:
            scale: how many times that of one process the learning rate of the ranks is; 1 for what does not depend on it.
        """
        if not all(self.alone) or not all(self.ranks):
            return Found(Way.NOTHING)
        noise, first = self.noise, self.ranks[0]
        together = all(distance(rank, first) <= LIMIT * noise for rank in self.ranks[1:])
        if not together:
            return self._apart(scale)
        tried = {way: distance(first, _times(value, scale)) for way, value in self._ways()}
        fitting = [way for way, error in tried.items() if error <= LIMIT * noise]
        if fitting:
            return Found(fitting[0], tried[fitting[0]], noise, also=tuple(fitting[1:]))
        nearest = Way.JOINED if self.joined else Way.SAMPLES
        wanted = _times(dict(self._ways())[nearest], scale)
        return Found(Way.OTHER, tried[nearest], noise, worst(first, wanted))

    def _apart(self, scale: float) -> Found:
        """Which ranks keep their own, where not all have the same."""
        noise = self.noise
        own = [distance(rank, _times(alone, scale)) for rank, alone in zip(self.ranks, self.alone, strict=True)]
        keeps = [error <= LIMIT * noise for error in own]
        if all(keeps):
            return Found(Way.OWN, max(own), noise)
        if any(keeps):
            return Found(Way.SOME, max(own), noise)
        first = self.ranks[0]
        farthest = max(self.ranks[1:], key=lambda rank: distance(rank, first))
        return Found(Way.OTHER, max(own), noise, worst(first, farthest))

    def _ways(self) -> list[tuple[Way, Mapping[str, Array]]]:
        count, samples = len(self.ranks), sum(self.sizes)
        sums = _summed(self.alone, [1.0] * count)
        found: list[tuple[Way, Mapping[str, Array]]] = [
            (Way.JOINED, self.joined),
            (Way.SAMPLES, _summed(self.alone, [size / samples for size in self.sizes])),
            (Way.MEAN, _times(sums, 1.0 / count)),
            (Way.SUM, sums),
            (Way.TIMES, _times(self.joined, float(count))),
            (Way.PART, _times(self.joined, 1.0 / count)),
            (Way.FIRST, self.alone[0]),
        ]
        return found if self.joined else [(way, value) for way, value in found if way not in (Way.JOINED, Way.TIMES, Way.PART)]


def _times(values: Mapping[str, Array], factor: float) -> Mapping[str, Array]:
    if factor == 1.0:
        return values
    return {name: value * factor for name, value in values.items()}


def _summed(sets: Sequence[Mapping[str, Array]], factors: Sequence[float]) -> dict[str, Array]:
    """What all sets have, added up, each times its factor."""
    names = set.intersection(*(set(values) for values in sets))
    found = {}
    for name in sets[0]:
        if name in names:
            weighted = (values[name] * factor for values, factor in zip(sets, factors, strict=True))
            found[name] = sum(weighted, np.zeros(()))
    return found


# -- samples -------------------------------------------------------------------------------------------------------------------


class Spread(Enum):
    """How the samples are spread over the ranks."""

    ONCE = "each sample is given to one rank, once"
    PADDED = "each sample is given once, a few twice to fill the shares"
    SHORT = "each sample is given at most once, a few to no rank"
    EVERY = "every rank is given all samples"
    UNEVEN = "some samples are given several times, or to no rank"
    UNKNOWN = "not known: the loader does not end, or tells neither numbers nor contents"


@dataclass
class Shares:
    """Which samples the ranks were given in one epoch."""

    spread: Spread
    total: int = 0
    missing: int = 0
    twice: int = 0
    batches: list[int] = field(default_factory=list)

    def told(self) -> str:
        """In words, with numbers."""
        parts = [self.spread.value, f"{self.total} samples"]
        if self.missing:
            parts.append(f"{self.missing} given to no rank")
        if self.twice:
            parts.append(f"{self.twice} of padding" if self.spread is Spread.PADDED else f"{self.twice} given again")
        if len(set(self.batches)) > 1:
            parts.append(f"batches by rank: {', '.join(map(str, self.batches))}")
        return "; ".join(parts)


def shares(ranks: Sequence[Share], alone: Share | None) -> Shares:
    """How the samples that one process is given are spread over the ranks.

    Args:
        ranks: of each rank, what :func:`paralign.worker.ranks.share.share` told.
        alone: the same of one process without a launcher.
    """
    if alone is None:
        return Shares(Spread.UNKNOWN)
    everyone = (*ranks, alone)
    if not all(each.ended for each in everyone) or len({each.by for each in everyone}) > 1:
        return Shares(Spread.UNKNOWN)
    given = [_counted(rank) for rank in ranks]
    whole = _counted(alone)
    if alone.by == "index" and alone.length is not None:
        whole = Counter(range(alone.length))
    every: Counter[Any] = sum(given, Counter())
    if not whole or not every:
        return Shares(Spread.UNKNOWN)
    total, missing, twice = (sum(samples.values()) for samples in (whole, whole - every, every - whole))
    largest = max(len(batch) for rank in ranks for batch in rank.batches)
    spread = _spread(missing, twice, few=len(ranks) * largest)
    if len(ranks) > 1 and total > 1 and not any(whole - each for each in given):
        spread = Spread.EVERY
    return Shares(spread, total, missing, twice, [len(rank.batches) for rank in ranks])


def _counted(share: Share) -> Counter[Any]:
    """How often each sample was given."""
    return Counter(sample for batch in share.batches for sample in batch)


def _spread(missing: int, twice: int, few: int) -> Spread:
    """How samples are spread of which some are missing, or given twice.

    ``few``: as many as last batches of all ranks may lack or repeat.
    """
    if missing:
        if twice or missing >= few:
            return Spread.UNEVEN
        return Spread.SHORT
    if twice:
        return Spread.UNEVEN if twice >= few else Spread.PADDED
    return Spread.ONCE


# -- metrics -------------------------------------------------------------------------------------------------------------------


class Average(Enum):
    """What a metric that the ranks tell is the average of."""

    SAMPLES = "as of one process over all samples"
    PADDED = "averaged by samples, those that fill the shares counted twice"
    RANKS = "averaged over the ranks, whatever number of samples each has"
    WEIGHTED = "the mean of the ranks' own, times their samples, of a metric that is no mean"
    SUM = "the sum of the ranks' own"
    OWN = "of each rank's own samples: not brought together"
    FIRST = "of rank 0's samples alone"
    OTHER = "nothing that the ranks' samples explain"


def average(
    told: Sequence[float], own: Sequence[float] | None, counts: Sequence[int] | None, alone: float, pooled: float | None = None
) -> Average:
    """What a metric is the average of.

    Args:
        told: what the user's evaluation gives in each rank.
        own: the metric of each rank's samples alone; None where it is not known.
        counts: the number of these samples.
        alone: what the user's evaluation gives in one process.
        pooled: the metric over the samples of all ranks; None where it is not known. Of those that are no mean (F1, mIoU) it
            is not the mean of the ranks' own.
    """
    if all(_near(value, alone) for value in told):
        return Average.SAMPLES
    if pooled is not None and all(_near(value, pooled) for value in told):
        return Average.PADDED
    ranks_differ = any(not _near(value, told[0]) for value in told[1:])
    if own is None or counts is None or len(own) != len(told):
        return Average.OWN if ranks_differ else Average.OTHER
    if ranks_differ:
        return Average.OWN if all(map(_near, told, own)) else Average.OTHER
    weighted = float(np.average(own, weights=counts)) if sum(counts) else float("nan")
    ways = {
        **({Average.PADDED: weighted} if pooled is None else {}),
        Average.RANKS: float(np.mean(own)),
        **({} if pooled is None else {Average.WEIGHTED: weighted}),
        Average.SUM: float(np.sum(own)),
        Average.FIRST: own[0],
    }
    for way, value in ways.items():
        if _near(told[0], value):
            return way
    return Average.OTHER


def is_mean(own: Sequence[float] | None, counts: Sequence[int] | None, pooled: float | None) -> bool:
    """Whether a metric over all ranks' samples is the mean of the ranks' own.

    True where it is not known.
    """
    if own is None or counts is None or pooled is None or not sum(counts):
        return True
    return _near(float(np.average(own, weights=counts)), pooled)


def _near(one: float, other: float) -> bool:
    return bool(np.isclose(one, other, rtol=METRIC, atol=METRIC * 1e-2, equal_nan=True))


# -- files and prints ----------------------------------------------------------------------------------------------------------


class Writers(Enum):
    """Which ranks write files or lines."""

    NONE = "no rank does"
    FIRST = "rank 0 alone"
    EACH = "each rank files of its own name"
    SAME = "several ranks write the same"
    ANOTHER = "another rank than rank 0"


def writers(found: Sequence[Sequence[str]]) -> Writers:
    """Which ranks write, told from the names (or lines) of each."""
    busy = [rank for rank, names in enumerate(found) if names]
    if not busy:
        return Writers.NONE
    counted = Counter(name for names in found for name in set(names))
    if any(count > 1 for count in counted.values()):
        return Writers.SAME
    if busy == [0]:
        return Writers.FIRST
    return Writers.EACH if len(busy) > 1 else Writers.ANOTHER


def shared(found: Sequence[Sequence[str]]) -> list[str]:
    """What several ranks write."""
    counted = Counter(name for names in found for name in set(names))
    return sorted(name for name, count in counted.items() if count > 1)
