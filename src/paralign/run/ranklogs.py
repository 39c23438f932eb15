"""The logs that launchers keep of their processes.

Whose is whose, which failed first, and where in the user's code.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.run.stacks import Frame

if TYPE_CHECKING:
    from pathlib import Path

#: bytes of a log's end that are read: tracebacks stand there
READ = 1 << 20

#: characters of a line that are read: messages of frameworks have some hundred
LONGEST = 2000

#: Paddle: ``workerlog.N`` (``worklog.N`` in the guides); torchrun: ``…/attempt_0/N/stderr.log``
_PADDLE = re.compile(r"^work(?:er)?log\.(\d+)$")

#: other files that launchers leave beside them
_NAMES = ("stdout.log", "stderr.log", "endpoints.log", "error.json")

_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]{0,99})(?:: (?P<message>.*))?$")

#: compiled code that throws what nobody catches; what Paddle says of a signal
_THROWN = re.compile(r"terminate called after throwing an instance of '(?P<type>[^'\n]*)'(?:\s*what\(\):\s*(?P<message>[^\n]*))?")
_FATAL = re.compile(r"FatalError: `(?P<signal>[^`\n]*)` is detected by the operating system")

#: torchrun writes these before lines of ranks that it shows itself
_PREFIX = re.compile(r"^\[(?:rank|default)?\d+\]:\s?")

#: files of the launchers: their tracebacks tell that a process has ended, not why
_LAUNCHERS = re.compile(
    r"[/\\](?:torch[/\\]distributed[/\\](?:run|launcher|elastic)|paddle[/\\]distributed[/\\](?:launch|fleet[/\\]launch))"
)

#: what a process says that has lost another one, or waited for it too long: a consequence, not a cause
_LOST = re.compile(
    r"connection (?:closed|reset|refused|aborted)|connectFullMesh|broken pipe|timed? ?out|peer|remote process|socket"
    r"|NCCL (?:communicator|error)",
    re.IGNORECASE,
)

#: what launchers say of processes that have ended
_LAUNCHERS_WORDS = re.compile(
    r"Out of all \d+ trainers?, the trainer process with rank=\[?(?P<ranks>[\d, ]*)\]? was aborted", re.IGNORECASE
)


def is_lost(text: str) -> bool:
    """Whether a message says that another process is gone or late."""
    return _LOST.search(text) is not None


@dataclass(frozen=True)
class Trace:
    """A traceback in a log: the exception and its frames, outermost first."""

    type: str
    message: str
    frames: list[Frame]

    @property
    def is_launchers(self) -> bool:
        """Whether it is the launcher's own."""
        return any(_LAUNCHERS.search(frame.file) for frame in self.frames)

    @property
    def is_consequence(self) -> bool:
        """Whether it says that another process is gone or late."""
        return is_lost(f"{self.type}: {self.message}")


@dataclass
class RankLog:
    """One process's log."""

    rank: int
    path: Path
    traces: list[Trace] = field(default_factory=list)
    crash: Trace | None = None
    tail: list[str] = field(default_factory=list)
    written: float = 0.0

    @property
    def failure(self) -> Trace | None:
        """The traceback that ended the process, the last of its own.

        Without one, what a crash has left.
        """
        own = [trace for trace in self.traces if not trace.is_launchers]
        return own[-1] if own else self.crash


def logs_in(folder: Path) -> dict[int, Path]:
    """Rank -> the newest log of a launch.

    It is the one of errors, where these have a log of their own.
    """
    found: dict[int, Path] = {}
    for path in sorted(folder.rglob("*"), key=_age):
        rank = _rank_of(path)
        if rank is not None and path.is_file() and not path.is_symlink():
            found[rank] = path
    return dict(sorted(found.items()))


def forget(folder: Path) -> None:
    """Delete the logs of earlier launches from a folder of ours.

    Files that the launchers name, and folders that this empties.
    """
    for path in sorted(folder.rglob("*"), reverse=True):  # what lies in a folder comes before it
        named = path.name in _NAMES or _PADDLE.match(path.name) is not None
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()  # refused where something else is in it
            elif named:
                path.unlink()


def _age(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _rank_of(path: Path) -> int | None:
    named = _PADDLE.match(path.name)
    if named:
        return int(named[1])
    if path.name == "stderr.log" and path.parent.name.isdigit():
        return int(path.parent.name)
    return None


def read(rank: int, path: Path, lines: int = 12) -> RankLog:
    """A process's log: its tracebacks and last lines."""
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - READ))
        text = file.read().decode("utf-8", errors="replace")
    every = [_PREFIX.sub("", line[:LONGEST]) for line in text.split("\n")]
    return RankLog(rank, path, tracebacks(every), crashed(text), [line for line in every if line.strip()][-lines:], _age(path))


def tracebacks(lines: list[str]) -> list[Trace]:
    """The tracebacks in the lines of a log, in their order."""
    found = []
    starts = [number for number, line in enumerate(lines) if line.strip().endswith(_START)]
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=False):  # the last ends where the log does
        frames: list[Frame] = []
        for line in lines[begin + 1 : end]:
            framed = _FRAME.match(line)
            if framed:
                frames.append(Frame(framed["file"], int(framed["line"]), framed["function"]))
            elif frames and line and not line[0].isspace():
                error = _ERROR.match(line)
                found.append(Trace(error["type"] if error else "", (error["message"] or "") if error else line, frames))
                break
    return found


def crashed(text: str) -> Trace | None:
    """What compiled code says of its own end.

    An exception that nobody caught, or a signal that Paddle reports.
    """
    thrown = _THROWN.search(text)
    if thrown:
        return Trace(thrown["type"], (thrown["message"] or "").strip(), [])
    fatal = _FATAL.search(text)
    return Trace("FatalError", fatal["signal"], []) if fatal else None


def first_failure(logs: list[RankLog]) -> RankLog | None:
    """The process that failed first.

    One with a cause of its own comes before those that have lost it, then the time of its log's end counts.
    """
    failed = [log for log in logs if log.failure is not None]
    causes = [log for log in failed if log.failure is not None and not log.failure.is_consequence]
    return min(causes or failed, key=lambda log: log.written, default=None)


def aborted(text: str) -> list[int]:
    """The ranks that Paddle's launcher says were aborted.

    As in ``Out of all 4 trainers, the trainer process with rank=[1] was aborted``.
    """
    found = _LAUNCHERS_WORDS.search(text)
    if found is None:
        return []
    return [int(rank) for rank in found["ranks"].split(",") if rank.strip()]
