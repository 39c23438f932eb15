"""Models that do not fit: the port judged block by block, its checkpoint against the reference's tensor by tensor."""

from __future__ import annotations

from paralign.streaming.engine_of_blocks import check

__all__ = ["check"]
