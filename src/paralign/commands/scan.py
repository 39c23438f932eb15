"""``paralign scan``: every call of a framework, and what it becomes in Paddle."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paralign.commands.grammar import quiet
from paralign.commands.output import write_new
from paralign.commands.under_way import Progress
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.port.scan.inventory import Inventory

#: what ``--fail-on`` takes beside the statuses of calls
_UNREAD = "unread"

_CHOICES = ("silent", "conditional", "missing", "arguments", "unknown", _UNREAD)

EPILOG = (
    "exit codes: 0 nothing that --fail-on names · 1 something that it names · 2 wrong usage · 3 the interpreter does not answer, or a file "
    "cannot be written · 4 no call was found"
)


def add_commands(commands: Any) -> None:
    """Add ``scan``."""
    scan = commands.add_parser(
        "scan",
        help="list every call of PyTorch and what it becomes in Paddle",
        epilog=EPILOG,
        description="Read Python files, notebooks and folders, import and run nothing, and say of every call of torch, torchvision and "
        "torchaudio whether Paddle has it under the same name, under another, with other arguments, with silently different results, or "
        "not at all. Calls of Paddle are checked for defaults that are not PyTorch's.",
    )
    scan.add_argument("paths", nargs="+", metavar="PATH")
    scan.add_argument("--python", metavar="INTERPRETER", help="ask this interpreter's Paddle (default: a stored table of one version)")
    form = scan.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print everything as JSON")
    form.add_argument("--markdown", action="store_true", help="print a page of tables")
    form.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0, for code hosts and editors")
    form.add_argument("--issue", action="store_true", help="print the text of an issue for each call that Paddle lacks")
    scan.add_argument("--torch", metavar="INTERPRETER", help="with --issue: run the programs there (default: here, if it has PyTorch)")
    scan.add_argument("--out", metavar="FILE", help="write there instead; nothing is replaced")
    scan.add_argument("--fail-on", metavar="LIST", default="", help=f"exit with 1 where a call is one of these: {','.join(_CHOICES)}")
    scan.add_argument("-v", "--verbose", action="store_true", help="list every call")
    quiet(scan)
    scan.set_defaults(run=_scan)


def _scan(options: argparse.Namespace) -> int:
    from paralign.port.scan.scanning import scan

    chosen = _chosen(options.fail_on)
    _check_torch(options)
    with Progress(quiet=options.quiet) as progress:
        inventory = scan(options.paths, options.python, progress=progress.part)
    text = _rendered(inventory, options)
    if text:
        write_new(text, options.out)
    if not inventory.rows:
        print(say("no call of a framework was found"), file=sys.stderr)
        return 1 if _UNREAD in chosen and inventory.unread else 4
    return int(_fails(inventory, chosen))


def _chosen(text: str) -> list[str]:
    from paralign.errors import UsageError, did_you_mean, quoted

    chosen = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [part for part in chosen if part not in _CHOICES]
    if wrong:
        raise UsageError(
            f"--fail-on does not know {quoted(wrong[0])}{did_you_mean(wrong[0], _CHOICES)}", hint=f"it takes {', '.join(_CHOICES)}"
        )
    return chosen


def _fails(inventory: Inventory, chosen: list[str]) -> bool:
    from paralign.port.scan.inventory import Status
    from paralign.port.scan.scanning import counted

    statuses = [Status(part) for part in chosen if part != _UNREAD]
    found = counted(inventory, statuses)
    unread = len(inventory.unread) if _UNREAD in chosen else 0
    if found or unread:
        parts = [say("{count} calls", count=found)] if found else []
        parts += [say("{count} files", count=unread)] if unread else []
        print(f"--fail-on {','.join(chosen)}: {say(' and ').join(parts)}", file=sys.stderr)
    return bool(found or unread)


def _check_torch(options: argparse.Namespace) -> None:
    from paralign.errors import UsageError

    if options.torch is not None and not options.issue:
        raise UsageError("--torch belongs to --issue, which is not given", hint="add --issue, or leave out --torch")


def _rendered(inventory: Inventory, options: argparse.Namespace) -> str:
    from paralign.report import inventories

    if options.json:
        return inventories.as_json(inventory) + "\n"
    if options.markdown:
        return inventories.markdown(inventory)
    if options.sarif:
        return inventories.sarif(inventory) + "\n"
    if options.issue:
        return _issues(inventory, options)
    if options.quiet:
        return inventories.summary(inventory) + "\n"
    return "\n".join(inventories.terminal(inventory, full=options.verbose)) + "\n"


def _issues(inventory: Inventory, options: argparse.Namespace) -> str:
    """The texts of issues; empty where Paddle lacks nothing, which is said."""
    from paralign.port.scan import requesting
    from paralign.report.issues import issues

    with Progress(quiet=options.quiet) as progress:
        progress.step("running minimal programs")
        requests = requesting.of_inventory(inventory, options.torch)
    if not requests and inventory.rows:
        print(say("Paddle {version} lacks none of these calls: there is no issue to file", version=inventory.paddle), file=sys.stderr)
    return issues(requests)
