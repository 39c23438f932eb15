"""Where reports are printed."""

from __future__ import annotations

from rich.console import Console


def console() -> Console:
    """Standard output; as wide as it needs to be where it is no terminal."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=400)
