"""The exceptions of paralign: each says what is wrong, where, and what to do about it.

A divergence is a result, never an exception.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any, ClassVar, Iterable, Optional, Sequence

#: characters that a refusal quotes of what it refuses
QUOTED = 200
#: characters of a whole message: no file and no setting can flood a terminal through what is said about it
_LONGEST = 2000
_ITEMS = 16


def quoted(value: Any) -> str:
    """A value as Python writes it, shortened to what a message should hold.

    The message refuses the value.

    >>> quoted("a" * 300) == "'" + "a" * 198 + "…"
    True
    >>> quoted((1,) * 100)
    '(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, …'
    """
    try:
        if isinstance(value, (list, tuple)) and len(value) > _ITEMS:  # never written out whole: there may be millions
            return shortened(repr(value[:_ITEMS])[:-1] + ", …")
        if isinstance(value, dict) and len(value) > _ITEMS:
            return f"a dict of {len(value)} entries"
        return shortened(repr(value[: QUOTED + 1] if isinstance(value, (str, bytes, bytearray)) else value))
    except (ValueError, RecursionError):  # more digits than Python writes, or nested too deeply
        return f"a value of type {type(value).__name__}"


def shortened(text: str, most: int = QUOTED) -> str:
    """A text of at most so many characters; what was cut off shows as an ellipsis.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


#: what moves a terminal's cursor or changes its state, turns the direction of text, or cannot be encoded; line ends and tabs stay
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain_text(text: str) -> str:
    r"""A text without control characters: each as the escape that Python and JSON read.

    >>> plain_text("\x1b[2J")
    '\\u001b[2J'
    """
    return _UNPRINTABLE.sub(_escaped, text)


def one_line(text: str) -> str:
    """A name made plain, line ends and tabs too, as :func:`plain_text` does.

    It could pretend to be lines of a report.
    """
    return re.sub(r"[\n\t]", _escaped, plain_text(text))


def message_of(error: BaseException) -> str:
    """The message of an exception whose class may be a user's own: its ``__str__`` may raise."""
    try:
        return str(error)
    except Exception as other:  # noqa: BLE001 - whatever its __str__ raises
        return f"(its message cannot be read: {type(other).__name__})"


def _escaped(found: "re.Match[str]") -> str:
    return f"\\u{ord(found.group()):04x}"


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> Optional[str]:
    """The name most like one that is not known; None where none is near.

    Args:
        name: the one that is not known.
        known: those that are.
        likeness: twice the letters in common, of the letters of both.
    """
    import difflib

    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower()[:QUOTED], lower, 1, likeness)
    return lower[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What a message says of the nearest name; '' where none is near.

    >>> did_you_mean("chekc", ["check", "compare"])
    "; did you mean 'check'?"
    >>> did_you_mean("xyz", ["check"])
    ''
    """
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"


class ParalignError(Exception):
    """Something that the user can act on.

    Args:
        what: the fault and its cause, one sentence.
        where: the file, tensor, function or setting concerned.
        hint: what to do about it; names the valid choices where there are any.
    """

    #: characters of each part at most; None: as many as there are
    longest: ClassVar[Optional[int]] = _LONGEST

    def __init__(self, what: str, where: Optional[str] = None, hint: Optional[str] = None) -> None:
        self.what, self.where, self.hint = self._bounded(what), where and self._bounded(where), hint and self._bounded(hint)
        super().__init__(self.what)

    def _bounded(self, text: str) -> str:
        return text if self.longest is None else shortened(text, self.longest)

    def __str__(self) -> str:
        lines = [plain_text(self.what).replace("\n", "\n  ")]  # no line of a log or a name can pass for one of ours
        if self.where:
            lines.append(f"  where: {one_line(self.where)}")
        if self.hint:
            lines.append(f"  fix:   {plain_text(self.hint)}")
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
    folder = Path(str(path)).resolve().parent
    hint = f"check the free space and the permissions of this folder{rest}"
    if fault.errno == errno.ENOENT and not folder.is_dir():
        hint = f"make the folder {folder} first, or name another path{rest}"
    if fault.errno in (errno.EISDIR, errno.ENOTDIR):
        hint = f"name another path: a folder stands there, or a file in place of a folder{rest}"
    return WriteFailed(f"{what} cannot be written: {fault.strerror or fault}", where=str(path), hint=hint)


class CaptureFormatError(ParalignError):
    """A capture, shard or other file of ours is corrupt, truncated or of an unknown version."""


class TooLarge(CaptureFormatError):
    """A file asks for more memory, disk or time than a limit allows.

    Names the limit and what raises it.
    """


class UnsafeFile(ParalignError):
    """A file of others holds something other than arrays, scalars and containers.

    Nothing of it was run.
    """


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

    longest = None

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


class ForkedChild(BaseException):
    """This process is a child that the side's code has forked and that came back.

    It has to end, and to record nothing.

    No ``Exception``: nothing between here and the process's end may take it for a failure of the side.
    """
