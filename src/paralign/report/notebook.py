"""Results in a notebook, and a line of progress while a check runs.

HTML of bounded size in which nothing of a report is markup.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from contextvars import copy_context
from html import escape
from typing import TYPE_CHECKING, Any

from paralign.errors import one_line, shortened
from paralign.model import ALIGNED, DIVERGED, ERROR
from paralign.report.language import current, say
from paralign.report.text import figure
from paralign.report.told import told, where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from paralign.model import CheckResult
    from paralign.report.told import Cause, Fault, Place, StageTold

#: faults and causes that are shown of a stage, stages, and characters of a text: a cell that a reader takes in
FAULTS, CAUSES, STAGES, TEXT = 3, 3, 24, 300

#: colours that can be read on white and on black
_COLOURS = {ALIGNED: "#2e8b57", DIVERGED: "#d9480f", ERROR: "#d9480f"}
_OTHER = "#b08800"


def html(result: CheckResult) -> str:
    """A result as a notebook shows it: verdict, a row a stage, lines and causes.

    The latter of each stage that is not aligned.
    """
    report = told(result.to_dict(), language=current())
    parts = [f"<div><p><b>{_coloured(report.verdict)}</b> {_text(report.headline)}</p>"]
    head = "".join(f"<th style='text-align:left'>{escape(say(name))}</th>" for name in ("stage", "verdict", "error ÷ noise", "looked at"))
    rows = "".join(_row(stage) for stage in report.stages[:STAGES])
    parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
    if len(report.stages) > STAGES:
        parts.append(f"<p>{say('{count} more stages', count=len(report.stages) - STAGES)}</p>")
    parts += [_details(stage) for stage in report.stages[:STAGES] if stage.verdict != ALIGNED or stage.warnings]
    return "".join(parts) + "</div>"


def _text(text: str, most: int = TEXT) -> str:
    return escape(shortened(one_line(text), most))


def _coloured(verdict: str) -> str:
    return f"<span style='color:{_COLOURS.get(verdict, _OTHER)}'>{escape(say(verdict))}</span>"


def _row(stage: StageTold) -> str:
    cells = [_text(say(stage.name)), _coloured(stage.verdict), escape(figure(stage.ratio)), _text(", ".join(stage.coverage) or "-")]
    return "<tr>" + "".join(f"<td style='text-align:left'>{cell}</td>" for cell in cells) + "</tr>"


def _details(stage: StageTold) -> str:
    parts = [f"<p><b>{_text(say(stage.name))}</b>: {_text(stage.sentence)}</p>"]
    parts += [_fault(fault) for fault in stage.faults[:FAULTS]]
    parts += [_cause(cause) for cause in stage.causes[:CAUSES]]
    hidden = max(0, len(stage.faults) - FAULTS) + max(0, len(stage.causes) - CAUSES)
    if hidden:
        parts.append(f"<p>{say('{count} more in the report', count=hidden)}</p>")
    return "".join(parts)


def _fault(fault: Fault) -> str:
    lines = [_place(place) for place in (fault.reference, fault.candidate) if place is not None]
    return f"<ul>{''.join(lines)}<li>{_text(fault.evidence)}</li></ul>"


def _place(place: Place) -> str:
    return f"<li>{_text(say(place.side))}: {_text(where(place))} <code>{_text(place.code or place.operation)}</code></li>"


def _cause(cause: Cause) -> str:
    certainty = say("proven cause: ") if cause.proven else say("suspected cause: ")
    return f"<p>{escape(certainty)}{_text(cause.cause)}. <b>{_text(cause.fix)}</b></p>"


#: seconds between two looks of a reader at a clock that runs
TICK = 1.0


@contextmanager
def under_way(progress: Callable[[str], None] | None = None, steps: Sequence[str] = ()) -> Iterator[Callable[[str], None]]:
    """What is told of every step: ``progress`` where one is given.

    Else, in a notebook, a bar and a line of the cell, which is empty afterwards.

    Args:
        progress: the caller's own.
        steps: names of the steps that are known beforehand, in their order: the bar shows how many of them are done.
    """
    display = None if progress is not None else _display()
    if display is None:
        yield progress or (lambda _: None)
        return
    cell = _Cell(display, list(steps))
    try:
        yield cell.step
    finally:
        cell.close()


class _Cell:
    """The line of a cell: it is drawn anew for each step, and every second for its clock."""

    def __init__(self, display: Any, steps: list[str]) -> None:
        self._display, self._steps, self._began = display, steps, time.monotonic()
        self._what, self._done = "", 0
        self._line = display.display(display.HTML(""), display_id=True)
        self._drawing, self._over = threading.Lock(), threading.Event()
        speaking = copy_context()  # another thread would speak the default's language
        threading.Thread(target=speaking.run, args=(self._tick,), name="paralign-progress", daemon=True).start()

    def step(self, what: str) -> None:
        """A step begins; those before it are over."""
        self._what = what
        if what in self._steps:
            self._done = self._steps.index(what)
        self._draw()

    def close(self) -> None:
        """Leave an empty line."""
        with self._drawing:
            self._over.set()
            self._line.update(self._display.HTML(""))

    def _tick(self) -> None:
        while not self._over.wait(TICK):
            self._draw()

    def _draw(self) -> None:
        with self._drawing:
            if not self._over.is_set():
                self._line.update(self._display.HTML(self._html()))

    def _html(self) -> str:
        bar = f"<progress max='{len(self._steps)}' value='{self._done}'></progress> " if len(self._steps) > 1 else ""
        return f"{bar}<i>{_text(say(self._what))} … {say('{seconds} s', seconds=round(time.monotonic() - self._began))}</i>"


def _display() -> Any:
    """IPython's function that shows things, where a notebook's kernel runs this.

    None elsewhere, a terminal's IPython included.
    """
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    if running is None or not hasattr(running, "kernel"):
        return None
    from importlib import import_module

    return import_module("IPython.display")
