"""Whether two samplers draw single samples equally often.

The draws of one epoch may depend on one another. Epochs are swapped whole between the sides: classes in clumps, draws without
replacement and batches of one kind stay as they are. That is exact where each side's epochs do not depend on one another, also where
their law changes with the number of the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]

#: the chance below which frequencies count as different
CHANCE = 1e-6

#: swaps that are tried: first those that most equal laws fail, then as many as a chance of one in a million takes
FEW, MANY = 1 << 12, 1 << 21

#: swaps that are tried at once: 16 MB
AT_ONCE = 1 << 16

#: epochs of each loader below which nothing is concluded: all of 2**31 swaps of 32 epochs are seldom met by 2**21 draws
LEAST = 16

#: epochs below which nothing is said at all
SAID = 32

#: share of the agreement between epochs of one loader that epochs of two loaders have at least, where the law is not one loader's own
LASTING = 0.5


@dataclass(frozen=True)
class Frequencies:
    """How often samples are drawn on both sides.

    ``index`` is the sample furthest apart, drawn ``rates`` times an epoch; ``chance`` the probability of frequencies so far apart under
    one law; ``lasting`` whether loaders that were built anew show the same.
    """

    index: int
    rates: tuple[float, float]
    chance: float
    epochs: int
    lasting: bool


def compare(reference: Sequence[Sequence[Array]], candidate: Sequence[Sequence[Array]], length: int) -> Frequencies | None:
    """The frequencies of single samples.

    None where too few epochs were drawn, or indices are none of the data set's.

    Args:
        reference: epochs of indices, loader by loader.
        candidate: of the other side likewise.
        length: of the data set.
    """
    pairs: list[tuple[Array, Array]] = []
    loaders: list[int] = []
    seen: tuple[set[bytes], set[bytes]] = set(), set()
    for number, (ours, theirs) in enumerate(zip(reference, candidate, strict=False)):
        for one, other in zip(ours, theirs, strict=False):
            keys = one.tobytes(), other.tobytes()
            if keys[0] in seen[0] or keys[1] in seen[1]:  # an order that comes back is no epoch of its own
                continue
            seen[0].add(keys[0])
            seen[1].add(keys[1])
            pairs.append((one, other))
            loaders.append(number)
    if len(pairs) < SAID or any(len(e) and not 0 <= e.min() <= e.max() < length for pair in pairs for e in pair):
        return None
    differences, totals = _differences(pairs)
    gram = differences @ differences.T
    weight = np.abs(differences.sum(0))
    used = np.unique(np.concatenate([epoch for pair in pairs for epoch in pair]))
    index = int(used[int(weight.argmax())])
    rates = [totals[side][int(weight.argmax())] / len(pairs) for side in range(2)]
    return Frequencies(index, (float(rates[0]), float(rates[1])), _chance(gram), len(pairs), _is_lasting(gram, np.array(loaders)))


def _differences(pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, tuple[Array, Array]]:
    """How much more often the reference draws each sample, epoch by epoch.

    In units of the root of all draws of it; and how often each side draws it in all.
    """
    used, places = np.unique(np.concatenate([epoch for pair in pairs for epoch in pair]), return_inverse=True)
    counts = np.zeros((len(pairs), 2, len(used)), np.float32)
    start = 0
    for number, pair in enumerate(pairs):
        for side, epoch in enumerate(pair):
            counts[number, side] = np.bincount(places[start : start + len(epoch)], minlength=len(used))
            start += len(epoch)
    totals = counts.sum(0)
    differences = (counts[:, 0] - counts[:, 1]) / np.sqrt(totals.sum(0))
    return differences.astype(np.float64), (totals[0], totals[1])


def _chance(gram: Array) -> float:
    """The probability of differences that add up to so much.

    Of all ways to swap the sides of whole epochs.
    """
    random, seen, tried = np.random.default_rng(0), 0, 0
    observed = float(gram.sum()) * (1 - 1e-9)
    if observed <= 0:
        return 1.0
    small = gram.astype(np.float32)
    while tried < MANY:
        count = FEW if not tried else AT_ONCE
        signs = random.integers(0, 2, (count, len(gram)), np.int8).astype(np.float32) * 2 - 1
        seen += int((np.einsum("ij,ij->i", signs @ small, signs) >= observed).sum())
        tried += count
        if seen > 1:
            break
    return (seen + 1) / (tried + 1)


def _is_lasting(gram: Array, loaders: Array) -> bool:
    """Whether epochs of two loaders agree in what differs, as those of one loader do."""
    if min(int((loaders == number).sum()) for number in (0, 1)) < LEAST:
        return False
    same = loaders[:, None] == loaders[None, :]
    others = ~np.eye(len(gram), dtype=bool)
    within, across = float(gram[same & others].mean()), float(gram[~same].mean())
    return across > LASTING * within
