"""A part that only the candidate has, left out.

An operand, a function of a value, a whole statement.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.repair.edits.sentences import beyond
from paralign.repair.proposals import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Site

ID = "extra"

#: beside other proposals; a step may also pass because the inputs do not need it, so that others go first
WEIGHT = 0.2


def propose(site: Site) -> Iterator[Proposal]:
    """Propose each expression as one of its parts, and the statement left out.

    The latter where something else binds its name.
    """
    for node in site.nodes:
        for part in _parts(node):
            text = site.text(part)
            held = f"({text})" if isinstance(part, ast.BinOp | ast.IfExp) and isinstance(node, ast.BinOp | ast.UnaryOp) else text
            yield site.replaced(node, held, ID, beyond(site.text(node), text), WEIGHT)
        if isinstance(node, ast.Call):
            yield from _fewer_arguments(site, node)
    yield from _left_out(site)


def _fewer_arguments(site: Site, node: ast.Call) -> Iterator[Proposal]:
    """A call without one of its named arguments, so that its default holds."""
    for keyword in node.keywords:
        if keyword.arg is None:
            continue
        start, end = site.source.span(keyword)
        first, last = site.source.span(node)
        text = site.source.text
        before = text[first:start].rstrip()
        if before.endswith(","):
            start = first + len(before) - 1
        elif text[end:last].lstrip().startswith(","):
            end += text[end:last].index(",") + 1
        whole = text[first:start] + text[end:last]
        yield site.replaced(node, whole, ID, beyond(site.text(keyword), whole), WEIGHT)


def _parts(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        return [node.operand]
    if isinstance(node, ast.BoolOp) and len(node.values) == 2:  # noqa: PLR2004 - the usual form
        return list(node.values)
    if isinstance(node, ast.Call):
        found = [each for each in node.args[:1] if not isinstance(each, ast.Starred)]
        if isinstance(node.func, ast.Attribute) and isinstance(
            node.func.value, ast.Name | ast.Call | ast.BinOp | ast.Subscript | ast.Attribute
        ):
            found.append(node.func.value)
        return found
    return []


def _left_out(site: Site) -> Iterator[Proposal]:
    """The statement itself left out, with its line where it stands alone there."""
    statement = site.statement
    if not isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign) or not _is_bound_before(site):
        return
    body = next((b for b in _bodies(site.function) if statement in b), [])
    start, end = site.source.span(statement)
    first, last = site.source.line_span(statement.lineno, statement.end_lineno or statement.lineno)
    words = beyond(site.text(statement), "")
    alone = not site.source.text[first:start].strip() and not site.source.text[end:last].strip()
    if len(body) > 1 and alone:
        yield Proposal(ID, site.source.edit(first, last, ""), words[0], words[1], WEIGHT)
    else:
        yield Proposal(ID, site.source.edit(start, end, "pass"), words[0], words[1], WEIGHT)


def _is_bound_before(site: Site) -> bool:
    """Whether what a statement assigns has a value without it."""
    statement = site.statement
    if not isinstance(statement, ast.Assign):
        return True
    names = {node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    taken = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
    return bool(names) and names <= taken


def _bodies(function: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body
