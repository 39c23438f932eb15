"""Where the time of a check went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Optional


@dataclass
class PartTime:
    """Seconds of one part of a check, and how many of them paralign waited for a side."""

    seconds: float = 0.0
    waiting: float = 0.0


@dataclass
class JobTime:
    """How often a side did one task, in how many seconds, and seconds in which it computed."""

    count: int = 0
    seconds: float = 0.0
    busy: float = 0.0


@dataclass
class SideTime:
    """Where the time of one side went.

    ``starts`` processes were started; ``start`` seconds passed until they took a job (interpreter and paralign), and ``imports`` until
    the framework and the side's module were there. ``exchange``: between paralign and the side, beside the jobs. ``reused``: captures
    that were not recorded again.
    """

    starts: int = 0
    start: float = 0.0
    imports: float = 0.0
    exchange: float = 0.0
    reused: int = 0
    jobs: Dict[str, JobTime] = field(default_factory=dict)


@dataclass
class CheckTime:
    """Where the time of a check went: seconds in all, by part, and by side.

    ``confirmed``: seconds until the first faulty line of the forward pass was confirmed, None where none was.
    """

    seconds: float
    parts: Dict[str, PartTime] = field(default_factory=dict)
    sides: Dict[str, SideTime] = field(default_factory=dict)
    confirmed: Optional[float] = None
