"""``paralign clean-copy``: the finished port without what checked it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.progress.cleaning import CleanCopy

EPILOG = (
    "exit codes: 0 shown, or written · 1 a copied file needs one that is left out: nothing is written · 2 wrong usage · 3 a file failed · "
    "4 nothing is left to copy"
)

#: files and folders that are listed of each kind
SHOWN = 20


def add_commands(commands: Any) -> None:
    """Add ``clean-copy``."""
    copy = commands.add_parser(
        "clean-copy",
        help="copy a finished port without check code, reference and results",
        epilog=EPILOG,
        description="Show what a clean copy of a finished port would hold; --write writes it. Left out are the project file, the sides' "
        "modules, files that import reprod_log, the reference, results, caches. The original is never touched, nothing is overwritten.",
    )
    copy.add_argument("source", metavar="SRC", help="folder of paralign.toml, whose candidate's folder is copied; or the port's own folder")
    copy.add_argument("destination", metavar="DST", help="a new folder")
    copy.add_argument("--write", action="store_true", help="write the copy (default: show what it would hold)")
    copy.add_argument("--keep", action="append", default=[], metavar="PATTERN", help="copy this path of the port all the same")
    copy.add_argument("--leave-out", action="append", default=[], metavar="PATTERN", help="leave out this path of the port too")
    copy.add_argument("--all", action="store_true", help="list every file")
    copy.set_defaults(run=_copy)


def _copy(options: argparse.Namespace) -> int:
    from paralign.progress.cleaning import place_for, plan, write

    found = plan(options.source, keep=options.keep, leave_out=options.leave_out)
    print("\n".join(_told(found, None if options.all else SHOWN)))
    if found.breaking:
        print(say("nothing was written: the copy would not run"))
        return 1
    if not found.files:
        print(say("nothing is left to copy"))
        return 4
    place_for(found, options.destination)
    if not options.write:
        print(say("nothing was written: --write writes it"))
        return 0
    size = write(found, options.destination)
    print(say("written: {count} files, {size} MB", count=len(found.files), size=f"{size / 1e6:.1f}"))
    return 0


def _told(found: CleanCopy, most: int | None) -> list[str]:
    """What is copied, what is left out and why, what is wrong with it."""
    from paralign.errors import one_line

    lines = [say("copied of {root}: {count} files", root=one_line(str(found.root)), count=len(found.files))]
    lines += _some([f"  {one_line(str(path))}" for path in found.files], most)
    if found.left:
        lines.append(say("left out:"))
    lines += _some([f"  {one_line(str(each.path))}: {say(each.reason.value)}" for each in found.left], most)
    lines += [f"{say('note: ')}{say(note)}" for note in found.notes]
    for fault in found.faults:
        kind = say("would not run: ") if fault.breaks else say("note: ")
        lines.append(f"{kind}{one_line(str(fault.path))}:{fault.line} {say(one_line(fault.what))}")
    return lines


def _some(lines: list[str], most: int | None) -> list[str]:
    if most is None or len(lines) <= most:
        return lines
    return [*lines[:most], say("  … and {count} more (--all lists them)", count=len(lines) - most)]
