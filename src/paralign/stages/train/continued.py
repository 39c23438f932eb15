"""Trainings that are interrupted after their first checkpoint and go on from it.

They are held against the uninterrupted ones of their own side.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED, Coverage, Pair
from paralign.stages.train import trajectory
from paralign.stages.train.curves import of_capture
from paralign.worker.protocol import Train

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import StageResult
    from paralign.stages.train.trajectory import Exact
    from paralign.worker.protocol import Trained

#: steps after the interruption that a comparison takes at least: the first has the loaded weights, the second the optimizer's state too
LEAST = 2

SIDES = ("reference", "candidate")

_SHORT = "no checkpoint within the steps that are compared one by one ([training] exact_steps)"


def compare(context: Context, result: StageResult, exact: Exact) -> list[Pair]:
    """Interrupt each side's training that writes checkpoints; judge the steps that follow.

    Args:
        context: of the check.
        result: of the stage, which gets notes and warnings.
        exact: the uninterrupted runs.
    """
    answers = [Train.answer(capture) for capture in (exact.reference, exact.candidate)]
    counts = [answer.checkpoints for answer in answers]
    silent = [_silent(answer) for answer in answers]
    why = ""
    if not any(counts):
        why = silent[0]
    elif exact.orders.draws:
        why = "its steps draw random numbers"
    if why:
        result.notes.append(f"whether a resumed training goes on as an uninterrupted one was not looked at: {why}")
        return []
    pairs: list[Pair] = []
    tried = 0
    for number, side in enumerate(SIDES):
        if not counts[number]:
            result.notes.append(f"{side}: {silent[number]}, so that it was not interrupted")
            continue
        pair = _interrupted(context, result, exact, number)
        if pair is None:
            continue
        forgets = any(p.verdict == DIVERGED for p in pairs)
        pairs.append(pair)
        if pair.verdict == UNDERPOWERED:  # the coverage says so: no reason to doubt the steps themselves
            pair.judged = False
            result.notes.append(f"{side}: {pair.notes[0]}")
            continue
        tried += 1
        if pair.verdict == DIVERGED and (side == "reference" or forgets):
            pair.judged = False  # a port of a program that cannot resume need not
        if pair.verdict == DIVERGED and side == "reference":
            result.warnings.append(f"the reference itself does not go on from its checkpoint as it was: {pair.notes[0]}")
    result.coverage.append(Coverage("resumed trainings", tried, len(SIDES)))
    return pairs


def _silent(answer: Trained) -> str:
    """Why a training wrote no checkpoint."""
    return _SHORT if answer.stopped[0] == "steps" else "train(log) writes no checkpoints by log.checkpoint(epoch, save)"


def _interrupted(context: Context, result: StageResult, exact: Exact, number: int) -> Pair | None:
    """One side's interrupted training; None, with a note, where there was nothing to compare."""
    side, recorder = SIDES[number], (context.reference, context.candidate)[number]
    given = exact.given if number else {"state": exact.start, "batches": exact.batches}
    pair = Pair(f"resumed training of the {side}", None, None, verdict=ALIGNED)
    try:
        capture = recorder.record("train-resumed", replace(exact.orders, draws="", interrupt=True), given)
    except WorkerFailed as failed:
        pair.verdict = DIVERGED
        pair.notes.append(f"it cannot be saved and resumed: {failed.type}: {failed.message}")
        return pair
    result.seconds[side] = result.seconds.get(side, 0.0) + capture.manifest.resources.get("seconds", 0.0)
    answer = Train.answer(capture)
    if answer.interrupted is None:
        result.notes.append(f"{side}: {_SHORT}")
        return None
    if not answer.resumed:
        result.notes.append(f"{side}: train(log) does not begin with log.resume(load), so that it was not resumed")
        return None
    _judge(pair, exact, (number, answer.interrupted), capture)
    return pair


def _judge(pair: Pair, exact: Exact, of: tuple[int, int], capture: Capture) -> None:
    """Hold the figures of the steps after the interruption against the uninterrupted run's."""
    number, at = of
    whole, resumed = exact.runs[number], of_capture(capture)
    moved = [of_capture(each) for each in exact.moved]
    told = f"interrupted after {at} steps"
    worst = -1.0
    for key, values in trajectory.of_steps(whole):
        if key not in resumed.curves:
            continue
        count = min(len(values), len(resumed.curves[key]))
        if count < at + LEAST:
            continue
        drifted = [run.curves[key] for run in moved if key in run.curves]
        cut = replace(resumed, curves={key: resumed.curves[key][:count]})
        found, known = trajectory.curve(key, values[:count], cut, [d[:count] for d in drifted])
        ratio = found.ratio or 0.0
        if known > at and (found.verdict == DIVERGED or ratio > worst):
            worst = float("inf") if found.verdict == DIVERGED else ratio
            pair.stats, pair.noise, pair.verdict = found.stats, found.noise, found.verdict
            pair.notes = [f"{told}, {key[1]} {_in_own_words(found.notes[0])}"] if found.notes else []
    ended = {run.stopped[0] for run in (whole, resumed)} <= {"", "steps"}
    if pair.verdict == ALIGNED and ended and whole.steps != resumed.steps:
        pair.verdict = DIVERGED
        pair.notes = [f"{told}, {resumed.steps} steps are made in all, {whole.steps} uninterrupted"]
    elif worst < 0:
        pair.verdict = UNDERPOWERED
        pair.notes.append(f"{told}: fewer than {LEAST} steps follow that can be compared")
    elif not pair.notes:
        pair.notes.append(f"{told}, {min(whole.steps, resumed.steps) - at} steps follow")


def _in_own_words(note: str) -> str:
    """A note of two runs of one side, without the words reference and candidate."""
    return note.replace("in the reference", "uninterrupted").replace("in the candidate", "resumed")
