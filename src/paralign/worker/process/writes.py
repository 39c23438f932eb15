"""Which files a process opens for writing, and from which line; and what it prints.

Python's audit events tell of every file that Python code opens. Files that compiled libraries open on their own account are not seen.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

from paralign.worker.process.files import system_folders

#: lines that are kept of what a process prints, and characters of each
KEPT, LONGEST = 200, 200

#: the code that imports
_IMPORTING = "<frozen importlib"

#: the folder of Python's own library
_STDLIB = os.path.dirname(os.__file__) + os.sep


class Writes:
    """Listen for files written, from construction on.

    An audit hook cannot be removed, so there is one a process.

    Args:
        ignore: folders whose files are not told of.
    """

    def __init__(self, ignore: List[str]) -> None:
        self._system = system_folders()
        self._ignored = [os.path.realpath(path) for path in ignore]
        #: path -> the line of the user's code that opened it first, '' where there is none
        self.seen: Dict[str, str] = {}
        self.on = True
        sys.addaudithook(self._listen)

    def _listen(self, event: str, arguments: Tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open" and isinstance(arguments[0], (str, bytes)) and _writes(arguments[1], arguments[2]):
            self._note(arguments[0])
        elif event == "os.rename" and isinstance(arguments[1], (str, bytes)):
            self._note(arguments[1])

    def _note(self, given: Any) -> None:
        path = os.path.realpath(os.fsdecode(given))
        if path in self.seen or path.endswith(".pyc") or self._is_below(path, [*self._system, *self._ignored]):
            return
        line = self._line()
        if line is not None:
            self.seen[path] = line

    def _line(self) -> Optional[str]:
        """The user's line that asked for the file.

        None where a package writes it while it is imported, as its caches are.
        """
        frame: Any = sys._getframe(1)  # noqa: SLF001 - there is no other way to the caller's line
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(_IMPORTING):
                return None
            if self.is_users(file):
                return f"{file}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def is_users(self, file: str) -> bool:
        """Whether a source file is the user's own."""
        return not file.startswith("<") and not self._is_below(os.path.realpath(file), self._system)

    @staticmethod
    def _is_below(path: str, folders: List[str]) -> bool:
        return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _writes(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


class Printed:
    """A stream that keeps the first lines that the user's own code writes to it.

    All else is the stream's.

    Args:
        stream: where everything goes.
        is_users: whether a source file is the user's own; warnings of packages, which every rank prints, are not kept.
    """

    def __init__(self, stream: Any, is_users: Callable[[str], bool]) -> None:
        self._stream, self._is_users = stream, is_users
        self._begun = ""
        self.lines: List[str] = []
        self.count = 0

    def write(self, text: str) -> int:
        """Write, and keep whole lines."""
        if self._asked_by_user():
            *whole, self._begun = (self._begun + text).split("\n")
            self.count += len(whole)
            self.lines += [line[:LONGEST] for line in whole[: max(0, KEPT - len(self.lines))]]
            self._begun = self._begun[:LONGEST]
        written: int = self._stream.write(text)
        return written

    def _asked_by_user(self) -> bool:
        """Whether the first caller outside of Python's own library is the user's code.

        A warning is no line of a log.
        """
        frame: Any = sys._getframe(2)  # noqa: SLF001 - as above
        while frame is not None and _is_pythons(frame.f_code.co_filename):
            if frame.f_code.co_filename == warnings.__file__:
                return False
            frame = frame.f_back
        return frame is not None and self._is_users(frame.f_code.co_filename)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _is_pythons(file: str) -> bool:
    return file.startswith((_STDLIB, "<")) and "-packages" not in file[len(_STDLIB) :]


def watch_prints(is_users: Callable[[str], bool]) -> Tuple[Printed, Printed]:
    """Put a :class:`Printed` before standard output and standard error."""
    found = Printed(sys.stdout, is_users), Printed(sys.stderr, is_users)
    sys.stdout, sys.stderr = found
    return found


def files_below(folder: str) -> Dict[str, int]:
    """Files in a folder and below it, as paths from there -> bytes; links are not followed."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            found[os.path.relpath(path, folder)] = os.lstat(path).st_size
    return found


def forget_files(folder: str) -> None:
    """Delete a folder of ours, and the files that were saved into it for trial.

    Links are not followed.
    """
    for place, folders, names in os.walk(folder, topdown=False):
        for name in names:
            os.unlink(os.path.join(place, name))
        for name in folders:
            path = os.path.join(place, name)
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)
    os.rmdir(folder)
