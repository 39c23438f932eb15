"""How much a file of others may ask for, and how it is opened.

A refusal names the limit, and what raises it.

A reader that trusts a few bytes can be made to fill the memory or the disk. Every limit is far above what a real checkpoint
needs; whoever has one beyond it sets the environment variable that the refusal names.
"""

from __future__ import annotations

import errno
import io
import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, List, NamedTuple, Optional, Sequence, Type, Union

from paralign.errors import ParalignError, TooLarge, UsageError, nearest, quoted

#: numpy's own limit of axes (version 2; version 1 has 32)
MOST_AXES = 64
#: more elements than this have no index; numpy leaves zeros out when it counts
_MOST_ELEMENTS = 2**63 - 1
#: a file may unfold to so many times its size before :data:`UNFOLDED` is asked: tied and transposed tensors, packed zeros
FACTOR = 16
_FOLDER = "a folder"

#: names of a folder among which the nearest one is looked for: more are data sets, whose files nobody types
_NEIGHBOURS = 5_000


class Limit(NamedTuple):
    """A limit, the environment variable that raises it, and its unit."""

    variable: str
    default: int
    unit: str

    @property
    def value(self) -> int:
        """The limit that holds now.

        Raises:
            UsageError: the environment variable holds no whole number above 0.
        """
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default
        if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:  # noqa: PLR2004 - below 2**63
            raise UsageError(
                f"{self.variable} is {quoted(text)}, no whole number above 0",
                hint=f"unset it, or set a number of {self.unit}, below 10**18",
            )
        return int(text)

    def check(self, amount: int, what: str, where: str, kind: Type[ParalignError] = TooLarge, *, least: int = 0) -> None:
        """Refuse an amount above the limit (or above ``least``, where that is more).

        Args:
            amount: how much is asked for.
            what: begins the message: what asks for it.
            where: the file or setting.
            kind: the exception's class.
            least: what is granted whatever the limit says.

        Raises:
            TooLarge, or ``kind``: names the amount, the limit and the variable that raises it.
        """
        allowed = max(self.value, least)
        if amount > allowed:
            told = amount if amount < 10**30 else "more than 10**30"
            raise kind(
                f"{what} {told} {self.unit}; at most {allowed} are allowed",
                where=where,
                hint=f"if you trust it, allow more in the environment: {self.variable}={told if amount < 10**18 else 10**18 - 1}",
            )


#: 256 MiB: what a laptop has to spare three times over, for a comparison holds about that
UNFOLDED = Limit("PARALIGN_MAX_UNFOLDED", 1 << 28, "bytes")
#: about 40 for each tensor of a PyTorch file: 50,000 tensors; reading takes some microseconds each
VALUES = Limit("PARALIGN_MAX_VALUES", 2_000_000, "values")
#: JSON of 100,000 tensors; read, it takes about 20 times as many bytes
HEADER = Limit("PARALIGN_MAX_HEADER", 1 << 24, "bytes")
#: the largest published checkpoints have about 92,000
TENSORS = Limit("PARALIGN_MAX_TENSORS", 100_000, "tensors")
#: a path of 64 modules with names of 64 characters
NAME = Limit("PARALIGN_MAX_NAME", 1 << 12, "characters")


def open_regular(path: Union[str, Path]) -> BinaryIO:
    """Open a file for reading, if it is one on a disk.

    Whatever is none is refused, because it may never end, or never begin.

    Raises:
        UsageError: it is a pipe, a device, a socket or a folder, or it cannot be opened.
    """
    try:
        # without O_NONBLOCK the opening of a pipe waits for its writer
        descriptor = os.open(str(path), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as fault:
        raise unreadable(path, fault) from fault
    kind = _kind(os.fstat(descriptor).st_mode)
    if kind is not None:
        os.close(descriptor)
        if kind == _FOLDER:
            raise unreadable(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
        raise UsageError(f"the file is {kind}, not a file on a disk", where=shown(path), hint="copy what it gives to a file, and name that")
    return io.BufferedReader(io.FileIO(descriptor, "rb"))


def _kind(mode: int) -> Optional[str]:
    """What a path leads to, unless it is a file."""
    if stat.S_ISREG(mode):
        return None
    for test, name in ((stat.S_ISFIFO, "a pipe"), (stat.S_ISDIR, _FOLDER), (stat.S_ISSOCK, "a socket")):
        if test(mode):
            return name
    return "a device"


def checked_path(path: Union[str, Path]) -> Path:
    """A path that the system can look up; what is not there passes.

    Raises:
        UsageError: it is too long, holds a NUL, leads in a circle, or may not be looked at.
    """
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as fault:
        raise unreadable(path, fault) from fault
    return Path(path)


def unreadable(path: Union[str, Path], fault: Exception) -> UsageError:
    """The error for a path that the system refuses."""
    cause = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
    told = near(path) if isinstance(fault, FileNotFoundError) else ""
    return UsageError(f"the file cannot be read: {cause}{told}", where=shown(path), hint="check the path and the permissions")


def near(path: Union[str, Path]) -> str:
    """What a message says of the path most like one that is not there.

    '' where it is there, or none is near.

    Every part that is not there is put right by its neighbours, from the first one on: ``exmaples/mobilnet`` by ``examples/mobilenet``.
    """
    wanted, found = Path(path), Path()
    changed = False
    for part in wanted.parts:
        if part in ("..", wanted.anchor) or os.path.lexists(str(found / part)):
            found = found / part
            continue
        other = nearest(part, _names(found))
        if other is None:
            return ""
        found, changed = found / other, True
    return f"; did you mean {quoted(str(found))}?" if changed else ""


def _names(folder: Path) -> List[str]:
    """What lies in a folder; nothing of one that cannot be read."""
    try:
        with os.scandir(str(folder)) as entries:
            return [entry.name for entry, _ in zip(entries, range(_NEIGHBOURS)) if not entry.name.startswith(".")]
    except (OSError, ValueError):
        return []


def shown(path: Union[str, Path]) -> str:
    """A path in a message: whole, unless it is longer than any path can be."""
    text = str(path)
    return text if len(text) <= NAME.default else quoted(text)


def shape_fault(shape: Any) -> Optional[str]:
    """Why something can be no shape.

    None where it is a sequence of lengths that numpy can hold.
    """
    if not isinstance(shape, (tuple, list)) or not all(type(length) is int and length >= 0 for length in shape):
        return f"its shape {quoted(shape)} is no list of whole numbers from 0"
    return axes_fault(shape)


def axes_fault(shape: Sequence[int]) -> Optional[str]:
    """Why whole numbers from 0 are too many or too large for a shape; None where they are not."""
    many = len(shape) > MOST_AXES  # asked first: the product of very many lengths takes hours
    if many or math.prod(length for length in shape if length) > _MOST_ELEMENTS:
        return f"impossible shape {quoted(tuple(shape))}"
    return None


def is_text(value: str) -> bool:
    """Whether a text can be written down.

    Halves of surrogate pairs, which JSON and pickles can hold, cannot.

    >>> is_text("a"), is_text(chr(0xD800))
    (True, False)
    """
    if value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
