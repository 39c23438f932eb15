"""One command of paralign in a process of its own.

With a time limit, without input, its output in bounds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.errors import ParalignError, plain_text
from paralign.run.launching import Guard, kill_group, launch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: the working folder is an agent's: nothing of ours is imported from there
_PROGRAM = "import sys; sys.path[:] = [path for path in sys.path if path]; from paralign.cli import main; sys.exit(main())"

#: bytes of output that are read: the report of a check of 100,000 values
MOST = 1 << 28

#: bytes of messages that are read, the last ones
TAIL = 1 << 14

#: seconds that a command has to end its workers after it was asked to end
GRACE = 10.0


@dataclass(frozen=True)
class Done:
    """What a command came to: its exit code, what it printed, and the end of its messages."""

    code: int
    output: str
    messages: str


class TimedOut(ParalignError):
    """A command was ended because it took longer than it was granted."""


class Commands:
    """Runs commands, one at a time: two checks at once would share processors and memory.

    Args:
        folder: where they run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()

    def run(self, words: Sequence[str], seconds: float) -> Done:
        """Run ``paralign WORDS``.

        Args:
            words: command and arguments.
            seconds: granted, from the moment it starts.

        Raises:
            TimedOut: it took longer; it and all that it started are ended.
            ParalignError: it printed more than is read.
        """
        with self._turn, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
            process = launch(
                [sys.executable, "-c", _PROGRAM, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=messages,
                cwd=self._folder,
                env={**os.environ, "PARALIGN_LANG": "en", "NO_COLOR": "1"},
                start_new_session=True,
            )
            guard = Guard(process.pid)
            try:
                code = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                raise TimedOut(
                    f"paralign {words[0]} took longer than {seconds:g} s and was ended",
                    hint="grant more `seconds`, name fewer stages, or make inputs and model smaller",
                ) from None
            finally:
                _end(process)
                guard.close()
            size = output.seek(0, os.SEEK_END)
            if size > MOST:
                raise ParalignError(f"paralign {words[0]} printed {size} bytes; at most {MOST} are read")
            output.seek(0)
            messages.seek(max(0, messages.seek(0, os.SEEK_END) - TAIL))
            return Done(code, output.read().decode("utf-8", "replace"), plain_text(messages.read().decode("utf-8", "replace")).strip())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has started: asked first, so that it clears away, then killed."""
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE)
        return
    kill_group(process.pid)
    process.wait()
