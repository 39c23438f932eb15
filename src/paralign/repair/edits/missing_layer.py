"""A layer that is not called.

One that the candidate builds and leaves unused, or one without parameters that only the reference has.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import last_name
from paralign.repair.edits.sentences import lacking
from paralign.repair.proposals import literal
from paralign.repair.translated import translated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.edited_source import Source
    from paralign.repair.proposals import Beside, Proposal, Site

ID = "layer"

#: beside other proposals: a layer that is built and never called was meant to be; one that the reference calls here
UNUSED, CALLED = 1.5, 1.0

#: what a layer may be applied to
_VALUES = (ast.Name, ast.Call, ast.BinOp, ast.Subscript)


def propose(site: Site) -> Iterator[Proposal]:
    """Each value of the statement put through each such layer."""
    values = [node for node in site.nodes if _is_value(node, site.parents.get(id(node)))]
    for before, weight in _layers(site).items():
        for node in values:
            whole = f"{before}({site.text(node)})"
            if before not in site.text(node):
                yield site.replaced(node, whole, ID, lacking(f"{before}(…)", whole), weight)


def _is_value(node: ast.AST, parent: ast.AST | None) -> bool:
    if not isinstance(node, _VALUES) or isinstance(getattr(node, "ctx", None), ast.Store):
        return False
    if isinstance(node, ast.Name) and node.id == "self":
        return False
    called = isinstance(parent, ast.Call) and parent.func is node
    return not called and not isinstance(parent, ast.Attribute | ast.keyword)


def _layers(site: Site) -> dict[str, float]:
    """How a layer is called -> the weight of a proposal with it."""
    found: dict[str, float] = {}
    home = _class_of(site.source, site.statement)
    built = _built(home)
    for name in built:
        uses = sum(1 for node in ast.walk(home or site.source.tree) if isinstance(node, ast.Attribute) and node.attr == name)
        if uses == 1:
            found[f"self.{name}"] = UNUSED
    for beside in site.beside:
        theirs = _built(_class_of(beside.source, beside.statement))
        for node in beside.nodes:
            if isinstance(node, ast.Call) and _of_self(node.func):
                name = last_name(node)
                if name in built:
                    found.setdefault(f"self.{name}", CALLED)
                text = _alone(site, beside, theirs.get(name))
                if text:
                    found.setdefault(text, CALLED)
    return found


def _of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _class_of(source: Source, statement: ast.stmt) -> ast.ClassDef | None:
    """The innermost class around a statement."""
    last = statement.end_lineno or statement.lineno
    within = [each for each in source.classes if each.lineno <= statement.lineno and last <= (each.end_lineno or each.lineno)]
    return max(within, key=lambda each: each.lineno, default=None)


def _built(home: ast.ClassDef | None) -> dict[str, ast.Call]:
    """Attribute -> the call that makes it, of a class."""
    found = {}
    for node in ast.walk(home) if home is not None else ():
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call) and _of_self(node.targets[0]):
            found[last_name(node.targets[0])] = node.value
    return found


def _alone(site: Site, beside: Beside, made: ast.Call | None) -> str:
    """A layer without parameters as it is built in place; '' where it cannot be.

    It is made of nothing, or of settings by name.
    """
    if made is None or made.args or any(literal(each.value) is ... for each in made.keywords) or "Dropout" in last_name(made):
        return ""
    return translated(site, beside, made)
