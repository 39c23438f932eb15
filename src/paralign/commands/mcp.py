"""``paralign mcp``: the tools for coding agents, over the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.commands.grammar import above_zero

if TYPE_CHECKING:
    import argparse
    from typing import Any

EPILOG = "exit codes: 0 the client has ended · 2 wrong usage, or the package mcp is not installed"


def add_commands(commands: Any) -> None:
    """Add ``mcp``."""
    mcp = commands.add_parser(
        "mcp",
        help="serve a coding agent: scan, convert, check, locate, explain, repair, verify",
        epilog=EPILOG,
        description="Serve the Model Context Protocol on standard input and output. All paths that an agent names lie in ROOT; projects "
        "in it are run with your rights. Needs the extra `mcp`.",
    )
    mcp.add_argument("root", nargs="?", default=".", metavar="ROOT", help="folder that all paths have to lie in (here, if left out)")
    mcp.add_argument("--seconds", type=above_zero, default=600, metavar="N", help="time that one call may take (default: 600)")
    mcp.set_defaults(run=_mcp)


def _mcp(options: argparse.Namespace) -> int:
    from paralign.agents.server import available, serve
    from paralign.agents.tools import Tools

    available()
    serve(Tools(options.root, float(options.seconds)))
    return 0
