"""``paralign convert optimizer``: an optimizer's state for the other framework's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.commands.under_way import Progress
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse

EPILOG = "exit codes: 0 written · 1 written, but parameters got no state · 2 wrong usage · 3 a side or a file failed"

#: names that are listed of many
LISTED = 5


def add(what: Any) -> None:
    """Add it to ``paralign convert``."""
    parser = what.add_parser(
        "optimizer",
        help="an optimizer's state",
        epilog=EPILOG,
        description="Carry what an optimizer remembers (momenta, means of squares, numbers of steps) from a .pth of PyTorch to a .pdopt of "
        "Paddle or back, by the two optimizers of a project: SGD, Momentum, Adam, AdamW, NAdam, RAdam, Adamax, Adagrad, "
        "Adadelta, RMSprop, Rprop, Lamb. "
        "Nothing in the file is run.",
    )
    parser.add_argument("source", metavar="SRC", help="what optimizer.state_dict() was saved to, or a checkpoint that has it inside")
    parser.add_argument("destination", metavar="DST")
    parser.add_argument("--model", metavar="PROJECT", default=".", help="the folder of the paralign.toml whose sides build both optimizers")
    parser.add_argument("--within", metavar="KEY", help="keys under which the state lies in SRC (default: optimizer, if it is there)")
    parser.add_argument("--overwrite", action="store_true", help="replace a destination that is there")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from paralign.api import convert_optimizer
    from paralign.errors import one_line

    with Progress() as progress:
        found = convert_optimizer(
            options.source, options.destination, model=options.model, within=options.within, overwrite=options.overwrite, step=progress.step
        )
    one, other = found.optimizers
    print(say("{one} → {other}: {count} parameters, {slots}", one=one, other=other, count=found.parameters, slots=", ".join(found.slots)))
    for note in found.notes:
        print(f"{say('note: ')}{say(one_line(note))}")
    if found.left:
        print(say("left in the file: {names}", names=one_line(_some(found.left))))
    if found.missing:
        print(say("parameters without a state, as before their first update: {names}", names=one_line(_some(found.missing))))
    print(say("written: {path}", path=one_line(str(found.destination))))
    return 1 if found.missing else 0


def _some(names: list[str]) -> str:
    more = say(" and {count} more", count=len(names) - LISTED) if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
