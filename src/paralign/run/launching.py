"""Processes that do not outlive this one, however it ends.

A worker notices by itself that its pipe was closed (``worker/__main__.py``), but not while compiled code keeps Python's lock, and
what the side's code has started notices nothing. So two more watch: the kernel, where it can (``PR_SET_PDEATHSIG``), and a shell
that waits for the end of a pipe and then kills the worker's whole group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

#: waits for the end of its input, then kills a process group; a shell starts in a millisecond, an interpreter in thirty
_WATCH = 'read -r _; kill -KILL "-$0"'

#: seconds that a killed group is waited for; longer only where nobody collects the dead
GONE = 0.5

_launcher: ThreadPoolExecutor | None = None


def _forget_launcher() -> None:
    """In a forked child: the thread is gone."""
    global _launcher  # noqa: PLW0603 - one thread a process
    _launcher = None


os.register_at_fork(after_in_child=_forget_launcher)


def launch(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process from a thread that lives as long as this process.

    To the kernel, a child's parent is the thread that started it: a worker that was started by a thread of a pool would be killed
    when that pool is closed.

    Raises:
        OSError: it does not start.
    """
    global _launcher  # noqa: PLW0603 - as above
    if _launcher is None:
        _launcher = ThreadPoolExecutor(1, "paralign-launcher")
    started: subprocess.Popen[bytes] = _launcher.submit(lambda: subprocess.Popen(command, **options)).result()  # noqa: S603 - as in process.py
    return started


class Guard:
    """Kill a process group when this process ends; :meth:`close` calls it off.

    Without a shell there is no guard.
    """

    def __init__(self, group: int) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._shell = subprocess.Popen(  # noqa: S603 - the command is ours, the argument a number
                ["/bin/sh", "-c", _WATCH, str(group)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        """End the watch."""
        if self._shell is not None:
            self._shell.kill()  # before its input ends, which is what it waits for
            self._shell.wait()
            if self._shell.stdin is not None:
                self._shell.stdin.close()
            self._shell = None


def kill_group(leader: int) -> None:
    """Kill a process and all that it started, but for what has left its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def await_group(leader: int) -> None:
    """Wait until nothing of a killed group is left: a signal takes its time.

    The leader has to be waited for first.
    """
    until = time.monotonic() + GONE
    while time.monotonic() < until:
        try:
            os.killpg(leader, 0)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(GONE / 100)
