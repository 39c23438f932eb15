"""Batches of loaders that shuffle, made of the same samples on both sides.

What a loader makes of them is compared whatever its order.

A batch that is padded to its longest sample, or lies along another axis than the first, cannot be taken apart into samples.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import Coverage, Unjudged
from paralign.run.recorder import both
from paralign.stages.common.judging import ROUNDING, paired, points_of
from paralign.stages.common.places import batch_of, is_loaders
from paralign.stages.data import sample_fingerprints, samplers
from paralign.worker.protocol import Collated, Data, Groups

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, StageResult
    from paralign.worker.protocol import DataSeen

#: what the keys of such pairs end with
SAME = " (same samples)"

#: the artifact with both sides' batches of them
COLLATED = "collated batches"


class Outcome(Enum):
    """What came of batches of the same samples."""

    COMPARED = "compared"
    #: compared with the reference's draws in place of the candidate's
    REPLAYED = "replayed"
    #: the loader draws although its samples do not, as one that masks words does
    RANDOM = "random"
    #: a loader takes no indices, or samples are drawn in another way on each side
    UNKNOWN = "unknown"


def compare(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> Outcome:
    """Add pairs of batches that both loaders make of the reference's first samples.

    They can be compared where both loaders take indices; where something is drawn in samples or batches, if its draws can be replayed.
    """
    answers = [Data.answer(c) for c in captures]
    groups = _asked(context, captures)
    if groups is None:
        return Outcome.UNKNOWN
    if any(answer.draws for answer in answers):
        return _with_equal_draws(context, result, answers, groups)
    try:
        found = context.record_both("groups", Groups(context.settings.split, groups))
    except WorkerFailed:
        return Outcome.UNKNOWN
    told = [Groups.answer(c) for c in found]
    if any(answer.random for answer in told):
        done = _with_equal_draws(context, result, answers, groups, random=True)
        return Outcome.RANDOM if done is Outcome.UNKNOWN else done
    if not all(answer.made for answer in told):
        return _with_equal_draws(context, result, answers, groups)
    _add(context, result, found, answers[0], len(groups))
    return Outcome.COMPARED


def drawn(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> bool:
    """Compare batches that are drawn though their samples are not; tell whether they are."""
    groups = _asked(context, captures)
    answers = [Data.answer(c) for c in captures]
    return groups is not None and _with_equal_draws(context, result, answers, groups, random=True) is Outcome.REPLAYED


def _asked(context: Context, captures: tuple[Capture, Capture]) -> list[list[int]] | None:
    """The samples of the first batches by the reference's sampler.

    None where a loader has none, or another data set.
    """
    epochs = [samplers.read(c) for c in captures]
    size = Data.answer(captures[0]).settings.get("batch_size", "")
    if epochs[0] is None or epochs[1] is None or epochs[0].length != epochs[1].length or not size.isdigit():
        return None
    return _groups([int(index) for index in epochs[0].orders[0]], max(1, int(size)), context.settings.batches)


def _with_equal_draws(
    context: Context, result: StageResult, answers: list[DataSeen], groups: list[list[int]], *, random: bool = False
) -> Outcome:
    """Compare batches with the reference's draws in place of the candidate's.

    Of batches that are known to be ``random``, nothing is known if no draw of theirs is seen.
    """
    order = Collated(context.settings.split, groups)
    if not all("collate_fn" in answer.settings for answer in answers):
        return Outcome.UNKNOWN
    name = f"collated-{context.part}" if context.part else "collated"
    try:
        one, other = both(*(partial(side.record, name, order) for side in (context.reference, context.candidate)))
        drawn = [any(Collated.answer(c).draws.values()) for c in (one, other)]
        if all(drawn):
            other = context.candidate.record(f"{name}-given", order, {"draws": one})
    except WorkerFailed:
        return Outcome.UNKNOWN
    if Collated.answer(other).misfits or drawn[0] != drawn[1] or (random and not drawn[0]):
        return Outcome.UNKNOWN
    _add(context, result, (one, other), answers[0], len(groups))
    return Outcome.REPLAYED if drawn[0] else Outcome.COMPARED


def _add(context: Context, result: StageResult, found: tuple[Capture, Capture], answer: DataSeen, count: int) -> None:
    """The pairs of batches of the same samples."""
    context.artifacts[COLLATED] = found
    records = [[r for r in c.records if r.role != "state"] for c in found]
    pairs = paired(*found, points_of(*records), ROUNDING, context.settings.tolerance_of("data"))
    for pair in pairs:
        pair.key += SAME
    result.pairs += pairs
    total = None if answer.batches is None else answer.batches.total
    result.coverage.append(Coverage("batches of the same samples", count, total))


def _groups(order: list[int], size: int, most: int) -> list[list[int]]:
    """The first batches, and the last where it is a partial one."""
    whole = [order[at : at + size] for at in range(0, len(order), size)]
    return whole[:most] + (whole[-1:] if len(whole) > most and len(whole[-1]) < size else [])


def excuse_lengths(result: StageResult) -> None:
    """Leave out first batches that differ only by lengths which vary by batch.

    Padded ones do so.
    """
    ends = [p for p in result.pairs if is_loaders(p) and batch_of(p) is not None]
    for pair in ends:
        if pair.stats is None and pair.judged and _is_varied(pair, ends):
            pair.leave_out(Unjudged.DRAWN, "its length depends on which samples come together: not compared one by one")


def _is_varied(pair: Pair, others: list[Pair]) -> bool:
    """Whether the axes in which two batches differ vary among the batches of one side too."""
    first, second = pair.reference, pair.candidate
    if first is None or second is None or len(first.shape) != len(second.shape) or first.shape == second.shape:
        return False
    sides: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = [], []
    for other in others:
        if other.reference is None or other.candidate is None or other.reference.leaf != first.leaf:
            continue
        key = batch_of(other)
        if key is None or key.step < 0:
            continue
        sides[0].append(other.reference.shape)
        sides[1].append(other.candidate.shape)
    unequal = [axis for axis, lengths in enumerate(zip(first.shape, second.shape, strict=True)) if len(set(lengths)) > 1]
    return all(any(_varies(side, axis) for side in sides) for axis in unequal)


def _varies(shapes: list[tuple[int, ...]], axis: int) -> bool:
    """Whether some shapes have several lengths of an axis."""
    return len({shape[axis] for shape in shapes if len(shape) > axis}) > 1


def is_apart(captures: tuple[Capture, Capture]) -> bool:
    """Whether rows have other forms from batch to batch.

    What stands beside a sample decides how it is padded.
    """
    tables = sample_fingerprints.rows(*captures)
    return any(table is not None and len(set(table.numbers[:, sample_fingerprints.FORM].tolist())) > 1 for table in tables)
