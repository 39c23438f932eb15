"""Samples with random transforms: the reference's draws are put in the candidate, or, where that cannot be, distributions compared."""

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
from paralign.worker import redrawn
from paralign.worker.protocol import Data, Replayed

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.worker.tape import Draw

#: samples whose draws are replayed; those that differ first, then others spread over the set
REPLAYED = 32

#: times that a sample is drawn where draws cannot be replayed, and of how many samples: a share of 0.3 for 0.5 shows
TIMES, OF = 500, 6

#: seconds that drawing samples many times may take
PATIENCE = 20.0

#: the probability below which two distributions count as different, before it is divided by the number of tests
CHANCE = 1e-4

#: indices that a note lists
SHOWN = 8

NOTE = "random: the samples agree with the reference's draws in place of the candidate's"


def settle(context: Context, result: StageResult, captures: tuple[Capture, Capture]) -> None:
    """Judge samples that are made with draws by their replay, under several seeds.

    Nothing where one side draws nothing.
    """
    answers = [Data.answer(c) for c in captures]
    total = None if answers[0].whole is None else answers[0].whole.total
    drawn = all(answer.draws for answer in answers)
    other_lengths = any(is_length(p) and p.verdict == DIVERGED for p in result.pairs)
    if not total or not drawn or other_lengths:
        return
    wrong = _bad(result.wrong)
    spread = np.random.RandomState(0).permutation(total)[: REPLAYED - len(wrong[: REPLAYED // 2])]
    indices = sorted({*wrong[: REPLAYED // 2], *(int(i) for i in spread)})
    try:
        _Replay(context, result, indices, int(total), all(answer.shuffled for answer in answers)).run()
    except WorkerFailed as failed:
        result.notes.append(f"draws were not replayed: the {failed.side} failed with {failed.type}: {failed.message}")


@dataclass
class _Replay:
    """The replay of one split's draws."""

    context: Context
    result: StageResult
    indices: list[int]
    total: int
    is_shuffled: bool = False

    @property
    def order(self) -> Replayed:
        return Replayed(self.context.settings.split, self.indices)

    def name(self, what: str) -> str:
        """The folder of a capture."""
        return f"{what}-{self.context.part}" if self.context.part else what

    def run(self) -> None:
        """Draw on both sides; the reference's draws in the candidate where the two are not one stream."""
        sides = self.context.reference, self.context.candidate
        own = both(*(partial(side.record, self.name("draws"), self.order) for side in sides))
        if not all(any(Replayed.answer(c).draws.values()) for c in own):
            return
        if all(_one_stream(*own, index) for index in self.indices):
            self._same_stream(own)
            return
        candidate = self.context.candidate.record(self.name("draws-given"), self.order, {"draws": own[0]})
        misfits = Replayed.answer(candidate).misfits
        pairs = self._pairs(own[0], candidate)
        if misfits:
            self._distributions(f"draws could not be replayed ({next(iter(misfits.values()))})")
        elif _bad(pairs):
            bad = _bad(pairs)
            listed = ", ".join(map(str, bad[:SHOWN]))
            self._distributions(f"{len(bad)} of {len(self.indices)} samples differ also with the reference's draws in place: {listed}")
        else:
            self._agreed(pairs, own[0])

    def _pairs(self, reference: Capture, candidate: Capture) -> list[Pair]:
        records = [[r for r in c.records if r.role != "state"] for c in (reference, candidate)]
        return paired(reference, candidate, points_of(*records), ROUNDING, self.context.settings.tolerance_of("data"))

    def _same_stream(self, own: tuple[Capture, Capture]) -> None:
        """Both sides draw the same numbers by themselves: under other seeds, too, the samples must agree."""
        pairs = self._pairs(*own)
        known = _bad(self.result.pairs)
        bad = [index for index in _bad(pairs) if index not in known]
        if bad and not known:
            self.result.pairs += [p for p in pairs if p.verdict == DIVERGED]
            listed = ", ".join(map(str, bad[:SHOWN]))
            self.result.notes.append(f"random: {len(bad)} of {len(self.indices)} samples differ under seeds of their own: {listed}")
        elif not bad and not known and self.is_shuffled:
            self._met_other_draws()

    def _met_other_draws(self) -> None:
        """Leave what shuffled batches hold to the samples: in another order each sample meets draws that were another's."""
        wrong = [p for p in self.result.pairs if is_loaders(p) and p.verdict == DIVERGED and not is_length(p)]
        held = [p for p in wrong if p.stats is not None or batch_of(p) is None]  # not batches of another shape
        if not held:
            return
        _release("shuffled on both sides, and each sample is drawn as it comes", held)
        self.result.notes.append(
            f"random: drawn one by one, {len(self.indices)} of {self.total:,} samples agree under seeds of their own; "
            "in shuffled batches each meets other draws, so their contents were not compared"
        )

    def _agreed(self, pairs: list[Pair], reference: Capture) -> None:
        result = self.result
        first = [p for p in result.pairs if is_length(p)]
        batches = [p for p in result.pairs if is_loaders(p)]
        for pair in pairs:
            pair.notes.append(NOTE)
        result.pairs = [*first, *pairs, *batches]
        _release("random, drawn otherwise on each side", batches)
        result.coverage = [c for c in result.coverage if c.what not in ("samples", "batches")]
        result.coverage.append(Coverage("samples with draws replayed", len(self.indices), self.total))
        kinds = sorted({str(r.attrs["said"]) for r in reference.records if r.role == "state"})
        result.notes = [note for note in result.notes if " differ: " not in note]
        result.notes.append(f"{NOTE} ({', '.join(kinds)}); {len(self.indices)} of {self.total:,} samples were compared so")

    def _distributions(self, why: str) -> None:
        """Draw some samples many times on both sides, and compare how their figures are distributed."""
        order = replace(self.order, indices=self.indices[:OF], times=TIMES, patience=PATIENCE)
        sides = self.context.reference, self.context.candidate
        captures = both(*(partial(side.record, self.name("drawn"), order) for side in sides))
        chances = _chances(*captures)
        told = f"{why}; up to {TIMES} draws of each of {len(order.indices)} samples were compared by their distributions"
        worst = min(chances, key=lambda key: chances[key], default=None)
        result = self.result
        if worst is None or chances[worst] < CHANCE / len(chances):
            more = (
                ""
                if worst is None
                else f": the {worst[1]} of {worst[0] or 'the sample'} has one law with a probability of {chances[worst]:.1e}"
            )
            result.notes.append(told + more)
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


def _bad(pairs: list[Pair]) -> list[int]:
    """The samples that differ."""
    return sorted({place.step for p in pairs if p.verdict == DIVERGED and (place := sample_of(p)) is not None})


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
    """Leaf and figure -> the probability that all samples' figures have one law, by Kolmogorov's test and Fisher's combination."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in reference.records:
        others = candidate.select(name=record.name, leaf=record.leaf)
        if not record.name.startswith("figures_") or not others:
            continue
        one, other = reference.array(record), candidate.array(others[0])
        for number, figure in enumerate(redrawn.FIGURES):
            size = len(one) * len(other) / (len(one) + len(other))
            found.setdefault((record.leaf, figure), []).append(kolmogorov(distance(_near(one[:, number]), _near(other[:, number])), size))
    return {key: _fisher(chances) for key, chances in found.items()}


def _near(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Values rounded to what float32 tells apart: equal ones must tie."""
    return np.round(values / (np.abs(values).max() or 1.0), 5)


def _fisher(chances: list[float]) -> float:
    """The probability that independent tests give such small ones, after Fisher (1932)."""
    half = -sum(math.log(max(chance, 1e-300)) for chance in chances)
    return math.exp(-half) * math.fsum(half**k / math.factorial(k) for k in range(len(chances)))


def _release(why: str, pairs: list[Pair]) -> None:
    """Do not judge what holds other draws: samples, batches, and facts that depend on them."""
    for pair in pairs:
        key = key_of(pair)
        if pair.verdict == DIVERGED and key is not None and key.kind in (Kind.SAMPLE, Kind.BATCH, Kind.LOADER):
            pair.notes = []
            pair.leave_out(Unjudged.DRAWN, f"{why}: not compared one by one")
