"""Findings by what samples are: of videos, the first frame that differs, and its decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.dtypes import widen
from paralign.errors import WorkerFailed
from paralign.locate.data import sample_kinds
from paralign.locate.data.moved_content import PLACED, placed
from paralign.model import DIVERGED, Record
from paralign.stages.common.places import sample_of
from paralign.worker.protocol import Data, Trace

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import StageResult

Array = np.ndarray[Any, Any]

#: samples of which values are to be there, before others are read
HELD_OUT = 2

#: leaf -> number and both records of samples that differ
Wrong = dict[str, list[tuple[int, Record, Record]]]

#: findings that say where a sample goes wrong, and not how
WHERE = ("data/extra", "data/missing", "data/shape", "data/order")


def explain(context: Context, result: StageResult, reference: Capture, candidate: Capture, *, replaced: bool = False) -> None:
    """Add the finding that explains the samples that differ, unless how is proven already.

    Name frames and decoders of videos.
    """
    by_leaf = _wrong(result, reference, candidate)
    _doubt_placing(result, by_leaf, reference, candidate)
    further = {} if replaced or not by_leaf else _further(context, result, by_leaf)
    for leaf, pairs in by_leaf.items():
        values = [(widen(reference.value(one)), widen(candidate.value(other))) for _, one, other in pairs] + further.get(leaf, [])
        parted = sample_kinds.frames(*values[0])
        if parted is not None:
            _say_frames(result, leaf, pairs[0][0], parted, (reference, candidate))
        if not any(f.proven and f.rule not in (*WHERE, *PLACED) for f in result.findings):
            finding = sample_kinds.explain(leaf, values)
            if finding is not None and finding.rule not in [f.rule for f in result.findings if f.proven]:
                result.findings = [finding, *(f for f in result.findings if f.proven and f.rule not in PLACED)]


def _further(context: Context, result: StageResult, wrong: Wrong) -> dict[str, list[tuple[Array, Array]]]:
    """Leaf -> values of further samples that differ, on which a cause is tried.

    Read only where too few were kept: what one sample suggests is a guess.
    """
    if min(map(len, wrong.values())) > HELD_OUT:
        return {}
    kept = {index for pairs in wrong.values() for index, _, _ in pairs}
    places = [place.step for place in map(sample_of, result.wrong) if place is not None]
    others = sorted(set(places) - kept)
    found: dict[str, list[tuple[Array, Array]]] = {}
    for index in dict.fromkeys([*others[:1], *others[-1:]]):
        try:
            captures = context.record_both("kinds-other", Trace(context.settings.split, index, "dataset", [context.settings.seed]))
        except WorkerFailed:
            return found
        sides = [_parts(capture) for capture in captures]
        for key, value in sides[0].items():
            other = sides[1].get(key)
            if other is not None and not (value.shape == other.shape and np.array_equal(value, other)):
                found.setdefault(key.partition(".")[2], []).append((value, other))
    return found


def _parts(capture: Capture) -> dict[str, Array]:
    """The parts of a traced sample, by key."""
    records = [r for r in capture.select(run="seed-0") if r.location is not None and not r.name.startswith("step_")]
    return {record.key: widen(capture.value(record)) for record in records}


def _doubt_placing(result: StageResult, wrong: Wrong, reference: Capture, candidate: Capture) -> None:
    """Let a content that lies elsewhere be proven only if it does in all samples that differ."""
    proven = [f for f in result.findings if f.proven and f.rule in PLACED]
    if not proven or not wrong:
        return
    for pairs in wrong.values():
        values = [(widen(reference.value(one)), widen(candidate.value(other))) for _, one, other in pairs]
        if not any(a.ndim and a.size > 1 for a, _ in values):
            continue
        others = [index for (index, _, _), (a, b) in zip(pairs, values, strict=True) if placed(a, b) is None]
        if others and len(others) < len(pairs):
            told = f"{len(others)} of {len(pairs)} samples that differ, such as {others[0]}, do not do so in this way: it is a guess"
            result.notes.append(f"the content of some samples lies elsewhere; {told}")
            for finding in proven:
                finding.proven = False


def _wrong(result: StageResult, reference: Capture, candidate: Capture) -> Wrong:
    """Leaf -> sample and both records, of differing samples whose values are kept."""
    found: Wrong = {}
    for pair in result.pairs:
        place = sample_of(pair)
        one, other = pair.reference, pair.candidate
        if place is None or pair.verdict != DIVERGED or one is None or other is None or one.attrs.get("trace"):
            continue
        mine = [r for r in reference.select(name=one.name, leaf=one.leaf) if r.location is not None]
        theirs = [r for r in candidate.select(name=other.name, leaf=other.leaf) if r.location is not None]
        if mine and theirs:
            found.setdefault(place.name, []).append((place.step, mine[0], theirs[0]))
    return found


def _say_frames(result: StageResult, leaf: str, index: int, parted: tuple[int, int], captures: tuple[Capture, Capture]) -> None:
    frame, count = parted
    names = [", ".join(Data.answer(c).decoders or ["no library that is known"]) for c in captures]
    place = f"sample {index}{'.' if leaf else ''}{leaf}"
    told = f"{place}: frame {frame} is the first that differs, {count} frames do"
    result.notes.append(f"{told}; read by {names[0]} in the reference, by {names[1]} in the candidate")


def decoders(result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Say which libraries read videos, where they are not the same on both sides."""
    told = [Data.answer(c).decoders for c in (reference, candidate)]
    names = [sorted({name.split(" ")[0] for name in side}) for side in told]
    if names[0] != names[1] and all(names):
        result.notes.append(
            f"videos are read by {', '.join(told[0])} in the reference, by {', '.join(told[1])} in the candidate: "
            "decoders differ in colour conversion and in which frame they seek"
        )
