"""The first line of a docstring fits the width that readers' tools show, in the whole package."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
#: characters of a docstring's first line at most: with its indentation it stands whole on a line of 100
WIDTH = 88


def too_long(text):
    """The names of what begins its docstring with a longer line; '' for the module."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    firsts = {node: (ast.get_docstring(node) or "").partition("\n")[0] for node in nodes}
    return [getattr(node, "name", "") for node, first in firsts.items() if len(first) > WIDTH]


def test_first_lines_are_short():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 500
    assert {str(path.relative_to(SOURCE)): names for path in files if (names := too_long(path.read_text(encoding="utf-8")))} == {}


def test_a_long_one_would_be_seen():
    long = "x" * (WIDTH + 1)
    assert too_long(f'"""{long}"""\n\nclass A:\n    """Short.\n\n    {long}\n    """\n    def f(self):\n        """{long}"""\n') == [
        "",
        "f",
    ]
