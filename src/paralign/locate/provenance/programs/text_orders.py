"""Lists of texts that are not the reference's, or hold them in another order.

A vocabulary, classes, files, the words of a sample.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from paralign.locate.provenance.search.blamed import Blamed
from paralign.worker.instrumentation.value_marks import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression

#: texts from which on a list of them is met by no chance
TELLING = 4

#: methods that bring a list into another order where it is
_IN_PLACE = frozenset({"sort", "reverse", "shuffle"})

#: kinds of expressions that make a list of others
_MAKING = frozenset({"operation", "call", "item"})


def first_of_other_texts(sides: Sides) -> Blamed | None:
    """What makes of right texts a list in place of one of the reference's.

    The first whose list is as long as the reference's; of several such lines the first.
    """
    known, own = (set(_texts(graph.expressions)) for graph in (sides.reference, sides.candidate))
    lacking = [(len(texts), Counter(texts)) for texts in known - own]
    found: list[tuple[bool, int, Expression]] = []
    for each in sides.candidate.expressions:
        texts = _plain_texts(each)
        if texts is None or texts in known or each.kind not in _MAKING or each.is_copy or not each.file:
            continue
        made_of = [_plain_texts(inner) for _, inner in each.values]
        if any(inner is not None and inner not in known for inner in made_of):
            continue
        own_texts = Counter(texts)
        alike = [length for length, due in lacking if _near_in_length(len(texts), length) and _shares_most(own_texts, due)]
        if alike:
            found.append((len(texts) not in alike, each.number, each))
    only = min(found, key=lambda way: way[:2])[2] if found else None
    return None if only is None else Blamed(only, [only])


def _texts(expressions: Iterable[Expression]) -> Iterable[tuple[str, ...]]:
    return (texts for texts in map(_plain_texts, expressions) if texts is not None)


def _plain_texts(each: Expression) -> tuple[str, ...] | None:
    """The texts of a list that holds nothing else; None for few texts."""
    if each.mark[0] != "l" or len(each.mark[1]) < TELLING or not all(isinstance(text, str) for text in each.mark[1]):
        return None
    return tuple(each.mark[1])


def _near_in_length(one: int, other: int) -> bool:
    """Whether two lists are near enough in length to share most of their texts."""
    return 2 * min(one, other) > max(one, other)


def _shares_most(own: Counter[str], due: Counter[str]) -> bool:
    """Whether two lists have most of their texts in common, and not all."""
    shared = (own & due).total()
    return 2 * shared > max(own.total(), due.total()) and own != due


def first_disordered(sides: Sides) -> Blamed | None:
    """The one line that brings texts into an order that the reference never has.

    They stay in it.
    """
    known: dict[str, set[str]] = defaultdict(set)
    for _, (order, texts) in _lists(sides.reference.expressions):
        known[texts].add(order)
    for texts in _ordered_in_place(sides.reference.expressions):
        known.pop(texts, None)  # in which order they stay was not seen
    wrong: dict[str, Expression] = {}
    for each, (order, texts) in _lists(sides.candidate.expressions):
        if order in known[texts]:
            wrong.pop(texts, None)  # what came before was sorted after all
        elif known[texts] and each.file and not each.is_copy:
            wrong.setdefault(texts, each)
    found = {each.source: each for each in wrong.values()}
    only = next(iter(found.values())) if len(found) == 1 else None
    return None if only is None else Blamed(only, [only])


def _ordered_in_place(expressions: Iterable[Expression]) -> Iterable[str]:
    """What the lists hold that a method of theirs brings into another order."""
    for call in expressions:
        if call.kind == "call" and call.word in _IN_PLACE:
            yield from (texts for _, (_, texts) in _lists([inner for _, inner in call.inputs]))


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
