"""Which record of the candidate is which record of the reference."""

from __future__ import annotations

from paralign.align.structure import leaves

__all__ = ["leaves"]
