"""A statistic of other rows than the reference's, where every row is right by itself.

The reference makes it of fewer or more rows of the same table. The fault is where the rows are cut out; where they are not cut out at all,
where the table is handed to what makes the statistic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.locate.provenance.search.selections import arrays_of, within
from paralign.locate.provenance.values.expression_counterparts import TELLING, operands
from paralign.locate.provenance.values.value_graph import behind
from paralign.locate.reaching import reached

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.locate.provenance.values.expression_counterparts import Counterparts
    from paralign.locate.provenance.values.value_graph import Expression

#: rows from which on a table is made row by row
SEVERAL = 2

#: kinds of events with which a call ends
_ENDING = frozenset({"call", "return"})


def place(each: Expression, known: Counterparts, own: Sequence[Expression]) -> Expression | None:
    """Where the rows were taken, or not taken, of which a wrong statistic was made.

    Args:
        each: the wrong value.
        known: both sides' expressions.
        own: the candidate's.

    Returns:
        The expression to look at; None where the reference makes no such statistic of other rows.
    """
    table = _table(each)
    if table is None or not any(_is_due(each, _table(twin), known) for twin in known.alike(each) if not known.is_made(twin)):
        return None
    rows = table.mark[1][0]
    whole = list(reached([table], lambda e: [inner for inner in arrays_of(e) if _rows(inner) == rows], nearest_first=True))
    cut = next((e for e in whole if e.kind == "item" and _is_cut(e)), None)
    return cut or _handed_over(whole, table, own) or _gone_through(table)


def _table(each: Expression | None) -> Expression | None:
    """The array that a reduction makes fewer numbers of."""
    if each is None or each.kind != "call" or each.numbers is None:
        return None
    arrays = [inner for _, inner in operands(each) if inner.mark[0] == "a" and inner.numbers is not None]
    found = arrays[0] if len(arrays) == 1 else None
    return found if found is not None and found.size > each.size and found.numbers is not None and found.numbers.size >= TELLING else None


def _is_due(each: Expression, due: Expression | None, known: Counterparts) -> bool:
    """Whether the reference takes other rows, which the candidate has not cut out by then."""
    table = _table(each)
    if due is None or table is None or not _is_of_other_rows(table, due):
        return False
    return not -1 < known.first_made(due) < each.number


def _is_of_other_rows(table: Expression, due: Expression) -> bool:
    """Whether two tables have the same columns and numbers, and not as many rows."""
    if table.mark[1][1:] != due.mark[1][1:] or _rows(table) == _rows(due):
        return False
    few, many = sorted((table, due), key=_rows)
    return few.numbers is not None and many.numbers is not None and within(few.numbers, many.numbers)


def _rows(each: Expression) -> int:
    return int(each.mark[1][0]) if each.mark[1] else 0


def _is_cut(each: Expression) -> bool:
    """Whether an entry of an array has other rows than the array."""
    held = next((inner for role, inner in each.inputs if role == "object"), None)
    return held is not None and held.mark[0] == "a" and len(held.mark[1]) == len(each.mark[1]) and _rows(held) != _rows(each)


def _handed_over(whole: Sequence[Expression], table: Expression, own: Sequence[Expression]) -> Expression | None:
    """The first call under way that was given the rows, or an object that holds them."""
    made = min(whole, key=lambda e: e.number)
    between = [e for e in own if made.number < e.number <= table.number]
    ended = {e.label: e.number for e in between if e.kind in _ENDING}
    for each in between:
        is_under_way = each.kind == "parameter" and bool(each.file) and ended.get(each.label, -1) < each.number
        if is_under_way and made in behind(each):
            return each
    return None


def _gone_through(table: Expression) -> Expression | None:
    """Where the rows are gone through: the call that hands them on, else the loop."""
    made = next((e for e in reached([table], lambda e: e.operands, nearest_first=True) if e.kind == "display"), None)
    rows = made.values if made is not None else []
    if len(rows) < SEVERAL:
        return None
    first, last = (_loops(row) for _, row in (rows[0], rows[-1]))
    shared = next((iterable for iterable in first if iterable in last), None)
    if shared is None:
        return None
    return shared if shared.kind == "parameter" and shared.file else first[shared]


def _loops(row: Expression) -> dict[Expression, Expression]:
    """What loops of the user's went through for a row -> the element, nearest first."""
    found: dict[Expression, Expression] = {}
    for each in reached([row], lambda e: e.operands, nearest_first=True):
        iterable = next((inner for role, inner in each.inputs if role == "iterable"), None) if each.kind == "element" else None
        if iterable is not None and each.file:
            found.setdefault(iterable, each)
    return found
