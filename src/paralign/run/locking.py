"""One check at a time in an output folder.

Who holds it, and whether what it started has ended.

The process that checks holds a lock of the system on a file in the folder. The system lets go of it when the process ends, however
it ends: the lock of a dead process needs no clearing away. Its workers hold another one on the same file, shared among them: a check
that follows one that was killed waits for them, because they still write captures.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from paralign.errors import UsageError, unwritten

try:
    import fcntl
except ImportError:  # pragma: no cover - no locks of this kind on Windows: nothing is locked
    fcntl = None  # type: ignore[assignment]

_LOCKS = fcntl is not None

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: the file in an output folder
LOCK = ".paralign.lock"

#: seconds that workers of a killed check have to end: they look for their parent once a second
LEAVING = 5.0

#: seconds between two looks at whether they have
POLL = 0.05

#: bytes of the holder's note that are read, characters of each part that are shown
NOTE, SHOWN = 4096, 100

#: folders that this process holds; the system's locks do not keep its threads from each other
_held: set[tuple[int, int]] = set()
_holding = threading.Lock()


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Hold an output folder; gives the lock's file, which workers hold too.

    Raises:
        UsageError: another check holds it; says which process, since when.
        WriteFailed: the lock cannot be written.
    """
    path = folder / LOCK
    try:
        status = folder.stat()
    except OSError as fault:
        raise unwritten(folder, fault) from fault
    identity = (status.st_dev, status.st_ino)
    with _holding:
        if identity in _held:
            raise _taken(folder, f"process {os.getpid()}, which is this one, from another thread or an earlier call that has not ended")
        _held.add(identity)
    try:
        with _system_lock(path, folder):
            yield path
    finally:
        with _holding:
            _held.discard(identity)


@contextmanager
def _system_lock(path: Path, folder: Path) -> Iterator[None]:
    if not _LOCKS:  # pragma: no cover - as above
        yield
        return
    try:
        if path.is_symlink():
            path.unlink()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as fault:
        raise unwritten(path, fault) from fault
    try:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            if not isinstance(fault, (BlockingIOError, PermissionError)):
                raise unwritten(path, fault) from fault
            raise _taken(folder, _holder(os.pread(file, NOTE, 0))) from fault
        _await_workers(file, folder)
        _say_who(file)
        yield
        os.ftruncate(file, 0)
    finally:
        os.close(file)


def _await_workers(file: int, folder: Path) -> None:
    """Wait until the workers of a check that was killed have ended.

    Raises:
        UsageError: one lives on, and would write into captures of this check.
    """
    until = time.monotonic() + LEAVING
    while not _has_no_workers(file):
        if time.monotonic() >= until:
            raise _taken(folder, f"a worker of {_holder(os.pread(file, NOTE, 0))}, which has not ended with it")
        time.sleep(POLL)


def _has_no_workers(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without such locks: nothing is known of workers
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return True


def _say_who(file: int) -> None:
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    note = {"pid": os.getpid(), "host": socket.gethostname(), "since": now, "command": " ".join(sys.argv)[:SHOWN]}
    with suppress(OSError):  # a full disk: the lock holds without a note, and what an earlier check has left is taken back first
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(note).encode(), 0)


def _holder(note: bytes) -> str:
    """The process that a lock's file names; the file may hold anything."""
    try:
        found = json.loads(note)
        told = {key: ascii(found[key])[:SHOWN].strip("'") for key in ("pid", "host", "since")}
    except (ValueError, KeyError, TypeError, RecursionError):
        return "a process that has left no name"
    return f"process {told['pid']} on {told['host']}, since {told['since']}"


def _taken(folder: Path, holder: str) -> UsageError:
    return UsageError(
        f"the output folder is in use by another check: {holder}",
        where=str(folder),
        hint="wait until it has ended, end it, or give this check a folder of its own (--out)",
    )
