"""Where what a line of an optimizer's step reads was put: numbers computed before it, settings, what is kept from step to step."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.locate.source.statements import parsed
from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

#: names that are followed from a line to what they were read from
FOLLOWED = 8


#: methods of mappings that give what is under a key
_TAKING = frozenset({"get", "setdefault", "pop"})


@dataclass(frozen=True)
class Access:
    """One place where something is put under a key of an attribute, or taken from there; ``value`` is what is put, as it is written."""

    attribute: str
    key: str
    line: int
    value: str = ""


class Code:
    """The class and the function around a line (``file:line``); without parts where the file cannot be read."""

    def __init__(self, source: str | None) -> None:
        place = SourceLine.of(source)
        self.file, self.line = ("", 0) if place is None else (place.file, place.line)
        tree = parsed(self.file) if self.line else None
        around = [n for n in (ast.walk(tree) if tree is not None else ()) if _holds(n, self.line)]
        functions = [n for n in around if isinstance(n, ast.FunctionDef)]
        self.function = max(functions, key=lambda f: f.lineno, default=None)
        self.owner = max((n for n in around if isinstance(n, ast.ClassDef)), key=lambda c: c.lineno, default=None)
        statements = [n for n in around if isinstance(n, ast.stmt) and not isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        self.statement = max(statements, key=lambda s: (s.lineno, -(s.end_lineno or 0)), default=None)

    def at(self, line: int) -> str:
        """``file:line`` of another line of the file."""
        return str(SourceLine(self.file, line))

    @property
    def names(self) -> list[str]:
        """The local names that the line's statement reads."""
        return [n.id for n in _nodes(self.statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]

    @property
    def attributes(self) -> list[str]:
        """The attributes of its own object that the line's statement reads."""
        return [n.attr for n in _nodes(self.statement) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and _is_own(n)]

    @property
    def targets(self) -> set[str]:
        """The local names that the line's statement assigns."""
        return {n.id for n in _nodes(self.statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}

    def assigned(self, name: str) -> ast.stmt | None:
        """The last statement before the line that assigns a local name."""
        found = [n for n in _nodes(self.function) if isinstance(n, (ast.Assign, ast.AugAssign)) and n.lineno < self.line]
        return max((n for n in found if any(name in _names(t) for t in _targets(n))), key=lambda n: n.lineno, default=None)

    def defined(self, name: str) -> ast.FunctionDef | None:
        """The function of a name that is defined inside the function."""
        return next(
            (n for n in _nodes(self.function) if isinstance(n, ast.FunctionDef) and n.name == name and n is not self.function), None
        )

    def here(self) -> Iterator[ast.AST]:
        """The nodes of the line's statement, and where it is in no function those of the module's statement."""
        return _nodes(self.statement)

    def value_of(self, value: ast.expr) -> ast.expr:
        """What a name was assigned before the line; another expression as it is."""
        found = self.assigned(value.id) if isinstance(value, ast.Name) else None
        return found.value if isinstance(found, (ast.Assign, ast.AugAssign)) else value

    def filled(self, value: ast.expr) -> str:
        """The line that decides on the elements of a list: the test under which it is filled, that which fills it, or which makes it."""
        if not isinstance(value, ast.Name):
            return self.at(value.lineno)
        calls = [n for n in _nodes(self.function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.lineno < self.line]
        fills = [n.lineno for n in calls if n.func.attr in ("append", "extend", "add", "update") and value.id in _loaded(n.func.value)]  # type: ignore[attr-defined] # filtered above
        tests = [n.lineno for n in _nodes(self.function) if isinstance(n, ast.If) and any(_holds(n, line) for line in fills)]
        made = self.assigned(value.id)
        return self.at(max(tests, default=min(fills, default=made.lineno if made is not None else value.lineno)))

    def setting(self, attribute: str) -> int | None:
        """The line of the constructor that sets an attribute; None where there is none, or several."""
        inits = [n for n in _nodes(self.owner) if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        found = [
            value.lineno
            for init in inits
            for node in ast.walk(init)
            if isinstance(node, ast.Assign)
            for target, value in _pairs(node)
            if isinstance(target, ast.Attribute) and target.attr == attribute and _is_own(target)
        ]
        return found[0] if len(found) == 1 else None

    def kept(self) -> list[Access]:
        """Where the class puts values under keys of its attributes, constructor left out."""
        methods = [n for n in _nodes(self.owner) if isinstance(n, ast.FunctionDef) and n.name != "__init__"]
        return [
            Access(target.value.attr, ast.unparse(target.slice), node.lineno, ast.unparse(value))
            for method in methods
            for node in ast.walk(method)
            if isinstance(node, ast.Assign)
            for target, value in _pairs(node)
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute) and _is_own(target.value)
        ]

    def read(self) -> list[Access]:
        """Where the function takes something from under keys of attributes."""
        return [access for node in (self.function.body if self.function is not None else []) for access in _reads(node)]

    def taken(self) -> list[Access]:
        """Where what the line reads was taken from keys of attributes: there, or where its names were assigned."""
        statements, waiting = ([self.statement] if self.statement is not None else []), list(self.names)
        while waiting and len(statements) < FOLLOWED:
            found = self.assigned(waiting.pop(0))
            if found is not None and found not in statements:
                statements.append(found)
                waiting += [n.id for n in ast.walk(found) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        return [access for statement in statements for access in _reads(statement)]


def number_line(source: str | None, busy: Container[str]) -> str | None:
    """The line where the one number was computed that a line reads by a name; None where it reads none, or several.

    Args:
        source: the line, ``file:line``.
        busy: lines that do something with tensors: what these assign are no numbers.
    """
    code = Code(source)
    assigned = [n for name in code.names if (n := code.assigned(name)) is not None]
    found = {n.lineno for n in assigned if code.at(n.lineno) not in busy and _is_computed(n)}
    return code.at(found.pop()) if len(found) == 1 else None


def only_keeps(source: str) -> bool:
    """Whether a line does nothing but keep values in attributes of its own object."""
    targets = _targets(Code(source).statement)
    parts = [part for t in targets for part in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    held = [part.value if isinstance(part, ast.Subscript) else part for part in parts]
    return bool(held) and all(isinstance(part, ast.Attribute) and _is_own(part) for part in held)


def unkept_line(source: str | None, makers: Sequence[str], instead: str | None = None) -> str | None:
    """The line at fault where a step takes something else than what an earlier one has made for it.

    Args:
        source: the line that takes it.
        makers: the lines that made, in an earlier step, what is due.
        instead: the line that makes a constant which is taken in its place, if one does.
    """
    code, made = Code(source), [Code(maker) for maker in makers]
    kept, taken = code.kept(), code.taken()
    keys = Counter(access.key for access in (*kept, *taken))
    read = next((access for access in taken if any(access.attribute == k.attribute for k in kept)), None)
    holding = [k for k in kept if any(_holds_made(code, k, each) for each in made)]
    if not holding:
        stored = [k.line for k in kept if read is not None and k.attribute == read.attribute]
        return code.at(stored[0]) if stored else None
    if read is None:  # nothing is taken where something should be
        return instead or source
    holder = next((k for k in holding if k.attribute == read.attribute), None)
    if holder is None:  # where something else takes what is kept there, it is kept at the wrong place
        elsewhere = any(access.attribute == holding[0].attribute for access in code.read())
        return code.at(holding[0].line if elsewhere else read.line)
    if holder.key == read.key:  # kept and taken as it should be, and not used
        return source
    return code.at(min((holder, read), key=lambda access: keys[access.key]).line)


def _holds_made(code: Code, kept: Access, made: Code) -> bool:
    """Whether what is kept is a name as one line assigned it."""
    names = made.targets & {n.id for n in ast.walk(ast.parse(kept.value)) if isinstance(n, ast.Name)}
    store = Code(code.at(kept.line))
    return any((last := store.assigned(name)) is not None and last is made.statement for name in names)


def _holds(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _nodes(node: ast.AST | None) -> Iterator[ast.AST]:
    return ast.walk(node) if node is not None else iter(())


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _targets(node: ast.stmt | None) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []


def _loaded(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _names(target: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and values of an assignment, one by one where both are written as lists."""
    for target in node.targets:
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        values = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) and len(parts) > 1 else [node.value]
        yield from zip(parts, values if len(values) == len(parts) else [node.value] * len(parts), strict=True)


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
