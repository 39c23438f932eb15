"""How a tensor starts on both sides, and whether both follow one law."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison.laws import FINITE, GREATEST, LEAST, MEAN, STD, Family, Law, recognise
from paralign.comparison.twosample import extreme_run, rank_sum, same_law
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED

if TYPE_CHECKING:
    from paralign.capture import Capture

Array = np.ndarray[Any, Any]

#: the share of right models that may be called wrong, all tests of all tensors together (Bonferroni): half of the 1 % that is promised
ALPHA = 0.005

#: tests of one drawn tensor
TESTS = 5

#: differences that no training notices, in shares of the deviation: what rounding and the frameworks' ways of cutting make is less
MARGIN = 0.01

#: a tensor in which not even a scale wrong by half would show is not judged
BLIND = 0.5

#: relative error of a constant that float32 makes, with a reserve
ROUNDED = 1e-6

#: a normal variable is below this with probability 0.95: how often a difference that is said to show does
POWER = 1.645


@dataclass
class Start:
    """One tensor over the seeds.

    ``moments`` ``(seeds, 7)``, ``samples`` ``(seeds, elements)``, ``size`` elements in all.
    """

    moments: Array
    samples: Array
    size: int

    @property
    def greatest(self) -> Array:
        """The greatest magnitude under every seed."""
        found: Array = np.maximum(np.abs(self.moments[:, LEAST]), np.abs(self.moments[:, GREATEST]))
        return found

    @property
    def prints(self) -> Any:
        """Equal for two tensors that hold the same values under every seed."""
        return self.size, self.moments.tobytes()


@dataclass
class Judged:
    """What the comparison of a tensor came to.

    ``shows`` is the least relative change of scale that would have been seen.
    """

    verdict: str = NOT_TESTED
    laws: tuple[Law, Law] | None = None
    notes: list[str] = field(default_factory=list)
    prints: tuple[Any, ...] = ()
    shows: float = 0.0


def kept(capture: Capture, name: str) -> Start | None:
    """What the worker kept of a tensor; None of an empty one."""
    found = {r.leaf: r for r in capture.select(name=name)}
    if not {"moments", "sample"} <= set(found):
        return None
    moments, samples = (np.array(capture.array(found[leaf])) for leaf in ("moments", "sample"))
    return Start(moments, samples, int(found["moments"].attrs["size"]))


def joined(parts: list[Start]) -> Start:
    """Several tensors as the one that they make up, each with its share of elements."""
    if len(parts) == 1:
        return parts[0]
    size, seeds = sum(p.size for p in parts), min(len(p.moments) for p in parts)
    rows = np.stack([p.moments[:seeds] for p in parts])
    weights = rows[:, :, FINITE]
    total = np.maximum(weights.sum(axis=0), 1)
    moments = rows[0].copy()
    moments[:, FINITE] = weights.sum(axis=0)
    moments[:, MEAN] = (weights * rows[:, :, MEAN]).sum(axis=0) / total
    moments[:, STD] = np.sqrt((weights * (rows[:, :, STD] ** 2 + (rows[:, :, MEAN] - moments[:, MEAN]) ** 2)).sum(axis=0) / total)
    moments[:, LEAST], moments[:, GREATEST] = rows[:, :, LEAST].min(axis=0), rows[:, :, GREATEST].max(axis=0)
    moments[:, GREATEST + 1 :] = 0.0  # parts of an orthogonal matrix are none
    fitting = min(p.samples.shape[1] * size / p.size for p in parts)
    order = np.random.default_rng(0)
    taken = [order.permutation(p.samples[:seeds].T)[: max(1, int(fitting * p.size / size))].T for p in parts]
    return Start(moments, np.concatenate(taken, axis=1), size)


def judge(pairs: list[tuple[Start, Start] | None]) -> list[Judged]:
    """Judge whether both sides of every tensor follow one law; tests are counted together."""
    known = [None if pair is None else (recognise(*_of(pair[0])), recognise(*_of(pair[1]))) for pair in pairs]
    drawn = [laws for laws in known if laws is not None and all(law.drawn for law in laws)]
    limit = ALPHA / max(1, TESTS * len(drawn))
    judged = []
    for pair, laws in zip(pairs, known, strict=True):
        if pair is None or laws is None:
            judged.append(Judged())
        else:
            judged.append(_judged(pair, laws, limit))
    return judged


def _of(start: Start) -> tuple[Array, Array]:
    return start.moments, start.samples


def _judged(pair: tuple[Start, Start], laws: tuple[Law, Law], limit: float) -> Judged:
    found = Judged(ALIGNED, laws, prints=(pair[0].prints, pair[1].prints))
    finite = [float(s.moments[:, FINITE].mean()) / s.size for s in pair]
    if (finite[0] < 1) != (finite[1] < 1):
        found.verdict = DIVERGED
        found.notes.append("NaN or infinities on one side only")
    elif not all(law.drawn for law in laws):
        found.verdict = ALIGNED if _same_fixed(pair, laws) else DIVERGED
    else:
        _compare(found, pair, laws, limit)
    return found


def _same_fixed(pair: tuple[Start, Start], laws: tuple[Law, Law]) -> bool:
    """Whether values that no seed decides are the same, by moments and extremes."""
    if laws[0].family is not laws[1].family:
        return False
    numbers = [(law.mean, law.std, law.low, law.high) for law in laws]
    slack = ROUNDED * max(abs(n) for side in numbers for n in side)
    if laws[0].family is Family.FIXED:
        slack *= math.sqrt(pair[0].size)  # tables are computed, each framework's way
    return all(abs(a - b) <= slack for a, b in zip(*numbers, strict=True))


def _compare(found: Judged, pair: tuple[Start, Start], laws: tuple[Law, Law], limit: float) -> None:
    """Test two drawn tensors; what is significant and no smaller than the margin counts."""
    if (laws[0].family is Family.ORTHOGONAL) != (laws[1].family is Family.ORTHOGONAL):
        found.verdict = DIVERGED
        return
    spread = max(laws[0].std, laws[1].std)
    tests = _tests(pair, spread)
    wrong = [(p, name, effect) for name, p, effect in tests if p < limit and effect > MARGIN]
    found.shows = _shows(pair[0], laws[0], limit)
    if wrong:
        p, name, effect = min(wrong)
        found.verdict = DIVERGED
        found.notes.append(f"{name} differ by {effect:.2g}: p = {p:.1e}, where {limit:.1e} would be chance among all tests")
    elif found.shows > BLIND:
        found.verdict = UNDERPOWERED
        found.notes.append(f"a scale wrong by less than {found.shows:.0%} would not show")


def _tests(pair: tuple[Start, Start], spread: float) -> list[tuple[str, float, float]]:
    """What is compared, its probability under one law, and its size in deviations."""
    one, other = pair
    stds, means = ([s.moments[:, column] for s in pair] for column in (STD, MEAN))
    apart, p = same_law(one.samples.astype(np.float64), other.samples.astype(np.float64))
    extremes = one.greatest, other.greatest
    reach = abs(float(np.median(extremes[0]) - np.median(extremes[1]))) / max(spread, float(np.median(extremes[0])))
    return [
        ("distributions (Kolmogorov-Smirnov)", p, apart),
        ("means", rank_sum(*means), abs(float(np.mean(means[0]) - np.mean(means[1]))) / spread),
        ("standard deviations", rank_sum(*stds), abs(float(np.mean(stds[0]) - np.mean(stds[1]))) / spread),
        ("greatest values", rank_sum(*extremes), reach),
        ("bounds", extreme_run(*extremes), reach),
    ]


def _shows(start: Start, law: Law, limit: float) -> float:
    """The least relative change of scale that 95 of 100 such comparisons show.

    By the standard error of the deviation; of a uniform law also by its bound, which the greatest values of most seeds come near to.
    """
    if law.family is Family.ORTHOGONAL:
        return MARGIN
    needed = math.sqrt(2 * math.log(2 / limit)) + POWER
    by_spread = needed * math.sqrt(2) * law.error
    if law.family is not Family.UNIFORM or start.size < 2:  # noqa: PLR2004 - a greatest of several
        return max(MARGIN, by_spread)
    return max(MARGIN, min(by_spread, 1.3 / start.size))
