"""The verdict on a pair, asked of numbers that were measured before.

Stored pairs can be judged again.
"""

from __future__ import annotations

import math

from paralign.comparison.measure import squeezed
from paralign.dtypes import is_floating
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Pair, Record, Stats, Tolerance

#: noise, as a part of the values, beyond which agreement within it proves nothing
LOUD = 0.1

#: an error up to which a pair agrees whatever the noise
SMALL = 1e-3


def judge(pair: Pair, *, limit: float, tolerance: Tolerance | None = None, exact: bool = False) -> str:
    """Decide on a pair: sets and returns ``pair.verdict``.

    The first of these that applies decides:

    1. a record is missing, texts differ, shapes differ by more than axes of length 1: ``diverged``;
    2. nothing was measured, or the tensors are empty: ``not tested``; no value against no value or zeros: ``aligned``, against
       anything else: ``diverged``;
    3. the sides disagree on NaN or infinities: ``diverged``; they agree and nothing else is there: ``underpowered``, but ``aligned``
       where ``exact`` is asked for;
    4. the user set ``atol`` or ``rtol``: ``aligned`` where no element exceeds them, else ``diverged``;
    5. ``exact``, neither side floating, or no noise known: ``aligned`` where all values are equal, else ``diverged``;
    6. error ÷ noise greater than ``limit``: ``diverged``; else ``aligned``, but ``underpowered`` where the noise is over a
       tenth of the values and the error is not small all the same (as it can be where both sides ran in float64).

    Args:
        pair: as :func:`~paralign.comparison.compare_pair` made it, ``noise`` set by the caller.
        limit: greatest error ÷ noise; the tolerance's own ``ratio`` comes before it.
        tolerance: what the user set.
        exact: values must be equal whatever the noise.

    Raises:
        UsageError: the pair was measured without the tolerance that it is to be judged by.
    """
    pair.granted = None
    pair.verdict = _by_records(pair) or _by_numbers(pair, limit, tolerance or Tolerance(), exact=exact)
    return pair.verdict


def _by_records(pair: Pair) -> str | None:
    """What can be said without numbers, None where numbers decide."""
    if pair.reference is None or pair.candidate is None:
        return DIVERGED
    records = pair.reference, pair.candidate
    if any(record.text is not None for record in records):
        return _either(records[0].text == records[1].text)
    absent = [record.dtype == "none" for record in records]
    if all(absent):
        return ALIGNED
    if pair.stats is None:
        return NOT_TESTED if any(absent) or _comparable(*records) else DIVERGED
    if any(absent) and pair.stats.count:
        return _either(not pair.stats.mismatched)
    return None if pair.stats.count else NOT_TESTED


def _by_numbers(pair: Pair, limit: float, tolerance: Tolerance, *, exact: bool) -> str:
    """What was measured, against the user's tolerance, equality or the noise."""
    stats = pair.stats or Stats()
    if stats.nan or stats.inf:
        return DIVERGED
    if not finite(stats) and not exact:
        _note(pair, "nothing finite was compared: every element is NaN or infinite on both sides, which proves nothing")
        return UNDERPOWERED
    if tolerance.absolute:
        pair.granted = tolerance
        return _either(_within(pair.key, stats, tolerance))
    rounded = any(record is not None and is_floating(record.dtype) for record in (pair.reference, pair.candidate))
    if exact or pair.noise is None or not rounded:
        return _either(not stats.mismatched)
    return _beside_noise(pair, limit if tolerance.ratio is None else tolerance.ratio, pair.noise.value)


def finite(stats: Stats) -> int:
    """How many elements were compared as numbers.

    Those that are finite, where the sides agree on which are not.
    """
    return stats.count - stats.nan_reference - stats.inf_reference


def _either(agrees: bool) -> str:
    return ALIGNED if agrees else DIVERGED


def _comparable(reference: Record, candidate: Record) -> bool:
    return squeezed(tuple(reference.shape)) == squeezed(tuple(candidate.shape))


def _within(key: str, stats: Stats, tolerance: Tolerance) -> bool:
    """Whether no element exceeds the user's tolerance."""
    if stats.exceeding is not None:
        return stats.exceeding == 0
    if not tolerance.rtol:
        return stats.max_abs <= (tolerance.atol or 0.0)
    raise UsageError(
        "the pair was measured without the tolerance that it is to be judged by",
        where=key,
        hint="measure it again with the same atol and rtol",
    )


def _beside_noise(pair: Pair, limit: float, noise: float) -> str:
    """Error ÷ noise against the limit."""
    ratio = pair.ratio
    if math.isnan(noise):
        _note(pair, "the reference's own noise is not a number: nothing can be proven")
        return UNDERPOWERED
    if ratio is None or not ratio <= limit:
        return DIVERGED
    if noise > LOUD and (pair.error or 0.0) > SMALL:
        _note(pair, f"the reference's own noise is {noise:.2g} of its values: agreement within it proves nothing")
        return UNDERPOWERED
    return ALIGNED


def _note(pair: Pair, note: str) -> None:
    if note not in pair.notes:
        pair.notes.append(note)
