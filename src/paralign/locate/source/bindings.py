"""Where what an optimizer's line reads was put: numbers, settings, kept state."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.locate.source.statements import names_in, parsed
from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

#: names that are followed from a line to what they were read from
FOLLOWED = 8


#: methods of mappings that give what is under a key
_TAKING = frozenset({"get", "setdefault", "pop"})

#: methods of lists and sets that put elements into them
_FILLING = frozenset({"append", "extend", "add", "update"})


@dataclass(frozen=True)
class Access:
    """Where something is put under a key of an attribute, or taken from there.

    ``value`` is what is put, as it is written.
    """

    attribute: str
    key: str
    line: int
    value: str = ""


class Code:
    """The class and the function around a ``file:line``; empty for unreadable files."""

    def __init__(self, source: str | None) -> None:
        place = SourceLine.of(source)
        self.file, self.line = ("", 0) if place is None else (place.file, place.line)
        self.function: ast.FunctionDef | None = None
        self.owner: ast.ClassDef | None = None
        self.statement: ast.stmt | None = None
        tree = parsed(self.file) if self.line else None
        if tree is not None:
            self._find_around(tree)

    def _find_around(self, tree: ast.Module) -> None:
        """The innermost function, class and statement around the line."""
        for node in ast.walk(tree):
            if not _holds(node, self.line):
                continue
            if isinstance(node, ast.FunctionDef):
                if self.function is None or node.lineno > self.function.lineno:
                    self.function = node
            elif isinstance(node, ast.ClassDef):
                if self.owner is None or node.lineno > self.owner.lineno:
                    self.owner = node
            elif isinstance(node, ast.stmt) and (self.statement is None or _extent(node) > _extent(self.statement)):
                self.statement = node

    def at(self, line: int) -> str:
        """``file:line`` of another line of the file."""
        return str(SourceLine(self.file, line))

    @property
    def names(self) -> list[str]:
        """The local names that the line's statement reads."""
        return [name.id for name in _names(self.statement) if isinstance(name.ctx, ast.Load)]

    @property
    def attributes(self) -> list[str]:
        """The attributes of its own object that the line's statement reads."""
        found = []
        for node in _nodes(self.statement):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            if _is_own(node):
                found.append(node.attr)
        return found

    @property
    def targets(self) -> set[str]:
        """The local names that the line's statement assigns."""
        return {name.id for name in _names(self.statement) if isinstance(name.ctx, ast.Store)}

    def assigned(self, name: str) -> ast.stmt | None:
        """The last statement before the line that assigns a local name."""
        last: ast.stmt | None = None
        for node in _nodes(self.function):
            if not isinstance(node, (ast.Assign, ast.AugAssign)) or node.lineno >= self.line:
                continue
            if name in stored_names(node) and (last is None or node.lineno > last.lineno):
                last = node
        return last

    def defined(self, name: str) -> ast.FunctionDef | None:
        """The function of a name that is defined inside the function."""
        for node in _nodes(self.function):
            if isinstance(node, ast.FunctionDef) and node.name == name and node is not self.function:
                return node
        return None

    def here(self) -> Iterator[ast.AST]:
        """The nodes of the line's statement, in a function or in the module."""
        return _nodes(self.statement)

    def value_of(self, value: ast.expr) -> ast.expr:
        """What a name was assigned before the line; another expression as it is."""
        found = self.assigned(value.id) if isinstance(value, ast.Name) else None
        return found.value if isinstance(found, (ast.Assign, ast.AugAssign)) else value

    def filled(self, value: ast.expr) -> str:
        """The line that decides on the elements of a list.

        The test under which it is filled; without one the line that fills it; without that the line that makes it.
        """
        if not isinstance(value, ast.Name):
            return self.at(value.lineno)
        fills = self._fills(value.id)
        tests = [each.lineno for each in self._tests_around(fills)]
        if tests:
            return self.at(max(tests))
        if fills:
            return self.at(min(fills))
        made = self.assigned(value.id)
        return self.at(value.lineno if made is None else made.lineno)

    def _fills(self, name: str) -> list[int]:
        """The lines before the line that put something into a list of a name."""
        found = []
        for node in _nodes(self.function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.lineno >= self.line:
                continue
            if node.func.attr in _FILLING and name in names_in(node.func.value):
                found.append(node.lineno)
        return found

    def _tests_around(self, lines: Sequence[int]) -> list[ast.If]:
        """The ``if`` statements of the function that hold any of some lines."""
        tests = [node for node in _nodes(self.function) if isinstance(node, ast.If)]
        return [test for test in tests if any(_holds(test, line) for line in lines)]

    def setting(self, attribute: str) -> int | None:
        """The constructor's line that sets an attribute; None without one, or of several."""
        found = []
        for init in self._methods(constructor=True):
            for _, target, value in _assignments(init):
                if isinstance(target, ast.Attribute) and target.attr == attribute and _is_own(target):
                    found.append(value.lineno)
        return found[0] if len(found) == 1 else None

    def kept(self) -> list[Access]:
        """Where the class puts values under keys of its attributes, constructor left out."""
        found = []
        for method in self._methods(constructor=False):
            for line, target, value in _assignments(method):
                if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Attribute):
                    continue
                if _is_own(target.value):
                    found.append(Access(target.value.attr, ast.unparse(target.slice), line, ast.unparse(value)))
        return found

    def _methods(self, *, constructor: bool) -> list[ast.FunctionDef]:
        """The constructors of the class, or all its other functions."""
        functions = [node for node in _nodes(self.owner) if isinstance(node, ast.FunctionDef)]
        return [each for each in functions if (each.name == "__init__") == constructor]

    def read(self) -> list[Access]:
        """Where the function takes something from under keys of attributes."""
        if self.function is None:
            return []
        return [access for statement in self.function.body for access in _reads(statement)]

    def taken(self) -> list[Access]:
        """Where what the line reads was taken from: keys of attributes, or assignments."""
        statements: list[ast.stmt] = [] if self.statement is None else [self.statement]
        waiting = list(self.names)
        while waiting and len(statements) < FOLLOWED:
            found = self.assigned(waiting.pop(0))
            if found is not None and found not in statements:
                statements.append(found)
                waiting += [name.id for name in _names(found) if isinstance(name.ctx, ast.Load)]
        return [access for statement in statements for access in _reads(statement)]


def number_line(source: str | None, busy: Container[str]) -> str | None:
    """The line that computed the one number which a line reads by a name.

    Args:
        source: the line, ``file:line``.
        busy: lines that do something with tensors: what these assign are no numbers.
    """
    code = Code(source)
    found: set[int] = set()
    for name in code.names:
        assigned = code.assigned(name)
        if assigned is not None and code.at(assigned.lineno) not in busy and _is_computed(assigned):
            found.add(assigned.lineno)
    return code.at(found.pop()) if len(found) == 1 else None


def only_keeps(source: str) -> bool:
    """Whether a line does nothing but keep values in attributes of its own object."""
    parts = [part for target in _targets(Code(source).statement) for part in _parts(target)]
    for part in parts:
        held = part.value if isinstance(part, ast.Subscript) else part
        if not isinstance(held, ast.Attribute) or not _is_own(held):
            return False
    return bool(parts)


def unkept_line(source: str | None, makers: Sequence[str], instead: str | None = None) -> str | None:
    """The line at fault where a step takes something else than an earlier one made for it.

    Args:
        source: the line that takes it.
        makers: the lines that made, in an earlier step, what is due.
        instead: the line that makes a constant which is taken in its place, if one does.
    """
    code, made = Code(source), [Code(maker) for maker in makers]
    kept, taken = code.kept(), code.taken()
    kept_in = {access.attribute for access in kept}
    read = next((access for access in taken if access.attribute in kept_in), None)
    holding = _holding(code, kept, made)
    if not holding:
        stored = None if read is None else _of_attribute(kept, read.attribute)
        return None if stored is None else code.at(stored.line)
    if read is None:  # nothing is taken where something should be
        return instead or source
    holder = _of_attribute(holding, read.attribute)
    if holder is None:  # where something else takes what is kept there, it is kept at the wrong place
        elsewhere = _of_attribute(code.read(), holding[0].attribute)
        return code.at(read.line if elsewhere is None else holding[0].line)
    if holder.key == read.key:  # kept and taken as it should be, and not used
        return source
    keys = Counter(access.key for access in (*kept, *taken))
    return code.at(min((holder, read), key=lambda access: keys[access.key]).line)


def _holding(code: Code, kept: Sequence[Access], made: Sequence[Code]) -> list[Access]:
    """The places that keep what any of some lines made."""
    return [access for access in kept if any(_holds_made(code, access, each) for each in made)]


def _of_attribute(accesses: Sequence[Access], attribute: str) -> Access | None:
    """The first place of an attribute; None without one."""
    for access in accesses:
        if access.attribute == attribute:
            return access
    return None


def _holds_made(code: Code, kept: Access, made: Code) -> bool:
    """Whether what is kept is a name as one line assigned it."""
    store = Code(code.at(kept.line))
    for name in made.targets & names_in(ast.parse(kept.value)):
        last = store.assigned(name)
        if last is not None and last is made.statement:
            return True
    return False


def _holds(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.stmt):
        return False
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _nodes(node: ast.AST | None) -> Iterator[ast.AST]:
    return ast.walk(node) if node is not None else iter(())


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _extent(statement: ast.stmt) -> tuple[int, int]:
    """Greater of the two statements that lies further within."""
    return statement.lineno, -(statement.end_lineno or 0)


def _targets(node: ast.stmt | None) -> list[ast.expr]:
    """What a statement assigns to."""
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign) else []


def _names(node: ast.AST | None) -> Iterator[ast.Name]:
    """Every name in a part of code."""
    for each in _nodes(node):
        if isinstance(each, ast.Name):
            yield each


def stored_names(statement: ast.stmt) -> set[str]:
    """The names that a statement assigns."""
    return {name.id for target in _targets(statement) for name in _names(target) if isinstance(name.ctx, ast.Store)}


def _parts(expression: ast.expr) -> list[ast.expr]:
    """The elements of a list or tuple as it is written; else the expression itself."""
    return expression.elts if isinstance(expression, (ast.Tuple, ast.List)) else [expression]


def _assignments(function: ast.FunctionDef) -> Iterator[tuple[int, ast.expr, ast.expr]]:
    """The line, a target and its value, of every assignment of a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target, value in _pairs(node):
                yield node.lineno, target, value


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and values of an assignment, one by one where both are written as lists."""
    for target in node.targets:
        parts = _parts(target)
        values = _parts(node.value) if len(parts) > 1 else [node.value]
        if len(values) != len(parts):
            values = [node.value] * len(parts)
        yield from zip(parts, values, strict=True)


def _reads(statement: ast.stmt) -> Iterator[Access]:
    """Where a statement takes something from under a key of an attribute."""
    for node in ast.walk(statement):
        held: ast.expr | None = None
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            held, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TAKING and node.args:
            held, key = node.func.value, node.args[0]
        if isinstance(held, ast.Attribute) and key is not None and _is_own(held):
            yield Access(held.attr, ast.unparse(key), statement.lineno)


def _is_computed(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.AugAssign) or isinstance(getattr(statement, "value", None), (ast.BinOp, ast.Call))
