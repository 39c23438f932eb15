"""The statement that hands on to one line what another line of the function made."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.locate.source.bindings import stored_names
from paralign.locate.source.statements import parsed_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def between(made: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """The lines of the one statement that binds what a consumer reads to what a producer made.

    Args:
        made: the lines of the operation that made a value, innermost first.
        taken: those of an operation that takes it.

    Returns:
        The statement's line and the calls around it; empty where no function has one such statement between the two.
    """
    shared = 0
    while shared < min(len(made), len(taken)) and made[-1 - shared] == taken[-1 - shared]:
        shared += 1
    for level in range(min(shared, len(made) - 1, len(taken) - 1), -1, -1):
        line = _statement_between(made[-1 - level], taken[-1 - level])
        if line is not None:
            return (line, *made[len(made) - level :])
    return ()


def _statement_between(made: str, taken: str) -> str | None:
    """The one statement that reads what one line binds, and binds what another reads."""
    first, last = parsed_line(made), parsed_line(taken)
    if first is None or last is None or first.place.file != last.place.file:
        return None
    functions = [node for node in ast.walk(first.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [node for node in functions if _holds(node, first.place.line) and _holds(node, last.place.line)]
    if not around:
        return None
    assigned = list(_assignments(max(around, key=lambda node: node.lineno)))
    bound = {name for node in assigned if _holds(node, first.place.line) for name in stored_names(node)}
    wanted = _read_at(first.tree, last.place.line)
    found = [node for node in assigned if stored_names(node) & wanted and _read(node) & bound and not _holds(node, first.place.line)]
    return first.at(found[0].lineno) if len(found) == 1 and not _holds(found[0], last.place.line) else None


def _assignments(function: ast.AST) -> Iterator[ast.Assign]:
    return (node for node in ast.walk(function) if isinstance(node, ast.Assign))


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _read(node: ast.AST) -> set[str]:
    """The names that a part of code reads."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _read_at(tree: ast.Module, line: int) -> set[str]:
    """The names that the innermost statement at a line reads."""
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _holds(node, line)]
    return _read(max(statements, key=lambda node: node.lineno)) if statements else set()
