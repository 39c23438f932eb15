"""The stages of the migration guides, one file each: what to record, and how to judge it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.stages import backward, data, forward, infer, loss, metric, weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.model import StageResult
    from paralign.stages.context import Context

#: name -> what carries the stage out, in the order in which they run
RUN: dict[str, Callable[[Context], StageResult]] = {
    "weights": weights.run,
    "forward": forward.run,
    "data": data.run,
    "metric": metric.run,
    "loss": loss.run,
    "backward": backward.run,
    "infer": infer.run,
}
