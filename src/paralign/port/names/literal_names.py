"""Names of a framework that are asked for in another way.

By a text, ``getattr(torch.optim, "Adagrad")``, or by a module's other name, ``F = torch.nn.functional``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeVar

from paralign.port.names.ownership import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Iterable

Tree = TypeVar("Tree", bound=ast.AST)

#: arguments of ``getattr`` without a default
_ASKED = 2


def with_plain_names(tree: Tree) -> Tree:
    """A tree where such a name stands as an attribute, at the place of the call.

    Only where modules of a framework are asked, and ``getattr`` is Python's own.
    """
    nodes = list(ast.walk(tree))
    named = _other_names(nodes)
    if named:
        _Spelled(named).visit(tree)
        nodes = list(ast.walk(tree))
    if not any(isinstance(each, ast.Name) and each.id == "getattr" and isinstance(each.ctx, ast.Load) for each in nodes):
        return tree
    modules = set(_modules(nodes)) - set(_bound(nodes))
    if modules and "getattr" not in _bound(nodes):
        _Plain(modules).visit(tree)
    return tree


#: last names of modules that programs give a name of their own
MODULES = frozenset({"data", "distributed", "distributions", "fft", "functional", "init", "linalg", "lr_scheduler", "nn", "optim", "utils"})


def _other_names(nodes: list[ast.AST]) -> dict[str, ast.Attribute]:
    """Names that a file gives modules of a framework once, and uses for what these hold alone."""
    modules = set(_modules(nodes)) - set(_bound(nodes))
    stored = [each.id for each in nodes if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)]
    others = _bound_otherwise(nodes)
    asked = {id(each.value) for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load)}
    bare = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in asked}
    found = {}
    for each in nodes:
        target = each.targets[0] if isinstance(each, ast.Assign) and len(each.targets) == 1 else None
        value = each.value if isinstance(each, ast.Assign) else None
        if not isinstance(target, ast.Name) or not isinstance(value, ast.Attribute) or value.attr not in MODULES:
            continue
        known = _root(value) in modules and stored.count(target.id) == 1 and target.id not in others | bare
        if known and not _is_used_outside(target, nodes):
            found[target.id] = value
    return found


def _bound_otherwise(nodes: list[ast.AST]) -> set[str]:
    """Names that a file binds by anything but assignments."""
    found = {each.arg for each in nodes if isinstance(each, ast.arg)}
    for each in nodes:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(each.name)
        elif isinstance(each, ast.Import | ast.ImportFrom):
            found |= {name.asname or name.name.partition(".")[0] for name in each.names}
        elif isinstance(each, ast.Global | ast.Nonlocal):
            found |= set(each.names)
        elif isinstance(each, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and each.name:
            found.add(each.name)
        elif isinstance(each, ast.MatchMapping) and each.rest:
            found.add(each.rest)
    return found


def _is_used_outside(target: ast.Name, nodes: list[ast.AST]) -> bool:
    """Whether a name that a function or class binds is used outside it."""
    scopes = [each for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    inner = [each for each in scopes if any(part is target for part in ast.walk(each))]
    if not inner:
        return False
    within = {id(part) for part in ast.walk(inner[-1])}  # walked breadth first: the last one is the innermost
    in_class = isinstance(inner[-1], ast.ClassDef)  # methods do not see what their class binds
    used = [each for each in nodes if isinstance(each, ast.Name) and each.id == target.id and isinstance(each.ctx, ast.Load)]
    return used != [] and (in_class or any(id(each) not in within for each in used))


class _Spelled(ast.NodeTransformer):
    """Write modules out where their other names are used, at the places of these."""

    def __init__(self, named: dict[str, ast.Attribute]) -> None:
        self.named = named

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.named or not isinstance(node.ctx, ast.Load):
            return node
        spelled = ast.parse(ast.unparse(self.named[node.id]), mode="eval").body
        for each in ast.walk(spelled):
            ast.copy_location(each, node)
        return spelled


class _Plain(ast.NodeTransformer):
    def __init__(self, modules: set[str]) -> None:
        self.modules = modules

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if getattr(node.func, "id", "") != "getattr" or len(node.args) != _ASKED or node.keywords:
            return node
        of, name = node.args
        text = name.value if isinstance(name, ast.Constant) else None
        if not isinstance(text, str) or not text.isidentifier() or _root(of) not in self.modules:
            return node
        return ast.copy_location(ast.Attribute(of, text, ast.Load()), node)


def _root(node: ast.AST) -> str:
    """The first name of a dotted one; '' of another expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _modules(nodes: Iterable[ast.AST]) -> Iterable[str]:
    """Names that imports bind to modules of a framework, or to what a module has."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.asname or each.name.partition(".")[0] for each in node.names if each.name.partition(".")[0] in FRAMEWORKS)
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] in FRAMEWORKS:
            yield from (each.asname or each.name for each in node.names if each.name.islower())


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that a program binds to something else, anywhere."""
    found = {each.id for each in nodes if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    found |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    return found | {each.name for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
