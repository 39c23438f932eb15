"""Checkpoints of other tools.

Read without running anything in them, written without holding more than about one tensor.
"""

from __future__ import annotations

from paralign.formats.checkpoint import Checkpoint, Entry
from paralign.formats.convert import Summary, convert
from paralign.formats.opening import open_checkpoint
from paralign.formats.saving import save, write
from paralign.formats.writing import Outgoing

__all__ = ["Checkpoint", "Entry", "Outgoing", "Summary", "convert", "open_checkpoint", "save", "write"]
