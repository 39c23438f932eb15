"""Processes that a launcher starts, so that none outlives the check.

They are known by a mark in their environment.

Launchers give each rank a session of its own, and ranks start readers of data. Neither a process group nor a parent leads to all of
them; what every one of them inherits is the environment. On systems without ``/proc`` the launcher's own group is all that is known.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from paralign.run.launching import Guard, kill_group

#: the variable that bears the mark
VARIABLE = "PARALIGN_LAUNCH"

#: seconds in which processes that were killed are gone; longer only where the system is out of memory
GONE = 5.0

#: waits for the end of its input, then kills a process group and all that bear the mark, twice: one may have just been starting another
_WATCH = (
    'read -r _; kill -KILL "-$0" 2>/dev/null; for again in 1 2; do '
    "for place in /proc/[0-9]*; do "
    'if grep -q "$1" "$place/environ" 2>/dev/null; then kill -KILL "${place#/proc/}" 2>/dev/null; fi; done; done'
)


def new_mark() -> str:
    """A mark that no other process bears."""
    return secrets.token_hex(16)


def bearers(mark: str) -> list[int]:
    """The processes that bear a mark, whatever group and parent they have.

    Those that have ended and wait to be collected are left out.
    """
    wanted, found = f"{VARIABLE}={mark}".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def end_bearers(mark: str, launcher: subprocess.Popen[bytes]) -> list[int]:
    """Kill a launcher with its group and all that bear its mark, and wait until they are gone.

    Returns:
        Those that are left after ``GONE`` seconds: none, unless the system keeps them.
    """
    if launcher.poll() is None:  # else its number may be another's by now
        kill_group(launcher.pid)
    until = time.monotonic() + GONE
    left = bearers(mark)
    while left and time.monotonic() < until:
        for process in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
        left = bearers(mark)
    return left


class MarkedGuard(Guard):
    """Kill a launcher's group and all that bear its mark when this process ends.

    :meth:`close` calls it off.
    """

    def __init__(self, group: int, mark: str) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._shell = subprocess.Popen(  # noqa: S603 - the command is ours, the arguments a number and our mark
                ["/bin/sh", "-c", _WATCH, str(group), f"{VARIABLE}={mark}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
