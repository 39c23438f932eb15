"""Source files as text.

Found below paths, read whatever their encoding, notebooks as one program of cells.
"""

from __future__ import annotations

import io
import json
import os
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.bounds import near
from paralign.errors import UsageError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: bytes of a file that is read; the largest generated module of torch has 1.5 MB, notebooks with pictures reach 30 MB
LARGEST = 64 << 20

#: endings of files that are read below a folder; a file that is named itself is read whatever its ending
ENDINGS = frozenset({".py", ".pyw", ".ipynb"})

#: folders that hold no source of the user's
LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})

_BOMS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


@dataclass
class Text:
    """One file's program: its text, or why there is none.

    ``cells`` holds the first line of each cell of a notebook; ``notes`` what was done to read it.
    """

    path: Path
    text: str = ""
    problem: str = ""
    cells: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def place(self, line: int) -> tuple[int, int]:
        """The cell, from 1 on, and the line within it; cell 0 in a file that is no notebook."""
        before = [start for start in self.cells if start <= line]
        return (len(before), line - before[-1] + 1) if before else (0, line)


def find(paths: Iterable[str | Path]) -> list[Path]:
    """All source files below paths, each once, sorted.

    Raises:
        UsageError: a path is not there, or there is no source file below any of them.
    """
    found: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            found.update(dict.fromkeys(_below(path)))
        elif path.exists():
            found[path] = None
        else:
            raise UsageError(
                f"there is no such file or folder{near(path)}",
                where=str(given),
                hint="name Python files, notebooks or folders",
            )
    if not found:
        raise UsageError("there is no source file", where=", ".join(map(str, paths)), hint="files end in .py, .pyw or .ipynb")
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not name.startswith("."))
        for name in sorted(files):
            if Path(name).suffix in ENDINGS:
                yield Path(here, name)


def read(path: Path) -> Text:
    """Read one file; what cannot be read is said in the result."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            return Text(path, problem=f"larger than {LARGEST >> 20} MB")
        if not path.is_file():
            return Text(path, problem="no regular file")
        content = path.read_bytes()
    except OSError as error:
        return Text(path, problem=error.strerror or type(error).__name__)
    text, note = decoded(content)
    found = _notebook(path, text) if path.suffix == ".ipynb" else Text(path, text)
    if note:
        found.notes.append(note)
    if "\0" in found.text:
        found.text = found.text.replace("\0", " ")
        found.notes.append("holds null bytes")
    return found


def decoded(content: bytes) -> tuple[str, str]:
    """A file's text, and what was assumed to read it.

    The mark at its beginning, its declared encoding, UTF-8, or Latin-1.
    """
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return _lines(content.decode(encoding, errors="replace")), f"read as {encoding}"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return _lines(content.decode(encoding)), "" if encoding.startswith("utf-8") else f"read as {encoding}"
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return _lines(content.decode("latin-1")), "not in its declared encoding nor UTF-8: read as Latin-1"


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _notebook(path: Path, text: str) -> Text:
    """The code cells of a notebook below one another.

    Lines of IPython are left out, and keep their places.
    """
    try:
        content = json.loads(text)
        cells = content["cells"] if "cells" in content else content["worksheets"][0]["cells"]
        sources = [_source(cell) for cell in cells if cell.get("cell_type") == "code"]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        return Text(path, problem=f"no notebook: {one_line(str(error))[:80]}")
    found = Text(path)
    lines: list[str] = []
    for source in sources:
        found.cells.append(len(lines) + 1)
        lines += _without_magic(source.split("\n"))
    found.text = "\n".join(lines) + "\n"
    return found


def _source(cell: dict[str, object]) -> str:
    source = cell.get("source", cell.get("input", ""))
    return _lines("".join(map(str, source)) if isinstance(source, list) else str(source))


def _without_magic(lines: list[str]) -> list[str]:
    if lines and lines[0].startswith("%%") and not lines[0].startswith(("%%time", "%%capture")):
        return ["" for _ in lines]  # a cell in another language
    kept = []
    for line in lines:
        stripped = line.lstrip()
        indent = line[: len(line) - len(stripped)]
        magic = stripped.startswith(("%", "!", "?")) or stripped.rstrip().endswith("?")
        kept.append(f"{indent}pass" if magic and indent else "" if magic else line)
    return kept
