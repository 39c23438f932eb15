"""``python -m paralign``."""

from __future__ import annotations

import sys

from paralign.cli import main

if __name__ == "__main__":
    sys.exit(main())
