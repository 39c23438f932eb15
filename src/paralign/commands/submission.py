"""``paralign logbook`` and ``paralign pack``: the alignment log, and the archive.

The archive is for submission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.commands.grammar import quiet
from paralign.commands.status import add_folder
from paralign.commands.under_way import Progress
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

PACK = (
    "exit codes: 0 written · 1 a checkpoint diverged · 2 wrong usage, or the archive is there already · 3 a side failed, or a file is "
    "damaged · 4 a checkpoint is open, stale or could not be concluded"
)


def add_commands(commands: Any) -> None:
    """Add both."""
    logbook = commands.add_parser(
        "logbook",
        help="the alignment log as a document, numbered as the guide",
        epilog="exit codes: 0 written · 2 wrong usage, or the file is there already · 3 a file is damaged",
        description="Write the alignment log of a port as Markdown, numbered 3.1 to 3.12 as the guide: verdict, command, files and "
        "findings of each step, from what checks left behind. Nothing is run.",
    )
    add_folder(logbook)
    logbook.add_argument("--out", metavar="FILE", help="a new file (default: standard output)")
    logbook.set_defaults(run=_logbook)

    pack = commands.add_parser(
        "pack",
        help="an archive with the arrays and logs of the checkpoints",
        epilog=PACK,
        description="Write one archive with the .npy files and logs of the checkpoints, the alignment log, and SHA-256 of every file. "
        "Refused where a checkpoint is missing, stale or diverged, or a file is not as the check wrote it; which, is said.",
    )
    add_folder(pack)
    pack.add_argument("--out", metavar="FILE", help="a new file (default: checkpoints.tar.gz in the project's folder)")
    quiet(pack)
    pack.set_defaults(run=_pack)


def _logbook(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.capture.bounds import checked_path
    from paralign.errors import UsageError
    from paralign.progress.logbook import logbook
    from paralign.progress.steps import status
    from paralign.report.artifacts import replace

    text = logbook(status(options.directory, out=options.result, without=options.without), options.lang)
    if not options.out:
        print(text, end="")
        return 0
    path = Path(options.out)
    if checked_path(path).exists():
        raise UsageError("the file is there already", where=str(path), hint="name another file; nothing is replaced")
    replace(path, text)
    print(path)
    return 0


def _pack(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.errors import one_line
    from paralign.progress.packing import plan, write
    from paralign.progress.steps import CODES, UNFINISHED, status

    with Progress(quiet=options.quiet) as progress:
        progress.step("looking at the checkpoints")
        found = status(options.directory, out=options.result, without=options.without)
        packing = plan(found)
    if packing.problems:
        for problem in [] if options.quiet else packing.problems:
            why = "" if problem.why == problem.state.value else f": {say(one_line(problem.why))}"
            state = say(problem.state.value)
            print(say("checkpoint {number} (step {step}) is {state}", number=problem.checkpoint, step=problem.step, state=state) + why)
        open_ones = say("nothing was written: {count} checkpoints are not ready", count=len(packing.problems))
        print(open_ones if options.quiet else say("nothing was written"))
        return CODES.get(packing.state, UNFINISHED)
    path = Path(options.out) if options.out else found.project.folder / "checkpoints.tar.gz"
    with Progress(quiet=options.quiet) as progress:
        progress.step("writing the archive")
        names = write(packing, found, path, options.lang)
    if not options.quiet:
        print("\n".join(["  " + one_line(name) for name in names]))
    print(f"{one_line(str(path))}: {say('{count} files', count=len(names))}")
    return 0
