"""A whole statement that the candidate lacks, put before or behind the named one.

It takes the place of the named one where both bind the same.
"""

from __future__ import annotations

import ast
import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import words
from paralign.repair.edited_source import header_end
from paralign.repair.edits.sentences import instead, lacking
from paralign.repair.proposals import is_shallow
from paralign.repair.translated import translated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

    from paralign.repair.proposals import Beside, Proposal, Site

ID = "statement"

#: beside other proposals: the reference's own statement; one of its neighbours
NAMED, NEIGHBOUR = 1.2, 0.7

#: what it loses in the place of the named statement, where an edit of a part may do; and what it loses beside that one where both bind the
#: same names: the named one is then another form of it rather than its neighbour
IN_PLACE, BESIDE_ITS_FORM = 0.2, 0.3

#: statements around the reference's that are tried
AROUND = 2

#: likeness of words from which on the candidate has a statement already
SAME = 0.9


def propose(site: Site) -> Iterator[Proposal]:
    """Propose the reference's statement and its neighbours, where the candidate lacks them.

    Its function is looked at.
    """
    own = [words(node) for node in ast.walk(site.function) if isinstance(node, ast.stmt)]
    for beside in site.beside:
        for statement, weight in _near(beside):
            if not isinstance(statement, ast.Assign | ast.AugAssign) or not is_shallow(statement) or _is_there(own, statement):
                continue
            for renamed in _renamings(site, statement):
                text = translated(site, beside, statement, renamed)
                if text and not _is_there(own, ast.parse(text).body[0]):
                    yield from _at_the_named(site, text, weight)


def _near(beside: Beside) -> Iterator[tuple[ast.stmt, float]]:
    yield beside.statement, NAMED
    for node in ast.walk(beside.function):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list) and beside.statement in body:
                at = body.index(beside.statement)
                yield from ((each, NEIGHBOUR) for each in body[max(0, at - AROUND) : at + AROUND + 1] if each is not beside.statement)


def _is_there(own: list[list[str]], statement: ast.AST) -> bool:
    theirs = words(statement)
    return any(SequenceMatcher(None, theirs, each, autojunk=False).ratio() >= SAME for each in own)


def _renamings(site: Site, statement: ast.stmt) -> Iterator[dict[str, str]]:
    """Local names of the reference's as those of the candidate's.

    One that the candidate lacks is what the named statement assigns to.
    """
    yield {}
    lacked = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} - set(site.names)
    stored = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    unknown = lacked & stored
    names = set(site.names) - {"self"}
    if len(unknown) == 1:
        for name in dict.fromkeys(node.id for node in site.nodes if isinstance(node, ast.Name) and node.id in names):
            yield {next(iter(unknown)): name}


def _at_the_named(site: Site, text: str, weight: float) -> Iterator[Proposal]:
    """A statement beside the named one; where both bind the same names, in its place first.

    Beside it, one of the two would be dead unless the later one reads what the earlier one binds.
    """
    statement = ast.parse(text).body[0]
    if not isinstance(statement, ast.Assign) or not _binds_the_same(site.statement, statement):
        yield from _placed(site, text, weight)
        return
    yield site.replaced(site.statement, text, ID, instead(site.text(site.statement), text), weight - IN_PLACE)
    beside = weight if site.divergence.what == "missing" else weight - BESIDE_ITS_FORM
    if _reads_its_names(statement, statement):
        yield from _placed(site, text, beside)
    elif _reads_its_names(site.statement, statement):
        yield from _placed(site, text, beside, behind=False)


def _reads_its_names(reader: ast.Assign, binder: ast.Assign) -> bool:
    """Whether the value of one assignment reads what the other binds."""
    read = {ast.unparse(node) for node in ast.walk(reader.value) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript)}
    return bool(_bound(binder) & read)


def _binds_the_same(own: ast.stmt, other: ast.Assign) -> TypeGuard[ast.Assign]:
    """Whether two assignments bind the same names and attributes."""
    return isinstance(own, ast.Assign) and _bound(own) == _bound(other)


def _bound(statement: ast.Assign) -> set[str]:
    """What an assignment binds, as it is written.

    Of an element of something, the whole target.
    """
    parts = [part for target in statement.targets for part in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])]
    return {ast.unparse(part) for part in parts}


def _placed(site: Site, text: str, weight: float, *, behind: bool = True) -> Iterator[Proposal]:
    """A statement on a line of its own before the named one, at its depth.

    And behind it, unless ``behind`` is off.
    """
    statement = site.statement
    first, last = site.source.line_span(statement.lineno, header_end(statement))
    line = site.source.text[first:last]
    depth = re.match(r"[ \t]*", line)
    whole = site.source.text[first : site.source.span(statement)[0]]
    if depth is None or whole.strip():  # another statement stands before it on its line
        return
    end = re.search(r"\r\n|\r|\n", line)
    ending = end.group() if end is not None else "\n"
    said = lacking(text, text)
    yield site.inserted(first, f"{depth.group()}{text}{ending}", ID, said, weight)
    simple = isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr)
    if behind and simple and re.search(r"[\r\n]$", line):
        yield site.inserted(last, f"{depth.group()}{text}{ending}", ID, said, weight - 0.05)
