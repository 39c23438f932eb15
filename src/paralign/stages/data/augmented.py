"""Samples with random transforms.

The reference's draws are put in the candidate, or, where that cannot be, distributions compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison.twosample import distance, kolmogorov
from paralign.errors import WorkerFailed
from paralign.model import DIVERGED, UNDERPOWERED, Coverage, Pair, Record, StageResult, Unjudged
from paralign.run.recorder import both
from paralign.stages.common.judging import ROUNDING, paired, points_of
from paralign.stages.common.places import Kind, batch_of, is_length, is_loaders, key_of, sample_of
from paralign.stages.data import every_sample, sample_fingerprints
from paralign.stages.data.same_samples import SAME
from paralign.worker.datasets import redrawn
from paralign.worker.protocol import Data, Replayed

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.worker.draws.tape import Draw

#: samples whose values are compared with equal draws, those that differ first, then others spread over the set; of all others fingerprints
REPLAYED = 32

#: times that a sample is drawn where draws cannot be replayed, and of how many samples: a share of 0.3 for 0.5 shows
TIMES, OF = 500, 6

#: seconds that drawing samples many times may take
PATIENCE = 20.0

#: the probability below which two distributions count as different, before it is divided by the number of tests
CHANCE = 1e-4

#: indices that a note lists
SHOWN = 8

SIDES = ("reference", "candidate")

NOTE = "random: the samples agree with the reference's draws in place of the candidate's"


def settle(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> bool:
    """Judge samples that are made with draws by their replay, under several seeds.

    Nothing where one side draws nothing. Whether what is left wrong differs with the reference's draws in place of the candidate's.
    """
    answers = [Data.answer(c) for c in captures]
    total = None if answers[0].whole is None else answers[0].whole.total
    drawn = all(answer.draws or answer.unseen for answer in answers)
    other_lengths = any(is_length(p) and p.verdict == DIVERGED for p in result.pairs)
    if not total or not drawn or other_lengths:
        return False
    wrong = _bad(result.wrong)
    spread = np.random.RandomState(0).permutation(total)[: REPLAYED - len(wrong[: REPLAYED // 2])]
    indices = sorted({*wrong[: REPLAYED // 2], *(int(i) for i in spread)})
    replay = _Replay(context, result, captures, indices, int(total), all(answer.shuffled for answer in answers))
    own = [side for side, answer in zip(SIDES, answers, strict=True) if answer.unseen]
    try:
        if own:
            replay.of_unseen(own)
        else:
            replay.run()
    except WorkerFailed as failed:
        result.notes.append(f"draws were not replayed: the {failed.side} failed with {failed.type}: {failed.message}")
    return replay.is_replaced


@dataclass
class _Replay:
    """The replay of one split's draws."""

    context: Context
    result: StageResult
    seen: tuple[Capture, Capture]
    indices: list[int]
    total: int
    is_shuffled: bool = False
    compared: int = 0
    is_replaced: bool = False

    @property
    def order(self) -> Replayed:
        return Replayed(self.context.settings.split, self.indices)

    def name(self, what: str) -> str:
        """The folder of a capture."""
        return f"{what}-{self.context.part}" if self.context.part else what

    def run(self) -> None:
        """Draw on both sides, the candidate with the reference's draws.

        Where the two are one stream, each draws by itself.
        """
        settings = self.context.settings
        own = self._drawn("draws", replace(self.order, every=True, patience=settings.patience / 2, most=settings.limit))
        if not all(any(Replayed.answer(c).draws.values()) for c in own):
            return
        captures = self._with_equal_draws("draws", own)
        tolerance = settings.tolerance_of("data")
        found = sample_fingerprints.replays(*captures, tolerance)
        self.compared = max(found.common, len(self.indices))
        unread = _unread(captures)
        telling = sample_fingerprints.rarest(*captures, tolerance, "replayed")
        beyond = [index for index in found.asked if index not in self.indices]
        if beyond:
            self.indices = sorted({*self.indices, *beyond})
            own = self._drawn("draws-more", self.order)
            captures = self._with_equal_draws("draws-more", own)
        if captures[1] is own[1]:
            self._same_stream(own)
        else:
            certain = {index for index, distance in found.distances.items() if distance > every_sample.CERTAIN}
            self._judge(own[0], captures[1], certain, telling)
        self.result.pairs += unread

    def of_unseen(self, sides: list[str]) -> None:
        """Compare distributions where a side draws from what no seed reaches."""
        if len(sides) == len(SIDES):
            why = "draws could not be replayed (both sides draw from generators of their own, which no seed reaches)"
        else:
            why = f"draws could not be replayed (the {sides[0]} draws from a generator of its own, which no seed reaches)"
        self._distributions(why, [])

    def _drawn(self, what: str, order: Replayed) -> tuple[Capture, Capture]:
        """Both sides with draws of their own."""
        one, other = both(*(partial(side.record, self.name(what), order) for side in (self.context.reference, self.context.candidate)))
        return one, other

    def _with_equal_draws(self, what: str, own: tuple[Capture, Capture]) -> tuple[Capture, Capture]:
        """Both sides with equal draws, by themselves or with the reference's in the candidate."""
        if all(_one_stream(*own, index) for index in self.indices):
            return own
        order = self._order_of(own[0])
        return own[0], self.context.candidate.record(self.name(f"{what}-given"), order, {"draws": own[0]})

    def _order_of(self, capture: Capture) -> Replayed:
        """The order by which a capture was made, for the other side."""
        if not capture.select(name="draws.layout", role="state"):
            return self.order
        return replace(self.order, every=True, patience=self.context.settings.patience / 2)

    def _judge(self, reference: Capture, candidate: Capture, certain: set[int], telling: list[int]) -> None:
        """Judge samples with the reference's draws, by values or else by distributions."""
        misfits = Replayed.answer(candidate).misfits
        pairs = self._pairs(reference, candidate)
        bad = sorted({*_bad(pairs), *certain}) if _bad(pairs) else []
        if misfits:
            why = f"draws could not be replayed ({next(iter(misfits.values()))})"
            seen = sample_fingerprints.rarest(*self.seen, self.context.settings.tolerance_of("data"), "samples")
            self._distributions(why, seen)
        elif bad:
            listed = ", ".join(map(str, bad[:SHOWN]))
            why = f"{len(bad)} of {self.compared:,} samples differ also with the reference's draws in place: {listed}"
            self._replace(pairs)
            self._distributions(why, [*telling, *bad])
            self.is_replaced = True
        else:
            self._agreed(pairs, reference)

    def _pairs(self, reference: Capture, candidate: Capture) -> list[Pair]:
        records = [[r for r in c.records if r.role != "state"] for c in (reference, candidate)]
        return paired(reference, candidate, points_of(*records), ROUNDING, self.context.settings.tolerance_of("data"))

    def _same_stream(self, own: tuple[Capture, Capture]) -> None:
        """Check sides that draw the same numbers under other seeds, too."""
        pairs = self._pairs(*own)
        known = _bad(self.result.pairs)
        bad = [index for index in _bad(pairs) if index not in known]
        if bad and not known:
            self.result.pairs += [p for p in pairs if p.verdict == DIVERGED]
            listed = ", ".join(map(str, bad[:SHOWN]))
            self.result.notes.append(f"random: {len(bad)} of {self.compared:,} samples differ under seeds of their own: {listed}")
        elif not bad and not known and self.is_shuffled:
            self._met_other_draws()

    def _met_other_draws(self) -> None:
        """Leave what shuffled batches hold to the samples.

        In another order each sample meets draws that were another's.
        """
        wrong = [p for p in self.result.pairs if is_loaders(p) and p.verdict == DIVERGED and not is_length(p)]
        held = [p for p in wrong if p.stats is not None or batch_of(p) is None]  # not batches of another shape
        if not held:
            return
        _release("shuffled on both sides, and each sample is drawn as it comes", held)
        self.result.notes.append(
            f"random: drawn one by one, {self.compared:,} of {self.total:,} samples agree under seeds of their own; "
            "in shuffled batches each meets other draws, so their contents were not compared"
        )

    def _replace(self, pairs: list[Pair]) -> None:
        """Judge samples by what they are with equal draws, in place of those of their own."""
        result = self.result
        first = [p for p in result.pairs if is_length(p)]
        batches = [p for p in result.pairs if is_loaders(p)]
        result.pairs = [*first, *pairs, *batches]
        result.notes = [note for note in result.notes if " differ: " not in note]
        _release("random, drawn otherwise on each side", batches)

    def _agreed(self, pairs: list[Pair], reference: Capture) -> None:
        result = self.result
        for pair in pairs:
            pair.notes.append(NOTE)
        self._replace(pairs)
        result.coverage = [c for c in result.coverage if c.what not in ("samples", "batches")]
        result.coverage.append(Coverage("samples with draws replayed", self.compared, self.total))
        kinds = sorted({str(r.attrs["said"]) for r in reference.records if "said" in r.attrs})
        result.notes.append(f"{NOTE} ({', '.join(kinds)}); {self.compared:,} of {self.total:,} samples were compared so")

    def _distributions(self, why: str, telling: list[int]) -> None:
        """Draw some samples many times on both sides, and compare their figures' distributions.

        Those that tell most are drawn first.
        """
        chosen = list(dict.fromkeys([*telling, *self.indices]))[:OF]
        order = replace(self.order, indices=chosen, times=TIMES, patience=PATIENCE)
        sides = self.context.reference, self.context.candidate
        captures = both(*(partial(side.record, self.name("drawn"), order) for side in sides))
        chances = _chances(*captures)
        told = f"{why}; up to {TIMES} draws of each of {len(order.indices)} samples were compared by their distributions"
        worst = min(chances, key=lambda key: chances[key], default=None)
        result = self.result
        least = CHANCE / max(1, len(chances))
        if worst is None or chances[worst] < least:
            more = ""
            if worst is not None:
                more = f": the {worst[1]} of {worst[0] or 'the sample'} has one law with a probability of {chances[worst]:.1e}"
            result.notes.append(told + more)
            wrong = {leaf for (leaf, _), chance in chances.items() if chance < least}
            if worst is not None:
                _release("random, drawn otherwise on each side", [p for p in result.pairs if _leaf(p) not in wrong])
            if not result.wrong:
                result.pairs.append(_pair("samples drawn many times", DIVERGED, told + more))
            return
        _release("random, drawn otherwise on each side", result.pairs)
        result.notes = [note for note in result.notes if " differ: " not in note]
        note = f"{told}: no difference was seen, which proves no equality"
        result.pairs.append(_pair("samples drawn many times", UNDERPOWERED, note))
        result.notes.append(note)


def _pair(key: str, verdict: str, note: str) -> Pair:
    end = Record(0, key, "data", "sample", "none", ())
    return Pair(key, end, end, verdict=verdict, notes=[note])


def _leaf(pair: Pair) -> str | None:
    """The part of a sample that a pair is of; None for anything else."""
    place = sample_of(pair)
    return None if place is None else place.name


def _bad(pairs: list[Pair]) -> list[int]:
    """The samples that differ."""
    return sorted({place.step for p in pairs if p.verdict == DIVERGED and (place := sample_of(p)) is not None})


def _unread(captures: tuple[Capture, Capture]) -> list[Pair]:
    """Samples that one side can read with these draws, and the other cannot."""
    found = []
    for number, (side, other) in enumerate((("reference", captures[1]), ("candidate", captures[0]))):
        read = {int(i) for table in sample_fingerprints.tables(other, "replayed").values() for i in table.index}
        for index, why in Replayed.answer(captures[number]).failed.items():
            if int(index) in read:
                found.append(every_sample.unmeasured(f"sample_{index}", DIVERGED, f"the {side} fails with {why}"))
    return found


def _one_stream(reference: Capture, candidate: Capture, index: int) -> bool:
    """Whether both sides drew the same numbers by themselves, one after the other."""
    one, other = redrawn.read(reference, index), redrawn.read(candidate, index)
    return len(one) == len(other) and all(map(_equal, one, other))


def _equal(one: Draw, other: Draw) -> bool:
    """Whether two draws are of one kind, and gave the same numbers."""
    if one.kind is not other.kind or one.span != other.span or one.values.size != other.values.size:
        return False
    return np.allclose(one.values.ravel(), other.values.ravel(), atol=1e-6)


def _chances(reference: Capture, candidate: Capture) -> dict[tuple[str, str], float]:
    """Leaf and figure -> the probability that all samples' figures have one law.

    By Kolmogorov's test and Fisher's combination.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for record in reference.records:
        others = candidate.select(name=record.name, leaf=record.leaf)
        if not record.name.startswith("figures_") or not others:
            continue
        one, other = reference.array(record), candidate.array(others[0])
        for number, figure in enumerate(redrawn.FIGURES):
            size = len(one) * len(other) / (len(one) + len(other))
            apart = distance(*_near(one[:, number], other[:, number]))
            found.setdefault((record.leaf, figure), []).append(kolmogorov(apart, size))
    return {key: _fisher(chances) for key, chances in found.items()}


def _near(*sides: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Both sides' values rounded in one unit, to what float32 tells apart.

    Equal ones must tie, and one scale must not pass for another.
    """
    unit = max(float(np.abs(values).max(initial=0.0)) for values in sides) or 1.0
    return [np.round(values / unit, 5) for values in sides]


def _fisher(chances: list[float]) -> float:
    """The probability that independent tests give such small ones, after Fisher (1932)."""
    half = -sum(math.log(max(chance, 1e-300)) for chance in chances)
    return math.exp(-half) * math.fsum(half**k / math.factorial(k) for k in range(len(chances)))


def _release(why: str, pairs: list[Pair]) -> None:
    """Do not judge what holds other draws: samples, batches, and facts that depend on them."""
    for pair in pairs:
        key = key_of(pair)
        if pair.key.endswith(SAME):  # of equal draws
            continue
        if pair.verdict == DIVERGED and key is not None and key.kind in (Kind.SAMPLE, Kind.BATCH, Kind.LOADER):
            pair.notes = []
            pair.leave_out(Unjudged.DRAWN, f"{why}: not compared one by one")
