"""Where the time of a check goes.

Each worker's jobs are measured; what paralign itself does is looked at every few milliseconds.

Looking at the stack needs no mark in the code that is looked at, and tells of a wait what it is for: a run that tries a suspect is part
of location, though the same function waits for it as for a pass.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.model import CheckTime, PartTime, SideTime

if TYPE_CHECKING:
    from types import FrameType

    from typing_extensions import Self

#: seconds between two looks: a part of one second is then known to about a tenth
INTERVAL = 0.01

START, PASSES, COMPARISONS, LOCATION, SEARCH, REPORTS, ELSE = (
    "start-up", "passes", "comparisons", "location", "search for places", "reports", "anything else",
)  # fmt: skip

#: the parts of a check, as they are shown
PARTS = (START, PASSES, COMPARISONS, LOCATION, SEARCH, REPORTS, ELSE)

_PACKAGE = f"{Path(__file__).parents[1]}/"

#: what a file of ours, or a folder, is part of; the innermost frame that one of them has decides
_FOLDERS = {
    "comparison": COMPARISONS,
    "locate": LOCATION,
    "weights": SEARCH,
    "stages/weights/assignment.py": SEARCH,
    "report": REPORTS,
    "progress": REPORTS,
}

#: functions: those that wait for a side, and what starting the sides consists of
_WAITING = frozenset({("run/recorder.py", "_at_once"), ("run/recorder.py", "record"), ("run/recorder.py", "interpreter")})
_STARTING = frozenset({("checking.py", "describe"), ("checking.py", "_recorder"), ("run/project.py", "read")})


class Watch:
    """Looks at what the thread that made it does, until it is left.

    >>> with Watch() as watch:
    ...     pass
    >>> sorted(watch.result({}).parts) == sorted(PARTS)
    True
    """

    def __init__(self) -> None:
        self._watched = threading.get_ident()
        self._parts = {name: PartTime() for name in PARTS}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._began = self._wall = 0.0

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self._ended.set()
        self._thread.join()
        self._wall = time.perf_counter() - self._began

    def _look(self) -> None:
        before = time.perf_counter()
        while not self._ended.wait(INTERVAL):
            frame = sys._current_frames().get(self._watched)  # noqa: SLF001 - Python's own way to another thread's stack
            now = time.perf_counter()
            if frame is not None:
                name, waits = part_of(frame)
                part = self._parts[name]
                part.seconds += now - before
                part.waiting += now - before if waits else 0.0
            before = now

    def result(self, sides: dict[str, SideTime], confirmed_at: float | None = None) -> CheckTime:
        """What was seen, beside what the sides' recorders measured.

        Args:
            sides: where the time of each went.
            confirmed_at: when the first faulty line was confirmed, in seconds of ``time.perf_counter``.
        """
        return CheckTime(self._wall, self._parts, sides, None if confirmed_at is None else confirmed_at - self._began)


def part_of(frame: FrameType | None) -> tuple[str, bool]:
    """Which part of a check a stack is in, and whether it waits for a side."""
    found, waits, starts = "", False, False
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            inside = file.removeprefix(_PACKAGE)
            function = inside, frame.f_code.co_name
            waits = waits or function in _WAITING
            starts = starts or function in _STARTING
            found = found or _FOLDERS.get(inside) or _FOLDERS.get(inside.partition("/")[0], "")
        frame = frame.f_back
    if starts and not found:
        return START, waits
    return found or (PASSES if waits else ELSE), waits
