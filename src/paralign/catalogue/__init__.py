"""Known differences between PyTorch and Paddle, in one place.

Findings, ``scan``, ``convert`` and ``explain`` read it.

Entries are data (``differences/*.toml``), every one executed by ``make catalogue``; ``tables`` hold what the frameworks offer.
"""

from paralign.catalogue.entries import Entry, Outcome, Words, read_all
from paralign.catalogue.lookup import Found, entries_of, look_up

__all__ = ["Entry", "Found", "Outcome", "Words", "entries_of", "look_up", "read_all"]
