"""Which function of a port Paddle refuses an operator of several types in."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.port.rewriting.mixing import qualified
from paralign.port.sources.parsing import parse
from paralign.port.sources.texts import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: how Paddle says that it refuses an operator of a whole and a floating tensor
_SAID = "Type promotion only support"

_FRAME = re.compile(r'File "(?P<path>[^"\n]+)", line (?P<line>\d+)')


@dataclass(frozen=True)
class Function:
    """A function of the program: the ledger's path, and ``Class.method``."""

    path: str
    name: str


def refusing(failure: Mapping[str, Any] | None, home: Path, originals: Mapping[str, str]) -> Function | None:
    """The function in which Paddle refused an operator of several types, else None.

    ``home`` is the folder that the ledger's paths begin in, ``originals`` the source's texts by these.
    A function that the converter wrote is none of the source's: what calls it is taken.
    """
    if failure is None or failure.get("side") != "candidate" or _SAID not in str(failure.get("message", "")):
        return None
    for path, line in reversed(_FRAME.findall(str(failure.get("traceback", "")))):
        file = Path(path)
        if not file.resolve().is_relative_to(home.resolve()):
            continue
        shown = file.resolve().relative_to(home.resolve()).as_posix()
        name = _around(file, int(line))
        if not name or name in _functions(originals.get(shown, "")):
            return Function(shown, name) if name else None
    return None


def _functions(text: str) -> set[str]:
    """The functions of a program, as ``Class.method``."""
    return {qualified(around) for around in _all(_tree(text))} - {""}


def _tree(text: str) -> ast.Module:
    return ast.Module(body=parse(text).body, type_ignores=[])


def _all(tree: ast.AST, around: tuple[ast.AST, ...] = ()) -> Iterator[tuple[ast.AST, ...]]:
    """The ways from a module to each of its classes and functions."""
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if named:
            yield (*around, node)
        yield from _all(node, (*around, node) if named else around)


def _around(file: Path, line: int) -> str:
    """The innermost function around a line of a file; '' in none."""
    return max((qualified(around) for around in _nested(_tree(read(file).text), line)), key=len, default="")


def _nested(tree: ast.AST, line: int, around: tuple[ast.AST, ...] = ()) -> Iterator[tuple[ast.AST, ...]]:
    """The ways from the module to the classes and functions that a line stands in."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        yield (*around, node)
        yield from _nested(node, line, (*around, node))
