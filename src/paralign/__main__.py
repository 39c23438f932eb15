"""``python -m paralign``."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

with suppress(OSError):  # the folder in use has been removed
    # Python puts the folder in use first: a project's ``statistics.py`` would be taken for Python's own
    here = "", os.getcwd()  # noqa: PTH109 - pathlib imports what is to be kept apart
    if sys.path and sys.path[0] in here and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]

from paralign.cli import main

if __name__ == "__main__":
    sys.exit(main())
