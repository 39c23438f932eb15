"""What goes wrong here."""

from __future__ import annotations

from paralign.errors import UsageError


class InvalidInit(UsageError, ValueError):
    """A tensor, layer or argument that cannot be initialised so.

    A ValueError too, as PyTorch raises.
    """
