"""The indices that both sides' samplers draw over several epochs.

How many, how often each, and whether the order changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison import frequencies
from paralign.comparison.twosample import distance, kolmogorov
from paralign.model import ALIGNED, DIVERGED, Finding, Pair, Record, StageResult
from paralign.worker.protocol import Data

if TYPE_CHECKING:
    from paralign.capture import Capture

Array = np.ndarray[Any, Any]

#: the probability below which two weighted samplers count as different: one false alarm in 100,000 right ports
CHANCE = 1e-5


#: how far weights may be apart, relative: one side may store them in float32
STORED = 1e-5


@dataclass(frozen=True)
class Epochs:
    """What one side's sampler gave, epoch by epoch; ``length`` is that of the data set.

    ``independent``: no draw depends on another. ``further`` are epochs for the frequencies of samples, of two loaders.
    """

    orders: tuple[Array, ...]
    length: int
    whole: bool
    independent: bool = False
    further: tuple[tuple[Array, ...], ...] = field(default=())

    @property
    def sorted(self) -> bool:
        """Whether every epoch goes through the data from the first sample to the last."""
        return all(bool((np.diff(order) > 0).all()) for order in self.orders)

    @property
    def changing(self) -> bool:
        """Whether another epoch has another order."""
        return any(not np.array_equal(self.orders[0], order) for order in self.orders[1:])

    @property
    def repeating(self) -> bool:
        """Whether an epoch has a sample twice."""
        return any(len(np.unique(order)) < len(order) for order in self.orders)

    @property
    def told(self) -> str:
        """In words."""
        order = self.orders[0]
        distinct = len(np.unique(order))
        several = "in order" if self.sorted else "another order in each epoch" if self.changing else "the same mixed order in each epoch"
        return f"{len(order):,} of {self.length:,} samples an epoch, {distinct:,} of them distinct, {several}"


def read(capture: Capture) -> Epochs | None:
    """The epochs that a side recorded; None where its loader has no sampler."""
    about = Data.answer(capture).epochs
    records = sorted(capture.select(name="indices", role="state"), key=lambda r: r.step)
    if not about or not records:
        return None
    drawn = [capture.array(r) for r in sorted(capture.select(name="drawn", role="state"), key=lambda r: r.step)]
    halves, start = [], 0
    for count in about.further:
        halves.append(tuple(drawn[start : start + count]))
        start += count
    orders = tuple(capture.array(r) for r in records)
    return Epochs(orders, about.length, about.whole, about.independent, tuple(halves))


def compare(result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Add a pair ``sampler`` where both loaders have one, and a finding if they differ."""
    one, other = read(reference), read(candidate)
    if one is None or other is None:
        return
    finding = _apart(one, other) or _held(result, reference, candidate)
    if finding is None and one.changing and other.changing and not (one.sorted or other.sorted):
        finding = _law(result, one, other)
    ends = [Record(0, "sampler", "data", "fact", "none", (), text=side.told) for side in (one, other)]
    notes = [] if finding is None else [finding.cause]
    pair = Pair("sampler", ends[0], ends[1], verdict=ALIGNED if finding is None else DIVERGED, judged=finding is not None, notes=notes)
    result.pairs.append(pair)
    result.notes.append(
        f"samplers over {len(one.orders)} epochs: {one.told}" + ("" if one.told == other.told else f"; candidate: {other.told}")
    )
    if finding is not None:
        result.findings.append(finding)


def _apart(one: Epochs, other: Epochs) -> Finding | None:
    if one.changing != other.changing and not (one.sorted or other.sorted):
        still = "candidate" if one.changing else "reference"
        cause = f"the {still}'s order is the same in every epoch, the other side's changes"
        fix = "draw a new order in each epoch: no fixed generator made anew, set_epoch(epoch) for a distributed sampler"
        return Finding("data/sampler-still", cause, fix, proven=True)
    if one.repeating != other.repeating:
        twice = "reference" if one.repeating else "candidate"
        cause = f"the {twice} draws samples more than once in an epoch, the other side each at most once: {_counts(one, other)}"
        return Finding("data/sampler-repeats", cause, "draw with replacement on both sides or on neither; look for padding", proven=True)
    if len(one.orders[0]) != len(other.orders[0]):
        cause = f"an epoch has {len(one.orders[0]):,} samples in the reference, {len(other.orders[0]):,} in the candidate"
        return Finding("data/sampler-length", cause, "compare drop_last, num_samples and what a distributed sampler pads", proven=True)
    if one.sorted and other.sorted:
        return _first_other(one, other)
    if one.sorted != other.sorted:
        ordered = "reference" if one.sorted else "candidate"
        return Finding(
            "data/sampler-order", f"the {ordered} goes in order, the other side mixes", "shuffle on both sides or on neither", True
        )
    return _weights(one, other) if one.repeating else _left_out(one, other)


def _held(result: StageResult, reference: Capture, candidate: Capture) -> Finding | None:
    """A finding where both samplers hold weights of all samples, and these differ.

    Only the frameworks' own samplers are known to draw by what they hold; of others a warning says it.
    """
    found = [next(iter(side.select(name="weights", role="state")), None) for side in (reference, candidate)]
    one, other = found
    if one is None or other is None or one.shape != other.shape:
        return None
    ours, theirs = reference.array(one), candidate.array(other)
    apart = np.abs(ours - theirs)
    wrong = np.flatnonzero(apart > STORED * np.maximum(ours, theirs))
    if not len(wrong):
        result.notes.append(f"the weights that both samplers hold for {len(ours):,} samples are equal but for their scale")
        return None
    first = int(wrong[int(apart[wrong].argmax())])
    cause = (
        f"the samplers hold other weights for {len(wrong):,} of {len(ours):,} samples, as shares of all: furthest sample {first}, "
        f"{ours[first]:.4g} in the reference and {theirs[first]:.4g} in the candidate"
    )
    if one.attrs.get("kind") == other.attrs.get("kind") == "weighted":
        return Finding("data/sampler-weights", cause, "compare the weights that the samplers are given", proven=True)
    result.warnings.append(f"{cause}; whether these samplers draw by them is not known")
    return None


def _law(result: StageResult, one: Epochs, other: Epochs) -> Finding | None:
    """A finding where single samples are drawn more often on one side, beyond chance.

    A note or a warning says how far was looked, and what does not suffice for a verdict.
    """
    if not (one.further and other.further):
        if one.repeating or not (one.whole and other.whole):
            result.notes.append(f"how often each sample is drawn was not compared over more than {len(one.orders)} epochs")
        return None
    found = frequencies.compare(one.further, other.further, one.length)
    if found is None:
        result.notes.append(f"how often each sample is drawn was not compared over more than {len(one.orders)} epochs")
        return None
    told = (
        f"sample {found.index} is drawn {found.rates[0]:.3g} times an epoch in the reference, {found.rates[1]:.3g} times in the candidate "
        f"(over {found.epochs} epochs)"
    )
    if found.chance >= frequencies.CHANCE:
        result.notes.append(
            f"how often each sample is drawn was compared over {found.epochs} epochs: no further apart than chance makes it "
            f"({found.chance:.2g}); furthest: {told}"
        )
        return None
    if not found.lasting:
        result.warnings.append(
            f"the samplers may draw with other weights: {told}; loaders built anew do not show it, or could not be asked"
        )
        return None
    cause = f"the samplers draw with other weights: {told}; chance makes frequencies so far apart less than once in a million times"
    return Finding("data/sampler-law", cause, "compare the weights that the samplers are given", proven=True)


def _counts(one: Epochs, other: Epochs) -> str:
    distinct = [len(np.unique(side.orders[0])) for side in (one, other)]
    return f"{distinct[0]:,} distinct of {len(one.orders[0]):,}, and {distinct[1]:,} of {len(other.orders[0]):,}"


def _first_other(one: Epochs, other: Epochs) -> Finding | None:
    for epoch, (mine, theirs) in enumerate(zip(one.orders, other.orders, strict=True)):
        if len(mine) != len(theirs) or not np.array_equal(mine, theirs):
            at = int(np.flatnonzero(mine != theirs)[0]) if len(mine) == len(theirs) else min(len(mine), len(theirs))
            cause = f"epoch {epoch}: place {at} is sample {_at(mine, at)} in the reference, {_at(theirs, at)} in the candidate"
            return Finding("data/sampler-indices", cause, "compare the samplers: which samples do they give?", proven=True)
    return None


def _at(order: Array, place: int) -> str:
    return str(order[place]) if place < len(order) else "missing"


def _left_out(one: Epochs, other: Epochs) -> Finding | None:
    """A finding for samplers that never give the same samples, each giving one once."""
    missing = [set(range(side.length)) - {int(i) for order in side.orders for i in order} for side in (one, other)]
    complete = [len(side.orders[0]) == len(np.unique(np.concatenate(side.orders))) for side in (one, other)]
    if all(complete) and missing[0] != missing[1]:
        first = min(missing[0] ^ missing[1])
        cause = f"the samplers take other parts of the data set: sample {first} is given on one side only"
        return Finding("data/sampler-part", cause, "compare the lists of indices that the samplers are made from", proven=True)
    return None


def _weights(one: Epochs, other: Epochs) -> Finding | None:
    """Two samplers of independent draws with replacement: whether the indices have one law.

    Draws that depend on one another are compared by whole epochs alone, see :func:`_law`.
    """
    if not (one.independent and other.independent):
        return None
    drawn = [np.concatenate(side.orders).astype(np.float64) for side in (one, other)]
    chance = kolmogorov(distance(*drawn), len(drawn[0]) * len(drawn[1]) / (len(drawn[0]) + len(drawn[1])))
    if chance >= CHANCE:
        return None
    cause = f"the samplers draw with other weights: the drawn indices have one law with a probability of {chance:.1e}"
    return Finding("data/sampler-weights", cause, "compare the weights that the samplers are given", proven=True)
