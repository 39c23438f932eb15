"""A statement after an edit, parsed alone: a file is long, and edits are many."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

from paralign.repair.edited_source import header_end

if TYPE_CHECKING:
    from paralign.repair.edited_source import Edit, Source
    from paralign.repair.proposals import Site


def edited_statement(site: Site, edit: Edit | None = None) -> ast.stmt | None:
    """A site's statement after an edit, without those in it; without an edit as it is.

    None where the edit reaches beyond it, or where alone it is no Python.
    """
    statement, source = site.statement, site.source
    first, last = _extent(source, statement)
    start, end, new = (edit.start, edit.end, edit.text) if edit is not None else (last, last, "")
    if start < first or end > last:
        return None
    text = textwrap.dedent(source.text[first:start] + new + source.text[end:last]).strip()
    text = text[2:] if text.startswith("elif") else text
    if getattr(statement, "body", None):
        text = f"{text}\n    pass" if text.endswith(":") else text
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return body[0] if len(body) == 1 else None


def _extent(source: Source, statement: ast.stmt) -> tuple[int, int]:
    """The lines of a statement itself, without what else stands on them.

    That is a header before it, as in ``if ready: x = 2``, or a statement behind a semicolon.
    """
    first, last = source.line_span(statement.lineno, header_end(statement))
    start, end = source.span(statement)
    if source.text[first:start].strip():
        first = start
    if source.text[end:last].lstrip().startswith(";"):
        last = end
    return first, last
