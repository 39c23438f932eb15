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
from paralign.verification import code_in_memory
from paralign.worker.process import deeds
from paralign.worker.process.files import ABSENT, fingerprint, system_folders

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from paralign.capture import Capture

#: folders of a specification that no check reads
_PASSED_OVER = frozenset({"__pycache__", ".git", "result"})

#: folders of a port that no code is imported from
OF_A_PORT = frozenset({"__pycache__", ".git"})


class Deed(Enum):
    """What a port did."""

    READ = "it read the judge's files"
    IMPORTED = "it imported the reference's framework or code"
    STARTED = "it started another process"
    CONNECTED = "it opened a connection"
    WATCHED = "it watched the process that it runs in"
    CHANGED = "files of the judge changed while it ran"
    COMPILED = "it ran compiled code or code under another file's name"
    REWRITTEN = "its own files changed while it was judged"
    WROTE = "it changed files that are not its own"
    OTHERWISE = "it computes otherwise when nobody watches"


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
    "socket.bind": Deed.CONNECTED,
    "socket.sendto": Deed.CONNECTED,
    "socket.sendmsg": Deed.CONNECTED,
    "sys.settrace": Deed.WATCHED,
    "sys.setprofile": Deed.WATCHED,
    "gc.get_objects": Deed.WATCHED,
    "gc.get_referrers": Deed.WATCHED,
    deeds.PIPE: Deed.CONNECTED,
    deeds.PROCESS: Deed.WATCHED,
    deeds.PAST: Deed.COMPILED,
    deeds.COMPILED: Deed.COMPILED,
    deeds.DISGUISED: Deed.COMPILED,
}


@dataclass(frozen=True)
class Tampering:
    """One thing that a port did: what, and on what."""

    deed: Deed
    what: str

    def __str__(self) -> str:
        return f"{self.deed.value}: {one_line(self.what)}"


def of_captures(
    captures: Iterable[Capture],
    forbidden_folders: Iterable[Path],
    handed: set[str],
    forbidden_modules: set[str],
    allowed_frameworks: Container[str] = (),
) -> list[Tampering]:
    """What the port's process did while it recorded.

    Args:
        captures: all that it made.
        forbidden_folders: the specification, the reference, the judge's own results.
        handed: folders of captures that it was given to read.
        forbidden_modules: first parts of the names of modules that its code may not import.
        allowed_frameworks: those that libraries which it uses may import.
    """
    found: dict[Tampering, None] = {}
    folders = [os.path.realpath(folder) for folder in forbidden_folders]
    for capture in captures:
        for file in capture.manifest.files:
            if _below(file, folders) and not _below(file, sorted(handed)):
                found[Tampering(Deed.READ, file)] = None
        for deed in capture.manifest.settings.get("deeds", ()):
            event, _, argument = str(deed).partition(" ")
            kind = _kind(event, argument, folders, forbidden_modules)
            if event == deeds.LIBRARY and argument not in allowed_frameworks:
                kind = Deed.IMPORTED
            if kind is not None and not (kind in (Deed.READ, Deed.WROTE) and _below(argument, sorted(handed))):
                found[Tampering(kind, f"ctypes: {argument}" if event == "ctypes.dlopen" else argument)] = None
    return list(found)


def _kind(event: str, argument: str, folders: list[str], modules: set[str]) -> Deed | None:
    """What an event means; None where an honest port has it too."""
    if event == "import":
        return Deed.IMPORTED if argument.partition(".")[0] in modules else None
    if event == deeds.FOLDER:  # from a folder's descriptor one reaches what lies below, and no path tells
        reaches = any((folder + os.sep).startswith(argument.rstrip(os.sep) + os.sep) for folder in folders)
        if reaches or _below(argument, folders):
            return Deed.READ
        return None
    if event == deeds.CHANGED:
        if _below(argument, [*folders, *(os.path.realpath(each) for each in system_folders())]):
            return Deed.WROTE
        return None
    return Deed.WATCHED if event == "ctypes.dlopen" else _EVENTS.get(event)


def _below(file: str, folders: list[str]) -> bool:
    return any(file == folder or file.startswith(folder + os.sep) for folder in folders)


def fingerprints(folders: Iterable[Path], passed_over: Container[str] = _PASSED_OVER) -> dict[str, str]:
    """Path -> fingerprint of every file below some folders; of what is a file, its own."""
    found = {}
    for folder in folders:
        if folder.is_file():
            found[str(folder)] = fingerprint(str(folder)) or "unreadable"
        for place, inner, files in os.walk(folder):
            inner[:] = sorted(name for name in inner if name not in passed_over)
            for name in sorted(files):
                path = str(Path(place, name))
                if not name.endswith(".pyc"):
                    found[path] = fingerprint(path) or "unreadable"
    return found


def changed(before: dict[str, str], after: dict[str, str]) -> list[Tampering]:
    """Files of the judge that are not as they were."""
    other = sorted(path for path in {**before, **after} if before.get(path) != after.get(path))
    return [Tampering(Deed.CHANGED, path) for path in other]


def of_code(code: set[str], port: Path, allowed_frameworks: Container[str]) -> list[Tampering]:
    """What the compiled code tells that the port's processes had loaded."""
    found = [Tampering(Deed.IMPORTED, name) for name in sorted(code_in_memory.frameworks(code)) if name not in allowed_frameworks]
    return found + [Tampering(Deed.COMPILED, file) for file in sorted(code_in_memory.within(code, port))]


def rewritten(before: dict[str, str], read: dict[str, str], after: dict[str, str]) -> list[Tampering]:
    """Sources of the port's that ran and are new, or not as they were before it was judged.

    Args:
        before: path -> fingerprint of all its files, before the first round.
        read: as its processes found them.
        after: path -> fingerprint, after the last.
    """
    found = []
    for path in sorted(read):
        if path not in before and os.path.realpath(path) != path:  # by a link: the file itself is told too
            continue
        missing = read[path] == ABSENT and path not in before
        if path.endswith(".py") and not missing and not before.get(path) == read[path] == after.get(path):
            found.append(Tampering(Deed.REWRITTEN, path))
    return found


def digest(files: dict[str, str], root: Path) -> str:
    """One hash of files and where they lie below a folder."""
    told = sorted((os.path.relpath(path, root), known) for path, known in files.items())
    return hashlib.sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()
