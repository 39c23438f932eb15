"""A program's command as the project file gives it.

Words, with places for a path and for a file to write.
"""

from __future__ import annotations

import shlex

from paralign.errors import UsageError

#: what stands for the path and for the file to write in a command
PATH, OUT = "{path}", "{out}"


def split(command: str, side: str) -> list[str]:
    """The words of a command.

    Raises:
        UsageError: a quotation mark that is not closed, no word, or no ``{path}``.
    """
    where = f"[infer] {side}_command: {command}"
    try:
        words = shlex.split(command)
    except ValueError as fault:
        raise UsageError(f"the command cannot be taken apart: {fault}", where=where, hint="close the quotation marks") from fault
    if not words:
        raise UsageError("the command is empty", where=where, hint=f'write it as in a terminal: "python tools/predict.py --img {PATH}"')
    if not any(PATH in word for word in words):
        raise UsageError(f"the command has no {PATH}", where=where, hint=f"write {PATH} where the file to predict from stands")
    return words
