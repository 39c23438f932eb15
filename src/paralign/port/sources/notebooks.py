"""A notebook's code cells as one program, and the cells of the port.

Their order, the text and IPython's lines stay.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import TYPE_CHECKING, Any

from paralign.port.sources.texts import decoded

if TYPE_CHECKING:
    from paralign.port.sources.editing import Text as Edits
    from paralign.port.sources.texts import Text

#: the form of notebooks that Jupyter writes since 2014
FORM = 4

#: comments that carry a place through the conversion: a line of IPython's, the beginning of a cell
_LINE, _CELL = "#!paralign:line:", "#!paralign:cell:"

_LINES = re.compile(rf"^(?P<indent>[ \t]*)(?:pass  )?{re.escape(_LINE)}(?P<number>\d+)$", re.MULTILINE)

_CELLS = re.compile(rf"^{re.escape(_CELL)}\d+\n", re.MULTILINE)


class Notebook:
    """One notebook.

    Raises:
        ValueError: it cannot be taken apart and put together; the text says why.
    """

    def __init__(self, text: Text) -> None:
        self._content: dict[str, Any] = json.loads(decoded(text.path.read_bytes())[0])
        if self._content.get("nbformat", 0) < FORM:
            raise ValueError("a notebook of an old form: open it in Jupyter and save it")
        self._cells = [cell for cell in self._content["cells"] if cell.get("cell_type") == "code"]
        own = [_source(cell).split("\n") for cell in self._cells]
        for at, lines in enumerate(own, start=1):
            _check(at, text.text.split("\n")[text.cells[at - 1] - 1 :][: len(lines)])
        self._starts = text.cells
        self._lines = [line for lines in own for line in lines]
        written = text.text.split("\n")
        self.ipython = [at for at, line in enumerate(self._lines) if line != written[at]]
        if any(_LINE in line or _CELL in line for line in self._lines):
            raise ValueError("it has a comment that the conversion uses")
        for at in self.ipython:
            written[at] += f"  {_LINE}{at}" if written[at] else f"{_LINE}{at}"
        self.program = "\n".join(written)

    def mark(self, edits: Edits) -> None:
        """Note where cells begin, before anything else is edited."""
        for at, line in enumerate(self._starts):
            start = edits.line(line)
            edits.edit(start, start, f"{_CELL}{at}\n", closes=True)

    def line(self, at: int) -> str:
        """A line of the notebook's code as it stands there."""
        return self._lines[at]

    def written(self, program: str) -> str:
        """The notebook with a converted program in its cells, without PyTorch's prints.

        Raises:
            ValueError: the program no longer falls into the cells.
        """
        parts = _CELLS.split(program)[1:]
        if len(parts) != len(self._cells):
            raise ValueError("a statement reaches over two cells")
        for cell, part in zip(self._cells, parts, strict=True):
            source = _LINES.sub(lambda found: self._lines[int(found["number"])], part).removesuffix("\n")
            cell["source"] = source.splitlines(keepends=True) if isinstance(cell.get("source"), list) else source
            cell["outputs"], cell["execution_count"] = [], None
        return json.dumps(self._content, ensure_ascii=False, indent=1) + "\n"


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _check(number: int, lines: list[str]) -> None:
    """Refuse a cell that is no program by itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes and comparisons in the user's source
            ast.parse("\n".join(lines))
    except SyntaxError as error:
        raise ValueError(f"cell {number}, line {error.lineno}: {error.msg}") from None
