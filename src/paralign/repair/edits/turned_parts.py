"""Two parts of a formula in each other's place.

Or two functions applied in the other order.
"""

from __future__ import annotations

import ast
from itertools import combinations
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import PREFIXES
from paralign.repair.edits.sentences import tried
from paralign.repair.proposals import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Site

ID = "turned"

#: beside other proposals: parts at the same place of two terms or calls; functions in the other order; any two names
ALIKE, NESTED, ANY = 0.6, 0.5, 0.1

#: pairs of a statement that are tried
MOST = 40

_PARTS = (ast.Name, ast.Attribute, ast.Call, ast.BinOp, ast.Subscript, ast.Constant)


def propose(site: Site) -> Iterator[Proposal]:
    """Every two parts that could have been taken for each other, in exchanged places."""
    yield from _nested(site)
    parts = [node for node in site.nodes if isinstance(node, _PARTS) and _is_free(node, site.parents.get(id(node)))]
    pairs = [(one, other) for one, other in combinations(parts, 2) if _may_turn(site, one, other)]
    pairs.sort(key=lambda pair: not _is_alike(site, *pair))
    for one, other in pairs[:MOST]:
        yield _turned(site, one, other, ALIKE if _is_alike(site, one, other) else ANY)


def _nested(site: Site) -> Iterator[Proposal]:
    """``f(g(x))`` as ``g(f(x))``."""
    for node in site.nodes:
        inner = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords else None
        if not isinstance(node, ast.Call) or not isinstance(inner, ast.Call) or not inner.args or isinstance(inner.args[0], ast.Starred):
            continue
        text = site.source.text
        start, first = site.source.span(inner)[0], site.source.span(inner.args[0])
        before, after = text[start : first[0]], text[first[1] : site.source.span(inner)[1]]
        whole = f"{before}{site.text(node.func)}({site.text(inner.args[0])}){after}"
        yield site.replaced(node, whole, ID, tried(site.text(node), whole), NESTED)


def _is_free(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether a part is a value of its own.

    No function that is called, no owner of an attribute, nothing that is assigned to.
    """
    if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) or (isinstance(node, ast.Name) and node.id in PREFIXES):
        return False
    if isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and parent.func is node):
        return False
    return not isinstance(node, ast.Constant) or isinstance(node.value, int | float)


def _may_turn(site: Site, one: ast.AST, other: ast.AST) -> bool:
    """Whether two parts lie apart and differ.

    Neighbours are exchanged by another kind of edit.
    """
    spans = site.source.span(one), site.source.span(other)
    if spans[0][1] > spans[1][0] or site.text(one) == site.text(other):
        return False
    parent = site.parents.get(id(one))
    beside = parent is site.parents.get(id(other)) and not isinstance(parent, ast.BinOp | ast.Compare)
    both_constant = isinstance(one, ast.Constant) and isinstance(other, ast.Constant)
    return not beside and (both_constant or not (isinstance(one, ast.Constant) or isinstance(other, ast.Constant)))


def _is_alike(site: Site, one: ast.AST, other: ast.AST) -> bool:
    """Whether two parts stand at the same place of two terms, calls or indices."""
    first, second = site.parents.get(id(one)), site.parents.get(id(other))
    if type(first) is not type(second) or first is second or first is None or second is None:
        return False
    if isinstance(first, ast.BinOp) and isinstance(second, ast.BinOp):
        return type(first.op) is type(second.op)
    if isinstance(first, ast.Call) and isinstance(second, ast.Call):
        places = [call.args.index(part) if part in call.args else -1 for call, part in ((first, one), (second, other))]
        return places[0] == places[1]
    return isinstance(first, ast.Subscript)


def _turned(site: Site, one: ast.AST, other: ast.AST, weight: float) -> Proposal:
    (start, middle), (behind, end) = site.source.span(one), site.source.span(other)
    texts = [f"({site.text(part)})" if isinstance(part, ast.BinOp) else site.text(part) for part in (one, other)]
    new = texts[1] + site.source.text[middle:behind] + texts[0]
    first, last = site.source.line_span(site.source.line_at(start), site.source.line_at(end - 1))
    text = site.source.text
    cause, fix = tried(text[first:last].strip(), f"{text[first:start]}{new}{text[end:last]}".strip())
    return Proposal(ID, site.source.edit(start, end, new), cause, fix, weight)
