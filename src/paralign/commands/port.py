"""``paralign port``: scan, convert, weights and check in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.commands import grammar
from paralign.commands.under_way import Progress
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse

    from paralign.api import Mended
    from paralign.port.drafts.drafting import Draft

EPILOG = (
    "exit codes: 0 aligned and nothing left by hand · 1 diverged, or places left by hand · 2 wrong usage · 3 a side or a file failed · "
    "4 nothing could be concluded"
)

#: seconds of the search for edits with --prove: what a port of one model takes anyway
_SECONDS = 60.0

#: functions that are converted again; each costs a check, some 15 s
_REFUSED = 8

#: places left by hand that are printed; all of them stand in left.md
_SHOWN = 20


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "port",
        help="convert a PyTorch source and check the port",
        epilog=EPILOG,
        description="Convert a source for Paddle, write a project around it, carry the weights over and run `paralign check` on weights "
        "and forward. The source is not changed. left.md lists what is left by hand.",
    )
    parser.add_argument("source", metavar="SRC", help="a Python file, a folder of them, or a package")
    parser.add_argument("destination", metavar="DST", help="a new or empty folder for the project")
    parser.add_argument("--model", required=True, metavar="MODULE:CLASS", help="what both sides build, such as net:Net(width=8)")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]SHAPE[:DTYPE[:HIGH]]",
        help="what the model is called with, such as 1x3x64x64 or ids=2x8:int64:48; may be repeated",
    )
    parser.add_argument("--python", metavar="INTERPRETER", help="the candidate's interpreter (default: the one that runs paralign)")
    parser.add_argument(
        "--prove", action="store_true", help="also repair what diverges, and hold every class and function against its original, in float64"
    )
    parser.add_argument(
        "--seconds", type=grammar.number, default=_SECONDS, metavar="N", help="how long edits of what diverges are tried (default: 60)"
    )
    parser.add_argument("--force", action="store_true", help="make the port in DST again; files that were edited since are kept, and named")
    parser.add_argument("--no-check", action="store_true", help="write the project and stop")
    grammar.verbose(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from paralign.errors import UsageError
    from paralign.port.drafts.drafting import draft

    if not options.input and not options.no_check:
        raise UsageError("no input is given", hint="--input 1x3x64x64, or --no-check and [inputs] in the project file")
    with Progress() as progress:
        progress.step("converting")
        made = draft(options.source, options.destination, options.model, options.input, options.python, force=options.force)
    _tell(made)
    if options.no_check:
        return int(made.ledger.left)
    made, done = _checked(made, options)
    code = _told(made, done, options)
    unproven = _proven(made) if options.prove else 0
    return code or unproven


def _tell(made: Draft) -> None:
    from paralign.errors import one_line
    from paralign.port.drafts.drafting import LEFT
    from paralign.port.edits.ledger import Fate

    counts = made.ledger.counts()
    print(", ".join(f"{number} {say(fate.value)}" for fate, number in counts.items()) + say(" (places of PyTorch)"))
    hand = [each for each in made.ledger.places if each.fate is Fate.BY_HAND]
    for each in hand[:_SHOWN]:
        print(one_line(f"{say('by hand')}: {each.path}:{each.line} {each.name}: {say(each.note)}"))
    if len(hand) > _SHOWN:
        print(say("and {count} more", count=len(hand) - _SHOWN))
    for name in made.kept:
        print(one_line(say("kept, for it was edited since: {path}", path=str(made.folder / name))))
    print(one_line(say("project: {folder} · all that is left: {file}", folder=str(made.folder), file=str(made.folder / LEFT))))


def _checked(made: Draft, options: argparse.Namespace) -> tuple[Draft, Mended]:
    """Check the port; with ``--prove`` what diverges is repaired.

    A function in which Paddle refuses an operator of several types is converted again.
    Edits are tried once no function is refused any more.
    """
    from paralign.api import repair_project
    from paralign.errors import one_line
    from paralign.model import ALIGNED
    from paralign.port.drafts.drafting import draft, originals
    from paralign.port.drafts.refused_types import Function, refusing

    refused: set[Function] = set()
    while True:
        with Progress() as progress:
            done = repair_project(made.folder, progress=progress.step, seconds=0.0)
        failures = [refusing(each.failure, made.home, originals(made)) for each in done.result.stages]
        found = {each for each in failures if each is not None} - refused
        if not found or made.kept or len(refused) >= _REFUSED:
            break
        refused |= found
        for each in sorted(found, key=str):
            said = "converted again: {path} {name}: Paddle refuses its operators of several types"
            print(one_line(say(said, path=each.path, name=each.name)))
        with Progress() as progress:
            progress.step("converting")
            made = draft(options.source, options.destination, options.model, options.input, options.python, force=True, refused=refused)
    if refused:
        _tell(made)
    if options.prove and options.seconds > 0 and done.result.verdict != ALIGNED:
        with Progress() as progress:
            done = repair_project(made.folder, progress=progress.step, seconds=options.seconds)
    return made, done


def _told(made: Draft, done: Mended, options: argparse.Namespace) -> int:
    """Print what the check came to, and write what is proven; the exit code."""
    from paralign.commands.codes import CODES
    from paralign.errors import one_line
    from paralign.model import ALIGNED
    from paralign.report.console import console
    from paralign.report.short_form import render

    console().print(render(done.result, made.folder.resolve(), verbose=options.verbose))
    print(one_line(f"{say('report: ')}{done.folder / 'report.html'}"))
    if not done.repaired.patch:
        return CODES[done.result.verdict] or int(made.ledger.left)
    written = _mended(made, done)
    if written:
        print(say("verdict with the patch: {verdict}", verdict=say(done.repaired.verdict)))
    return CODES[ALIGNED if written and done.repaired.verdict == ALIGNED else done.result.verdict] or int(made.ledger.left)


def _mended(made: Draft, done: Mended) -> bool:
    """Write what a repair has proven into the port; False where the patch is left to the user."""
    from paralign.api.mended_port import mend
    from paralign.errors import one_line
    from paralign.port.drafts.drafting import originals
    from paralign.repair.applying import PATCH

    mending = mend(made, done.repaired, originals(made))
    for name in mending.left:
        told = "repaired, but not written, for it was edited since: {path}; the patch: {patch}"
        print(one_line(say(told, path=str(made.folder / name), patch=str(done.folder / PATCH))))
    for place in mending.places:
        print(one_line(f"{say('repaired: ')}{place.path}:{place.line} {say(place.note)}"))
    for path in mending.copies:
        print(one_line(say("the file as it was: {path}", path=str(path))))
    return not mending.left


def _proven(made: Draft) -> int:
    """Print and keep what is known of each class; 1 where one that was reached is not proven."""
    from paralign.api import opened
    from paralign.errors import one_line, unwritten
    from paralign.port.drafts.converted import PROOF
    from paralign.port.drafts.drafting import originals, package_of
    from paralign.port.proofs import proving
    from paralign.port.proofs.line_facts import Fact

    with Progress() as progress, opened(made.folder) as context:
        progress.step("proving")
        proven = proving.prove(context, made.ledger, originals(made), package_of(made))
    try:
        (made.folder / PROOF).write_text(proving.as_json(proven), encoding="utf-8")
    except OSError as fault:
        raise unwritten(made.folder / PROOF, fault) from fault
    for line in proving.lines(proven):
        print(one_line(line))
    return int(any(each.fact is Fact.UNPROVEN for each in proven.proofs))
