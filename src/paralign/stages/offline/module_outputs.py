"""The outputs of single modules in two captures, compared without running anything.

They are there with ``[forward] modules = "full"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.comparison import compare_pair
from paralign.model import ALIGNED, NOT_TESTED, Pass
from paralign.stages.common.judging import Noises, points_of, settle
from paralign.worker.protocol import Calls

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.model import Pair, Record, StageResult, Tolerance
    from paralign.stages.common.judging import Method


def compare(result: StageResult, reference: Capture, candidate: Capture, method: Method, tolerance: Tolerance) -> None:
    """Put a pair for every module that both captures hold an output of before the others.

    Say what could not be compared.

    Modules inform: a right port may be divided into modules otherwise. They are judged where the captures hold nothing else.

    Args:
        result: what the comparison has come to so far.
        reference: a capture.
        candidate: a capture.
        method: how the captures' own outputs are judged.
        tolerance: the user's.
    """
    sides = [_outputs(c, run) for c, run in ((reference, method.reference_run), (candidate, method.candidate_run))]
    kept = [[r for r in side if r.location is not None] for side in sides]
    if not all(kept):
        result.notes += _why_not(sides, kept, (reference, candidate))
        return
    points = points_of(*kept)
    alone = not result.pairs
    shared = [(one, other, how) for one, other, how in points if one is not None and other is not None]
    pairs = [_pair(one, other, how, (reference, candidate), tolerance) for one, other, how in shared]
    noises = Noises(reference, method, modules=True)
    for pair, (one, _, _) in zip(pairs, shared, strict=True):
        pair.noise = noises.of(one)
    settle(pairs, method, tolerance)
    for pair in pairs:
        pair.judged = alone
    result.pairs[:0] = pairs
    _say(result, pairs, len(points) - len(shared))


def _outputs(capture: Capture, run: str) -> list[Record]:
    """The outputs of modules in one run, in the order in which the modules completed."""
    return [r for r in capture.records if "module" in r.attrs and r.role == "output" and Pass.of(r.run).precision == run]


def _pair(one: Record, other: Record, how: str, captures: tuple[Capture, Capture], tolerance: Tolerance) -> Pair:
    values = captures[0].value(one), captures[1].value(other)
    return compare_pair(f"module {_name(one)}", one, other, *values, how=how, atol=tolerance.atol, rtol=tolerance.rtol)


def _name(record: Record) -> str:
    """A module's output in words."""
    return (record.key or "(the model)") + (f" call {record.call + 1}" if record.call else "")


def _say(result: StageResult, pairs: list[Pair], lonely: int) -> None:
    """How many were compared, and the first that differs."""
    result.notes.append(f"outputs of {len(pairs)} modules were compared; {lonely} have no counterpart")
    wrong = next((pair for pair in pairs if pair.verdict not in (ALIGNED, NOT_TESTED)), None)
    if wrong is not None:
        result.notes.append(f"the first whose output differs: {'' if wrong.reference is None else _name(wrong.reference)}")


def _why_not(sides: list[list[Record]], kept: list[list[Record]], captures: tuple[Capture, Capture]) -> list[str]:
    """Why no outputs of modules were compared, and how to have them recorded."""
    advice = 'set [forward] modules = "full", run `paralign check DIR forward`, and compare captures/*/forward'
    if any(sides) and not all(kept):
        return [f"the outputs of modules were recorded as digests, without values: {advice}"]
    if all(capture.manifest.stage == Calls.task for capture in captures):
        return [f"these captures hold the order of the modules alone: {advice}"]
    return []
