"""Which law drawn numbers follow: the family, its parameters, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison.twosample import dependence, kolmogorov

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]

#: columns of what the worker records of one tensor under one seed
FINITE, MEAN, STD, LEAST, GREATEST, ORTHOGONAL, IDENTITY = range(7)

#: a family is not ruled out while its draws are as far from their law with at least this probability
FITS = 1e-3

#: half the width of a law in standard deviations: a uniform one has 1.73, a normal one cut at 3 has 3.04
UNIFORM = math.sqrt(3.0)
CUT = 3.05

#: draws from which on a normal law passes 3.2 standard deviations with near certainty
MANY = 5_000

#: draws that a law is fitted to: more would tell how a framework rounds
FITTED = 2_000

#: share of zeros up to which a law is sought in the other elements: the sparse initialisers that are in use leave a tenth
ZEROS = 0.95

#: steps that halve an interval: 2**-60 of it is left
HALVINGS = 60


class Family(Enum):
    """Families of laws that initialisers draw from."""

    CONSTANT = "constant"
    FIXED = "fixed"
    IDENTITY = "identity"
    ORTHOGONAL = "orthogonal"
    UNIFORM = "uniform"
    NORMAL = "normal"
    TRUNCATED = "truncated normal"
    OTHER = "other"


@dataclass(frozen=True)
class Law:
    """What a tensor is filled with.

    ``low`` and ``high`` are bounds (of a normal law, the extremes that were seen); ``scale`` is the gain of an orthogonal matrix, the
    standard deviation before cutting of a truncated law, else the standard deviation. ``error`` is the relative standard error of the
    scale; ``fit`` the probability of draws so far from the law, None where nothing was drawn. ``zeros`` is the share of elements that
    are 0 beside it, as the row of an embedding's ``padding_idx`` and what a sparse initialiser leaves out; the law is that of the others.
    """

    family: Family
    mean: float
    std: float
    low: float
    high: float
    scale: float
    error: float = 0.0
    fit: float | None = None
    zeros: float = 0.0

    @property
    def drawn(self) -> bool:
        """Whether seeds decide on its values."""
        return self.family not in (Family.CONSTANT, Family.FIXED, Family.IDENTITY)

    def __str__(self) -> str:
        spread = f" ± {2 * self.error:.1%}" if self.error else ""
        law = {
            Family.CONSTANT: f"constant {self.mean:.6g}",
            Family.FIXED: f"the same under every seed, from {self.low:.4g} to {self.high:.4g}",
            Family.IDENTITY: "identity",
            Family.ORTHOGONAL: f"orthogonal, gain {self.scale:.4g}",
            Family.UNIFORM: f"U({self.low:.4g}, {self.high:.4g})",
            Family.NORMAL: f"N(mean {self.mean:.2g}, std {self.std:.4g}{spread})",
            Family.TRUNCATED: f"normal of std {self.scale:.4g} cut to [{self.low:.4g}, {self.high:.4g}]",
            Family.OTHER: f"another law of mean {self.mean:.2g}, std {self.std:.4g}{spread}, from {self.low:.4g} to {self.high:.4g}",
        }[self.family]
        return f"{law}, with {self.zeros:.1%} zeros besides" if self.zeros else law


def recognise(moments: Array, samples: Array) -> Law:
    """The law of a tensor.

    Args:
        moments: shape ``(seeds, 7)``, as the worker records them.
        samples: shape ``(seeds, elements)``.
    """
    mean, std = pooled(moments)
    low, high = float(moments[:, LEAST].min()), float(moments[:, GREATEST].max())
    plain = Law(Family.OTHER, mean, std, low, high, std)
    if low == high:
        return Law(Family.CONSTANT, low, 0.0, low, high, 0.0)
    if len(moments) > 1 and bool((moments[1:] == moments[0]).all()):
        return Law(Family.IDENTITY if moments[0, IDENTITY] else Family.FIXED, mean, std, low, high, std)
    if bool((moments[:, ORTHOGONAL] > 0).all()):
        return Law(Family.ORTHOGONAL, mean, std, low, high, float(moments[:, ORTHOGONAL].mean()))
    drawn = samples[np.isfinite(samples)].astype(np.float64)
    count = float(moments[:, FINITE].sum())
    if bool((moments[:, STD] == 0).all()) and moments[0, FINITE] > 1:
        return plain  # one number drawn for all elements
    zeros = float((drawn == 0).mean()) if len(drawn) else 0.0
    if 0 < zeros <= ZEROS:
        drawn, count = drawn[drawn != 0], count * (1 - zeros)
        square = (std**2 + mean**2) / (1 - zeros)
        mean /= 1 - zeros
        std = math.sqrt(max(0.0, square - mean**2))
        plain = Law(Family.OTHER, mean, std, low, high, std)
    else:
        zeros = 0.0
    drawn = drawn[:: max(1, len(drawn) // FITTED)]
    size = len(drawn) / dependence(samples)
    fits = {family: _fit(drawn, law, size) for family, law in _candidates(plain, count)}
    error = _scale_error(drawn, std, count)
    for family, (law, fit) in fits.items():
        if fit >= FITS:
            return Law(family, mean, std, law.low, law.high, law.scale, error, fit, zeros)
    return Law(Family.OTHER, mean, std, low, high, std, error, max((fit for _, fit in fits.values()), default=0.0), zeros)


def pooled(moments: Array) -> tuple[float, float]:
    """Mean and standard deviation over all seeds."""
    weights = moments[:, FINITE]
    total = float(weights.sum())
    if not total:
        return 0.0, 0.0
    mean = float((weights * moments[:, MEAN]).sum()) / total
    square = float((weights * (moments[:, STD] ** 2 + (moments[:, MEAN] - mean) ** 2)).sum()) / total
    return mean, math.sqrt(square)


def _scale_error(drawn: Array, std: float, count: float) -> float:
    """The relative standard error of a standard deviation of so many draws."""
    if not std or not count:
        return 0.0
    kurtosis = float(((drawn - drawn.mean()) ** 4).mean()) / std**4
    return math.sqrt(max(0.2, kurtosis - 1) / (4 * count))


def _candidates(seen: Law, count: float) -> list[tuple[Family, Law]]:
    """The laws that bounds and deviation allow, the narrowest first."""
    half = (seen.high - seen.low) / 2
    ratio = half / seen.std
    uniform = Law(Family.UNIFORM, seen.mean, seen.std, seen.low, seen.high, seen.std)
    found = [(Family.UNIFORM, uniform)]
    if UNIFORM * 1.02 < ratio < CUT and count >= MANY:
        found.append((Family.TRUNCATED, Law(Family.TRUNCATED, seen.mean, seen.std, seen.low, seen.high, untruncated(half, seen.std))))
    else:
        found.append((Family.NORMAL, Law(Family.NORMAL, seen.mean, seen.std, seen.low, seen.high, seen.std)))
    return found


def _fit(drawn: Array, law: Law, size: float) -> tuple[Law, float]:
    """How probable draws so far from the law are."""
    values = np.sort(drawn)
    expected = np.array([_cdf(law)(float(v)) for v in values])
    steps = np.arange(len(values) + 1) / len(values)
    apart = max(float(np.abs(expected - steps[1:]).max()), float(np.abs(expected - steps[:-1]).max()))
    return law, kolmogorov(apart, size)


def _cdf(law: Law) -> Callable[[float], float]:
    if law.family is Family.UNIFORM:
        return lambda v: (v - law.low) / (law.high - law.low)
    if law.family is Family.NORMAL:
        return lambda v: _phi((v - law.mean) / law.scale)
    middle = (law.low + law.high) / 2
    edges = _phi((law.low - middle) / law.scale), _phi((law.high - middle) / law.scale)
    return lambda v: (_phi((v - middle) / law.scale) - edges[0]) / (edges[1] - edges[0])


def _phi(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def untruncated(half: float, std: float) -> float:
    """The standard deviation of the normal law that has ``std`` once it is cut at ``± half``."""
    low, high = std, std * 1e3
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        if _cut_std(half, middle) < std:
            low = middle
        else:
            high = middle
    return middle


def _cut_std(half: float, sigma: float) -> float:
    edge = half / sigma
    density = math.exp(-(edge**2) / 2) / math.sqrt(2 * math.pi)
    inside = 1 - 2 * _phi(-edge)
    return sigma * math.sqrt(max(0.0, 1 - 2 * edge * density / inside))
