"""What is random in train mode.

A pass is compared in which the port draws what the reference drew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.model import StageResult

#: how the stage says that it left the steps of a mode out
LEFT_OUT = "steps in train mode were not compared"

#: what is said of a port that is no other in what it draws, but in what comes of it
OTHERWISE = "in train mode, with the reference's draws, the port gives other results: it drops elsewhere, or a call changes the next one"


def judge(context: Context, result: StageResult) -> None:
    """Judge train mode with everything random in it on.

    The steps of the stage are compared with dropout off.

    What is random otherwise makes an aligned stage diverge; a pass that was not the same proves nothing. Steps that were left out, of
    a port alone that differs from call to call, prove nothing either.
    """
    if result.verdict != ALIGNED or "train" not in context.modes:
        return
    try:
        replay = pipeline.replayed(context, "train")
    except WorkerFailed as failure:
        result.warnings.append(f"what is random in train mode was not compared: the {failure.side} failed with {failure.type}")
        result.verdict = ALIGNED if failure.side == "reference" else UNDERPOWERED
        return
    found = [] if replay is None else replay.findings
    result.findings += found
    if found:
        result.verdict = DIVERGED
    elif replay is not None and replay.wrong and replay.whole:
        result.warnings.append(OTHERWISE)
        result.verdict = UNDERPOWERED
    elif any(warning.startswith(LEFT_OUT) for warning in result.warnings):
        result.verdict = UNDERPOWERED
