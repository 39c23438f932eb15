"""The statements that may be at fault, each with the reference's statements beside it."""

from __future__ import annotations

import ast
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from paralign.catalogue.ported_names import words
from paralign.model import SourceLine
from paralign.repair.edited_settings import Settings
from paralign.repair.edited_source import ENDINGS, Source, Text, Unreadable
from paralign.repair.proposals import Beside, Site, is_shallow, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paralign.model import Divergence

#: lines of one point that are looked at: the named one, and those that led there
LINES = 3

#: lines above an empty one that are looked at
EMPTY = 4

#: files of the reference in which a statement like the candidate's is looked for, and its likeness from which on it is taken
FILES, LIKENESS = 40, 0.5


Kind = TypeVar("Kind", bound=Text)


class Library:
    """Sources, read once; those of the candidate as they are after the edits so far.

    Args:
        edited: path -> content of files that were edited.
        root: of the candidate's code.
    """

    def __init__(self, edited: Mapping[Path, bytes] | None = None, root: Path | None = None) -> None:
        self._edited = dict(edited or {})
        self._root = root
        self._read: dict[Path, Source | None] = {}
        self._set: dict[Path, Settings | None] = {}

    def source(self, path: Path) -> Source | None:
        """A source; None of a file that cannot be read as Python."""
        if path not in self._read:
            found = self._opened(path, Source) if path.suffix.lower() not in ENDINGS else None
            if found is not None and self._root is not None and path.is_relative_to(self._root):
                found.root = self._root
            self._read[path] = found
        return self._read[path]

    def settings(self, path: Path) -> Settings | None:
        """A settings file; None of one that cannot be read as what its name says."""
        if path not in self._set:
            self._set[path] = self._opened(path, Settings)
        return self._set[path]

    def _opened(self, path: Path, kind: type[Kind]) -> Kind | None:
        try:
            return kind(path, self._edited[path]) if path in self._edited else kind.read(path)
        except Unreadable:
            return None


def sites(divergence: Divergence, library: Library, roots: tuple[Path, Path], module: Path, framework: str) -> Iterator[Site]:
    """The statements to edit for a point, the named one first.

    Args:
        divergence: the point.
        library: reads files.
        roots: of the reference's and the candidate's code.
        module: the reference's.
        framework: of the candidate.
    """
    point = divergence.candidate
    if point is None:
        return
    named = [SourceLine.of(text) for text in (point.source, *point.lines)]
    seen = set()
    for line in [each for each in named if each is not None][:LINES]:
        path = Path(line.file).resolve()
        source = library.source(path) if path.is_relative_to(roots[1]) else None
        found = _at_or_above(source, line.line) if source is not None else None
        if source is None or found is None or (path, found[0].lineno) in seen or not is_shallow(found[0]):
            continue
        seen.add((path, found[0].lineno))
        site = Site(source, line.line, found[0], found[1], divergence, framework=framework)
        site.beside = list(_beside(divergence, library)) + _likest(site, library, roots[0], module)
        yield site


def _at_or_above(source: Source, line: int) -> tuple[ast.stmt, ast.AST] | None:
    """The statement of a line; of an empty line, at which a step is missing, the one above."""
    return next((found for number in range(line, max(0, line - EMPTY), -1) if (found := statement_at(source, number)) is not None), None)


def _beside(divergence: Divergence, library: Library) -> Iterator[Beside]:
    """The reference's statements that the point names."""
    known = [divergence.reference.source if divergence.reference is not None else None]
    known.append(divergence.value.source if divergence.value is not None else None)
    for line in dict.fromkeys(each for each in map(SourceLine.of, known) if each is not None):
        source = library.source(Path(line.file))
        found = statement_at(source, line.line) if source is not None else None
        if source is not None and found is not None and is_shallow(found[0]):
            yield Beside(source, *found)


def _likest(site: Site, library: Library, root: Path, module: Path) -> list[Beside]:
    """The statement of the reference's files that has most in common with the candidate's."""
    own = words(site.statement)
    known = {each.statement.lineno for each in site.beside}
    best: tuple[float, Beside | None] = (LIKENESS, None)
    for path in imported_files(root, module):
        source = library.source(path) if path != site.source.path else None
        if source is None:
            continue
        for node, home in _with_homes(source.tree):
            if not is_shallow(node):
                continue
            matcher = SequenceMatcher(None, own, words(node), autojunk=False)
            if matcher.quick_ratio() > best[0] and (ratio := matcher.ratio()) > best[0]:
                best = ratio, Beside(source, node, home)
    return [best[1]] if best[1] is not None and best[1].statement.lineno not in known else []


def _with_homes(tree: ast.AST) -> Iterator[tuple[ast.stmt, ast.AST]]:
    todo: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    while todo:
        node, home = todo.pop()
        inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else home
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield child, inner
            todo.append((child, inner))


def imported_files(root: Path, module: Path) -> list[Path]:
    """A side's module, and all files below its root that it imports.

    Also those that these import, and so on.
    """
    found: dict[Path, None] = {}
    todo = [module]
    while todo and len(found) < FILES:
        path = todo.pop(0)
        if path in found:
            continue
        found[path] = None
        try:
            tree = Source.read(path).tree
        except Unreadable:
            continue
        for name in _imported(tree):
            places = [root.joinpath(*name.split(".")), path.parent.joinpath(*name.split("."))]
            todo += [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
    return list(found)


def packages(root: Path, module: Path, own: frozenset[str]) -> list[str]:
    """Modules that a side's files import before they do anything else, but for its own.

    There are none where a file changes variables of the environment, which may be meant for what is imported.

    Args:
        root: of the side's code.
        module: the side's module.
        own: names of the files and folders of its code.
    """
    found: dict[str, None] = {}
    for path in imported_files(root, module):
        try:
            source = Source.read(path)
        except Unreadable:
            continue
        if source.identifiers & _VARIABLES:
            return []
        for node in takewhile(_is_import, source.tree.body):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            found.update(dict.fromkeys(name for name in named if name.partition(".")[0] not in own))
    return list(found)


#: names by which programs change variables of the environment
_VARIABLES = frozenset({"environ", "environb", "putenv", "unsetenv", "setenv", "load_dotenv"})


def _is_import(node: ast.stmt) -> bool:
    """Whether a statement imports something, or is a text."""
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return text or isinstance(node, ast.Import | ast.ImportFrom)


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield from [module] if module else []
            yield from (f"{module}.{alias.name}".lstrip(".") for alias in node.names)
