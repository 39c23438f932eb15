"""A count, a length or an end that is one too many or too few."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.repair.edits.sentences import tried
from paralign.repair.proposals import is_number, literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Proposal, Site

ID = "off-by-one"

#: beside other proposals: one taken away, as for a sample's variance or a last index; one added; a one that is too much
LESS, MORE, DROPPED = 0.5, 0.35, 0.6

#: functions whose results or arguments are counts
_COUNTS = frozenset({"len", "numel", "size", "range", "arange", "linspace", "zeros", "ones", "full"})


def propose(site: Site) -> Iterator[Proposal]:
    """Each count of the statement with one more or less."""
    for node in site.nodes:
        inner = _without_one(node)
        if inner is not None:
            yield site.replaced(node, site.text(inner), ID, tried(site.text(node), site.text(inner)), DROPPED)
        elif _is_count(node, site.parents.get(id(node))) and _without_one(site.parents.get(id(node))) is None:
            text = f"({site.text(node)})" if isinstance(node, ast.BinOp) else site.text(node)
            for sign, weight in (("-", LESS), ("+", MORE)):
                yield site.replaced(node, f"({text} {sign} 1)", ID, tried(site.text(node), f"{text} {sign} 1"), weight)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and not isinstance(node.left, ast.UnaryOp):
            yield from _rounded_up(site, node)


def _rounded_up(site: Site, node: ast.BinOp) -> Iterator[Proposal]:
    """A whole division that rounds up, where the candidate's rounds down."""
    step = literal(node.right)
    if is_number(step) and isinstance(step, int) and step > 1:
        left = f"({site.text(node.left)} + {step - 1})"
        yield site.replaced(node.left, left, ID, tried(site.text(node), f"{left} // {step}"), MORE)
    else:
        left = f"({site.text(node.left)})" if isinstance(node.left, ast.BinOp) else site.text(node.left)
        whole = f"-(-{left} // {site.text(node.right)})"
        yield site.replaced(node, f"({whole})", ID, tried(site.text(node), whole), MORE)


def _without_one(node: ast.AST | None) -> ast.expr | None:
    """What one is added to or taken from."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return None
    value = literal(node.right)
    return node.left if is_number(value) and value == 1 else None


def _is_count(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether an expression is a length, a divisor, or a bound of a slice or range."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return True
    if not isinstance(node, ast.Name | ast.Attribute | ast.BinOp) or isinstance(getattr(node, "ctx", None), ast.Store):
        return False
    if isinstance(parent, ast.BinOp):
        return (
            parent.right is node and isinstance(parent.op, ast.Div | ast.FloorDiv | ast.Mod) and not isinstance(literal(parent.left), str)
        )
    if isinstance(parent, ast.Slice):
        return True
    called = getattr(parent, "func", None) if isinstance(parent, ast.Call) else None
    name = getattr(called, "id", None) or getattr(called, "attr", None)
    return isinstance(parent, ast.Call) and node in parent.args and name in _COUNTS
