"""A piece of the reference's source in the candidate's words.

Calls under the port's names, names of the candidate's file only.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import PREFIXES, full_name, is_port, last_name, ported
from paralign.repair.proposals import literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paralign.repair.proposals import Beside, Site

#: characters of a piece: longer ones are no single step
LONGEST = 160

#: keywords of PyTorch's and numpy's that Paddle writes otherwise; one that the candidate writes in a call of the same function stays
_KEYWORDS = {"dim": "axis", "keepdims": "keepdim"}


def translated(site: Site, beside: Beside, node: ast.AST, renamed: Mapping[str, str] | None = None) -> str:
    """An expression or statement of the reference's as the candidate can write it.

    '' where that takes what the candidate lacks.

    Args:
        site: where it is to stand.
        beside: where it stands in the reference.
        node: the piece.
        renamed: names of the reference's function -> those of the candidate's.
    """
    changed = _Words(site, beside, renamed or {}, _stored(node)).visit(copy.deepcopy(node))
    if changed is None:
        return ""
    text = ast.unparse(ast.fix_missing_locations(changed))
    if len(text) > LONGEST or not _is_known(site, changed) or not _parses(text):
        return ""
    return text


def _parses(text: str) -> bool:
    """Whether a piece is still Python after its words were changed."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _stored(node: ast.AST) -> set[str]:
    """Names that a piece, or a function, binds: they are no constants of the module's there."""
    found = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return found | {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}


class _Words(ast.NodeTransformer):
    """Renames what a piece calls and takes."""

    def __init__(self, site: Site, beside: Beside, renamed: Mapping[str, str], stored: set[str]) -> None:
        self.site, self.renamed = site, renamed
        local = stored if isinstance(beside.function, ast.Module) else stored | _stored(beside.function)
        self.constants = {name: value for name, value in _constants(beside.source.tree).items() if name not in local}
        self.built = imported(site)
        calls = [node for node in ast.walk(site.function) if isinstance(node, ast.Call)]
        self.written = {(last_name(call), keyword.arg) for call in calls for keyword in call.keywords}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A local name as the candidate has it; a constant of the reference's module as its value."""
        if node.id in self.renamed:
            return ast.Name(self.renamed[node.id], node.ctx)
        if isinstance(node.ctx, ast.Load) and node.id in self.constants and node.id not in self.site.identifiers:
            return copy.deepcopy(self.constants[node.id])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call of the framework's under its name in the port."""
        self.generic_visit(node)
        name = ported(last_name(node), self.site.framework)
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value).rpartition(".")[2] in PREFIXES - {"self"}:
            node.func = _function(self.site, self.built, name, node.func)
        elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) != "self":
            node.func.attr = name
        if is_port(self.site.framework):
            for each in node.keywords:
                if (name, each.arg) not in self.written:
                    each.arg = _KEYWORDS.get(str(each.arg), each.arg)
        return node


def _function(site: Site, built: set[str], name: str, theirs: ast.Attribute) -> ast.expr:
    """A function of the candidate's framework as its file can name it."""
    written = ast.unparse(theirs.value)
    home = full_name(site.framework, name).rpartition(".")[0]
    short = {"paddle.nn": "nn", "paddle.nn.functional": "F", "torch.nn": "nn", "torch.nn.functional": "F"}.get(home, "")
    if written.partition(".")[0] in built:
        pass  # as the reference writes it
    elif short and short in built:
        written = short
    elif home and home.partition(".")[0] in built:
        written = home
    return ast.parse(f"{written}.{name}", mode="eval").body


def imported(site: Site) -> set[str]:
    """Names that the candidate's file imports."""
    return {alias.asname or alias.name.partition(".")[0] for alias in site.source.imports}


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Literals that a module keeps under a name."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and literal(node.value) is not ...:
            target = node.targets[0]
            found.update({target.id: node.value} if isinstance(target, ast.Name) else {})
    return found


def _is_known(site: Site, node: ast.AST) -> bool:
    """Whether a piece's names stand in the candidate's file, or are its framework's.

    And its attributes.
    """
    bound = set(site.names) | imported(site) | {"self"} | _module_names(site)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id not in bound:
            return False
        if isinstance(inner, ast.Attribute):
            of_self = isinstance(inner.value, ast.Name) and inner.value.id == "self"
            known = inner.attr in site.identifiers or (not of_self and bool(full_name(site.framework, inner.attr)))
            if not known and inner.attr not in PREFIXES:
                return False
    return True


def _module_names(site: Site) -> set[str]:
    """Names that the candidate's module binds itself."""
    found = set()
    for node in site.source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found
