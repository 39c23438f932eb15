"""The commands about the guide's steps, each in a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.commands import clean_copy, drawing, status, submission

if TYPE_CHECKING:
    from typing import Any


def add_commands(commands: Any) -> None:
    """Add all of them."""
    for each in (status, submission, clean_copy, drawing):
        each.add_commands(commands)
