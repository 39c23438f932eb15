"""Running statistics: what two frameworks may differ in without either being wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.adapters.profile import profile_of
from paralign.dtypes import EPS
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Noise, Unjudged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.model import Pair, Record

Array = np.ndarray[Any, Any]

#: names of the two statistics in the frameworks
MEANS, VARIANCES = ("running_mean", "_mean"), ("running_var", "_variance")

#: a mean below this share of the standard deviation is zero but for rounding, where the reference itself does not know it
ZERO = 1e-4

#: below this share it is rounding in float64, whatever is known of the reference: a mean of a million numbers of size 1 that cancel
CANCELLED = 1e-12

#: said of what is left out
UNJUDGED = "vanishes but for rounding: not judged"

#: the share of a loss below which a part of it is the square of float32's rounding
SQUARED = EPS["float32"] ** 2

#: beyond this size a value is none of rounding's squares, whatever stands beside it: counts and times are large
VANISHED = 1e-12

#: calls of one layer in one step that are told apart: twins, triplets, crops, critics on real and on made data
CALLS = 8

BIASED = "inherent: PyTorch keeps the unbiased running variance, Paddle the biased one: a factor of n / (n - 1)"


def kept(record: Record | None, framework: str) -> float | None:
    """The share that one step keeps of a statistic.

    PyTorch's momentum is the weight of the new value, Paddle's of the old.
    """
    keeps_old = profile_of(framework).momentum_keeps_old
    momentum = record.attrs.get("momentum") if record is not None else None
    if momentum is None:
        return None
    share = float(momentum) if keeps_old else 1.0 - float(momentum)
    return share if 0.0 <= share < 1.0 else None


def kept_otherwise(reference: str, candidate: str) -> bool:
    """Whether only one framework keeps the unbiased running variance."""
    first, second = profile_of(reference).unbiased_variance, profile_of(candidate).unbiased_variance
    if first is None or second is None:
        return False
    return first != second


def is_unbiased(framework: str) -> bool:
    """Whether a framework keeps the unbiased running variance."""
    return profile_of(framework).unbiased_variance is True


def stored(share: float) -> Noise:
    """What storing the momentum in float32 does to a statistic that starts at zero."""
    return Noise(EPS["float32"] / 2 * share / (1 - share), "the momentum, stored in float32")


def excuse_zero_means(pairs: Sequence[Pair], deviations: dict[str, float], unknown: float) -> None:
    """Leave out means that are zero but for rounding on both sides.

    Args:
        pairs: the buffers of one step, judged.
        deviations: owner -> root of the reference's mean running variance.
        unknown: noise above which the reference does not know a value.
    """
    for pair in pairs:
        first, stats = pair.reference, pair.stats
        if first is None or stats is None or pair.noise is None or first.attrs.get("leaf") not in MEANS:
            continue
        share = ZERO if pair.noise.value > unknown else CANCELLED
        scale = deviations.get(first.attrs.get("owner", ""), 0.0)
        if max(stats.rms_reference, stats.rms_candidate) <= share * scale:
            pair.leave_out(Unjudged.ROUNDING, UNJUDGED)


def excuse_vanishing_parts(pairs: Sequence[Pair]) -> None:
    """Leave out parts of a loss that are zero but for squares of rounding.

    A teacher that still equals its student, a penalty of weights that are zero: beside the other parts nothing of them is left.
    """
    parts = [pair for pair in pairs if pair.stats is not None and pair.reference is not None and "float" in pair.reference.dtype]
    largest = max((pair.stats.rms_reference for pair in parts if pair.stats is not None and pair.verdict == ALIGNED), default=0.0)
    for pair in parts:
        if pair.stats is None or pair.verdict not in (DIVERGED, UNDERPOWERED) or pair.key.endswith(".loss"):
            continue
        size = max(pair.stats.rms_reference, pair.stats.rms_candidate)
        if 0 < size <= min(SQUARED * largest, VANISHED):  # of values that are not finite no size is known
            pair.leave_out(Unjudged.ROUNDING, UNJUDGED)


def is_biased(old: Array, reference: Array, candidate: Array, share: float, allowed: float, *, reference_unbiased: bool) -> bool:
    """Whether two running variances differ by the factor n / (n - 1) of the batch alone.

    A layer that a step calls several times (both images of a pair, a network on real and on made data) keeps the share as often.

    Args:
        old: the statistic before the step.
        reference: the reference's after it.
        candidate: the candidate's after it.
        share: what one call keeps of the old.
        allowed: L2 distance that noise explains.
        reference_unbiased: whether the reference is the framework that divides by n - 1.
    """
    unbiased, biased = (reference, candidate) if reference_unbiased else (candidate, reference)
    return any(_differ_by_count(old, unbiased, biased, share**calls, allowed) for calls in range(1, CALLS + 1))


def _differ_by_count(old: Array, unbiased: Array, biased: Array, share: float, allowed: float) -> bool:
    """Whether one added n / (n - 1) times as much as the other, for a whole n."""
    new, other = (value.astype(np.float64) - share * old.astype(np.float64) for value in (unbiased, biased))
    square = float(np.dot(other.ravel(), other.ravel()))
    if square == 0.0:
        return False
    factor = float(np.dot(new.ravel(), other.ravel())) / square
    count = max(2.0, round(factor / (factor - 1.0))) if factor > 1.0 else math.inf
    factor = count / (count - 1.0) if math.isfinite(count) else 1.0
    return float(np.linalg.norm(new - factor * other)) <= max(allowed, 1e-6 * float(np.linalg.norm(new)))
