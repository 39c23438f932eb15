"""``paralign gradient``: the gradient of one tensor, module or line on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.commands.codes import CODES
from paralign.commands.grammar import quiet

if TYPE_CHECKING:
    import argparse

EPILOG = "exit codes: 0 equal · 1 different · 2 wrong usage, or nothing of that name · 3 a side failed · 4 nothing could be compared"


def add_commands(commands: Any) -> None:
    """Add ``gradient``."""
    command = commands.add_parser(
        "gradient",
        help="show the gradient of a tensor, a module or a line on both sides",
        epilog=EPILOG,
        description="Run one forward and backward pass of both sides from equal weights and inputs; show what the gradients of the named "
        "values are on both, and where the backward passes part. Nothing is written.",
    )
    command.add_argument("directory", metavar="DIR", help="folder of paralign.toml")
    command.add_argument("what", metavar="WHAT", help="a parameter, a module, file.py:LINE, outputs or loss; of either side")
    command.add_argument(
        "--mode", choices=["eval", "train"], default="eval", help="mode of the layers; in train mode dropout is off (default: eval)"
    )
    command.add_argument("--json", action="store_true", help="print the report as JSON")
    quiet(command)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from paralign.api import gradient_of
    from paralign.commands.under_way import Progress
    from paralign.report.console import console
    from paralign.report.short_form import render
    from paralign.report.text import conclusion

    with Progress(quiet=options.quiet) as progress:
        result = gradient_of(options.directory, options.what, options.mode, progress.step)
    if options.json:
        print(result.to_json())
    else:
        console().print(conclusion(result) if options.quiet else render(result, None, verbose=True))
    return CODES[result.verdict]
