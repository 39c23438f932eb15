"""``paralign sweep``: a table of ports checked, one report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.commands.codes import CODES
from paralign.commands.grammar import above_zero, quiet

if TYPE_CHECKING:
    import argparse
    from typing import Any

#: as of paralign.sweeping.engine, which is not imported to parse a command
ENGINES = ("local", "ray")

EPILOG = (
    "exit codes, of the worst port: 0 aligned · 1 diverged · 2 wrong usage · 3 a port could not be checked, or a result not be kept · "
    "4 nothing could be concluded"
)


def add_commands(commands: Any) -> None:
    """Add ``sweep``."""
    sweep = commands.add_parser(
        "sweep",
        help="check a table of ports, one report",
        epilog=EPILOG,
        description="Check every port of a table, some at a time, each in processes of its own. A port that fails stops no other. "
        "A sweep that was cut short goes on where it was: a port is checked again only if it failed or something that its result "
        "depended on has changed.",
    )
    sweep.add_argument("table", metavar="PORTS.toml", help="a [[port]] for each project: project, name, stages, timeout, memory")
    sweep.add_argument("--jobs", type=above_zero, metavar="N", help="ports at a time (default: the table's `jobs`, else 1)")
    sweep.add_argument(
        "--out", metavar="DIR", help="where results go: a folder, or a URL such as s3://bucket/sweep (default: the table's `out`)"
    )
    sweep.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="local: this process starts the checks; ray: they are tasks of Ray, here or on the cluster at RAY_ADDRESS",
    )
    sweep.add_argument("--fresh", action="store_true", help="check ports again that have a result which still holds")
    form = sweep.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the summary as JSON")
    form.add_argument("--junit", action="store_true", help="print JUnit XML, a suite for each port")
    quiet(sweep)
    sweep.set_defaults(run=_sweep)


def _sweep(options: argparse.Namespace) -> int:
    from dataclasses import replace
    from pathlib import Path

    from paralign.commands.under_way import Progress
    from paralign.sweeping import read, sweep
    from paralign.sweeping.engine import as_json, verdict_of
    from paralign.sweeping.swept import junit

    table = read(Path(options.table))
    if options.out is not None:
        table = replace(table, out=options.out if "://" in options.out else str(Path(options.out).absolute()))
    with Progress(quiet=options.quiet) as progress:
        outcomes = sweep(table, jobs=options.jobs, fresh=options.fresh, engine=options.engine, progress=progress.part)
    if options.json:
        print(as_json(outcomes))
    elif options.junit:
        print(junit(outcomes), end="")
    else:
        _show(outcomes, table.out, alone=options.quiet)
    return CODES[verdict_of(outcomes)]


def _show(outcomes: Any, out: str, *, alone: bool) -> None:
    from rich.text import Text

    from paralign.report.console import console
    from paralign.report.language import say
    from paralign.report.text import STYLE
    from paralign.sweeping.engine import verdict_of
    from paralign.sweeping.swept import table

    shown, verdict = console(), verdict_of(outcomes)
    if not alone:
        shown.print(table(outcomes))
    shown.print(Text.assemble(say("verdict: "), (say(verdict), STYLE[verdict])))
    if not alone:
        shown.print(f"{say('report: ')}{out}", style="dim", soft_wrap=True, highlight=False, markup=False)
