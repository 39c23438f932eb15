"""Exit codes of the commands that judge."""

from __future__ import annotations

from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED

#: verdict -> exit code
CODES = {ALIGNED: 0, DIVERGED: 1, ERROR: 3, UNDERPOWERED: 4, NOT_TESTED: 4}
