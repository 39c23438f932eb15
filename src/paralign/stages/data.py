"""Data: lengths, samples, each transform, batches, the last partial batch; of the first wrong sample, the line that makes it wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.context import spent
from paralign.model import DIVERGED, NOT_TESTED, Divergence, Pair, Point, StageResult
from paralign.stages import nonfinite, reading, samples
from paralign.stages.judging import ROUNDING, conclude, paired, points_of
from paralign.stages.places import part_of, sample_of

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.model import Record


def run(context: Context) -> StageResult:
    """Judge everything that both sides' data sets and loaders gave, in the order in which it was made."""
    lacking = [context.lacking("data", name) for name in ("build_dataset", "build_dataloader")]
    if all(lacking):
        return StageResult("data", NOT_TESTED, notes=[note for result in lacking if result is not None for note in result.notes])
    settings = context.settings
    options = {"split": settings.split, "samples": settings.samples, "batches": settings.batches, "most": settings.most}
    options["patience"] = settings.patience
    reference, candidate = context.record_both("data", "data", options)
    result = spent(StageResult("data"), reference, candidate)
    result.notes += [note for other in lacking if other is not None for note in other.notes]
    answers = [c.manifest.settings["answer"] for c in (reference, candidate)]
    traced = all(a["transforms"] for a in answers)
    kept = {"dataset": all(a["dataset"] for a in answers), "dataloader": all(a["dataloader"] for a in answers)}
    records = [[r for r in c.records if (traced or "trace" not in r.attrs) and kept[part_of(r.name)]] for c in (reference, candidate)]
    records = _comparable(records, answers, bounded=settings.most is not None)
    result.pairs = paired(reference, candidate, points_of(*records), ROUNDING, settings.tolerance_of("data"))
    if kept["dataset"]:
        reading.dataset(context, result, reference, candidate)
    if kept["dataloader"]:
        reading.loader(context, result, reference, candidate)
    nonfinite.excuse_seen_elsewhere(result.pairs, _leaf)
    if any(a["truncated"] for a in answers):
        why = f"only the first {settings.most} batches were looked at; raise [data] most to see the last one"
        result.notes.append(why if settings.most is not None else "not all batches could be read within a minute")
    conclude(result, ROUNDING)
    if result.verdict == DIVERGED:
        result.divergence = first(result.pairs)
        samples.follow(context, result, reference, candidate)
        reading.explain_shuffled(context, result, reference, candidate)
    return result


def _leaf(pair: Pair) -> object:
    """What is the same for one leaf of all samples, or of all batches."""
    record = pair.reference
    if record is None:
        return None
    place = sample_of(record.key)
    return (part_of(record.name), record.leaf) if place is None else place.leaf


def _comparable(records: list[list[Record]], answers: list[dict[str, Any]], *, bounded: bool) -> list[list[Record]]:
    """The records that are judged one by one: no fingerprints, and no count or last batch of what a side could not read to the end."""
    dropped = set()
    if any(answer.get("whole", {}).get("total", 0) is None for answer in answers):
        dropped.add("length")
    if any(answer["truncated"] for answer in answers) and not bounded:
        dropped.add("dataloader_last")
        if any(answer.get("batches", {}).get("total") is None for answer in answers):
            dropped.add("batches")
    return [[r for r in side if r.role != "state" and r.name not in dropped] for side in records]


def first(pairs: list[Pair]) -> Divergence | None:
    """The first pair that diverged, with what agreed before it."""
    agreed = None
    for pair in pairs:
        if pair.verdict == DIVERGED:
            ends = [Point(r.name, r.op, r.source) if r is not None else None for r in (pair.reference, pair.candidate)]
            return Divergence(ends[0], ends[1], pair, last_agreeing=agreed)
        agreed = pair.key
    return None
