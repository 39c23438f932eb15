"""An expression at fault in words, and as the value that a report keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.search.deciding_conditions import WholeCondition
from paralign.model import TracedValue

if TYPE_CHECKING:
    from paralign.locate.provenance.search.blamed import Blamed
    from paralign.locate.provenance.values.value_graph import Expression

#: characters of a value that are shown
SHOWN = 60


def value_of(found: Blamed) -> TracedValue | None:
    """What is wrong at an expression, and the reference's; None for tensors and objects."""
    if isinstance(found, WholeCondition):
        return None
    marks = [None if each is None else each.mark for each in (found.expression, found.reference)]
    plain_values = [mark[1] if mark is not None and mark[0] in ("s", "l") else None for mark in marks]
    if plain_values[0] is None:
        return None
    due = found.reference
    source = due.source if due is not None and due.file else None
    return TracedValue(plain_values[0], plain_values[1], source, code_at(source))


def said(found: Blamed) -> str:
    """An expression at fault in words."""
    each, due = found.expression, found.reference
    if isinstance(found, WholeCondition):
        return _said_of_condition(due)
    value = _shown(each)
    beside = f"; the reference has {_shown(due)}, {due.source}" if due is not None and due.file and _shown(due) not in ("", value) else ""
    if not each.values or each.is_copy:
        return f"the value comes from here: {value}{beside}" if value else f"the value comes from here{beside}"
    if not found.is_alone:
        here = f" ({value} here)" if value else ""
        return f"from here on values differ; not all that goes in could be compared with the reference's{here}{beside}"
    return f"all that goes in here is the reference's, the result is not{f' ({value} here)' if value else ''}{beside}"


def _said_of_condition(due: Expression | None) -> str:
    if due is None:
        return "this condition alone chose the numbers of an array of which the reference has some others"
    return f"over all its rounds, this condition decides otherwise of the same operands than the reference's in {due.source}"


def _shown(each: Expression) -> str:
    """A value in a few characters; '' of what is no number or text."""
    return repr(each.mark[1])[:SHOWN] if each.mark[0] in ("s", "l") else ""
