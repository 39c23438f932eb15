"""What source code says around a line: function, second names, blocks, backwards."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

#: what code calls to have no gradients kept for a while
_SWITCHES = frozenset({"no_grad", "no_grad_", "inference_mode"})

#: what has a name and a body
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

#: what the context of a function has of its own
_OF_THE_FRAMEWORK = frozenset({"saved_tensor", "saved_tensors", "needs_input_grad"})


@dataclass(frozen=True)
class ParsedLine:
    """A line of a source file, and the file's tree."""

    place: SourceLine
    tree: ast.Module

    def at(self, line: int) -> str:
        """Another line of the file, ``file:line``."""
        return str(self.place.at(line))


def parsed_line(source: str | None) -> ParsedLine | None:
    """A line (``file:line``) with its file's tree; None where the file cannot be read."""
    place = SourceLine.of(source)
    if place is None:
        return None
    tree = parsed(place.file)
    return None if tree is None else ParsedLine(place, tree)


def no_gradient_block(source: str) -> str | None:
    """The ``with`` or decorator that switches gradients off for a line; None without one."""
    known = parsed_line(source)
    if known is None:
        return None
    line = _switched_off(known.tree, known.place.line)
    return None if line is None else known.at(line)


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
        if not node.body[0].lineno <= number <= _end(node):
            continue
        for each in asked:
            if _switches_off(each):
                found = each.lineno
                break
    return found


def function_of(source: str) -> tuple[str, int]:
    """File and first line of the innermost function that holds a line.

    The line is 0 where there is no function, or the file cannot be read.
    """
    place = SourceLine.of(source)
    if place is None:
        return source, 0
    tree = parsed(place.file)
    return place.file, 0 if tree is None else _begin(tree, place.line)


@lru_cache(maxsize=1024)
def _begin(tree: ast.Module, number: int) -> int:
    begin = 0
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= number <= _end(node):
            begin = max(begin, node.lineno)
    return begin


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements inside of one."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _statement_spans(block: list[ast.stmt]) -> list[range]:
    """The lines of each statement of a block."""
    return [range(each.lineno, (each.end_lineno or each.lineno) + 1) for each in block]


def _span_with(spans: list[range], line: int) -> int | None:
    """The index of the first span that a line is in; None where it is in none."""
    for index, span in enumerate(spans):
        if line in span:
            return index
    return None


def following(source: str) -> list[range]:
    """The lines of each statement after that of a line in its function, the nearest first.

    None where the file cannot be read.
    """
    tree, line = _at(source)
    found: list[range] = []
    for node in ast.walk(tree):  # breadth first: inner blocks come later, and are nearer
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= line <= _end(node):
            found = []
        for block in _blocks(node):
            spans = _statement_spans(block)
            at = _span_with(spans, line)
            if at is not None:
                found = spans[at + 1 :] + found
    return found


def preceding(source: str) -> range | None:
    """The lines of the statement before that of a line, in the same block; None without one."""
    tree, line = _at(source)
    found = None
    for node in ast.walk(tree):  # breadth first: inner blocks come later
        for block in _blocks(node):
            spans = _statement_spans(block)
            at = _span_with(spans, line)
            if at is not None:
                found = spans[at - 1] if at else None
    return found


def gives_back(source: str) -> bool:
    """Whether a line is a part of a ``return``."""
    tree, line = _at(source)
    return any(isinstance(n, ast.Return) and _spans(n, line) for n in ast.walk(tree))


def behind_loop(first: str, second: str) -> str | None:
    """The line with ``second`` after a loop with ``first``, in one block.

    None where the two lines are not so.
    """
    begin, end = SourceLine.of(first), SourceLine.of(second)
    if begin is None or end is None or begin.file != end.file:
        return None
    for node in ast.walk(_at(first)[0]):
        for block in _blocks(node):
            around = [each for each in block if _spans(each, begin.line) or _spans(each, end.line)]
            if len(around) < 2:  # noqa: PLR2004 - the loop, and what comes after it
                continue
            loop, after = around[:2]
            if isinstance(loop, (ast.For, ast.While)) and _spans(after, end.line):
                return str(begin.at(after.lineno))
    return None


def calls(source: str, inner: str) -> int:
    """How often a line's statement calls what holds ``inner``, a function or a class."""
    (tree, line), (other, within) = _at(source), _at(inner)
    name = _name_around(other, within)
    around = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and _spans(n, line)]
    statement = max(around, key=lambda n: n.lineno, default=None)
    if statement is None:
        return 0
    count = 0
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == name:
            count += 1
    return count


def _name_around(tree: ast.Module, line: int) -> str:
    """The innermost function around a line, or a constructor's class; '' without one."""
    held = [n for n in ast.walk(tree) if isinstance(n, _NAMED) and _spans(n, line)]
    if not held:
        return ""
    innermost = max(held, key=lambda n: n.lineno)
    if innermost.name != "__init__":
        return innermost.name
    classes = [n for n in held if isinstance(n, ast.ClassDef)]
    return max(classes, key=lambda n: n.lineno, default=held[0]).name


def named_for(source: str, maker: str) -> str | None:
    """The line that gave what line ``maker`` made a name that only line ``source`` reads.

    Both are in the same function. It is the assignment to several names at once, or of one name to another.
    """
    file, begin = function_of(source)
    tree, number = _at(source)
    function = _starting_at(tree, begin)
    if function is None or function_of(maker) != (file, begin):
        return None
    made = _at(maker)[1]
    stores = _assignments_before(function, number)
    for name in _names_read_at(function, number):
        last = _last_named(stores, name)
        if last is None or _lines_reading(function, name, last.lineno) != {number}:
            continue
        origin = last if len(last.targets) > 1 else _origin(stores, last)
        if origin is not None and _spans(origin, made):
            return str(SourceLine(file, last.lineno))
    return None


def _starting_at(tree: ast.Module, line: int) -> ast.AST | None:
    """The function or class that begins in a line; None without one."""
    for node in ast.walk(tree):
        if isinstance(node, _NAMED) and node.lineno == line:
            return node
    return None


def _assignments_before(function: ast.AST, line: int) -> list[ast.Assign]:
    """The assignments of a function that stand before a line."""
    return [n for n in ast.walk(function) if isinstance(n, ast.Assign) and n.lineno < line]


def _reads(function: ast.AST) -> Iterator[ast.Name]:
    """Every name that a function reads, wherever it does."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node


def _names_read_at(function: ast.AST, line: int) -> set[str]:
    """The names that a line reads."""
    return {name.id for name in _reads(function) if name.lineno == line}


def _lines_reading(function: ast.AST, name: str, after: int) -> set[int]:
    """The lines behind another one that read a name."""
    return {each.lineno for each in _reads(function) if each.id == name and each.lineno > after}


def _origin(stores: Sequence[ast.Assign], last: ast.Assign) -> ast.Assign | None:
    """Where the name was assigned that an assignment gives another name to."""
    before = [each for each in stores if each.lineno < last.lineno]
    return _last_named(before, getattr(last.value, "id", ""))


def _last_named(stores: Sequence[ast.Assign], name: str) -> ast.Assign | None:
    """The last of some assignments to a name."""
    found = [each for each in stores if name in _assigned_names(each)]
    return max(found, key=lambda each: each.lineno, default=None)


def _assigned_names(store: ast.Assign) -> set[str]:
    """The names in the targets of an assignment."""
    found: set[str] = set()
    for target in store.targets:
        found |= names_in(target)
    return found


def names_in(tree: ast.AST) -> set[str]:
    """All names of a part of code."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _end(node: ast.stmt | ast.expr) -> int:
    """The last line of a part of code."""
    return node.end_lineno or 0


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _switches_off(expression: ast.expr) -> bool:
    """Whether an expression switches gradients off: ``no_grad`` and its like."""
    called = expression.func if isinstance(expression, ast.Call) else expression
    name = ""
    if isinstance(called, ast.Attribute):
        name = called.attr
    elif isinstance(called, ast.Name):
        name = called.id
    if name in _SWITCHES:
        return True
    if name != "set_grad_enabled" or not isinstance(expression, ast.Call) or not expression.args:
        return False
    switch = expression.args[0]
    return isinstance(switch, ast.Constant) and switch.value is False


def custom_backward(source: str) -> str | None:
    """The line that returns the gradient in the ``backward`` of a line's class."""
    method = _backward(source)
    if method is None:
        return None
    returns = [n.lineno for n in ast.walk(method) if isinstance(n, ast.Return)]
    place = SourceLine.of(source)
    return None if place is None else str(place.at(max(returns, default=method.lineno)))


def told_how(source: str) -> bool:
    """Whether the ``backward`` of a line's class reads from its context anything but tensors."""
    method = _backward(source)
    if method is None or not method.args.args:
        return False
    context = method.args.args[0].arg
    for node in ast.walk(method):
        if not isinstance(node, ast.Attribute) or node.attr in _OF_THE_FRAMEWORK:
            continue
        if isinstance(node.value, ast.Name) and node.value.id == context:
            return True
    return False


def alias_line(source: str | None, made: str | None = None) -> str | None:
    """The line where a name that ``source`` uses is made only another name for a value.

    None without one, or with several.

    Args:
        source: the line that uses the name.
        made: the line that made the value, in the same function; then the name may have been assigned again since, to something
            made of itself, and other names are looked over.
    """
    known = parsed_line(source)
    function = None if known is None else _innermost_function(known)
    if known is None or function is None:
        return None
    stores = _assignments_before(function, known.place.line)
    aliases = []
    for name in {each.id for each in _reads(function) if each.lineno <= known.place.line <= _end(each)}:
        last = _assigned(stores, name, through=made is not None)
        if last is None or not isinstance(last.value, ast.Name):
            continue
        if made is None or _is_made_at(_origin(stores, last), made):
            aliases.append(last)
    return known.at(aliases[0].lineno) if len(aliases) == 1 else None


def bound_name(source: str | None) -> str:
    """The one name that the statement on a line binds; '' where it binds none, or several."""
    known = parsed_line(source)
    if known is None:
        return ""
    bound = [each for each in ast.walk(known.tree) if isinstance(each, ast.Assign) and each.lineno <= known.place.line <= _end(each)]
    names = [target.id for each in bound for target in each.targets if isinstance(target, ast.Name)]
    return names[0] if len(names) == len(bound) == 1 and len(bound[0].targets) == 1 else ""


def listed_line(source: str | None) -> str | None:
    """The line that writes out the one list which calls on a line take by its name.

    None where a call writes its list itself, or what it takes was not written out before.
    """
    known = parsed_line(source)
    function = None if known is None else _innermost_function(known)
    if known is None or function is None:
        return None
    given = _given_at(function, known.place.line)
    if any(map(_lists_names, given)):
        return None
    stores = _assignments_before(function, known.place.line)
    lists: list[ast.Assign] = []
    for each in given:
        if not isinstance(each, ast.Name):
            continue
        last = _assigned(stores, each.id, through=False)
        if last is not None and _lists_names(last.value):
            lists.append(last)
    return known.at(lists[0].lineno) if len(lists) == 1 else None


def _given_at(function: ast.AST, line: int) -> list[ast.expr]:
    """What the calls of a line are given, by place and by name."""
    found: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and node.lineno <= line <= _end(node):
            found += [*node.args, *(word.value for word in node.keywords)]
    return found


def _lists_names(expression: ast.expr) -> bool:
    """Whether an expression is a list that is written out, of anything but literals."""
    if not isinstance(expression, (ast.List, ast.Tuple)):
        return False
    return any(not isinstance(each, ast.Constant) for each in expression.elts)


def _innermost_function(known: ParsedLine) -> ast.FunctionDef | None:
    """The innermost function around a line; None without one."""
    around = [n for n in ast.walk(known.tree) if isinstance(n, ast.FunctionDef) and _spans(n, known.place.line)]
    return max(around, key=lambda each: each.lineno, default=None)


def _is_made_at(origin: ast.Assign | None, made: str) -> bool:
    """Whether an assignment holds a line."""
    return origin is not None and _spans(origin, _at(made)[1])


def _assigned(stores: Sequence[ast.Assign], name: str, *, through: bool) -> ast.Assign | None:
    """The last assignment to a name; ``through``: the last that is not of itself."""
    found = []
    for store in stores:
        alone = any(isinstance(target, ast.Name) and target.id == name for target in store.targets)
        if alone and not (through and name in names_in(store.value)):
            found.append(store)
    return max(found, key=lambda each: each.lineno, default=None)


def composition_line(source: str | None, name: str, others: Container[str]) -> str | None:
    """The line that names a function in the one list that names some other functions too.

    None without such a list, or with several.

    Args:
        source: a line of the file.
        name: the function.
        others: the functions of which the list has others.
    """
    known = parsed_line(source)
    if known is None:
        return None
    found: set[int] = set()
    for node in ast.walk(known.tree):
        if not isinstance(node, (ast.List, ast.Tuple)):
            continue
        named = [part for part in node.elts if isinstance(part, ast.Name)]
        if any(part.id != name and part.id in others for part in named):
            found |= {part.lineno for part in named if part.id == name}
    return known.at(found.pop()) if len(found) == 1 else None


def _backward(source: str) -> ast.FunctionDef | None:
    tree, line = _at(source)
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or not node.lineno <= line <= _end(node):
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "backward":
                return method
    return None


def _at(source: str) -> tuple[ast.Module, int]:
    """The tree of a line's file, and its number; an empty tree if it cannot be read."""
    known = parsed_line(source)
    if known is not None:
        return known.tree, known.place.line
    place = SourceLine.of(source)
    return ast.Module([], []), 0 if place is None else place.line


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
