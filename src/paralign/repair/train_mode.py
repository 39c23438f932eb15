"""Whether an edited candidate agrees in train mode, where no stage takes steps.

A pass of both sides is compared operation by operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import WorkerFailed
from paralign.locate.laboratory.watched import Watched
from paralign.worker.protocol import Operations
from paralign.worker.sides.session import DOUBLE, NATIVE
from paralign.worker.steps.training import MODES

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.context import Context
    from paralign.repair.trial_room import Room


def differs_in_train_mode(room: Room, edited: dict[Path, bytes]) -> bool:
    """Whether outputs differ in train mode without randomness, or the pass fails.

    False where a side cannot be watched.
    """
    found: list[bool] = []
    room.run(edited, ["forward"], then=lambda context: found.append(_differs(context)))
    return any(found)


def _differs(context: Context) -> bool:
    if context.inputs is None or not context.observed:
        return False
    order = Operations([DOUBLE, NATIVE], mode=MODES["train"])
    try:
        judgement = Watched(context, order, {"inputs": context.inputs}, name="train-mode").judgement()
    except WorkerFailed:
        return True
    return bool(judgement.wrong_outputs())
