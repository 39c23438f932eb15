"""Data sets and loaders judged as a whole.

Every sample and batch that both sides could read, and shuffled batches as a set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage, Finding, Pair, Record, StageResult, Unjudged
from paralign.stages.common.judging import ROUNDING, paired, points_of
from paralign.stages.common.places import batch_of, is_loaders, sample_of
from paralign.stages.data import same_samples, sample_fingerprints, samplers
from paralign.stages.data.same_samples import Outcome
from paralign.worker.protocol import Data, DataSeen, ReadThrough, Samples, Trace

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context

#: a sample differs for certain where its fingerprint does by this many times what is granted
CERTAIN = 4.0

#: indices that a note lists
SHOWN = 8

#: the finding of a random step; where whole batches were traced and the samples agree, it is the order
RANDOM = "data/random"

#: causes that an order that is drawn explains as well
REARRANGED = ("data/batch-order", "data/batch-parts", "data/batch", RANDOM)

SHUFFLED = "the order of the batches is shuffled on both sides"


@dataclass(frozen=True)
class Part:
    """What is read as a whole: the samples of the data set, or the batches of the loader."""

    what: str
    one: str
    of: str

    def index(self, pair: Pair) -> int | None:
        """The number of the sample or batch that a pair is of; None for anything else."""
        found = sample_of(pair) if self.of == "dataset" else batch_of(pair)
        return None if found is None else found.step


SAMPLES, BATCHES = Part("samples", "sample", "dataset"), Part("batches", "dataloader", "loader")


def dataset(context: Context, result: StageResult, reference: Capture, candidate: Capture) -> None:
    """All samples that both sides could read within a minute, by fingerprints.

    Where those differ, the values of some decide.
    """
    _judge(context, result, (reference, candidate), SAMPLES)


def loader(context: Context, result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Judge all batches; where both sides shuffle, the samples in them in any order."""
    answers = [Data.answer(c) for c in (reference, candidate)]
    shuffled = [answer.shuffled for answer in answers]
    is_ordered = all(p.verdict != DIVERGED for p in result.pairs if is_loaders(p))
    if all(shuffled) and not is_ordered:
        if _is_repeating(reference) and _is_repeating(candidate):
            _drawn_again(context, result, (reference, candidate))
        else:
            _as_set(context, result, (reference, candidate))
        return
    _judge(context, result, (reference, candidate), BATCHES)
    wrong = [p for p in result.wrong if is_loaders(p) and batch_of(p) is not None]
    if any(shuffled) or len(wrong) < len(result.wrong) or any(p.stats is None for p in wrong):
        return
    if wrong and same_samples.drawn(context, result, (reference, candidate)):
        for pair in wrong:
            pair.leave_out(Unjudged.DRAWN, "random, drawn otherwise on each side: not compared one by one")
        result.notes.append("batches are drawn: compared is what both loaders make of the same samples, with the reference's draws")


def _is_repeating(capture: Capture) -> bool:
    """Whether a loader's sampler draws samples again."""
    sampler = samplers.read(capture)
    return sampler is not None and sampler.repeating


def explain_shuffled(context: Context, result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Say of batches that differ that one side's change with the seed.

    What is random in the samples themselves is a better cause.
    """
    shuffled = [Data.answer(c).shuffled for c in (reference, candidate)]
    if shuffled[0] == shuffled[1] or not any(map(is_loaders, result.wrong)):
        return
    order_was_traced = any(Trace.answer(c).batch for c in context.artifacts.get("trace", ()))
    samples_agree = all(map(is_loaders, result.wrong)) and not all(map(is_loaders, result.pairs))
    random_inside = any(f.rule == RANDOM for f in result.findings)
    if random_inside and not (order_was_traced and samples_agree):
        return
    one, other = ("reference", "candidate") if shuffled[0] else ("candidate", "reference")
    cause = f"the {one}'s batches change with the seed, the {other}'s do not: one of them shuffles"
    result.findings = [f for f in result.findings if f.rule not in REARRANGED]
    result.findings.insert(0, Finding("data/shuffle", cause, "shuffle on both sides or on neither", proven=True))


def _judge(context: Context, result: StageResult, captures: tuple[Capture, Capture], part: Part) -> None:
    found = sample_fingerprints.compare(*captures, context.settings.tolerance_of("data"), part.what)
    if found is None:
        return
    result.coverage += found.coverage
    known = {index for p in result.pairs if (index := part.index(p)) is not None}
    for index, why in found.apart.items():
        if index not in known:
            result.pairs.append(unmeasured(f"{part.one}_{index}", DIVERGED, why))
    asked = [index for index in found.asked if index not in known]
    if asked:
        result.pairs += _values(context, asked, found, part)
    result.pairs.sort(key=is_loaders)
    if found.unread:
        index, why = min(found.unread.items())
        result.notes.append(f"{len(found.unread)} {part.what} can be read on neither side, the first is {index}: {why}")
    wrong = {index for p in result.pairs if p.verdict == DIVERGED and (index := part.index(p)) is not None and index >= 0}
    wrong |= {index for index, distance in found.distances.items() if distance > CERTAIN}
    if len(wrong) > 1:
        listed = ", ".join(map(str, sorted(wrong)[:SHOWN])) + (" …" if len(wrong) > SHOWN else "")
        result.notes.append(f"{len(wrong):,} of {found.common:,} {part.what} differ: {listed}")


def _values(context: Context, asked: list[int], found: sample_fingerprints.Compared, part: Part) -> list[Pair]:
    """The pairs of some samples, whole.

    Of a side that cannot be asked again, what the fingerprints say.
    """
    order = Samples(context.settings.split, asked, part.of)
    try:
        reference, candidate = context.record_both(part.what, order)
    except WorkerFailed as failed:
        why = f"its fingerprints differ; its values could not be read again: the {failed.side} failed: {failed.type}: {failed.message}"
        certain = {index: found.distances[index] > CERTAIN for index in asked}
        return [unmeasured(f"{part.one}_{index}", DIVERGED if certain[index] else UNDERPOWERED, why) for index in asked]
    finally:
        context.artifacts.pop(part.what, None)  # the guides' files are of the first samples
    return paired(reference, candidate, points_of(reference.records, candidate.records), ROUNDING, context.settings.tolerance_of("data"))


def unmeasured(key: str, verdict: str, why: str) -> Pair:
    """A pair without values, with what is to be said of it."""
    end = Record(0, key, "data", "sample", "none", ())
    return Pair(key, end, end, verdict=verdict, notes=[why])


def _as_set(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> None:
    """Judge batches of random order by their shapes, and by the samples they hold."""
    answers = [Data.answer(c) for c in captures]
    for pair in result.pairs:
        if is_loaders(pair) and batch_of(pair) is not None and pair.stats is not None:
            pair.notes = []
            pair.leave_out(Unjudged.DRAWN, f"{SHUFFLED}: not compared one by one")
    same_samples.excuse_lengths(result)
    outcome = same_samples.compare(context, result, captures)
    compared = outcome is Outcome.COMPARED
    if outcome is Outcome.RANDOM:
        _say_unseen(result, "they are random beside their samples", _total(answers[0].batches))
        return
    if outcome is Outcome.REPLAYED:
        result.notes.append(f"{SHUFFLED}, and drawn: compared is what both loaders make of the same samples, with the reference's draws")
        return
    first, second = sample_fingerprints.rows(*captures)
    if first is None or second is None:
        apart = all(answer.rows is None or answer.rows.apart for answer in answers)
        why = "they are too many to be read to the end" if apart else "they cannot be taken apart into samples"
        if compared:
            result.notes.append(f"{SHUFFLED}, and {why}: compared is what both loaders make of the same samples")
        else:
            _say_unseen(result, why, _total(answers[0].batches))
        return
    counts = len(first.index), len(second.index)
    met = sample_fingerprints.matched(first, second, context.settings.tolerance_of("data"))
    left_out = [_left_out(answer, count) for answer, count in zip(answers, counts, strict=True)]
    allowed = min(left_out)  # each pass leaves out others, where the last partial batch is
    fits = counts[0] == counts[1] and counts[0] - met <= allowed
    if not fits and counts[0] == counts[1] and same_samples.is_apart(captures):
        if not compared:
            _say_unseen(result, "what stands beside a sample decides how long it is there (padding?)", _total(answers[0].batches))
        return
    note = f"{SHUFFLED}: compared as a set, {met:,} of {counts[0]:,} samples in them are the same"
    if fits and met < counts[0]:
        note += f"; each pass leaves out {allowed} others"
    pair = unmeasured("dataloader", ALIGNED if fits else DIVERGED, note)
    result.pairs.append(pair)
    result.notes.append(note)
    seen = met if fits else counts[0]  # of batches that differ every sample was compared, the wrong ones too
    result.coverage.append(Coverage("samples in batches", seen, counts[0]))


def _say_unseen(result: StageResult, why: str, total: int | None) -> None:
    """Say that what shuffled batches hold was not compared.

    The test is too weak where no data set was either.
    """
    note = f"{SHUFFLED}, and {why}: what they hold was not compared, only the shapes of the first"
    result.notes.append(note)
    if all(is_loaders(p) for p in result.pairs):
        result.pairs.append(unmeasured("dataloader", UNDERPOWERED, note))
    result.coverage.append(Coverage("batches", 0, total))


def _drawn_again(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> None:
    """Batches drawn with replacement on both sides: no pass holds the samples of another.

    What is drawn is judged by its law, and what both loaders make of the same samples is compared where it can be.
    """
    answers = [Data.answer(c) for c in captures]
    for pair in result.pairs:
        if is_loaders(pair) and batch_of(pair) is not None and pair.stats is not None:
            pair.notes = []
            pair.leave_out(Unjudged.DRAWN, f"{SHUFFLED}: not compared one by one")
    same_samples.excuse_lengths(result)
    note = "both samplers draw with replacement: which samples they draw is compared by its law, the samples themselves in the data set"
    result.notes.append(note)
    if same_samples.compare(context, result, captures) in (Outcome.COMPARED, Outcome.REPLAYED):
        return
    if all(is_loaders(p) for p in result.pairs):
        result.pairs.append(unmeasured("dataloader", UNDERPOWERED, f"{note}; there is no data set on both sides"))
    result.coverage.append(Coverage("batches", 0, _total(answers[0].batches)))


def _total(read: ReadThrough | None) -> int | None:
    """How many there are; None where that is not known."""
    return None if read is None else read.total


def _left_out(answer: DataSeen, rows: int) -> int:
    """How many samples of the data set a pass over the batches leaves out.

    0 where its length is not known.
    """
    total = _total(answer.whole)
    return 0 if total is None else max(0, int(total) - rows)
