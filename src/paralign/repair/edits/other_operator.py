"""Another operator between the same operands."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from paralign.repair.edits.sentences import tried
from paralign.repair.proposals import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Site

ID = "operator"

#: beside other proposals: an operator that the reference's statement has, and any other
THEIRS, ANY = 0.8, 0.3

_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.FloorDiv: "//", ast.Mod: "%", ast.MatMult: "@",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.And: "and", ast.Or: "or",
}  # fmt: skip

#: operators that are taken for one another
_GROUPS: tuple[tuple[type[ast.AST], ...], ...] = (
    (ast.Add, ast.Sub, ast.Mult, ast.Div),
    (ast.Mult, ast.Pow),
    (ast.Div, ast.FloorDiv, ast.Mod),
    (ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.BitAnd, ast.BitOr, ast.BitXor),
    (ast.And, ast.Or),
)


def propose(site: Site) -> Iterator[Proposal]:
    """Every operator of the statement as each that is taken for it."""
    theirs = {type(node) for each in site.beside for node in each.nodes}
    for node in site.nodes:
        if isinstance(node, ast.BinOp):
            ends = site.source.span(node.left)[1], site.source.span(node.right)[0]
            yield from _others(site, node, type(node.op), ends, theirs)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            ends = site.source.span(node.left)[1], site.source.span(node.comparators[0])[0]
            yield from _others(site, node, type(node.ops[0]), ends, theirs)
        elif isinstance(node, ast.BoolOp) and len(node.values) == 2:  # noqa: PLR2004 - of more, each would have to change
            ends = site.source.span(node.values[0])[1], site.source.span(node.values[1])[0]
            yield from _others(site, node, type(node.op), ends, theirs)
    statement = site.statement
    if isinstance(statement, ast.AugAssign):
        ends = site.source.span(statement.target)[1], site.source.span(statement.value)[0]
        yield from _others(site, statement, type(statement.op), ends, theirs)


def _others(site: Site, node: ast.AST, kind: type[ast.AST], ends: tuple[int, int], theirs: set[type[ast.AST]]) -> Iterator[Proposal]:
    symbol = _SYMBOLS.get(kind)
    between = site.source.text[ends[0] : ends[1]]
    found = re.search(r"(?<![#\w])" + re.escape(symbol) + r"(?!\w)", between) if symbol is not None else None
    if found is None:
        return
    for other in dict.fromkeys(o for group in _GROUPS if kind in group for o in group if o is not kind):
        start, end = ends[0] + found.start(), ends[0] + found.end()
        first, last = site.source.span(node)
        whole = site.source.text[first:start] + _SYMBOLS[other] + site.source.text[end:last]
        cause, fix = tried(site.text(node), whole)
        weight = THEIRS if other in theirs and kind not in theirs else ANY
        yield Proposal(ID, site.source.edit(start, end, _SYMBOLS[other]), cause, fix, weight)
