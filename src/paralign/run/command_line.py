"""A program's command as the project file gives it.

Words, with places for a path, for a file to write and for the side's interpreter.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from paralign.errors import UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

#: what stands in a command for the path, for the file to write, and for the side's interpreter
PATH, OUT, PYTHON = "{path}", "{out}", "{python}"

#: a name in braces: two of them are one of the user's own, as in Python's formats
_BRACED = re.compile(r"(\{+)([^\W\d]\w*)(\}+)")

#: braces of a place, and braces of the user's own
_ONE, _TWO = 1, 2


def split(command: str, side: str) -> list[str]:
    """The words of a command.

    Raises:
        UsageError: a quotation mark that is not closed, no word, no ``{path}``, or a place of another name.
    """
    where = f"[infer] {side}_command: {command}"
    try:
        words = shlex.split(command)
    except ValueError as fault:
        raise UsageError(f"the command cannot be taken apart: {fault}", where=where, hint="close the quotation marks") from fault
    if not words:
        raise UsageError("the command is empty", where=where, hint=f'write it as in a terminal: "python tools/predict.py --img {PATH}"')
    unknown = [place for word in words for place in places(word) if place not in (PATH, OUT, PYTHON)]
    if unknown:
        raise UsageError(
            f"the command has the unknown placeholder {quoted(unknown[0])}",
            where=where,
            hint=f"known are: {PATH}, {OUT}, {PYTHON}; {{{unknown[0]}}} stands for braces of your own",
        )
    if not any(PATH in places(word) for word in words):
        raise UsageError(f"the command has no {PATH}", where=where, hint=f"write {PATH} where the file to predict from stands")
    return words


def places(word: str) -> list[str]:
    """The places in a word, as they are written.

    >>> places("--img={path} {{x}} ${HOME}")
    ['{path}']
    """
    return [f"{{{each[2]}}}" for each in _BRACED.finditer(word) if _is_place(each)]


def _is_place(found: re.Match[str]) -> bool:
    """Whether a value goes between the braces: ``${name}`` is a shell's own."""
    around = min(len(found[1]), len(found[3]))
    variable = around == _ONE == len(found[1]) and found.string[: found.start()].endswith("$")
    return around % _TWO == 1 and not variable


def filled(word: str, values: Mapping[str, str]) -> str:
    """A word with values in its places, each put in once: braces in a value are no place.

    >>> filled("--img={path} {{x}}", {"{path}": "a {out}.png"})
    '--img=a {out}.png {x}'
    >>> filled("--img={{{path}}}", {"{path}": "a.png"})
    '--img={a.png}'
    """

    def written(found: re.Match[str]) -> str:
        around = min(len(found[1]), len(found[3]))
        before, after = found[1][around:], found[3][around:]
        inner = f"{{{found[2]}}}"
        if _is_place(found):
            own = around // _TWO
            return before + "{" * own + values.get(inner, inner) + "}" * own + after
        own = around // _TWO or around
        return before + "{" * own + found[2] + "}" * own + after

    return _BRACED.sub(written, word)
