"""What binds a name in a function or module: by the form of the source alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: what has names of its own
_SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def innermost(around: Sequence[ast.AST]) -> list[ast.AST]:
    """The innermost function, class or module around a place, and what stands between."""
    scopes = [at for at, each in enumerate(around) if isinstance(each, _SCOPES)]
    return list(around[scopes[-1] :]) if scopes else list(around)


def counters(node: ast.AST) -> set[str]:
    """The names that a loop counts with: ``for i in range(n)``."""
    if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
        return set()
    called, target = getattr(node.iter.func, "id", ""), node.target
    if called == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    return {target.id} if called in ("range", "enumerate") and isinstance(target, ast.Name) else set()


def bindings(name: str, scope: ast.AST) -> list[ast.AST]:
    """What binds a name in a function, class or module.

    A plain assignment's value, a loop that counts with it, an argument, and else the node that binds it.
    """
    found: list[ast.AST] = []
    if isinstance(scope, _FUNCTIONS):
        given = scope.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        found += [each for each in every if each is not None and each.arg == name]
    found += [each for each in ast.walk(scope) if isinstance(each, ast.Global | ast.Nonlocal) and name in each.names]
    for part in getattr(scope, "body", []):
        found += _within(name, part)
    return found


def _within(name: str, node: ast.AST) -> Iterator[ast.AST]:
    """What binds a name in a statement; functions in it have names of their own."""
    if isinstance(node, ast.Lambda | ast.comprehension):
        return
    if name in _bound_by(node):
        yield node
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_name(node.targets[0], name):
        yield node.value
        yield from _within(name, node.value)
        return
    parts: Sequence[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        parts = []
    elif name in counters(node) and isinstance(node, ast.For):
        yield node
        parts = [each for each in parts if each is not node.target or not _is_counter_alone(node.target, name)]
    for each in parts:
        yield from _within(name, each)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_counter_alone(target: ast.expr, name: str) -> bool:
    """Whether a loop's target binds a name once: as its counter."""
    return sum(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target)) == 1


def _bound_by(node: ast.AST) -> list[str | None]:
    """The names that a node itself binds."""
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.alias):
        return [(node.asname or node.name).partition(".")[0]]
    if isinstance(node, ast.MatchMapping):
        return [node.rest]
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return [node.name]
    return []
