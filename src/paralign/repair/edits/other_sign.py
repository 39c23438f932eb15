"""A value with the other sign."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import PREFIXES
from paralign.repair.edits.sentences import tried
from paralign.repair.proposals import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Proposal, Site

ID = "sign"

#: beside other proposals: where the reference's statement has a sign that the candidate's lacks, or the other way round; any
THEIRS, ANY = 0.9, 0.2

_VALUES = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


def propose(site: Site) -> Iterator[Proposal]:
    """Each value of the statement with the other sign."""
    theirs, own = (sum(1 for node in nodes if _is_turned(node)) for nodes in ([n for b in site.beside[:1] for n in b.nodes], site.nodes))
    for node in site.nodes:
        parent = site.parents.get(id(node))
        if isinstance(node, ast.UnaryOp) and _is_turned(node):
            whole = site.text(node.operand)
            whole = f"({whole})" if isinstance(node.operand, ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp) else whole
            yield site.replaced(node, whole, ID, tried(site.text(node), whole), THEIRS if theirs < own else ANY)
        elif isinstance(node, _VALUES) and _may_be_turned(node, parent):
            whole = f"-{site.text(node)}"
            text = f"({whole})" if isinstance(parent, ast.BinOp) else whole
            yield site.replaced(node, text, ID, tried(site.text(node), whole), THEIRS if theirs > own else ANY)


def _is_turned(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and literal(node) is ...


def _may_be_turned(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether a value is an operand, an argument or a result.

    Of a sum another operator does the same.
    """
    if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) or (isinstance(node, ast.Name) and node.id in PREFIXES):
        return False
    if isinstance(parent, ast.BinOp):
        return parent.left is node and isinstance(parent.op, ast.Mult | ast.Div)
    if isinstance(parent, ast.Call):
        return node in parent.args
    return isinstance(parent, ast.Assign | ast.Return)
