"""What source code says around a line: its function, a second name for a value, a block without gradients, a backward function."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

#: what code calls to have no gradients kept for a while
_SWITCHES = frozenset({"no_grad", "no_grad_", "inference_mode"})

#: what has a name and a body
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

#: what the context of a function has of its own
_OF_THE_FRAMEWORK = frozenset({"saved_tensor", "saved_tensors", "needs_input_grad"})


def no_gradient_block(source: str) -> str | None:
    """The line of the ``with`` or the decorator that switches gradients off for a line; None where there is none."""
    place = SourceLine.of(source)
    tree = None if place is None else parsed(place.file)
    if place is None or tree is None:
        return None
    line = _switched_off(tree, place.line)
    return None if line is None else str(place.at(line))


@lru_cache(maxsize=256)
def _switched_off(tree: ast.Module, number: int) -> int | None:
    found = None
    for node in ast.walk(tree):
        if isinstance(node, (ast.With, ast.AsyncWith)):
            asked: Sequence[ast.expr] = [item.context_expr for item in node.items]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            asked = node.decorator_list
        else:
            continue
        if node.body[0].lineno <= number <= (node.end_lineno or 0):
            found = next((each.lineno for each in asked if _switches_off(each)), found)
    return found


def function_of(source: str) -> tuple[str, int]:
    """File and first line of the innermost function that holds a line; line 0 where there is none, or the file cannot be read."""
    place = SourceLine.of(source)
    if place is None:
        return source, 0
    tree = parsed(place.file)
    return place.file, 0 if tree is None else _begin(tree, place.line)


@lru_cache(maxsize=1024)
def _begin(tree: ast.Module, number: int) -> int:
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return max((node.lineno for node in functions if node.lineno <= number <= (node.end_lineno or 0)), default=0)


def following(source: str) -> list[range]:
    """The lines of each statement that comes after that of a line in its function, the nearest first; none if the file cannot be read."""
    tree, line = _at(source)
    found: list[range] = []
    for node in ast.walk(tree):  # breadth first: inner blocks come later, and are nearer
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= line <= (node.end_lineno or 0):
            found = []
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            spans = [range(each.lineno, each.end_lineno + 1) for each in block] if isinstance(block, list) else []
            at = next((place for place, span in enumerate(spans) if line in span), None)
            if at is not None:
                found = spans[at + 1 :] + found
    return found


def preceding(source: str) -> range | None:
    """The lines of the statement before that of a line, in the same block; None where there is none, or the file cannot be read."""
    (tree, line), found = _at(source), None
    for node in ast.walk(tree):  # breadth first: inner blocks come later
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            spans = [range(each.lineno, each.end_lineno + 1) for each in block] if isinstance(block, list) else []
            at = next((place for place, span in enumerate(spans) if line in span), None)
            if at is not None:
                found = spans[at - 1] if at else None
    return found


def gives_back(source: str) -> bool:
    """Whether a line is a part of a ``return``."""
    tree, line = _at(source)
    return any(isinstance(n, ast.Return) and _spans(n, line) for n in ast.walk(tree))


def behind_loop(first: str, second: str) -> str | None:
    """The line of the statement with a line that comes after a loop with another one, in one block; None where the two are not so."""
    begin, end = SourceLine.of(first), SourceLine.of(second)
    if begin is None or end is None or begin.file != end.file:
        return None
    for node in ast.walk(_at(first)[0]):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            around = [s for s in block if _spans(s, begin.line) or _spans(s, end.line)] if isinstance(block, list) else []
            if len(around) > 1 and isinstance(around[0], (ast.For, ast.While)) and _spans(around[1], end.line):
                return str(begin.at(around[1].lineno))
    return None


def calls(source: str, inner: str) -> int:
    """How often the statement of a line calls the function, or constructs the class, that holds another line."""
    (tree, line), (other, within) = _at(source), _at(inner)
    held = [n for n in ast.walk(other) if isinstance(n, _NAMED) and _spans(n, within)]
    name = max(held, key=lambda n: n.lineno).name if held else ""
    if name == "__init__":
        name = max((n for n in held if isinstance(n, ast.ClassDef)), key=lambda n: n.lineno, default=held[0]).name
    around = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and _spans(n, line)]
    statement = max(around, key=lambda n: n.lineno, default=None)
    made = [n.func for n in ast.walk(statement) if isinstance(n, ast.Call)] if statement is not None else []
    return sum(getattr(each, "attr", getattr(each, "id", "")) == name for each in made)


def named_for(source: str, maker: str) -> str | None:
    """The line that gave what another line made, in the same function, a name that nothing reads but one line; None without one.

    It is the assignment to several names at once, or of one name to another.
    """
    (file, begin), (tree, number), made = function_of(source), _at(source), _at(maker)[1]
    function = next((n for n in ast.walk(tree) if isinstance(n, _NAMED) and n.lineno == begin), None)
    if function is None or function_of(maker) != (file, begin):
        return None
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    stores = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and n.lineno < number]
    for name in {n.id for n in names if isinstance(n.ctx, ast.Load) and n.lineno == number}:
        last = _last_named(stores, name)
        read = {n.lineno for n in names if n.id == name and isinstance(n.ctx, ast.Load) and last is not None and n.lineno > last.lineno}
        before = _last_named([n for n in stores if last is not None and n.lineno < last.lineno], getattr(last and last.value, "id", ""))
        origin = last if last is not None and len(last.targets) > 1 else before
        if last is not None and read == {number} and origin is not None and _spans(origin, made):
            return str(SourceLine(file, last.lineno))
    return None


def _last_named(stores: Sequence[ast.Assign], name: str) -> ast.Assign | None:
    """The last of some assignments to a name."""
    found = [s for s in stores if any(isinstance(n, ast.Name) and n.id == name for target in s.targets for n in ast.walk(target))]
    return max(found, key=lambda s: s.lineno, default=None)


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


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
    place = SourceLine.of(source)
    return None if place is None else str(place.at(max(returns, default=method.lineno)))


def told_how(source: str) -> bool:
    """Whether the ``backward`` of the class that a line belongs to goes by something that its ``forward`` was told besides tensors."""
    method = _backward(source)
    if method is None or not method.args.args:
        return False
    context = method.args.args[0].arg
    read = [n for n in ast.walk(method) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == context]
    return any(n.attr not in _OF_THE_FRAMEWORK for n in read)


def alias_line(source: str | None, made: str | None = None) -> str | None:
    """The line before ``source`` where a name that is used there is only another name for a value; None without one, or with several.

    ``made``: the line that made the value, in the same function; then the name may have been assigned again since, to something made of
    itself, and other names are looked over.
    """
    place = SourceLine.of(source)
    tree = None if place is None else parsed(place.file)
    if place is None or tree is None:
        return None
    number = place.line
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno <= number <= (n.end_lineno or n.lineno)]
    if not functions:
        return None
    inner = max(functions, key=lambda f: f.lineno)
    here = [n for n in ast.walk(inner) if isinstance(n, ast.Name) and n.lineno <= number <= (n.end_lineno or n.lineno)]
    used = {n.id for n in here if isinstance(n.ctx, ast.Load)}
    stores = [n for n in ast.walk(inner) if isinstance(n, ast.Assign) and n.lineno < number]
    last = [_assigned(stores, name, through=made is not None) for name in used]
    found = [node for node in last if node is not None and isinstance(node.value, ast.Name)]
    if made is not None:
        origins = [(node, _last_named([s for s in stores if s.lineno < node.lineno], getattr(node.value, "id", ""))) for node in found]
        found = [node for node, origin in origins if origin is not None and _spans(origin, _at(made)[1])]
    return str(place.at(found[0].lineno)) if len(found) == 1 else None


def _assigned(stores: Sequence[ast.Assign], name: str, *, through: bool) -> ast.Assign | None:
    """The last assignment to a name alone; ``through``: the last that does not make it of itself."""
    found = [s for s in stores if any(isinstance(target, ast.Name) and target.id == name for target in s.targets)]
    if through:
        found = [s for s in found if not any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(s.value))]
    return max(found, key=lambda s: s.lineno, default=None)


def composition_line(source: str | None, name: str, others: Container[str]) -> str | None:
    """The line that names a function in the one list of the file that names further ones of some functions too; None without one.

    Args:
        source: a line of the file.
        name: the function.
        others: the functions of which the list has others.
    """
    place = SourceLine.of(source)
    tree = None if place is None else parsed(place.file)
    if place is None or tree is None:
        return None
    found: set[int] = set()
    for node in ast.walk(tree):
        named = [part for part in node.elts if isinstance(part, ast.Name)] if isinstance(node, (ast.List, ast.Tuple)) else []
        if any(part.id != name and part.id in others for part in named):
            found |= {part.lineno for part in named if part.id == name}
    return str(place.at(found.pop())) if len(found) == 1 else None


def _backward(source: str) -> ast.FunctionDef | None:
    tree, line = _at(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "backward":
                    return method
    return None


def _at(source: str) -> tuple[ast.Module, int]:
    """The tree of a line's file, and its number; a tree without parts where the file cannot be read."""
    place = SourceLine.of(source)
    tree = None if place is None else parsed(place.file)
    return ast.Module([], []) if tree is None else tree, 0 if place is None else place.line


def parsed(file: str) -> ast.Module | None:
    """A source file's tree as it is now; None where it cannot be read."""
    try:
        known = Path(file).stat()
        return _tree(file, known.st_mtime_ns, known.st_size)
    except (OSError, SyntaxError, ValueError):
        return None


@lru_cache(maxsize=64)
def _tree(file: str, changed: int, size: int) -> ast.Module:  # noqa: ARG001 - a file that was edited in between is read again
    return ast.parse(Path(file).read_text(encoding="utf-8"))
