"""Data: lengths, samples, each transform, batches, the last partial batch.

Of the first wrong sample, the line that makes it wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.context import spent
from paralign.errors import WorkerFailed
from paralign.model import DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, Divergence, Pair, Point, StageResult, overall
from paralign.stages.common import nonfinite
from paralign.stages.common.judging import ROUNDING, conclude, paired, points_of
from paralign.stages.common.places import Kind, key_of_record, part_of
from paralign.stages.data import (
    augmented,
    data_settings,
    every_sample,
    first_wrong_sample,
    kinds_of_data,
    manifests,
    other_types,
    overlap,
    padding,
    samplers,
)
from paralign.worker.protocol import Data, DataSeen

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Record
    from paralign.run.project import Settings


def run(context: Context) -> StageResult:
    """Judge all that both sides' data sets and loaders gave, split by split.

    In the order in which it was made.
    """
    names = context.settings.splits
    if not names:
        return _split(context)
    results: list[tuple[str, StageResult]] = []
    captures: list[tuple[Capture, Capture]] = []
    for number, name in enumerate(names):
        results.append((name, _split(context.of_split(name, number), captures)))
        if results[-1][1].verdict == DIVERGED and not context.explains:
            break  # one split decides
    if context.explains and len(captures) == len(results):
        overlap.explain(results, captures, context.settings.tolerance_of("data"))
    return merged(results)


def _split(context: Context, kept_captures: list[tuple[Capture, Capture]] | None = None) -> StageResult:
    """Judge one split; what was recorded of it is added to a list."""
    missing = [context.lacking("data", name) for name in ("build_dataset", "build_dataloader")]
    lacking = [result for result in missing if result is not None]
    notes = [note for result in lacking for note in result.notes]
    if len(lacking) == len(missing):
        return StageResult("data", NOT_TESTED, notes=notes, lacks=[name for result in lacking for name in result.lacks])
    settings = context.settings
    order = Data(settings.split, settings.samples, settings.batches, settings.most, settings.patience, settings.limit)
    try:
        reference, candidate = context.record_both("data", order)
    except WorkerFailed as failure:
        raise manifests.explained(failure, settings.manifests) from failure
    if kept_captures is not None:
        kept_captures.append((reference, candidate))
    result = spent(StageResult("data"), reference, candidate)
    result.notes += notes
    answers = [Data.answer(c) for c in (reference, candidate)]
    kept = {"dataset": all(a.dataset for a in answers), "dataloader": all(a.dataloader for a in answers)}
    records = [_records_of_both(c, answers, kept) for c in (reference, candidate)]
    records = _comparable(records, answers, bounded=settings.most is not None)
    result.pairs = paired(reference, candidate, points_of(*records), ROUNDING, settings.tolerance_of("data"))
    if kept["dataset"]:
        every_sample.dataset(context, result, reference, candidate)
    if kept["dataloader"]:
        every_sample.loader(context, result, reference, candidate)
    replaced = augmented.settle(context, result, (reference, candidate))
    nonfinite.excuse_seen_elsewhere(result.pairs, _leaf)
    _say_left_out(result, answers, settings)
    conclude(result, ROUNDING)
    if result.verdict == DIVERGED:
        result.divergence = first(result.pairs)
    if result.verdict == DIVERGED and context.explains:
        first_wrong_sample.follow(context, result, reference, candidate, replaced=replaced)
        padding.explain(context, result, (reference, candidate))
        every_sample.explain_shuffled(context, result, reference, candidate)
        kinds_of_data.explain(context, result, reference, candidate, replaced=replaced)
    kinds_of_data.decoders(result, reference, candidate)
    _beside(result, reference, candidate, kept, settings.manifests)
    other_types.say(context, result, (reference, candidate))
    return result


def _records_of_both(capture: Capture, answers: list[DataSeen], kept: dict[str, bool]) -> list[Record]:
    """A capture's records of the parts that both sides have.

    Steps of transforms are among them where both have transforms.
    """
    traced = all(answer.transforms for answer in answers)
    found = []
    for record in capture.records:
        is_step = "trace" in record.attrs
        if (traced or not is_step) and kept[part_of(record.name)]:
            found.append(record)
    return found


def _beside(result: StageResult, reference: Capture, candidate: Capture, kept: dict[str, bool], manifest: dict[str, Path]) -> None:
    """Judge manifest, facts, settings and samplers, after the values.

    Where these differ, they are what is pointed at.
    """
    known, explained = len(result.pairs), list(result.findings)
    if manifest:
        manifests.verify(result, (reference, candidate), manifest)
    if kept["dataset"]:
        data_settings.dataset(result, reference, candidate)
    if kept["dataloader"]:
        data_settings.settings(result, reference, candidate)
        samplers.compare(result, reference, candidate)
    result.findings = explained or result.findings  # a cause that was found in the values says more
    wrong = [p for p in result.pairs[known:] if p.judged]
    if wrong and result.verdict != ERROR:
        result.verdict = DIVERGED
        result.divergence = result.divergence or first(wrong)


def _say_left_out(result: StageResult, answers: list[DataSeen], settings: Settings) -> None:
    """What was not read, in numbers.

    A limit of the user's makes the test too weak, whatever it has seen.
    """
    left = None if settings.limit is None else _left_by_limit(answers)
    if left is not None:
        note = f"[data] limit = {settings.limit}: {left}, and were not compared"
        result.pairs.append(every_sample.unmeasured("samples", UNDERPOWERED, note))
        result.notes.append(note)
    elif any(answer.truncated for answer in answers):
        why = f"only the first {settings.most} batches were looked at; raise [data] most to see the last one"
        result.notes.append(why if settings.most is not None else "not all batches could be read within a minute")


def _left_by_limit(answers: list[DataSeen]) -> str | None:
    """What a limit kept from being read, in words; None where nothing."""
    for answer in answers:
        total, seen = (None, 0) if answer.whole is None else (answer.whole.total, answer.whole.count)
        if total is None:
            return "what follows was left out"
        if total > seen:
            return f"{total - seen:,} of {total:,} samples were left out"
    if any(answer.limited for answer in answers):
        return "what follows was left out"
    return None


def merged(results: list[tuple[str, StageResult]]) -> StageResult:
    """One result of several splits: everything is said with the split's name before it."""
    whole = StageResult("data", overall([r.verdict for _, r in results]), method=next((r.method for _, r in results if r.method), ""))
    for split, result in results:
        for pair in result.pairs:
            pair.key = f"{split}: {pair.key}"
        for finding in result.findings:
            finding.cause = f"{split}: {finding.cause}"
        for coverage in result.coverage:
            coverage.what = f"{split} {coverage.what}"
        whole.pairs += result.pairs
        whole.findings += result.findings
        whole.coverage += result.coverage
        whole.notes += [f"{split}: {note}" for note in result.notes]
        whole.warnings += [f"{split}: {warning}" for warning in result.warnings]
        whole.doubts += [f"{split}: {doubt}" for doubt in result.doubts]
        whole.lacks += [name for name in result.lacks if name not in whole.lacks]
        whole.divergence = whole.divergence or result.divergence
        for side, seconds in result.seconds.items():
            whole.seconds[side] = whole.seconds.get(side, 0.0) + seconds
            whole.peak_bytes[side] = max(whole.peak_bytes.get(side, 0.0), result.peak_bytes.get(side, 0.0))
    return whole


def _leaf(pair: Pair) -> object:
    """What is the same for one leaf of all samples, or of all batches."""
    record = pair.reference
    if record is None:
        return None
    key = key_of_record(record)
    if key is not None and key.kind is Kind.SAMPLE:
        return key.name
    return (part_of(record.name), record.leaf)


def _comparable(records: list[list[Record]], answers: list[DataSeen], *, bounded: bool) -> list[list[Record]]:
    """The records that are judged one by one.

    No fingerprints, and no count or last batch of what a side could not read to the end.
    """
    dropped = set()
    if any(answer.whole is not None and answer.whole.total is None for answer in answers):
        dropped.add("length")
    if any(answer.truncated for answer in answers) and not bounded:
        dropped.add("dataloader_last")
        if any(answer.batches is None or answer.batches.total is None for answer in answers):
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
