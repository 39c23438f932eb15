"""Outputs on further sets of inputs, which a judge draws, beside the first set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from paralign.model import DIVERGED, NOT_TESTED, UNDERPOWERED, Finding, StageResult, Unjudged, wrong_of
from paralign.run.kinds_of_inputs import Kind
from paralign.stages.common import precision
from paralign.stages.common.judging import Method, final, paired, points_of
from paralign.worker.datasets.feed import name_of
from paralign.worker.protocol import Forward
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, Record

#: error ÷ noise may be this much greater on inputs that no specification asks for: they are worse conditioned
ROOM = 10.0


@dataclass
class _Set:
    """One set of inputs: its number, how it was drawn, by what the first set was judged."""

    number: int
    kind: Kind
    first: Method

    @property
    def method(self) -> Method:
        """The method of the first set, with room for inputs that no specification asks for."""
        return self.first if self.kind is Kind.SPECIFIED else replace(self.first, limit=ROOM * self.first.limit)

    @property
    def name(self) -> str:
        return f"inputs {self.number + 1}, {self.kind.value}"


def judge(context: Context, result: StageResult, captures: tuple[Capture, Capture], method: Method) -> None:
    """Judge the outputs on further inputs by the method of the first.

    What differs makes the stage diverge, what proves nothing is left out.

    Args:
        context: of the check; its settings say how each set was drawn.
        result: of the stage, whose first outputs were judged.
        captures: of both sides.
        method: by which the stage was judged.
    """
    for number, kind in enumerate(context.settings.draws, 1):
        if result.verdict == DIVERGED:
            return
        _judge_set(context, result, captures, _Set(number, kind, method))


def _judge_set(context: Context, result: StageResult, captures: tuple[Capture, Capture], one: _Set) -> None:
    lost = [lost_reason(capture, one.number) for capture in captures]
    if lost[0]:
        result.warnings.append(f"{one.name}: not judged, as the reference fails there: {lost[0]}")
        return
    if lost[1]:
        result.verdict = DIVERGED
        cause = f"the candidate fails on further inputs ({one.name}), the reference does not: {lost[1]}"
        result.findings.append(Finding("forward/fails", cause, "have it take what the reference takes", proven=True))
        return
    tolerance = context.settings.tolerance_of("forward")
    pairs = paired(*captures, points(captures, one.number, (one.method.reference_run, one.method.candidate_run)), one.method, tolerance)
    for pair in pairs:
        pair.key = f"{pair.key} ({one.name})"
        if pair.verdict in (UNDERPOWERED, NOT_TESTED):
            pair.judged = False
        elif one.method.candidate_run == NATIVE and _overflows(pair) and one.kind is not Kind.SPECIFIED:
            pair.leave_out(Unjudged.ELSEWHERE, "not finite on one side alone, for inputs that no specification asks for")
    result.pairs += pairs
    wrong = wrong_of(pairs)
    if wrong:
        result.verdict = DIVERGED
        result.notes.append(f"only further inputs show it: {wrong[0].key} is {wrong[0].error or 0.0:.2g} away")
        return
    asked = one.kind is Kind.SPECIFIED
    native = [ends for ends in points(captures, one.number, (DOUBLE, NATIVE)) if asked or _is_finite(captures, ends)]
    before = len(result.pairs)
    precision.judge(result, captures, native, one.first, tolerance)
    for pair in result.pairs[before:]:
        pair.notes.append(one.name)


def points(captures: tuple[Capture, Capture], number: int, runs: tuple[str, str]) -> list[tuple[Record | None, Record | None, str]]:
    """The outputs of both sides on one set of inputs, side by side."""
    first, second = (final(c, name=name_of("output", number), run=run) for c, run in zip(captures, runs, strict=True))
    return points_of(first, second)


def lost_reason(capture: Capture, number: int) -> str:
    """Why a side has no outputs on a set of inputs; '' where it has."""
    answer = Forward.answer(capture)
    failed = [answer.lost.get(f"{run} {number}", "") for run in answer.runs]
    for reason in failed:
        if reason:
            return reason
    return ""


def _overflows(pair: Pair) -> bool:
    if pair.stats is None:
        return False
    return bool(pair.stats.nan or pair.stats.inf)


def _is_finite(captures: tuple[Capture, Capture], ends: tuple[Record | None, Record | None, str]) -> bool:
    """Whether both records hold numbers alone.

    Formulas that mean the same overflow at other places.
    """
    first, second, _ = ends
    if first is None or second is None or first.location is None or second.location is None:
        return False
    return all(bool(np.isfinite(capture.array(record)).all()) for capture, record in zip(captures, (first, second), strict=True))
