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

#: a place; ``{{name}}`` is braces of the user's own, ``${name}`` a variable of a shell that the command starts
_PLACE = re.compile(r"\{(\{[^\W\d]\w*\})\}|(?<!\$)\{([^\W\d]\w*)\}")
_OWN, _NAME = 1, 2


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
    return [f"{{{each[_NAME]}}}" for each in _PLACE.finditer(word) if each[_NAME]]


def filled(word: str, values: Mapping[str, str]) -> str:
    """A word with values in its places, each put in once: braces in a value are no place.

    >>> filled("--img={path} {{x}}", {"{path}": "a {out}.png"})
    '--img=a {out}.png {x}'
    """
    return _PLACE.sub(lambda each: each[_OWN] or values.get(each[0], each[0]), word)
