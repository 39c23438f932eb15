"""What was found at fault: an operation or a region, and what trying it gave."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paralign.locate.formula.repair import Repair
    from paralign.locate.runs.dataflow import Operation
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.runs.slices import Slices
    from paralign.locate.suspects.propose import Trial


@dataclass(eq=False)
class Guilt:
    """An operation, or a region of several, at fault.

        ``error`` and ``noise`` are those of the result at the point; ``after`` is the error downstream once the reference's value was put
    there, None where that was not tried. ``seen`` says whether the outputs show the fault. ``repeats`` are further operations at the
        same line with the same fault. ``mended`` is the run with the reference's values wherever something was found, at ``replaced``.
    ``slices`` are the parts of what the reference makes on the way to the point, where several operations lead there.
        ``repair`` is a change of one operation that makes the result the reference's, where one was found. ``hidden`` says that what
    follows hardly uses the result, so that no run can show the fault. ``relation`` says how the result comes from the reference's.
    ``found_at`` is when it was found, in seconds of ``time.perf_counter``.
    """

    trial: Trial
    judgement: Judgement
    confirmed: bool
    error: float
    after: float | None = None
    seen: bool = True
    repeats: list[Operation] = field(default_factory=list)
    mended: Judgement | None = None
    replaced: set[int] = field(default_factory=set)
    slices: Slices | None = None
    repair: Repair | None = None
    hidden: bool = False
    relation: str = ""
    found_at: float = field(default_factory=time.perf_counter)
