"""Entries of a file that both programs read: right, and taken by the wrong step.

The fault is where what the file holds is handed to a helper, as the rows of another split are; else where the entry is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance.values.readings import is_path
from paralign.locate.provenance.values.value_graph import SETTING
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.locate.provenance.values.value_graph import Expression


def place(chain: Sequence[Expression], reference: Iterable[Expression]) -> Expression | None:
    """Where an entry of a file was taken that the reference reads too.

    Args:
        chain: what led from the blamed expression to the wrong value, the blamed one first.
        reference: the reference's expressions.

    Returns:
        The expression to look at; None where the blamed one is no entry of such a file.
    """
    entry = chain[0] if chain else None
    if entry is None or entry.kind != SETTING or not any(e.kind == SETTING and e.file == entry.file for e in reference):
        return None
    taken = next((each for each in chain[1:] if each.file and each.file != entry.file), None)
    if taken is None:
        return None
    handed = [each for each in reached([taken], _read_from) if each.kind == "parameter" and each.file and not _tells_where(each)]
    return min(handed, key=lambda each: each.number, default=taken)


def _read_from(each: Expression) -> list[Expression]:
    """What a value was made of, back to the path or text that was read."""
    return [] if _tells_where(each) else each.operands


def _tells_where(each: Expression) -> bool:
    """Whether a value is a text or a path: what a file holds, or where it lies."""
    return isinstance(each.scalar, str) or is_path(each)
