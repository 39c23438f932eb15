"""What every expression of a program stands for, by its place, for a rewriting."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.port.names.values import Named, Value, joined
from paralign.port.names.walking import Outcome, Reader

if TYPE_CHECKING:
    from paralign.port.names.walking import Exports

#: first line and column, last line and column of an expression
Place = tuple[int, int, int, int]


def place(node: ast.expr) -> Place:
    """Where an expression stands."""
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


@dataclass
class Observed(Outcome):
    """An outcome, and what expressions stand for.

    ``named`` are those that spell the name of a callable or module out, ``elsewhere`` the names of other packages.
    Of these, ``modules`` are modules by their dotted names, and ``tensorless`` holds no tensors, nor do its attributes.
    """

    values: dict[Place, Value] = field(default_factory=dict)
    named: dict[Place, str] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    tensorless: set[str] = field(default_factory=set)


class Observer(Reader):
    """Reads a program as ``scan`` does, and keeps what it found of every expression."""

    def __init__(self, exports: Exports) -> None:
        super().__init__(exports)
        self.outcome: Observed = Observed(
            uses=self.uses,
            names=self.scopes[0],
            imported=self.imported,
            elsewhere=self.elsewhere,
            modules=self.modules,
            tensorless=self.tensorless,
        )

    def value(self, node: ast.expr, *, quiet: bool = False) -> Value:
        """As the reader's; the value is kept."""
        found = super().value(node, quiet=quiet)
        at = place(node)
        if found is not None:
            self.outcome.values[at] = joined(self.outcome.values.get(at), found)
        if isinstance(found, Named) and self._spelled(node):
            self.outcome.named[at] = found.name
        return found

    def annotations(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Read the annotations of a function."""
        arguments = node.args
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if each is not None and each.annotation is not None:
                self.value(each.annotation, quiet=True)
        if node.returns is not None:
            self.value(node.returns, quiet=True)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802 - as above
        """As the reader's; the annotation is read too."""
        self.value(node.annotation, quiet=True)
        super()._AnnAssign(node)

    def _method(self, node: ast.Call, func: ast.Attribute, owner: Value) -> Value:
        """As the reader's; the name of a called function is kept too."""
        if isinstance(owner, Named) and self._spelled(func):
            self.outcome.named[place(func)] = f"{owner.name}.{func.attr}"
        return super()._method(node, func, owner)

    def _spelled(self, node: ast.expr) -> bool:
        """Whether the expression is an imported name, or an attribute of one.

        No variable that holds a callable is.
        """
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.imported
