"""Where in the user's own code an exception passed."""

from __future__ import annotations

import os
import traceback
from typing import List

from paralign.errors import message_of
from paralign.worker.process.files import real_place, system_folders
from paralign.worker.protocol import Raised

#: frames that are shown where none is the user's
LAST = 3


def told(error: BaseException) -> Raised:
    """An exception as data."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Raised(type(error).__name__, message_of(error), text, user_frames(error))


def user_frames(error: BaseException) -> List[str]:
    """``file:line in function: code`` of every frame in the user's own files, outermost first.

    Of a file that is no Python: the imports that lead to it, then its line, the code and a caret. Where no frame is the user's, the last
    few; of an import none, as they are the import system's.
    """
    folders = system_folders()
    found = traceback.extract_tb(error.__traceback__)
    own = [f"{f.filename}:{f.lineno} in {f.name}: {f.line}" for f in found if is_users(f.filename, folders)]
    if isinstance(error, SyntaxError) and error.filename and is_users(error.filename, folders):
        return own + _syntax(error)
    if own or isinstance(error, (ImportError, SyntaxError)):
        return own
    return [f"{f.filename}:{f.lineno} in {f.name}: {f.line}" for f in found[-LAST:]]


def is_users(file: str, folders: List[str]) -> bool:
    """Whether a source file lies outside of the system and of installed packages."""
    if file.startswith("<"):
        return False
    real = real_place(file)
    return not any(real.startswith(folder + os.sep) for folder in folders)


def _syntax(error: SyntaxError) -> List[str]:
    """Where a file is no Python: ``file:line``, its code, and a caret below the place."""
    text = (error.text or "").rstrip()
    code = text.lstrip()
    lines = [f"{error.filename}:{error.lineno}"]
    if code:
        place = (error.offset or 1) - 1 - (len(text) - len(code))
        lines += ["    " + code, "    " + " " * min(max(place, 0), len(code)) + "^"]
    return lines
