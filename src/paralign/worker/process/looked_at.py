"""Which paths the side's own code asked about without opening them.

Python tells no audit event of that, so ``os.stat`` and its like are wrapped. A mark behind the path says what was asked: whether
something is there, its size and time of change, where a link leads, or of what size the files in a folder are: the entries that
``os.scandir`` gives answer that without being seen.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import stat
import sys
import threading
from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Tuple

if TYPE_CHECKING:
    from types import FrameType

#: marks behind a path; no path that a system tells has two separators
THERE, TIME, LINK, ENTRIES = (os.sep * 2 + word for word in ("there", "time", "link", "entries"))

#: functions of Python's own that only ask whether something is there, and what it is
_EXISTENCE = frozenset(
    ("exists", "lexists", "isfile", "isdir", "islink", "ismount", "is_file", "is_dir", "is_symlink", "is_mount", "access")
)

#: those whose answer is the size or a time
_FIGURES = frozenset(("getmtime", "getctime", "getatime", "getsize"))

#: modules of Python's own that hand on what was asked
_HANDING_ON = ("genericpath", "posixpath", "ntpath", "pathlib", "glob")

_installed = False


def install(note: Callable[[str], None], is_own: Callable[[str], bool], is_library: Callable[[str], bool]) -> None:
    """Have questions about paths noted, once for the life of the process.

    Args:
        note: takes a marked absolute path.
        is_own: whether a source file is the user's.
        is_library: whether a source file is one of Python's own, which acts for its caller.
    """
    global _installed  # noqa: PLW0603 - as the audit hook
    if _installed:
        return
    _installed = True
    for name in ("stat", "lstat", "access", "readlink"):
        asked = getattr(os, name, None)
        if asked is not None:
            _replace(name, asked, _noting(name, asked, note, _Caller(is_own, is_library)))


def _replace(name: str, before: Any, new: Any) -> None:
    setattr(os, name, new)
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if before in known:
            known.add(new)
    accessor = getattr(pathlib, "_NormalAccessor", None)  # up to Python 3.10 it keeps the functions
    if accessor is not None and hasattr(accessor, name):
        setattr(accessor, name, staticmethod(new))


def _noting(name: str, asked: Callable[..., Any], note: Callable[[str], None], caller: "_Caller") -> Callable[..., Any]:
    @wraps(asked)
    def noting(path: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(path, (str, bytes, os.PathLike)) and named.get("dir_fd") is None:
            mark = caller.mark(name)
            if mark and not _is_no_path(path):
                note(os.path.abspath(os.fsdecode(path)) + mark)
        return asked(path, *arguments, **named)

    return noting


def _is_no_path(path: Any) -> bool:
    """Whether a system refuses this as a path: data that is asked whether it is one."""
    if isinstance(path, bytes):
        return b"\0" in path
    return isinstance(path, str) and "\0" in path


class _Caller:
    """Who asks, and for what."""

    def __init__(self, is_own: Callable[[str], bool], is_library: Callable[[str], bool]) -> None:
        self._is_own, self._is_library = is_own, is_library
        self._looking = threading.local()

    def mark(self, name: str) -> str:
        """The mark of a question; '' for one that is not the user's own code's."""
        if getattr(self._looking, "now", False):  # finding out who asks is asking too
            return ""
        self._looking.now = True
        try:
            return self._mark(name)
        finally:
            self._looking.now = False

    def _mark(self, name: str) -> str:
        """As :meth:`mark`."""
        frame: Optional[FrameType] = sys._getframe(3)  # noqa: SLF001 - the code that asks
        between: List[Tuple[str, str]] = []
        while frame is not None and self._is_library(frame.f_code.co_filename):
            between.append((_module(frame.f_code.co_filename), frame.f_code.co_name))
            frame = frame.f_back
        if frame is None or not self._is_own(frame.f_code.co_filename):
            return ""
        return _mark(name, between)


def _module(file: str) -> str:
    """The name of one of Python's own modules, by its file or by what stands for a frozen one.

    >>> _module("/usr/lib/python3.11/glob.py"), _module("<frozen genericpath>"), _module("/lib/pathlib/_local.py")
    ('glob', 'genericpath', 'pathlib')
    """
    if file.startswith("<frozen "):
        return file[len("<frozen ") : -1]
    folder, name = os.path.split(file)
    return "pathlib" if os.path.basename(folder) == "pathlib" else os.path.splitext(name)[0]


def _mark(name: str, between: List[Tuple[str, str]]) -> str:
    """What is asked, by the name of the function and Python's own functions that call it."""
    if any(not module.startswith(_HANDING_ON) for module, _ in between):
        return ""
    asking = {function for _, function in between}
    if name == "readlink":
        return LINK
    if name == "access" or asking & _EXISTENCE:
        return THERE
    if asking & _FIGURES or not between or asking <= {"stat", "lstat"}:
        return TIME
    return ""


def unmarked(path: str) -> Tuple[str, str]:
    """A path and its mark; '' without one.

    >>> unmarked("/data/a.txt"), unmarked("/data/a.txt//time")
    (('/data/a.txt', ''), ('/data/a.txt', '//time'))
    """
    for mark in (THERE, TIME, LINK, ENTRIES):
        if path.endswith(mark):
            return path[: -len(mark)], mark
    return path, ""


def answer(path: str, mark: str) -> str:
    """What the system says now to what was asked.

    Raises:
        OSError: it cannot say.
    """
    if mark == LINK:
        return "link " + os.readlink(path) if os.path.islink(path) else "no link"
    if mark == ENTRIES:
        return _entries(path)
    status = os.stat(path)
    if mark == TIME:
        return f"{status.st_size}-{status.st_mtime_ns}"
    return "folder" if stat.S_ISDIR(status.st_mode) else "file"


def counts(name: str) -> bool:
    """Whether a name in a folder is the program's, not an editor's or Python's own."""
    return name != "__pycache__" and not name.startswith(".") and not name.endswith("~")


def _entries(folder: str) -> str:
    """A digest of the sizes and times of the files in a folder."""
    told = []
    with os.scandir(folder) as entries:
        for entry in sorted((e for e in entries if counts(e.name)), key=lambda e: e.name):
            status = entry.stat(follow_symlinks=False)
            told.append(f"{entry.name} folder" if entry.is_dir() else f"{entry.name} {status.st_size}-{status.st_mtime_ns}")
    return hashlib.sha256("\n".join(told).encode("utf-8", "surrogateescape")).hexdigest()
