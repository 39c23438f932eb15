"""Edits of a program's text by places.

Nested ones are rendered within the outer one, all else stays as it was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable


_BRACKET_BEFORE = re.compile(rb"\((?=\s*\Z)")

_BRACKET_AFTER = re.compile(rb"\s*\)")


@dataclass(frozen=True)
class Edit:
    """Bytes from ``start`` to ``end`` that become ``text``.

    Where it is a function, what that gives when the edits within are known.

    ``span`` is the node that the edit belongs to: it is left out where only a part of that node is rendered. ``closes`` says of an
    insertion that it ends a node.
    """

    start: int
    end: int
    text: str | Callable[[], str]
    span: tuple[int, int]
    closes: bool = False

    @property
    def order(self) -> tuple[int, int, float, int]:
        """Ends of nodes before beginnings, the outermost first.

        Of one node insertions come before replacements.
        """
        size = self.span[1] - self.span[0]
        if self.start < self.end:
            return self.start, 1, -size, 1
        if self.closes:
            return self.start, 0, size, 0
        return self.start, 1, -size if size else float("-inf"), 0


class Text:
    """A program's bytes, and the edits of it.

    Places are those of ``ast``: lines from 1, columns in bytes of UTF-8.
    """

    def __init__(self, text: str) -> None:
        self.content = text.encode("utf-8", errors="surrogatepass")
        self._lines = [0]
        for found in re.finditer(rb"\n", self.content):
            self._lines.append(found.end())
        self.edits: list[Edit] = []

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """The first byte of a node."""
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """The byte after a node."""
        return self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def outer(self, node: ast.expr | ast.stmt | ast.keyword, least: int) -> tuple[int, int]:
        """A node's bounds in bytes, with the brackets around it.

        Brackets count that begin at ``least`` or later.
        """
        start, end = self.start(node), self.end(node)
        while True:
            before, after = _BRACKET_BEFORE.search(self.content, least, start), _BRACKET_AFTER.match(self.content, end)
            if before is None or after is None:
                return start, end
            start, end = before.start(), after.end()

    def line(self, number: int) -> int:
        """The first byte of a line."""
        return self._lines[number - 1]

    def source(self, node: ast.expr) -> str:
        """A node as it was written."""
        return self.content[self.start(node) : self.end(node)].decode("utf-8", errors="surrogatepass")

    def edit(
        self, start: int, end: int, text: str | Callable[[], str], of: ast.expr | ast.stmt | None = None, *, closes: bool = False
    ) -> None:
        """Note an edit.

        ``of`` is the node that it belongs to, where that is more than what is replaced.
        """
        span = (start, end) if of is None else (self.start(of), self.end(of))
        self.edits.append(Edit(start, end, text, span, closes))

    def rendered(self, start: int = 0, end: int | None = None) -> str:
        """A range with the edits within it; of nested edits the outermost counts."""
        end = len(self.content) if end is None else end
        parts: list[str] = []
        at = start
        inside = end  # where the last replacement began: what ends with it, and began within, is part of it
        for each in sorted(self.edits, key=lambda edit: edit.order):
            if each.span[0] < start or each.span[1] > end or each.start < at:
                continue
            is_of_a_part = inside < each.span[0] < each.span[1]  # what belongs to no node stands behind the whole
            if each.closes and each.start == at and is_of_a_part:
                continue
            parts.append(self.content[at : each.start].decode("utf-8", errors="surrogatepass"))
            parts.append(each.text if isinstance(each.text, str) else each.text())
            if each.start < each.end:
                inside = each.start
            at = each.end
        parts.append(self.content[at:end].decode("utf-8", errors="surrogatepass"))
        return "".join(parts)

    def within(self, node: ast.expr) -> str:
        """A node with the edits within it."""
        return self.rendered(self.start(node), self.end(node))
