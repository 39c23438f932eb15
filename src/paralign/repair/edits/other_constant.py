"""Another number, text or truth value in the place of one.

Those that the reference's statement has come first.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from paralign.repair.edits.sentences import instead, tried
from paralign.repair.proposals import Proposal, is_number, literal, literal_key, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.repair.proposals import Site

ID = "constant"

#: beside other proposals: all numbers as in the reference's statement; one of that statement that the candidate's, or its function, lacks;
#: one that it has; one of its function; one that is like the wrong one
ALL, LACKED, KNOWN, NEARBY, LIKE = 1.8, 1.2, 0.5, 0.4, 0.1

#: functions whose second argument is the name of an attribute
NAMING = frozenset({"hasattr", "getattr", "setattr", "delattr"})

#: numbers of a function that are tried, at most: more stand in tables
MOST = 24


def propose(site: Site) -> Iterator[Proposal]:
    """Other literals, one at a time; where both statements have as many numbers, all of them."""
    named = {id(name) for name in _attribute_names(site.nodes)}
    nodes = [node for node in site.nodes if literal(node) is not ... and not _is_inside(node, site) and id(node) not in named]
    yield from _all(site, nodes)
    own = {literal_key(literal(node)) for node in nodes} | _as_often(site)
    lacked: list[object] = []
    known: list[object] = []
    for value in _values(node for each in site.beside for node in each.nodes):
        (known if literal_key(value) in own else lacked).append(value)
    nearby = _values(node for each in site.beside[:1] for node in ast.walk(each.function))[:MOST]
    for node in nodes:
        have = literal(node)
        pools = ((lacked, LACKED), (known, KNOWN), (nearby, NEARBY), (_like(have), LIKE))
        seen = {literal_key(have)}
        for pool, weight in pools:
            for value in pool:
                text = value_text(value)
                if literal_key(value) in seen or not text or not _fits(have, value) or not site.is_possible(node, value):
                    continue
                seen.add(literal_key(value))
                words = tried(site.text(node), text) if weight == LIKE else instead(site.text(node), text)
                yield site.replaced(node, text, ID, words, weight)


def _as_often(site: Site) -> set[tuple[str, object]]:
    """Literals that the candidate's function has as often as the reference's.

    None of them is missing in a statement.
    """
    mine = _counted(site.function)
    theirs = [_counted(each.function) for each in site.beside]
    return {key for key, count in mine.items() if all(count >= other[key] for other in theirs)}


def _counted(function: ast.AST) -> Counter[tuple[str, object]]:
    """How often each literal stands in a function."""
    return Counter(literal_key(literal(node)) for node in ast.walk(function) if literal(node) is not ...)


def _attribute_names(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Texts that name an attribute, as ``hasattr(self, "table")`` has one.

    Another text there names nothing.
    """
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMING and len(node.args) > 1:
            yield node.args[1]


def _is_inside(node: ast.AST, site: Site) -> bool:
    """Whether a literal is the number of a negative one, which is a literal itself."""
    return any(isinstance(each, ast.UnaryOp) and each.operand is node and literal(each) is not ... for each in site.nodes)


def _fits(have: object, value: object) -> bool:
    if isinstance(have, bool) or isinstance(value, bool):
        return isinstance(have, bool) and isinstance(value, bool)
    if isinstance(have, str) or isinstance(value, str):
        return isinstance(have, str) and isinstance(value, str)
    return (is_number(have) or have is None) and (is_number(value) or value is None)


def _values(nodes: Iterable[ast.AST]) -> list[object]:
    found: dict[tuple[str, object], object] = {}
    for node in nodes:
        value = literal(node)
        if isinstance(value, bool | str) or is_number(value):
            found.setdefault(literal_key(value), value)
    return list(found.values())


def _like(value: object) -> list[object]:
    """Numbers that are taken for one by mistake."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value - 1, value + 1, -value]
    if isinstance(value, float):
        return [-value, round(1.0 - value, 12), value * 10, value / 10]
    return []


def _numbers(nodes: Iterable[ast.AST]) -> list[object]:
    """The numbers that some expressions write; a negative one is one number."""
    written = [node for node in nodes if is_number(literal(node))]
    inner = {id(each.operand) for each in written if isinstance(each, ast.UnaryOp)}
    return [literal(node) for node in written if id(node) not in inner]


def _all(site: Site, nodes: list[ast.AST]) -> Iterator[Proposal]:
    """All numbers of the statement as the reference's has them, in their order."""
    numbers = [node for node in nodes if is_number(literal(node))]
    for beside in site.beside:
        values = _numbers(beside.nodes)
        differ = [(node, value) for node, value in zip(numbers, values, strict=False) if literal(node) != value]
        if len(values) != len(numbers) or not 1 < len(differ) <= 4:  # noqa: PLR2004 - one is proposed by itself, more are a table
            continue
        spans = sorted((*site.source.span(node), value_text(value)) for node, value in differ)
        start, end = spans[0][0], spans[-1][1]
        parts, at = [], start
        for first, last, text in spans:
            parts += [site.source.text[at:first], text]
            at = last
        text = "".join(parts)
        words = instead(site.source.text[start:end], text)
        yield Proposal(ID, site.source.edit(start, end, text), words[0], words[1], ALL)
