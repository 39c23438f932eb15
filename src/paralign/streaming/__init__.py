"""Models that do not fit: judged block by block, checkpoints tensor by tensor."""

from __future__ import annotations

from paralign.streaming.engine_of_blocks import check

__all__ = ["check"]
