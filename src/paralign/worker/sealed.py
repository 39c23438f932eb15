"""A process that may write below one folder alone.

An edited program may mean to write, move or delete what the user's would only have read: each such deed elsewhere raises.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Tuple

#: the variable that names the folder
VARIABLE = "PARALIGN_WRITES_BELOW"

#: deeds that change files, and which of their arguments are paths
_PATHS = {
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.mkdir": (0,),
    "os.truncate": (0,),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.utime": (0,),
    "shutil.rmtree": (0,),
    "shutil.move": (0, 1),
}

#: deeds whose effects nobody sees from here
_STARTED = frozenset({"os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen"})

#: what a file that is opened so may lose
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

#: places that hold nothing of the user's
_FREE = ("/dev/", "/proc/self/")


def install() -> None:
    """Seal this process, where the variable asks for it; that cannot be taken back."""
    folder = os.environ.get(VARIABLE)
    if folder:
        sys.addaudithook(_Seal(os.path.realpath(folder)))


class _Seal:
    """Refuses deeds outside of a folder."""

    def __init__(self, folder: str) -> None:
        self._below = os.path.join(folder, "")

    def __call__(self, event: str, arguments: Tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING:
                self._ask(path, event)
        elif event in _PATHS:
            for place in _PATHS[event]:
                self._ask(arguments[place], event)
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
