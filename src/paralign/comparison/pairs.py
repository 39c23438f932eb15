"""Two records held to be the same point, and what differs about them.

That is said in notes; values are measured.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from paralign.comparison.measure import measure, squeezed
from paralign.comparison.recognise import rearrangement
from paralign.dtypes import STORAGE, Typed
from paralign.model import Pair, Record, Stats

if TYPE_CHECKING:
    from collections.abc import Callable

#: relative errors below this are no rearrangement
_SLIGHT = 1e-3
#: characters of a text that a note quotes
_QUOTED = 40


def compare_pair(
    key: str,
    reference: Record | None,
    candidate: Record | None,
    reference_value: Typed | None,
    candidate_value: Typed | None,
    *,
    how: str = "name",
    atol: float | None = None,
    rtol: float | None = None,
    threads: int | None = None,
    shown: bool = True,
) -> Pair:
    """Measure two records and note what differs about them.

    :func:`~paralign.comparison.judge` gives the verdict afterwards.

    Types that differ, and shapes that differ by axes of length 1, are noted and the values compared. Other shapes are noted
    and nothing is measured. A record of type ``none`` (a gradient that is not there) is measured as zeros. Texts are noted
    where they differ. ``stats`` stays None where nothing was measured.

    Args:
        key: what the pair is called.
        reference: the trusted record, or None where the candidate has no twin.
        candidate: the record of the port, or None where the reference has no twin.
        reference_value: its values; None where they were not kept, and for texts and type ``none``.
        candidate_value: as ``reference_value``.
        how: what paired them: ``name``, ``structure`` or ``content``.
        atol: absolute part of the user's tolerance.
        rtol: part of the user's tolerance that is relative to the reference.
        threads: as in :func:`~paralign.comparison.measure`.
        shown: as in :func:`~paralign.comparison.measure`.

    Raises:
        ValueError: both records are None.
        UsageError: an impossible tolerance.
    """
    pair = Pair(key=key, reference=reference, candidate=candidate, how=how)
    if reference is None and candidate is None:
        raise ValueError(f"pair {key!r} has neither a reference nor a candidate")
    if reference is None or candidate is None:
        pair.notes.append(f"missing in the {'reference' if reference is None else 'candidate'}")
    elif reference.text is not None or candidate.text is not None:
        pair.notes += _text_notes(reference, candidate)
    else:
        _compare_values(
            pair,
            (reference, candidate),
            (reference_value, candidate_value),
            partial(measure, atol=atol, rtol=rtol, threads=threads, shown=shown),
        )
    return pair


def complete(pair: Pair, reference_value: Typed | None, candidate_value: Typed | None) -> None:
    """Measure what a person looks at on a pair that was measured for its verdict alone.

    What is known already stays.

    Args:
        pair: as :func:`compare_pair` made it.
        reference_value: the values that it was made of.
        candidate_value: as ``reference_value``.
    """
    stats = pair.stats
    if stats is None or stats.mean_abs is not None:
        return
    full = compare_pair(pair.key, pair.reference, pair.candidate, reference_value, candidate_value).stats
    if full is not None:
        stats.mean_abs, stats.max_rel, stats.max_rel_at, stats.ulp = full.mean_abs, full.max_rel, full.max_rel_at, full.ulp


def _compare_values(
    pair: Pair, records: tuple[Record, Record], values: tuple[Typed | None, Typed | None], measured: Callable[[Typed, Typed], Stats]
) -> None:
    """Measure what there is to measure of two records that are not texts."""
    absent = tuple(record.dtype == "none" for record in records)
    for side, value, none in zip(("reference", "candidate"), values, absent, strict=True):
        if value is None and not none:
            pair.notes.append(f"the values of the {side} were not kept")
    first, second = values
    if any(absent):
        present = first if absent[1] else second
        if present is not None and not all(absent):
            sides = (_zeros(present), present) if absent[0] else (present, _zeros(present))
            pair.stats = measured(*sides)
            pair.notes.append(_absence(records, absent[0], pair.stats))
    elif first is not None and second is not None:
        _compare_tensors(pair, first, second, measured)


def _compare_tensors(pair: Pair, reference: Typed, candidate: Typed, measured: Callable[[Typed, Typed], Stats]) -> None:
    """Note how two tensors differ in type, shape, NaN and arrangement; measure them.

    The latter where the shapes allow it.
    """
    shapes = reference.array.shape, candidate.array.shape
    if reference.dtype != candidate.dtype:
        pair.notes.append(f"dtype {reference.dtype} against {candidate.dtype}")
    if shapes[0] != shapes[1]:
        pair.notes.append(f"shape {shapes[0]} against {shapes[1]}")
    if squeezed(shapes[0]) == squeezed(shapes[1]):
        pair.stats = measured(reference, candidate)
        pair.notes += _value_notes(pair.stats)
        if pair.stats.rel_l2 <= _SLIGHT:
            return
    found = rearrangement(reference, candidate)
    if found:
        pair.notes.append(f"the candidate's values are the reference's, {found.phrase}")


def _value_notes(stats: Stats) -> list[str]:
    """What is to be said of emptiness, NaN and infinities."""
    if not stats.count:
        return ["nothing to compare: the tensors are empty"]
    notes = []
    # both disagreements and the difference of the totals are known: the ones on either side follow
    surplus = stats.nan_candidate - stats.nan_reference
    for side, only in (("reference", (stats.nan - surplus) // 2), ("candidate", (stats.nan + surplus) // 2)):
        if only:
            notes.append(f"NaN at {_places(only)} of the {side} only")
    if stats.nan_reference and not stats.nan:
        notes.append(f"NaN at the same {_places(stats.nan_reference)} of both")
    if stats.inf:
        notes.append(f"infinities differ at {_places(stats.inf)}")
    elif stats.inf_reference:
        notes.append(f"the same infinities at {_places(stats.inf_reference)} of both")
    left_out = stats.nan_reference + stats.inf_reference
    if left_out and not stats.nan and not stats.inf:
        notes.append(f"compared as numbers: {stats.count - left_out} of {stats.count} elements")
    return notes


def _places(count: int) -> str:
    return f"{count} place" if count == 1 else f"{count} places"


def _zeros(like: Typed) -> Typed:
    """Zeros of the same shape and type that take no memory (zero has no bits set in any type)."""
    return Typed(np.broadcast_to(np.zeros((), STORAGE[like.dtype]), like.array.shape), like.dtype)


def _absence(records: tuple[Record, Record], reference: bool, stats: Stats) -> str:
    """A note on a value that only one side has."""
    noun = "gradient" if "gradient" in {record.role for record in records} else "tensor"
    thing = f"a {noun}" if stats.mismatched else f"a {noun} of zeros"
    if not stats.count:
        thing = f"an empty {noun}"
    return f"no {noun} against {thing}" if reference else f"{thing} against no {noun}"


def _text_notes(reference: Record, candidate: Record) -> list[str]:
    first, second = reference.text, candidate.text
    if first is None or second is None:
        kinds = ["text" if record.text is not None else f"a tensor of type {record.dtype}" for record in (reference, candidate)]
        return [f"{kinds[0]} against {kinds[1]}"]
    if first == second:
        return []
    if max(len(first), len(second)) <= _QUOTED:
        return [f"text {first!r} against {second!r}"]
    at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    quoted = [text[at : at + _QUOTED] + ("…" if len(text) > at + _QUOTED else "") for text in (first, second)]
    return [f"text differs from character {at}: {quoted[0]!r} against {quoted[1]!r}"]
