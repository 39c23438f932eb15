"""Lists of texts that hold the reference's in another order: a vocabulary, classes, files."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from paralign.locate.provenance.blame import Blamed
from paralign.worker.provenance.value_marks import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.value_graph import Expression


def first_disordered(sides: Sides) -> Blamed | None:
    """The one line that brings texts into an order that the reference never has.

    They stay in it.
    """
    known: dict[str, set[str]] = defaultdict(set)
    for _, (order, texts) in _lists(sides.reference.expressions):
        known[texts].add(order)
    wrong: dict[str, Expression] = {}
    for each, (order, texts) in _lists(sides.candidate.expressions):
        if order in known[texts]:
            wrong.pop(texts, None)  # what came before was sorted after all
        elif known[texts] and each.file and not each.is_copy:
            wrong.setdefault(texts, each)
    found = {each.source: each for each in wrong.values()}
    only = next(iter(found.values())) if len(found) == 1 else None
    return None if only is None else Blamed(only, [only])


def _lists(expressions: Iterable[Expression]) -> Iterable[tuple[Expression, list[str]]]:
    """The lists of enough texts, with what tells their order and what they hold."""
    for each in expressions:
        told: list[str] | None = None
        if each.mark[0] == "l":
            told = texts_of(each.mark[1])
        elif each.mark[0] == "k" and len(each.mark) > 2:  # noqa: PLR2004 - kind, name, texts
            told = each.mark[2]
        if told is not None:
            yield each, told
