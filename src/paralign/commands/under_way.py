"""What a command is doing and how much time is left.

A line on a terminal's standard error, nothing in a pipe.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from paralign.report.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console, RenderableType
    from typing_extensions import Self

#: set to ``lines``: a line for every step wherever standard error goes, for logs of CI
VARIABLE = "PARALIGN_PROGRESS"

#: seconds before anything is shown: what is faster needs no bar
PATIENCE = 2.0

#: redrawings a second
RATE = 4.0


class Progress:
    """The line of one command.

    Args:
        quiet: show nothing.
        steps: names of the steps that are known beforehand, in their order.
        seconds: of steps that were done before, how long they took then.
    """

    def __init__(self, *, quiet: bool = False, steps: Sequence[str] = (), seconds: Mapping[str, float] | None = None) -> None:
        self._lines = os.environ.get(VARIABLE) == "lines" and not quiet
        self._live = not quiet and not self._lines and sys.stderr.isatty()
        self._clock = Clock(list(steps), dict(seconds or {}))
        self._what = ""
        self._console: Console | None = None
        self._told = -1

    def __enter__(self) -> Self:
        if self._live:
            from rich.live import Live

            from paralign.report.console import console

            self._console = console(errors=True)
            self._shown = Live(console=self._console, get_renderable=self._line, refresh_per_second=RATE, transient=True)
            self._shown.start()
        return self

    def __exit__(self, *fault: object) -> None:
        if self._live:
            self._shown.stop()

    def _line(self) -> RenderableType:
        from rich.spinner import Spinner
        from rich.text import Text

        if self._clock.elapsed < PATIENCE:
            return Text("")
        return Spinner("dots", Text(f"{say(self._what)}  {self._clock.told()}", no_wrap=True, overflow="ellipsis"))

    def step(self, what: str) -> None:
        """Tell of a step that begins."""
        self._clock.begin(what)
        self._what = what
        if self._lines:
            print(f"paralign: {say(what)} …", file=sys.stderr, flush=True)

    def part(self, done: int, total: int, what: str) -> None:
        """Tell of one of many like parts: tensors, files, bytes.

        Args:
            done: parts that are done.
            total: of so many.
            what: the part under way.
        """
        self._clock.share = done / total if total else 0.0
        self._what = what

    def written(self, done: int, total: int, file: str) -> None:
        """Tell of bytes that are written."""
        tenth = done * 10 // max(total, 1)
        if self._lines and tenth != self._told:
            share = say("writing {file}, {share} % of {size} MB", file=file, share=tenth * 10, size=f"{total / 1e6:.1f}")
            print(f"paralign: {share}", file=sys.stderr, flush=True)
        self._told = tenth
        rate = done / max(self._clock.elapsed, 1e-9)
        sizes = [f"{each / 1e6:.0f}" for each in (done, total, rate)]
        self.part(done, total, say("{file}: {done} of {total} MB, {rate} MB/s", file=file, done=sizes[0], total=sizes[1], rate=sizes[2]))


class Clock:
    """How much time is left, from how long steps took before, or from the share that is done.

    Args:
        steps: that are known beforehand.
        seconds: of each, as far as it is known.
    """

    def __init__(self, steps: list[str], seconds: dict[str, float]) -> None:
        self.share, self._current = 0.0, ""
        self._left, self._seconds = steps, seconds
        self._start = self._since = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._start

    def begin(self, step: str) -> None:
        """A step begins; those before it are over."""
        now = time.monotonic()
        self._seconds[self._current] = now - self._since
        self._since, self._current = now, step
        if step in self._left:
            del self._left[: self._left.index(step)]

    def left(self) -> float | None:
        """Seconds that are left; None where nothing tells."""
        if self.share > 0:
            return self.elapsed * (1 - self.share) / self.share
        known = [self._seconds[step] for step in self._left if step in self._seconds]
        usual = [seconds for step, seconds in self._seconds.items() if step]  # of a step that was never done: as long as others
        if not self._left or not usual:
            return None
        missing = len(self._left) - len(known)
        return max(sum(known) + missing * sum(usual) / len(usual) - (time.monotonic() - self._since), 0.0)

    def told(self) -> str:
        """The time so far, and what is left of it."""
        left = self.left()
        return spelt(self.elapsed) + ("" if left is None else say(", about {time} left", time=spelt(left)))


def spelt(seconds: float) -> str:
    """A time as people say it.

    >>> spelt(8.2), spelt(75), spelt(4000)
    ('8 s', '1 min 15 s', '1 h 7 min')
    """
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 - a minute
        return say("{seconds} s", seconds=whole)
    if whole < 3600:  # noqa: PLR2004 - an hour
        return say("{minutes} min {seconds} s", minutes=whole // 60, seconds=whole % 60)
    return say("{hours} h {minutes} min", hours=whole // 3600, minutes=round(whole % 3600 / 60))
