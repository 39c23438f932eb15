"""A program's tree, or the trees of those of its parts that can be parsed."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field

#: a line at which a statement of the module may begin
_BEGINS = re.compile(r"[A-Za-z_@\"']")

#: a line that continues the statement before it
_CONTINUES = re.compile(r"(?:else|elif|except|finally)\b")

#: parts of a broken file that are tried one by one; generated files with more are given up
_PARTS = 20_000


@dataclass
class Parsed:
    """Statements of a program; ``lost`` counts lines in parts that no parser takes."""

    body: list[ast.stmt] = field(default_factory=list)
    problem: str = ""
    lost: int = 0


def parse(text: str) -> Parsed:
    """Parse a program; where it is wrong, each statement of the module by itself."""
    try:
        return Parsed(_tree(text).body)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        problem = f"{getattr(error, 'msg', None) or error}" + (f", line {line}" if line else "")
    except (RecursionError, MemoryError):
        problem = "nested too deeply"
    found = Parsed(problem=f"cannot be parsed: {problem}")
    _in_parts(text, found)
    return found


def _tree(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes and comparisons in the user's source
        return ast.parse(text)


def _in_parts(text: str, found: Parsed) -> None:
    lines = text.split("\n")
    starts = [at for at, line in enumerate(lines) if _BEGINS.match(line) and not _CONTINUES.match(line)]
    if not starts or len(starts) > _PARTS:
        found.lost = len(lines)
        return
    found.lost = starts[0]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        part = "\n".join(lines[start:end])
        try:
            tree = _tree(part)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            found.lost += end - start
            continue
        found.body += [ast.increment_lineno(statement, start) for statement in tree.body]
