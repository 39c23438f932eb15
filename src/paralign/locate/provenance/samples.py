"""Which expression of a data set, or of how batches are put together, made a sample wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance.blame import Search
from paralign.locate.provenance.own_steps import is_sound
from paralign.locate.provenance.tracing_back import name, recorded
from paralign.locate.provenance.value_graph import SeenApart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.context import Context
    from paralign.locate.provenance.blame import Blamed
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.model import Divergence


def follow(context: Context, divergence: Divergence | None, of: str, number: int, leaves: Sequence[str]) -> bool:
    """Name the expression that made a sample or batch wrong; whether there is one.

    Args:
        context: the check.
        divergence: what is named so far.
        of: ``dataset`` or ``loader``.
        number: of the sample or batch.
        leaves: the parts of it that differ, '' where it is one tensor.
    """
    sides = recorded(context, of, split=context.settings.split, number=number) if divergence is not None else None
    found = first_wrong(sides, leaves) if sides is not None else None
    name(divergence, found)
    return found is not None


def first_wrong(sides: Sides, leaves: Sequence[str]) -> Blamed | None:
    """The expression at fault; None where nothing of the user's own is known to be.

    Args:
        sides: what was recorded.
        leaves: the parts of the sample that differ.
    """
    seen = SeenApart(sides.reference.expressions)
    roots = [(sides.candidate.root(f"sample:{leaf}"), sides.reference.root(f"sample:{leaf}")) for leaf in leaves]
    blamed = [Search(root, due, seen, sides.reference.expressions).first() for root, due in roots if root is not None]
    sound = [each for each in blamed if each is not None and is_sound(each, seen)]
    return min(sound, key=lambda each: each.expression.number, default=None)
