"""Where the text that a command makes goes: standard output, or a new file."""

from __future__ import annotations

import sys
from pathlib import Path

from paralign.errors import UsageError, unwritten


def write_new(text: str, out: str | None) -> None:
    """Write a text to a file that is not there yet, or to standard output where none is named.

    Raises:
        UsageError: the file is there already.
        WriteFailed: it cannot be written.
    """
    if out is None:
        sys.stdout.write(text)
        return
    try:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError("the file is there already", where=out, hint="name another file; nothing is replaced") from error
    except OSError as error:
        raise unwritten(out, error) from error
