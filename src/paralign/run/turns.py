"""One check of live objects at a time in this process.

All share its generators of random numbers, and often a framework's settings.

A check inside a check, called by a model that is being checked, belongs to the same turn. Another thread waits; it does not where the
thread that has the turn waits itself, because then it may wait for this one.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paralign.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: seconds that the thread which has the turn may stand still, waiting for another, before one that waits for it gives up
STUCK = 10.0

#: seconds between two looks at it
LOOK = 0.1

#: modules in whose functions a thread stands that waits for another
_WAITING = ("threading", "queue", "concurrent.futures._base", "concurrent.futures.thread")

_changed = threading.Condition()


class _Turn:
    """Whose turn it is, and how many checks deep."""

    owner: int | None = None
    depth: int = 0


def is_mine() -> bool:
    """Whether this thread has the turn."""
    return _Turn.owner == threading.get_ident()


@contextmanager
def turn() -> Iterator[None]:
    """Have the turn.

    Raises:
        UsageError: a thread has it that waits for another thread, and does not go on.
    """
    with _changed:
        _wait()
        _Turn.owner = threading.get_ident()
        _Turn.depth += 1
    try:
        yield
    finally:
        with _changed:
            _Turn.depth -= 1
            if not _Turn.depth:
                _Turn.owner = None
                _changed.notify_all()


def _wait() -> None:
    place: tuple[int, int] | None = None
    since = time.monotonic()
    while (owner := _Turn.owner) not in (None, threading.get_ident()):
        before, place = place, _waiting_place(owner)
        if place is None or place != before:
            since = time.monotonic()
        elif time.monotonic() - since > STUCK:
            name = next((t.name for t in threading.enumerate() if t.ident == owner), "unknown")
            raise UsageError(
                "another check runs in this process, and its thread waits for something: this check would wait for it for ever",
                where=f"thread {name}",
                hint="call check in the thread that runs the model, or after the other check has ended",
            )
        _changed.wait(LOOK)


def _waiting_place(thread: int | None) -> tuple[int, int] | None:
    """Where a thread stands that waits for another; None for one that is at work."""
    frame = sys._current_frames().get(thread or 0)  # noqa: SLF001 - Python documents it, under this name
    if frame is None or frame.f_globals.get("__name__") not in _WAITING:
        return None
    return id(frame), frame.f_lasti
