"""An edit that may undo a fault, in words, and the statement that is edited."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from paralign.repair.edited_source import Source, header_end, root_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.catalogue.entries import Words
    from paralign.model import Divergence
    from paralign.repair.edited_source import Edit

#: parts of a statement that hold statements of their own
_BODIES = frozenset({"body", "orelse", "finalbody", "handlers"})

#: levels of a statement's tree: deeper ones are generated, and Python's own tools fail on them
DEPTH = 60

#: bits of an integer that no float holds any more: a key or an address
LARGEST = 1000


@dataclass(frozen=True)
class Proposal:
    """One edit of one statement.

    Args:
        rule: the id of the kind of edit (``repair/edits``).
        edit: what is changed.
        cause: what the candidate does and what the reference does.
        fix: what to write.
        weight: how likely it is beside others; see ``ranking.py``.
    """

    rule: str
    edit: Edit
    cause: Words
    fix: Words
    weight: float = 0.0


@dataclass
class Beside:
    """The reference's statement that stands beside the candidate's, and its function."""

    source: Source
    statement: ast.stmt
    function: ast.AST

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the statement itself."""
        return list(parts_of(self.statement))

    @cached_property
    def spoken(self) -> frozenset[str]:
        """The names in the statement."""
        return frozenset(name_of(node) for node in self.nodes)


@dataclass
class Site:
    """A statement of the candidate that may be at fault.

    Args:
        source: its file.
        line: the line that was named.
        statement: the innermost statement of that line.
        function: the function, class or module that it stands in.
        divergence: what was found there.
        beside: the reference's statements, the likeliest first.
        framework: of the candidate.
    """

    source: Source
    line: int
    statement: ast.stmt
    function: ast.AST
    divergence: Divergence
    beside: list[Beside] = field(default_factory=list)
    framework: str = ""

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes of the statement itself that can be edited.

        Parts of formatted strings have no places.
        """
        return list(parts_of(self.statement))

    @cached_property
    def parents(self) -> dict[int, ast.AST]:
        """The id of a node of the statement -> the node that it is a part of."""
        return {id(child): node for node in [self.statement, *self.nodes] for child in ast.iter_child_nodes(node)}

    @cached_property
    def names(self) -> list[str]:
        """Names that the function binds before or beside the statement.

        Its parameters, and what is assigned to.
        """
        found: dict[str, None] = {}
        for node in ast.walk(self.function):
            if isinstance(node, ast.arg):
                found.setdefault(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno <= self.line:
                found.setdefault(node.id)
        return list(found)

    @cached_property
    def idle(self) -> frozenset[str]:
        """Names that the function binds or is given, and never reads.

        What they hold was made for a step that is missing, or that takes another value. Lengths of axes are none.
        """
        bound: set[str] = set()
        read = {node.id for node in self.nodes if isinstance(node, ast.Name)}  # what the statement itself binds comes too late
        for node in ast.walk(self.function):
            if isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.Assign) and name_of(node.value) != "shape":
                bound.update(each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                read.add(node.id)
        return frozenset(name for name in bound - read - {"self", "cls"} if not name.startswith("_"))

    @cached_property
    def objects(self) -> frozenset[str]:
        """Names of the function that hold an object of another package.

        It is nothing to compute with, as a generator of numbers.
        """
        found: set[str] = set()
        for node in ast.walk(self.function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and self.source.is_foreign(node.value, self.framework):
                made = name_of(node.value.func)
                if made[:1].isupper() or made.endswith("rng"):
                    found.update(each.id for each in node.targets if isinstance(each, ast.Name))
        return frozenset(found)

    def is_foreign(self, call: ast.Call) -> bool:
        """Whether a call is of another package than the candidate's framework.

        The framework's arguments are none of its.
        """
        return root_of(call) in self.objects or self.source.is_foreign(call, self.framework)

    def is_possible(self, node: ast.AST, value: object) -> bool:
        """Whether a literal can stand in the place of one.

        A key must be one that the file's dictionaries have.
        """
        is_key = isinstance(value, str) and isinstance(self.parents.get(id(node)), ast.Subscript)
        return not is_key or value in self.source.keys

    @property
    def identifiers(self) -> frozenset[str]:
        """Every name that stands in the file."""
        return self.source.identifiers

    def text(self, node: ast.AST) -> str:
        """A node as it is written."""
        return self.source.segment(node)

    def replaced(self, node: ast.AST, text: str, rule: str, words: tuple[Words, Words], weight: float = 0.0) -> Proposal:
        """The proposal to write something else in the place of a node."""
        start, end = self.source.span(node)
        return Proposal(rule, self.source.edit(start, end, text), words[0], words[1], weight)

    def behind_arguments(self, call: ast.Call) -> tuple[int, str]:
        """Where one argument more is written, and what comes before it.

        That is behind the last one, whatever comment follows.
        """
        text, last = self.source.text, self.source.span(call)[1]
        parts = [*call.args, *(each.value for each in call.keywords)]
        if not parts:
            return last - 1, ""
        end = max(self.source.span(each)[1] for each in parts)
        while (bracket := re.match(r"\s*\)", text[end : last - 1])) is not None:  # around the last argument
            end += bracket.end()
        return end, ", "

    def inserted(self, at: int, text: str, rule: str, words: tuple[Words, Words], weight: float = 0.0) -> Proposal:
        """The proposal to write something before a character."""
        return Proposal(rule, self.source.edit(at, at, text), words[0], words[1], weight)


def name_of(node: ast.AST) -> str:
    """The name that a node is or has; '' of one without."""
    return str(getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None) or "")


def parts_of(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of statements in it.

    Those within formatted strings are left out too.
    """
    for name, value in ast.iter_fields(statement):
        inner = value if isinstance(value, list) else [value]
        if isinstance(statement, ast.stmt) and name in _BODIES:
            continue
        for node in inner:
            if isinstance(node, ast.AST):
                yield node
                if not isinstance(node, ast.JoinedStr):
                    yield from parts_of(node)


def statement_at(source: Source, line: int) -> tuple[ast.stmt, ast.AST] | None:
    """The innermost statement on a line, and the function or class around it.

    The module where there is none.
    """
    found: tuple[ast.stmt, ast.AST] | None = None
    todo: list[tuple[ast.AST, ast.AST]] = [(source.tree, source.tree)]
    while todo:
        node, home = todo.pop()
        for child in ast.iter_child_nodes(node):
            inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) else home
            if isinstance(child, ast.stmt) and child.lineno <= line <= header_end(child):
                found = (child, inner)
            if getattr(child, "lineno", line) <= line <= getattr(child, "end_lineno", line):
                todo.append((child, inner))
    return found


def is_shallow(statement: ast.stmt) -> bool:
    """Whether a statement's tree can be walked."""
    level: list[ast.AST] = [statement]
    for _ in range(DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
        if not level:
            return True
    return False


def value_text(value: Any) -> str:
    """A number, text, truth value or short list as Python writes it; '' of anything else."""
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    if isinstance(value, float) and value == int(value) and abs(value) < 1e6:  # noqa: PLR2004 - written out as people do
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, list | tuple) and 0 < len(value) <= 4 and all(isinstance(each, bool | int | float) for each in value):  # noqa: PLR2004 - settings of a few axes; more is a table
        inner = ", ".join(repr(each) for each in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    return ""


def literal(node: ast.AST) -> object:
    """The value of a literal, a negative number's included; Ellipsis of any other node."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        inner = node.operand.value
        return -inner if isinstance(inner, int | float) and not isinstance(inner, bool) else ...
    return ...


def is_number(value: object) -> bool:
    """Whether a value is a finite number that a float can hold, and no truth value."""
    if isinstance(value, bool):
        return False
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and value.bit_length() < LARGEST


def literal_key(value: object) -> tuple[str, object]:
    """What literals are told apart by: 1 and 1.0 are one number, and True is none."""
    return ("number", float(value)) if is_number(value) else (type(value).__name__, value)  # type: ignore[arg-type]
