"""Two operands, arguments or entries in exchanged places."""

from __future__ import annotations

import ast
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import PREFIXES
from paralign.repair.edits.sentences import tried
from paralign.repair.proposals import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paralign.repair.proposals import Site

ID = "order"

#: beside other proposals
WEIGHT = 0.4

#: of two steps of a chain, and of names that are bound together: there are few
STEPS = 0.8

#: entries of which any two are exchanged; of more, neighbours only
FEW = 4

_UNORDERED = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)


def propose(site: Site) -> Iterator[Proposal]:
    """Every pair of places in the statement exchanged, where that may change the result."""
    for node in site.nodes:
        if isinstance(node, ast.BinOp) and not isinstance(node.op, _UNORDERED):
            yield from _exchanged(site, node, [node.left, node.right])
        elif isinstance(node, ast.Call):
            values = [*node.args, *(each.value for each in node.keywords if each.arg)]
            yield from _exchanged(site, node, [each for each in values if not isinstance(each, ast.Starred)])
            yield from _turned_steps(site, node)
        elif isinstance(node, ast.Subscript):
            yield from _turned_steps(site, node)
        elif isinstance(node, ast.Tuple | ast.List):
            yield from _exchanged(site, node, node.elts)
        elif isinstance(node, ast.IfExp):
            yield from _exchanged(site, node, [node.body, node.orelse])


def _turned_steps(site: Site, node: ast.expr) -> Iterator[Proposal]:
    """The last two steps of a chain the other way round: ``x[a].f(b)`` as ``x.f(b)[a]``."""
    inner = _base(node)
    first = _base(inner) if inner is not None else None
    if inner is None or not isinstance(first, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return
    if isinstance(getattr(node, "ctx", None), ast.Store) or getattr(first, "id", "") in PREFIXES:
        return
    start, middle, behind, end = site.source.span(first)[1], site.source.span(inner)[1], *site.source.span(node)
    own = site.source.text[start:middle], site.source.text[middle:end]
    if own[0] != own[1]:
        whole = site.source.text[behind:start] + own[1] + own[0]
        yield site.replaced(node, whole, ID, tried(site.text(node), whole), STEPS)


def _base(node: ast.expr) -> ast.expr | None:
    """What a method is called on, or what is indexed."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value
    return node.value if isinstance(node, ast.Subscript) else None


def _exchanged(site: Site, node: ast.AST, parts: Sequence[ast.expr]) -> Iterator[Proposal]:
    pairs = combinations(parts, 2) if len(parts) <= FEW else pairwise(parts)
    for one, other in pairs:
        texts = [_held(site, each, node) for each in (one, other)]
        spans = [site.source.span(each) for each in (one, other)]
        if site.text(one) == site.text(other) or spans[0][1] > spans[1][0]:
            continue
        new = texts[1] + site.source.text[spans[0][1] : spans[1][0]] + texts[0]
        start, end = spans[0][0], spans[1][1]
        first, last = site.source.span(node)
        cause, fix = tried(site.text(node), site.source.text[first:start] + new + site.source.text[end:last])
        weight = STEPS if isinstance(getattr(node, "ctx", None), ast.Store) else WEIGHT
        yield Proposal(ID, site.source.edit(start, end, new), cause, fix, weight)


def _held(site: Site, part: ast.expr, whole: ast.AST) -> str:
    """An operand as it can stand on the other side of an operator."""
    text = site.text(part)
    return f"({text})" if isinstance(whole, ast.BinOp) and isinstance(part, ast.BinOp | ast.Compare | ast.IfExp) else text
