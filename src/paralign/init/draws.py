"""What a tensor can be filled with: each class draws the values of one family, in numpy.

``check(shape, dtype)`` raises :class:`InvalidInit` where the parameters make no sense or do not fit a tensor of this shape and
type. ``values(random, shape, dtype)`` then returns an array of that shape in float64 (for ``float64``) or float32 (for all else)
whose elements are values of ``dtype``. ``str()`` says what is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Protocol, Tuple

import numpy as np

from paralign.init._problems import InvalidInit
from paralign.init._rounding import computing, held, nearest, rounded

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
    Random = np.random.Generator
    Shape = Tuple[int, ...]

#: above this share of a normal distribution, cutting it by drawing again is cheap
_LIKELY = 0.3

#: candidates at a time: bounds the memory beside the result
_CHUNK = 1 << 20

#: beyond this many halved squares below the peak, a density is less than exp(-50) of it
_NEGLIGIBLE = 100.0


class Draw(Protocol):
    """A family of values with its parameters."""

    def check(self, shape: Shape, dtype: str) -> None:
        """Raise InvalidInit where this cannot fill such a tensor."""

    def values(self, random: Random, shape: Shape, dtype: str) -> Array:
        """The values, see the head of this file."""


@dataclass(frozen=True)
class Constant:
    """One value everywhere."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"

    def check(self, shape: Shape, dtype: str) -> None:  # noqa: ARG002 - any shape will do
        """The value must fit; infinities and NaN do."""
        if math.isfinite(self.value):
            held(self.value, dtype, "val")

    def values(self, random: Random, shape: Shape, dtype: str) -> Array:  # noqa: ARG002 - nothing is random
        """The value, rounded."""
        return np.full(shape, nearest(self.value, dtype), computing(dtype))


@dataclass(frozen=True)
class Uniform:
    """Uniform in ``[low, high)``; both bounds are rounded to the type first, as PyTorch does."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"U({self.low:.6g}, {self.high:.6g})"

    def check(self, shape: Shape, dtype: str) -> None:  # noqa: ARG002 - any shape will do
        """Bounds in order, within the type, and not farther apart than its greatest value."""
        held(self.low, dtype, "a")
        held(self.high, dtype, "b")
        if self.low > self.high:
            raise InvalidInit(f"the lower bound {self.low:g} is above the upper bound {self.high:g}", where="a, b", hint="exchange them")
        held(self.high - self.low, dtype, "b - a")

    def values(self, random: Random, shape: Shape, dtype: str) -> Array:
        """Values that rounding lifts to the upper bound are drawn again."""
        low, high = nearest(self.low, dtype), nearest(self.high, dtype)
        found = _between(random, shape, low, high, dtype)
        while low < high:
            lifted = found >= high
            if not lifted.any():
                break
            found[lifted] = _between(random, (int(lifted.sum()),), low, high, dtype)
        return found


@dataclass(frozen=True)
class Normal:
    """Normal; ``zero_row`` of the first axis is zero (an embedding's padding)."""

    mean: float
    std: float
    zero_row: Optional[int] = None

    def __str__(self) -> str:
        return f"N(mean {self.mean:.6g}, std {self.std:.6g})" + ("" if self.zero_row is None else f", row {self.zero_row} zero")

    def check(self, shape: Shape, dtype: str) -> None:  # noqa: ARG002 - any shape will do
        """A finite mean, a finite standard deviation that is not negative."""
        held(self.mean, dtype, "mean")
        held(self.std, dtype, "std")
        if self.std < 0:
            raise InvalidInit(f"the standard deviation {self.std:g} is negative", where="std", hint="give 0 or more")

    def values(self, random: Random, shape: Shape, dtype: str) -> Array:
        """Standard normal values, scaled and shifted in place."""
        found = np.asarray(random.standard_normal(shape, dtype=computing(dtype)), computing(dtype))  # a scalar for shape ()
        found *= computing(dtype)(self.std)
        found += computing(dtype)(self.mean)
        if self.zero_row is not None:
            found[self.zero_row] = 0
        return rounded(found, dtype)


@dataclass(frozen=True)
class Truncated:
    """Normal, given that the value lies in ``[low, high]``.

    The bounds are absolute and rounded to the type first.
    """

    mean: float
    std: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"N(mean {self.mean:.6g}, std {self.std:.6g}) cut to [{self.low:.6g}, {self.high:.6g}]"

    def check(self, shape: Shape, dtype: str) -> None:  # noqa: ARG002 - any shape will do
        """Check that bounds are in order and the standard deviation is positive.

        One bound may be infinite on its own side.
        """
        held(self.mean, dtype, "mean")
        held(self.std, dtype, "std")
        if self.std <= 0:
            raise InvalidInit(
                f"a cut normal distribution needs a positive standard deviation, not {self.std:g}",
                where="std",
                hint="use constant_ for a single value",
            )
        if self.low > self.high:
            raise InvalidInit(f"the lower bound {self.low:g} is above the upper bound {self.high:g}", where="a, b", hint="exchange them")
        for bound, name, free in ((self.low, "a", -math.inf), (self.high, "b", math.inf)):
            if bound != free:
                held(bound, dtype, name)

    def values(self, random: Random, shape: Shape, dtype: str) -> Array:
        """Exact values by rejection, as :func:`_cut_normal` draws them, scaled."""
        low, high = nearest(self.low, dtype), nearest(self.high, dtype)
        found = _cut_normal(random, math.prod(shape), (low - self.mean) / self.std, (high - self.mean) / self.std)
        found *= self.std
        found += self.mean
        np.clip(found, low, high, out=found)  # scaling rounds
        return rounded(found.astype(computing(dtype), copy=False), dtype).reshape(shape)


@dataclass(frozen=True)
class Eye:
    """The identity matrix; a rectangle is filled up with zeros."""

    def __str__(self) -> str:
        return "identity"

    def check(self, shape: Shape, dtype: str) -> None:  # noqa: ARG002 - any shape will do
        """Two dimensions."""
        _dimensions(shape, "eye_", (2,))

    def values(self, random: Random, shape: Shape, dtype: str) -> Array:  # noqa: ARG002 - nothing is random
        """Ones on the diagonal of a matrix."""
        return np.eye(shape[0], shape[1], dtype=computing(dtype))


@dataclass(frozen=True)
class Dirac:
    """A convolution that hands each group's first channels through, at its centre.

    Its shape is ``[out, in / groups, *kernel]``.
    """

    groups: Any = 1  # checked below

    def __str__(self) -> str:
        return f"Dirac, groups {self.groups}"

    def check(self, shape: Shape, dtype: str) -> None:  # noqa: ARG002 - any shape will do
        """Three to five dimensions, the first of which falls into the groups."""
        _dimensions(shape, "dirac_", (3, 4, 5))
        if not isinstance(self.groups, (int, np.integer)) or self.groups < 1:
            raise InvalidInit(f"groups={self.groups!r} is no number of groups", where="groups", hint="give an int of 1 or more")
        if shape[0] % self.groups:
            raise InvalidInit(
                f"{shape[0]} output channels do not fall into {self.groups} groups",
                where="groups",
                hint="give the groups of the convolution that the weight belongs to",
            )

    def values(self, random: Random, shape: Shape, dtype: str) -> Array:  # noqa: ARG002 - nothing is random
        """Zeros but for a one a channel."""
        found = np.zeros(shape, computing(dtype))
        each = shape[0] // self.groups
        centre = tuple(size // 2 for size in shape[2:])
        for group in range(self.groups):
            for channel in range(min(each, shape[1])):
                place = (group * each + channel, channel, *centre)
                found[place] = 1
        return found


@dataclass(frozen=True)
class Orthogonal:
    """A uniformly random (semi-)orthogonal matrix times ``gain``.

    Axes after the first are flattened.
    """

    gain: float

    def __str__(self) -> str:
        return f"orthogonal, gain {self.gain:.6g}"

    def check(self, shape: Shape, dtype: str) -> None:
        """Two dimensions or more; the gain must fit."""
        if len(shape) < 2:  # noqa: PLR2004 - a matrix
            raise InvalidInit(
                f"orthogonal_ needs a tensor of 2 or more dimensions, this one has shape {list(shape)}",
                where="tensor",
                hint="use normal_ for vectors",
            )
        held(self.gain, dtype, "gain")

    def values(self, random: Random, shape: Shape, dtype: str) -> Array:
        """Q of a normal matrix, its columns' signs set by R's diagonal (Mezzadri 2007).

        arXiv math-ph/0609050.
        """
        rows, columns = shape[0], math.prod(shape[1:])
        normal = random.standard_normal((max(rows, columns), min(rows, columns)), dtype=computing(dtype))
        q, r = np.linalg.qr(normal)
        q *= np.where(np.diag(r) < 0, -self.gain, self.gain).astype(computing(dtype))
        return rounded(q if rows >= columns else q.T, dtype).reshape(shape)


@dataclass(frozen=True)
class Sparse:
    """Normal around 0, with ``sparsity`` of each column set to zero.

    The number of zeros is rounded up to whole elements.

    A column is what one input feeds: a column of ``[out, in]`` in layout ``torch``, a row of ``[in, out]`` in layout ``paddle``.
    """

    sparsity: float
    std: float
    layout: str

    def __str__(self) -> str:
        return f"N(mean 0, std {self.std:.6g}), {self.sparsity:.6g} of each input's weights zero"

    def check(self, shape: Shape, dtype: str) -> None:
        """Check two dimensions, a share between 0 and 1, and the standard deviation.

        The latter as for a normal distribution.
        """
        _dimensions(shape, "sparse_", (2,))
        if not 0 <= self.sparsity <= 1:
            raise InvalidInit(f"sparsity {self.sparsity:g} is no share", where="sparsity", hint="give a number from 0 to 1")
        Normal(0.0, self.std).check(shape, dtype)

    def values(self, random: Random, shape: Shape, dtype: str) -> Array:
        """The places of the zeros are drawn for every column by sorting random numbers."""
        found = Normal(0.0, self.std).values(random, shape, dtype)
        matrix = found.T if self.layout == "paddle" else found  # a view
        zeros = math.ceil(self.sparsity * matrix.shape[0])
        places = np.argsort(random.random(matrix.shape), axis=0)[:zeros]
        np.put_along_axis(matrix, places, 0, axis=0)
        return found


def _dimensions(shape: Shape, function: str, allowed: Tuple[int, ...]) -> None:
    if len(shape) not in allowed:
        raise InvalidInit(
            f"{function} needs a tensor of {', '.join(map(str, allowed))} dimensions, this one has shape {list(shape)}",
            where="tensor",
            hint="use another function for tensors of this shape",
        )


def _between(random: Random, shape: Shape, low: float, high: float, dtype: str) -> Array:
    """Uniform values, rounded; those near ``high`` may have become ``high``."""
    found = np.asarray(random.random(shape, dtype=computing(dtype)), computing(dtype))  # a scalar for shape ()
    found *= computing(dtype)(high - low)
    found += computing(dtype)(low)
    return rounded(found, dtype)


def _cut_normal(random: Random, count: int, low: float, high: float) -> Array:
    """Standard normal values, given that they lie in ``[low, high]``: float64, exact.

    Where the interval holds much of the distribution, normal candidates outside it are dropped. Else candidates are uniform and kept
    with the density's share of its peak; far bounds are drawn in to where that share is below exp(-50).
    """
    likely = (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2 > _LIKELY
    peak = min(max(0.0, low), high)
    reach = math.hypot(peak, math.sqrt(_NEGLIGIBLE))
    near, far = max(low, -reach), min(high, reach)
    found = np.empty(count)
    done = 0
    while done < count:
        size = min(max(count - done, 1024), _CHUNK)
        if likely:
            candidates = random.standard_normal(size)
            kept = candidates[(candidates >= low) & (candidates <= high)]
        else:
            candidates = near + (far - near) * random.random(size)
            kept = candidates[random.standard_exponential(size) >= (candidates - peak) * (candidates + peak) / 2]
        kept = kept[: count - done]
        found[done : done + len(kept)] = kept
        done += len(kept)
    return found
