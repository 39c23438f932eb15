"""Another value of the same function in the place of one.

A name, an attribute, or a setting in the place of a number.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import PREFIXES
from paralign.repair.edits.sentences import instead, tried
from paralign.repair.proposals import Proposal, is_number, literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Site

ID = "name"

#: beside other proposals: a name that the reference's statement has and the candidate's lacks; one that nothing takes; one of the function
THEIRS, IDLE, ANY = 1.0, 1.1, 0.25

#: names of a function that are tried, at most
MOST = 16


def propose(site: Site) -> Iterator[Proposal]:
    """Propose each name as another bound there, each number as a setting.

    The setting is one that the reference takes.
    """
    theirs = {str(getattr(node, "id", None) or getattr(node, "attr", "")) for each in site.beside for node in each.nodes}
    own = {node.id for node in site.nodes if isinstance(node, ast.Name)}
    called = {id(node.func) for node in site.nodes if isinstance(node, ast.Call)}
    names = site.names[-MOST:]
    for node in site.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called and node.id in site.names:
            lacked = {other for other in names if other in theirs and other not in own}
            yield from _of_name(site, node, names, lacked)
        elif isinstance(node, ast.Call | ast.BinOp | ast.Subscript) and id(node) not in called:
            yield from _of_operand(site, node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            end = site.source.span(node)[1]
            for other in sorted(theirs & site.identifiers - PREFIXES):
                if other != node.attr and node.attr not in theirs:
                    cause, fix = instead(node.attr, other)
                    yield Proposal(ID, site.source.edit(end - len(node.attr), end, other), cause, fix, THEIRS)
        elif is_number(literal(node)):
            yield from _settings(site, node)


def _of_name(site: Site, node: ast.Name, names: list[str], lacked: set[str]) -> Iterator[Proposal]:
    """A name as each other one that is bound there."""
    for other in names:
        if other not in (node.id, "self"):
            words = instead(node.id, other) if other in lacked else tried(node.id, other)
            weight = THEIRS if other in lacked else IDLE if other in site.idle else ANY
            yield site.replaced(node, other, ID, words, weight)


def _of_operand(site: Site, node: ast.Call | ast.BinOp | ast.Subscript) -> Iterator[Proposal]:
    """A value of an expression as one that the function makes and nothing takes."""
    is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    if is_read and isinstance(site.parents.get(id(node)), ast.Call | ast.BinOp | ast.Compare):
        for other in [name for name in site.names if name in site.idle]:
            yield site.replaced(node, other, ID, tried(site.text(node), other), IDLE)


def _settings(site: Site, node: ast.AST) -> Iterator[Proposal]:
    """Names and attributes of the reference's statement, where the candidate has them too."""
    for each in site.beside:
        for other in each.nodes:
            called = any(isinstance(call, ast.Call) and call.func is other for call in each.nodes)
            if called or not isinstance(other, ast.Attribute | ast.Name) or not isinstance(other.ctx, ast.Load):
                continue
            text = ast.unparse(other)
            if text == "self":
                continue
            root = text.partition(".")[0]
            if root in site.names and text.partition(".")[2] in (*site.identifiers, "") and root not in PREFIXES - {"self"}:
                yield site.replaced(node, text, ID, instead(site.text(node), text), THEIRS)
