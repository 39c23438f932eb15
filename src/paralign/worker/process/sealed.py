"""A process that may write below one folder alone.

An edited program may mean to write, move or delete what the user's would only have read: each such deed elsewhere raises.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Tuple

from paralign.worker.process.deeds import CHANGES, WRITING

#: the variable that names the folder
VARIABLE = "PARALIGN_WRITES_BELOW"

#: deeds whose effects nobody sees from here
_STARTED = frozenset({"os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen"})

#: places that hold nothing of the user's
_FREE = ("/dev/", "/proc/self/")


def install() -> None:
    """Seal this process, where the variable asks for it; that cannot be taken back."""
    folder = os.environ.get(VARIABLE)
    if folder:
        sys.addaudithook(_Seal(os.path.realpath(folder)))


def _within(event: str, arguments: Tuple[Any, ...], place: int) -> Any:
    """A path of a deed, below the open folder that it is told from, where there is one."""
    path = arguments[place]
    if event == "os.truncate":
        return path  # its last argument is a length
    folder = arguments[2 + place] if event in ("os.rename", "os.link") else arguments[-1]
    if not isinstance(folder, int) or folder < 0 or not isinstance(path, (str, bytes)):
        return path
    return os.path.join(os.path.realpath(f"/proc/self/fd/{folder}"), os.fsdecode(path))


class _Seal:
    """Refuses deeds outside of a folder."""

    def __init__(self, folder: str) -> None:
        self._below = os.path.join(folder, "")

    def __call__(self, event: str, arguments: Tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITING:
                self._ask(path, event)
        elif event in CHANGES:
            for place in CHANGES[event]:
                self._ask(_within(event, arguments, place), event)
        elif event in _STARTED:
            raise PermissionError(f"{event} is not done in a trial")

    def _ask(self, path: Any, event: str) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return  # a descriptor: what it is of was asked when it was opened
        name = os.fsdecode(path)
        if name.startswith(_FREE):
            return
        real = os.path.join(os.path.realpath(os.path.dirname(name) or "."), os.path.basename(name))
        if event == "open":
            real = os.path.realpath(name)
        if not (real + os.sep).startswith(self._below):
            raise PermissionError(f"{event} of {name[:200]!r} is not done in a trial: it lies outside of the copy")
