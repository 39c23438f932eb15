"""A literal whose right value is known.

The wrong one was followed to this line, and the reference has another there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.repair.edits.sentences import instead
from paralign.repair.proposals import literal, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Proposal, Site

ID = "value"

#: beside other proposals: what was measured on both sides goes first
WEIGHT = 3.0


def propose(site: Site) -> Iterator[Proposal]:
    """The reference's value in place of each literal of the line that is the wrong one."""
    value = site.divergence.value
    due = value_text(value.reference) if value is not None else ""
    if value is None or not due or value.reference == value.candidate:
        return
    for node in site.nodes:
        if (
            literal(node) is not ...
            and literal(node) == value.candidate
            and isinstance(value.candidate, bool) == isinstance(literal(node), bool)
        ):
            yield site.replaced(node, due, ID, instead(site.text(node), due), WEIGHT)
