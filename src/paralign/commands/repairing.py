"""``paralign repair``: edits of what diverges, tried on a copy, shown as a patch."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING

from paralign.commands.grammar import number, quiet, verbose
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.api import Mended

EPILOG = (
    "exit codes: 0 aligned, or so with the patch · 1 diverged, not all of it repaired · 2 wrong usage · 3 a side or a file failed · "
    "4 nothing could be concluded"
)

#: seconds of the time box: two minutes are what somebody waits for an answer
SECONDS = 120.0

#: of a check that was not asked for a repair, and the variable that says otherwise
SHORT, VARIABLE = 20.0, "PARALIGN_REPAIR_SECONDS"


def short_box() -> float:
    """Seconds in which a check tries edits, where nothing else says how long.

    Raises:
        UsageError: the variable holds no number of seconds.
    """
    from paralign.errors import UsageError

    text = os.environ.get(VARIABLE)
    try:
        seconds = SHORT if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise UsageError(f"PARALIGN_REPAIR_SECONDS must be a number of seconds, 0 or more, not {text!r}")
    return seconds


def add_commands(commands: Any) -> None:
    """Add ``repair``."""
    repair = commands.add_parser(
        "repair",
        help="try edits of what diverges, and show the patch that was proven",
        epilog=EPILOG,
        description="Check a project, and edit one statement at a time of a copy of the candidate until what diverges is aligned. "
        "The patch is shown and written to repair.patch in the output folder; the files themselves change only with --apply.",
    )
    repair.add_argument("arguments", nargs="*", metavar="[DIR] [STAGE …]", help="as of `paralign check`")
    repair.add_argument("--out", metavar="DIR", help="output folder (default: the project file's, `result`)")
    repair.add_argument("--seconds", type=number, default=SECONDS, metavar="N", help="how long edits are tried (default: 120)")
    repair.add_argument("--apply", action="store_true", help="write the patch into the files; each is kept as it was beside itself")
    repair.add_argument("--fresh", action="store_true", help="run the reference again although nothing of it has changed")
    repair.add_argument("--json", action="store_true", help="print report.json instead of the patch")
    quiet(repair)
    verbose(repair)
    repair.set_defaults(run=_repair)


def _repair(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.api import durations, repair_project
    from paralign.commands.codes import CODES
    from paralign.commands.folder_and_stages import split_arguments
    from paralign.commands.under_way import Progress
    from paralign.errors import UsageError, plain_text
    from paralign.model import ALIGNED
    from paralign.report.console import console
    from paralign.report.short_form import render

    if not options.seconds > 0:
        raise UsageError(f"--seconds must be above 0, not {options.seconds:g}")
    directory, stages = split_arguments(options.arguments)
    known = {name: seconds for name, seconds in durations(directory, stages, options.out).items() if seconds is not None}
    with Progress(quiet=options.quiet, seconds=known) as progress:
        done = repair_project(directory, stages, out=options.out, fresh=options.fresh, progress=progress.step, seconds=options.seconds)
    if options.json:
        print(done.result.to_json())
    else:
        if options.verbose:
            console().print(render(done.result, Path(directory).resolve(), verbose=True))
        lines = _told(done)
        print(plain_text("\n".join(lines[-1:] if options.quiet else lines)))
    if options.apply and done.repaired.patch:
        from paralign.repair.applying import apply

        for path in apply(done.repaired):
            told = plain_text(say("written; the file as it was: {path}", path=path))
            print(told, file=sys.stderr if options.json else sys.stdout)
    return CODES[ALIGNED] if done.repaired.verdict == ALIGNED else CODES[done.result.verdict]


def _told(done: Mended) -> list[str]:
    """What to print: each cause with its patch, then what is left."""
    from paralign.model import ALIGNED
    from paralign.repair.applying import PATCH
    from paralign.report.findings import patched

    repaired = done.repaired
    lines = [line for stage, finding in repaired.findings for line in (*patched(stage, finding), "")]
    if repaired.patch:
        lines.append(say("patch: {path}", path=done.folder / PATCH))
    for stage, count in repaired.tried.items():
        lines.append(say("{stage}: no edit of one statement was proven; {count} were tried", stage=stage, count=count))
    if repaired.out_of_time:
        lines.append(say("the time was used up: --seconds gives more"))
    if done.result.verdict == ALIGNED:
        lines.append(say("nothing to repair"))
    lines.append(say("report: ") + str(done.folder / "report.html"))
    lines.append(say("verdict: ") + say(done.result.verdict))
    if repaired.findings:
        lines.append(say("verdict with the patch: {verdict}", verdict=say(repaired.verdict)))
    return lines
