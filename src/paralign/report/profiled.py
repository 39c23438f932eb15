"""Where the time of a check went, as two tables: by part, and by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from paralign.report.language import say

if TYPE_CHECKING:
    from paralign.model import CheckTime, SideTime

#: tasks of a side that are shown: those that took longest
SHOWN = 12


def tables(profile: CheckTime) -> Group:
    """The two tables, below a heading."""
    heading = Text(say("where the time went: {seconds} s", seconds=f"{profile.seconds:.1f}"), "bold")
    if profile.confirmed is not None:
        heading.append(say("; the first faulty line was confirmed after {seconds} s", seconds=f"{profile.confirmed:.1f}"))
    return Group(Text(""), heading, _parts(profile), Text(""), _sides(profile.sides))


def _parts(profile: CheckTime) -> Table:
    shown = _table((say("part"),), (say("seconds"), say("share"), say("waiting for a side")))
    for name, part in profile.parts.items():
        share = part.seconds / profile.seconds if profile.seconds else 0.0
        shown.add_row(say(name), f"{part.seconds:.2f}", f"{share:.0%}", f"{part.waiting:.2f}")
    return shown


def _sides(sides: dict[str, SideTime]) -> Table:
    """A line for each thing that a side did, both sides beside each other."""
    heads = [f"{say(side)}: {what}" for side in sides for what in (say("seconds"), say("times"))]
    shown = _table((say("on each side"),), tuple(heads))
    known = list(sides.values())

    def add(what: str, cells: list[tuple[str, str]]) -> None:
        shown.add_row(what, *(cell for both in cells for cell in both))

    add(say("interpreter and paralign"), [_cells(side.start, side.starts) for side in known])
    add(say("imports"), [_cells(side.imports, side.starts) for side in known])
    for task in _longest(known):
        jobs = [side.jobs.get(task) for side in known]
        add(task, [("-", "-") if job is None else _cells(job.seconds, job.count) for job in jobs])
    add(say("between paralign and the side"), [_cells(side.exchange, None) for side in known])
    add(say("reused captures"), [("-", str(side.reused)) for side in known])
    return shown


def _longest(sides: list[SideTime]) -> list[str]:
    seconds: dict[str, float] = {}
    for side in sides:
        for task, job in side.jobs.items():
            seconds[task] = max(seconds.get(task, 0.0), job.seconds)
    return sorted(seconds, key=lambda task: -seconds[task])[:SHOWN]


def _cells(seconds: float, count: int | None) -> tuple[str, str]:
    return f"{seconds:.2f}", "" if count is None else str(count)


def _table(left: tuple[str, ...], right: tuple[str, ...]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in left:
        shown.add_column(name, overflow="fold")
    for name in right:
        shown.add_column(name, justify="right", overflow="fold")
    return shown
