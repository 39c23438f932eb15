"""What a port did that an honest one has no need of.

Its process was seen to do it, or the judge's files tell.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.errors import one_line
from paralign.worker.files import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.capture import Capture

#: folders of a specification that no check reads
_PASSED_OVER = frozenset({"__pycache__", ".git", "result"})


class Deed(Enum):
    """What a port did."""

    READ = "it read the judge's files"
    IMPORTED = "it imported the reference's framework or code"
    STARTED = "it started another process"
    CONNECTED = "it opened a connection"
    WATCHED = "it watched the process that it runs in"
    CHANGED = "files of the judge changed while it ran"


#: audit events -> what they mean
_EVENTS = {
    "subprocess.Popen": Deed.STARTED,
    "os.system": Deed.STARTED,
    "os.exec": Deed.STARTED,
    "os.posix_spawn": Deed.STARTED,
    "os.fork": Deed.STARTED,
    "os.forkpty": Deed.STARTED,
    "pty.spawn": Deed.STARTED,
    "socket.connect": Deed.CONNECTED,
    "sys.settrace": Deed.WATCHED,
    "sys.setprofile": Deed.WATCHED,
    "gc.get_objects": Deed.WATCHED,
    "gc.get_referrers": Deed.WATCHED,
}


@dataclass(frozen=True)
class Tampering:
    """One thing that a port did: what, and on what."""

    deed: Deed
    what: str

    def __str__(self) -> str:
        return f"{self.deed.value}: {one_line(self.what)}"


def of_captures(
    captures: Iterable[Capture], forbidden_folders: Iterable[Path], handed: set[str], forbidden_modules: set[str]
) -> list[Tampering]:
    """What the port's process did while it recorded.

    Args:
        captures: all that it made.
        forbidden_folders: the specification, the reference, the judge's own results.
        handed: folders of captures that it was given to read.
        forbidden_modules: first parts of the names of modules that it may not import.
    """
    found: dict[Tampering, None] = {}
    folders = [os.path.realpath(folder) for folder in forbidden_folders]
    for capture in captures:
        for file in capture.manifest.files:
            if _below(file, folders) and not _below(file, sorted(handed)):
                found[Tampering(Deed.READ, file)] = None
        for deed in capture.manifest.settings.get("deeds", ()):
            event, _, argument = str(deed).partition(" ")
            if event == "import" and argument.partition(".")[0] in forbidden_modules:
                found[Tampering(Deed.IMPORTED, argument)] = None
            elif event in _EVENTS:
                found[Tampering(_EVENTS[event], argument)] = None
            elif event == "ctypes.dlopen":
                found[Tampering(Deed.WATCHED, f"ctypes: {argument}")] = None
    return list(found)


def _below(file: str, folders: list[str]) -> bool:
    return any(file == folder or file.startswith(folder + os.sep) for folder in folders)


def fingerprints(folders: Iterable[Path]) -> dict[str, str]:
    """Path -> fingerprint of every file below some folders."""
    found = {}
    for folder in folders:
        for place, inner, files in os.walk(folder):
            inner[:] = sorted(name for name in inner if name not in _PASSED_OVER)
            for name in sorted(files):
                path = str(Path(place, name))
                if not name.endswith(".pyc"):
                    found[path] = fingerprint(path) or "unreadable"
    return found


def changed(before: dict[str, str], after: dict[str, str]) -> list[Tampering]:
    """Files of the judge that are not as they were."""
    other = sorted(path for path in {**before, **after} if before.get(path) != after.get(path))
    return [Tampering(Deed.CHANGED, path) for path in other]


def digest(files: dict[str, str], root: Path) -> str:
    """One hash of files and where they lie below a folder."""
    told = sorted((os.path.relpath(path, root), known) for path, known in files.items())
    return hashlib.sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()
