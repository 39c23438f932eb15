"""``paralign convert code``: a first draft of the port, and what is left by hand.

The latter is a ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.commands.under_way import Progress

if TYPE_CHECKING:
    import argparse

EPILOG = (
    "exit codes: 0 everything converted · 1 written, but places are left by hand or files refused · 2 wrong usage · 3 the interpreter does "
    "not answer, or a file cannot be written"
)


def add(what: Any) -> None:
    """Add it to ``paralign convert``."""
    parser = what.add_parser(
        "code",
        help="PyTorch source to Paddle source",
        epilog=EPILOG,
        description="Rewrite a file or a folder of PyTorch source for Paddle. Only calls that were executed on both sides are converted; "
        "every other one raises where it stands and says why. ledger.json tells of every place. Nothing is imported or run.",
    )
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("destination", metavar="DST")
    parser.add_argument("--python", metavar="INTERPRETER", help="ask this interpreter's Paddle (default: a stored table of one version)")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    parser.add_argument("--json", action="store_true", help="print the ledger as JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from paralign.errors import one_line
    from paralign.port.converted import convert_code

    with Progress() as progress:
        progress.step("converting")
        ledger = convert_code(options.source, options.destination, options.python, force=options.force)
    if options.json:
        print(ledger.to_json(), end="")
    else:
        for line in ledger.lines():
            print(one_line(line))
    return int(ledger.left)
