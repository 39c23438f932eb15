"""Trials of one program after the other.

One process has the framework imported, and each trial is a child of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from paralign.run.launching import Guard, await_group, kill_group, launch
from paralign.run.process import GRACE, MAIN, Process, environment, open_log
from paralign.worker.process.standing import END

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from paralign.run.project import SideSettings

#: seconds that a child has to end before the whole is ended
PATIENCE = 4 * GRACE


def can_stand(settings: SideSettings) -> bool:
    """Whether a side can be served by children.

    Processes must fork, and share no device.
    """
    return hasattr(os, "fork") and settings.device == "cpu"


class Standing:
    """A process that stands ready.

    Args:
        settings: of the side, whose interpreter and variables all children have.
        framework: that is imported beforehand.
        log: where it writes.
        cwd: the working directory of all children.
        modules: names of installed packages that are imported beforehand too.
    """

    def __init__(self, settings: SideSettings, framework: str, log: Path, cwd: Path, modules: Sequence[str] = ()) -> None:
        self._modules = modules
        self._settings, self._framework, self._log, self._cwd = settings, framework, log, cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None

    def process(self) -> subprocess.Popen[bytes]:
        """The process; a new one where the last has ended."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            with open_log(self._log) as log:
                self._process = launch(
                    [self._settings.python, "-u", str(MAIN), "--standing", self._framework, *self._modules],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self._cwd,
                    env=environment(self._settings),
                    start_new_session=True,
                    bufsize=0,
                )
            self._guard = Guard(self._process.pid)
        return self._process

    def without_modules(self) -> None:
        """End the process; the next one imports no packages beforehand.

        Some bear no fork.
        """
        self._modules = ()
        self.close()

    def close(self) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        kill_group(process.pid)
        process.wait()
        await_group(process.pid)
        if self._guard is not None:
            self._guard.close()


class Child(Process):
    """A worker that is a child of a standing process."""

    def __init__(self, standing: Standing, *given: Any, **more: Any) -> None:
        self._standing = standing
        super().__init__(*given, **more)

    def _start(self, settings: SideSettings, description: Path, cwd: Path) -> subprocess.Popen[bytes]:
        del settings, cwd  # those of the standing process
        process = self._standing.process()
        if process.stdin is not None:
            process.stdin.write(f"{description}\n".encode())
        return process

    def dismiss(self) -> None:
        """Nothing is done before :meth:`close`: the pipes are the standing process's."""

    def close(self) -> None:
        """End the child; where it does not, the standing process too."""
        if self._ending:
            return
        process = self._process
        ended = False
        with suppress(OSError, TimeoutError, ValueError):
            if process.stdin is not None and process.stdout is not None:
                process.stdin.write(END.encode())
                until = time.monotonic() + PATIENCE
                while not ended and (line := self._line(process.stdout, until)) is not None:
                    ended = _is_end(line)
        self._ending = True
        self._guard.close()
        if not ended:
            self._standing.without_modules()
        for path in (self._jobs, self._description):
            with suppress(OSError):
                path.unlink()


def _is_end(line: bytes) -> bool:
    """Whether a line says that the child has ended.

    What it answered before is of no use any more.
    """
    try:
        answer = json.loads(line)
    except ValueError:
        return False
    return isinstance(answer, dict) and set(answer) == {"ended"}
