"""What source code says around a line: its function, a block that keeps no gradients, a backward function of one's own."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: what code calls to have no gradients kept for a while
_SWITCHES = frozenset({"no_grad", "no_grad_", "inference_mode"})

#: what the context of a function has of its own
_OF_THE_FRAMEWORK = frozenset({"saved_tensor", "saved_tensors", "needs_input_grad"})


@lru_cache(maxsize=256)
def no_gradient_block(source: str) -> str | None:
    """The line of the ``with`` or the decorator that switches gradients off for a line; None where there is none."""
    file, number = source.rpartition(":")[0], int(source.rpartition(":")[2])
    tree, found = _parsed(file), None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.With, ast.AsyncWith)):
            asked: Sequence[ast.expr] = [item.context_expr for item in node.items]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            asked = node.decorator_list
        else:
            continue
        if node.body[0].lineno <= number <= (node.end_lineno or 0):
            found = next((f"{file}:{each.lineno}" for each in asked if _switches_off(each)), found)
    return found


@lru_cache(maxsize=1024)
def function_of(source: str) -> tuple[str, int]:
    """File and first line of the innermost function that holds a line; line 0 where there is none, or the file cannot be read."""
    file, _, line = source.rpartition(":")
    tree = _parsed(file)
    held = [
        node.lineno
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= int(line) <= (node.end_lineno or 0)
    ]
    return file, max(held, default=0)


def _switches_off(expression: ast.expr) -> bool:
    """Whether an expression is ``no_grad``, a call of it, or ``set_grad_enabled(False)``, of whatever module."""
    call = expression if isinstance(expression, ast.Call) else None
    named = call.func if call is not None else expression
    name = named.attr if isinstance(named, ast.Attribute) else named.id if isinstance(named, ast.Name) else ""
    if name in _SWITCHES:
        return True
    given = call.args[0] if call is not None and call.args else None
    return name == "set_grad_enabled" and isinstance(given, ast.Constant) and given.value is False


def custom_backward(source: str) -> str | None:
    """The line that returns the gradient in the ``backward`` of the class that a line belongs to; None where there is none."""
    method = _backward(source)
    if method is None:
        return None
    returns = [n.lineno for n in ast.walk(method) if isinstance(n, ast.Return)]
    return f"{source.rpartition(':')[0]}:{max(returns, default=method.lineno)}"


def told_how(source: str) -> bool:
    """Whether the ``backward`` of the class that a line belongs to goes by something that its ``forward`` was told besides tensors."""
    method = _backward(source)
    if method is None or not method.args.args:
        return False
    context = method.args.args[0].arg
    read = [n for n in ast.walk(method) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == context]
    return any(n.attr not in _OF_THE_FRAMEWORK for n in read)


def _backward(source: str) -> ast.FunctionDef | None:
    file, _, line = source.rpartition(":")
    tree = _parsed(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.lineno <= int(line) <= (node.end_lineno or 0):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "backward":
                    return method
    return None


@lru_cache(maxsize=64)
def _parsed(file: str) -> ast.Module | None:
    """A source file's tree; None where it cannot be read."""
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
