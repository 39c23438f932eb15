"""A set of inputs whose first axis is much longer than any that was named.

A port that is right up to some length, such as a table's or a loop's, shows there. It is a pass of its own, in processes of its own, so
that a reference which refuses the length takes nothing else with it.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, Finding
from paralign.stages.common.judging import final
from paralign.stages.forward import stage
from paralign.worker.sides.session import NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import StageResult

#: how often the greatest length that was named goes into a longer one, at least and at most
LEAST, MOST = 3, 64

#: elements of inputs and outputs that a longer set has, where the least length allows: a pass of them takes about a second
CHEAP = 1 << 20

#: elements that it has at the very most, 128 MiB in float64: a model's own values are several times as many
BOUND = 1 << 24

#: parts that an interval is drawn from
_STEPS = 1 << 20

#: how a side ended that raised nothing: of a port, that is no answer to judge
ENDED = ("killed", "crashed", "timeout", "stopped")


def drawn_length(greatest: int, elements: float) -> int | None:
    """A length that nobody named, several times the greatest that was.

    Its logarithm is uniform. None where it would take too many elements.

    Args:
        greatest: of the lengths that were named.
        elements: of inputs and outputs, for a length of 1.
    """
    least = LEAST * greatest
    most = max(2 * least, min(MOST * greatest, int(CHEAP / max(elements, 1.0))))
    if most * elements > BOUND:
        return None
    share = secrets.randbelow(_STEPS) / _STEPS
    return int(least * (most / least) ** share)


def elements_of(context: Context, length: int) -> float:
    """Elements of the first set of inputs, and of the reference's outputs for it.

    For a length of 1, where it has ``length``.
    """
    given = [] if context.inputs is None else context.inputs.select(name="inputs")
    made = final(context.artifacts["forward"][0], name="output", run=NATIVE)
    return sum(math.prod(record.shape) for record in (*given, *made)) / max(1, length)


def judge(context: Context, result: StageResult, length: int, draw: Callable[[int], Capture]) -> None:
    """Judge the outputs for a longer first axis; what differs makes the stage diverge.

    A length that the reference refuses is left out, which the result says.

    Args:
        context: of the check, whose first axes are aligned.
        result: of the stage ``forward``.
        length: of the first axis.
        draw: draws inputs of a length.
    """
    context = replace(context, inputs=draw(length), settings=replace(context.settings, draws=()), artifacts={}, replays={}, part="longer")
    try:
        found = stage.judged(context)
    except WorkerFailed as failure:
        if failure.side == "reference":
            result.warnings.append(f"a first axis of {length}: not judged, as the reference fails there: {failure.type}: {failure.message}")
            return
        if failure.type in ENDED:
            raise
        cause = f"the candidate fails for a first axis of {length}, the reference does not: {failure.type}: {failure.message}"
        result.verdict = DIVERGED
        result.findings.append(Finding("forward/fails", cause, "have it take what the reference takes", proven=True))
        return
    for pair in found.pairs:
        pair.key = f"{pair.key} (a first axis of {length})"
    result.pairs += found.pairs
    if found.verdict != ALIGNED:
        result.verdict = found.verdict
        result.warnings += found.warnings
        result.notes.append(f"only a first axis of {length} shows it")
