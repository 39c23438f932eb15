"""The exceptions of paralign: each says what is wrong, where, and what to do about it.

A divergence is a result, never an exception.
"""

from __future__ import annotations

from typing import Optional, Sequence


class ParalignError(Exception):
    """Something that the user can act on.

    Args:
        what: the fault and its cause, one sentence.
        where: the file, tensor, function or setting concerned.
        hint: what to do about it; names the valid choices where there are any.
    """

    def __init__(self, what: str, where: Optional[str] = None, hint: Optional[str] = None) -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__(what)

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  fix:   {self.hint}")
        return "\n".join(lines)


class UsageError(ParalignError):
    """A command, setting or argument is wrong (exit code 2)."""


class WriteFailed(UsageError):
    """A file cannot be written: a full disk, a limit of its size, no permission (exit code 3)."""


def unwritten(path: object, fault: OSError, what: str = "the file", rest: str = "") -> WriteFailed:
    """The error that says why something cannot be written.

    Args:
        path: the file or folder.
        fault: what the system says.
        what: what it is.
        rest: what became of what was there before.
    """
    return WriteFailed(
        f"{what} cannot be written: {fault.strerror or fault}",
        where=str(path),
        hint=f"check the free space and the permissions of this folder{rest}",
    )


class CaptureFormatError(ParalignError):
    """A capture, shard or other file of ours is corrupt, truncated or of an unknown version."""


class UnsafeFile(ParalignError):
    """A file of others holds something other than arrays, scalars and containers; nothing of it was run."""


class UnsupportedTensor(ParalignError):
    """A tensor has a dtype or layout that cannot be recorded."""


class EnvironmentUnavailable(ParalignError):
    """An interpreter, framework or device that a side asks for is not there."""


class WorkerFailed(ParalignError):
    """A side's own code raised, was killed, crashed or ran out of time.

    An exception of another process crosses the border as data and is raised again as this one class.

    Args:
        type: class name of the original exception, or ``killed``, ``crashed``, ``timeout``.
        message: its message.
        traceback: its traceback as text, the user's frames last; empty where there is none.
        log: path of the worker's log, or None for a side that ran in this process.
        side: ``reference`` or ``candidate``.
        frames: where in the user's own code it passed, ``file:line in function: code``, outermost first.
    """

    def __init__(
        self,
        type: str,
        message: str,
        traceback: str = "",
        log: Optional[str] = None,
        side: Optional[str] = None,
        frames: Sequence[str] = (),
    ) -> None:
        self.frames = list(frames)
        self.type, self.message, self.traceback, self.log, self.side = type, message, traceback, log, side
        who = f"the {side}" if side else "a side"
        super().__init__(
            f"{who} failed: {type}: {message}", where=f"log: {log}" if log else None, hint="see the traceback below" if traceback else None
        )
