"""Stacks of processes that hang or crashed, and tracebacks in logs.

They are as Python's ``faulthandler`` writes them.
"""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass
from pathlib import Path

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-fA-F]+.*\(most recent call first\):$")
_FRAME = re.compile(r'^\s+File "(?P<file>.*)", line (?P<line>\d+),? in (?P<function>\S+)\s*$')

#: folders of installed packages and of Python itself
_FOREIGN = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python[\d.]+)[/\\]|^<")

#: folders in which frameworks keep what makes processes talk to one another
_TALK = re.compile(r"[/\\](?:distributed|communication|collective|mpi4py|horovod)[/\\]")

#: functions of decorators, which say nothing
_WRAPPERS = ("wrapper", "inner", "decorate_context", "_fn", "__impl__")

#: functions of PyTorch and Paddle that run a backward pass
_BACKWARD = ("_engine_run_backward", "backward", "run_backward")

_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Frame:
    """One call: file, line, function."""

    file: str
    line: int
    function: str

    @property
    def is_users(self) -> bool:
        """Whether the file is the user's own."""
        return _FOREIGN.search(self.file) is None and not self.file.startswith(_PACKAGE)

    @property
    def talks(self) -> bool:
        """Whether the file is one of a framework's that make processes talk to one another."""
        return not self.is_users and _TALK.search(self.file) is not None

    @property
    def may_wait(self) -> bool:
        """Whether a process whose innermost frame it is may wait for another.

        A backward pass brings gradients together in compiled code, of which no frame tells.
        """
        return self.talks or (not self.is_users and self.function in _BACKWARD)

    def __str__(self) -> str:
        code = linecache.getline(self.file, self.line).strip()
        return f"{self.file}:{self.line} in {self.function}" + (f": {code}" if code else "")


def main_thread(text: str) -> list[Frame]:
    """The frames of the main thread, innermost first; nothing where the text holds no stack.

    The main thread is the oldest: the last that ``faulthandler`` writes, unless it says which one is current.
    """
    threads: list[list[Frame]] = []
    current = -1
    for line in text.splitlines():
        if _THREAD.match(line):
            current = len(threads) if line.startswith("Current") and "Fatal" in text else current
            threads.append([])
        found = _FRAME.match(line)
        if found and threads:
            threads[-1].append(Frame(found["file"], int(found["line"]), found["function"]))
    return threads[current] if threads else []


def users(frames: list[Frame]) -> list[Frame]:
    """The frames of the user's own files."""
    return [frame for frame in frames if frame.is_users]


def where(frames: list[Frame]) -> str:
    """What a process is at: the collective operation that it waits in, or the user's line."""
    own = users(frames)
    at = f"at {own[0]}" if own else "in none of the user's files"
    if not frames:
        return "has left no stack"
    if frames[0].talks:
        entered = [frame for frame in frames[: frames.index(own[0])] if frame.talks] if own else frames[:1]
        named = [frame.function for frame in entered if frame.function not in _WRAPPERS]
        return f"waits in {named[-1] if named else frames[0].function}, {at}"
    inside = "" if not own or frames[0] is own[0] else f"in {frames[0].function} ({Path(frames[0].file).name}:{frames[0].line}), "
    return f"is {inside}{at}"
