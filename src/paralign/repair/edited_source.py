"""A file and edits of it by characters.

Every byte outside of an edit stays as it is, whatever the encoding and the line ends.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from paralign.capture.bounds import Limit, open_regular
from paralign.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self

#: longer sources are generated tables, not what a person wrote
LARGEST = Limit("PARALIGN_MAX_SOURCE", 1 << 21, "bytes")

#: how names of settings files end
ENDINGS = frozenset({".toml", ".json", ".ini", ".cfg", ".conf", ".yaml", ".yml", ".properties"})

_LINE_END = re.compile(r"\r\n|\r|\n")


class Unreadable(ValueError):
    """A file that is no Python source, or would not be written back as it was."""


@dataclass(frozen=True)
class Edit:
    """Characters ``start`` to ``end`` of a file that become ``text``.

    ``before`` is the whole file's content that this refers to.
    """

    path: Path
    before: bytes
    start: int
    end: int
    text: str

    def applied(self) -> bytes:
        """The file's content with the edit."""
        file = Text(self.path, self.before)
        return file.encoded(file.text[: self.start] + self.text + file.text[self.end :])


class Text:
    """A file's bytes and its text; a mark of the byte order is part of the text.

    Python files say how they are encoded, settings files are in UTF-8.

    Raises:
        Unreadable: it cannot be decoded, or decoding loses something.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content = path, content
        try:
            self.encoding = "utf-8" if path.suffix.lower() in ENDINGS else tokenize.detect_encoding(io.BytesIO(content).readline)[0]
            self.text = content.decode(self.encoding)
        except (SyntaxError, ValueError, LookupError) as error:
            raise Unreadable(f"{path} cannot be read as text: {error}") from error
        if self.encoded(self.text) != content:
            raise Unreadable(f"{path} would not be written back as it is in {self.encoding}")
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(self.text))]

    @classmethod
    def read(cls, path: Path) -> Self:
        """A file from disk.

        Raises:
            Unreadable: as above, or it is too long, or not there.
        """
        try:
            with open_regular(path) as file:
                content = file.read(LARGEST.value + 1)
        except (OSError, UsageError) as error:
            raise Unreadable(str(error)) from error
        if len(content) > LARGEST.value:
            raise Unreadable(f"{path} has more than {LARGEST.value:,} bytes")
        return cls(path, content)

    def encoded(self, text: str) -> bytes:
        """A text in the file's encoding.

        Raises:
            Unreadable: it has characters which that does not know.
        """
        try:
            return text.encode(self.encoding)
        except UnicodeError as error:
            raise Unreadable(f"{self.path}: {error}") from error

    def line_span(self, first: int, last: int) -> tuple[int, int]:
        """The characters of whole lines, line ends included."""
        return self._starts[first - 1], self._starts[last] if last < len(self._starts) else len(self.text)

    def edit(self, start: int, end: int, text: str) -> Edit:
        """An edit of this file."""
        return Edit(self.path, self.content, start, end, text)

    def line_at(self, place: int) -> int:
        """The line, from 1 on, of a character."""
        return bisect_right(self._starts, place)


class Source(Text):
    """A Python file: its bytes, text and tree, with the places of nodes in the text.

    Attributes:
        root: of the code that the file belongs to; None where that is not known.

    Raises:
        Unreadable: it cannot be decoded or parsed, or decoding loses something.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        super().__init__(path, content)
        self.root: Path | None = None
        try:
            self.tree = ast.parse(content, str(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Unreadable(f"{path} cannot be read as Python: {error}") from error

    def offset(self, line: int, column: int) -> int:
        """The character at a place as ``ast`` tells it: a line from 1, a column in bytes of UTF-8."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return start + len(self.text[start:end].encode("utf-8")[:column].decode("utf-8", errors="ignore"))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The first character of a node, and the one behind its last."""
        line, column, end_line, end_column = (getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))
        return self.offset(line, column), self.offset(end_line, end_column)

    def segment(self, node: ast.AST) -> str:
        """A node as it is written."""
        start, end = self.span(node)
        return self.text[start:end]

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Every name that stands in the file."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            names = [getattr(node, part, None) for part in ("id", "attr", "arg", "name", "asname")]
            found.update(name for name in names if isinstance(name, str))
        return frozenset(found)

    @cached_property
    def imports(self) -> tuple[ast.alias, ...]:
        """What the file imports."""
        return tuple(alias for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names)

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every text by which the file asks for an entry, or names one."""
        found: set[object] = set()
        for node in ast.walk(self.tree):
            asked = [node.slice] if isinstance(node, ast.Subscript) else node.keys if isinstance(node, ast.Dict) else []
            found.update(each.value for each in asked if isinstance(each, ast.Constant))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict":
                found.update(each.arg for each in node.keywords)
        return frozenset(each for each in found if isinstance(each, str))

    @cached_property
    def packages(self) -> dict[str, str]:
        """Each imported name -> the package that it comes from; '' of one beside the file."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found.update({(each.asname or each.name).partition(".")[0]: each.name.partition(".")[0] for each in node.names})
            elif isinstance(node, ast.ImportFrom):
                package = "" if node.level else (node.module or "").partition(".")[0]
                found.update({each.asname or each.name: package for each in node.names})
        return found

    @cached_property
    def others(self) -> frozenset[str]:
        """Imported names of packages that are not the user's own.

        A module is the user's own where it lies beside the file, or in a folder above it within the root.
        """
        root = self.root or self.path.parent
        folders = [folder for folder in self.path.parents if folder.is_relative_to(root)]
        own = {package for package in self.packages.values() if any(_holds(folder, package) for folder in folders)}
        return frozenset(name for name, package in self.packages.items() if package and package not in own)

    def is_foreign(self, call: ast.Call, framework: str) -> bool:
        """Whether what a call calls is of a package that is neither a framework nor the user's."""
        name = root_of(call)
        return name in self.others and not self.packages[name].startswith(framework)

    @cached_property
    def classes(self) -> tuple[ast.ClassDef, ...]:
        """All classes of the file."""
        return tuple(node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))

    @cached_property
    def definitions(self) -> dict[str, tuple[ast.arguments, int]]:
        """Functions and classes of the file -> their parameters.

        With how many of the first ones no call gives.
        """
        found: dict[str, tuple[ast.arguments, int]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = node.args, 0
        for each in self.classes:
            made = next((node for node in each.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)
            if made is not None:
                found[each.name] = made.args, 1
        return found

    def statements(self) -> Iterator[ast.stmt]:
        """All statements."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.stmt))


def _holds(folder: Path, module: str) -> bool:
    """Whether a module or a package of a name lies in a folder."""
    return (folder / f"{module}.py").is_file() or (folder / module).is_dir()


def root_of(node: ast.AST) -> str:
    """The name that an expression begins with: ``np`` of ``np.random.rand(3)``; '' of none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_python(content: bytes) -> bool:
    """Whether a content can be parsed."""
    try:
        ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def line_of(content: bytes, place: int) -> int:
    """The line, from 1 on, of a byte of a file."""
    return 1 + len(re.findall(rb"\r\n|\r|\n", content[:place]))


def header_end(statement: ast.stmt) -> int:
    """The last line of a statement itself, without the statements in it."""
    body = getattr(statement, "body", None)
    return max(statement.lineno, body[0].lineno - 1) if isinstance(body, list) and body else statement.end_lineno or statement.lineno


def unified(name: str, before: bytes, after: bytes) -> bytes:
    """The difference of two contents of a file, for ``patch -p1`` and ``git apply``.

    It keeps the file's own encoding and line ends.
    """
    old, new = ([line for line in re.split(rb"(?<=\n)", content) if line] for content in (before, after))
    told = f"a/{name}".encode(), f"b/{name}".encode()
    lines = difflib.diff_bytes(difflib.unified_diff, old, new, *told, n=2)
    return b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)
