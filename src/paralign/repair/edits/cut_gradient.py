"""A value through which no gradient is to flow."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import PREFIXES, full_name
from paralign.repair.edits.sentences import lacking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Proposal, Site

ID = "detach"

#: beside other proposals: where the reference's statement or its function cuts gradients, a whole value and a part; elsewhere
SPOKEN, PART, WHOLE, ANY = 1.2, 0.9, 0.4, 0.15

#: how programs say that a value has no gradient
_CUTS = frozenset({"detach", "detach_", "no_grad", "stop_gradient", "requires_grad_", "inference_mode"})

_VALUES = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.BinOp)


def propose(site: Site) -> Iterator[Proposal]:
    """Each value of the statement cut off, in frameworks whose tensors have ``detach()``."""
    if not full_name(site.framework, "detach"):
        return
    spoken = any(_cuts(node) for beside in site.beside for node in ast.walk(beside.function))
    for node in site.nodes:
        parent = site.parents.get(id(node))
        if not isinstance(node, _VALUES) or not _is_value(node, parent) or _cuts(parent):
            continue
        text = f"({site.text(node)})" if isinstance(node, ast.BinOp) else site.text(node)
        whole = isinstance(parent, ast.Assign | ast.Return)
        weight = (SPOKEN if whole else PART) if spoken else (WHOLE if whole else ANY)
        yield site.replaced(node, f"{text}.detach()", ID, lacking(".detach()", f"{text}.detach()"), weight)


def _cuts(node: ast.AST | None) -> bool:
    return getattr(node, "attr", None) in _CUTS or getattr(node, "id", None) in _CUTS


def _is_value(node: ast.AST, parent: ast.AST | None) -> bool:
    if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) or (isinstance(node, ast.Name) and node.id in {*PREFIXES, "self"}):
        return False
    if isinstance(parent, ast.Attribute | ast.keyword | ast.Subscript | ast.Slice):
        return isinstance(parent, ast.Subscript) and parent.value is node
    return not (isinstance(parent, ast.Call) and parent.func is node)
