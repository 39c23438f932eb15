"""``paralign log show|compare|convert``: logs of trainings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from paralign.commands.grammar import number, quiet
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.training import Log, LogComparison

#: rows of a table that are shown at the beginning and at the end of a log
SHOWN = 10


def add_commands(commands: Any) -> None:
    """Add ``log`` and what it can do."""
    log = commands.add_parser(
        "log",
        help="read, compare and convert the logs of trainings",
        description="Read logs of trainings in the guides' two formats, PaddleClas's, reprod_log's, plain logging, JSON lines "
        "and TensorBoard's event files. Lines that cannot be read are reported by number.",
    )
    verbs = log.add_subparsers(dest="verb", required=True, metavar="VERB")
    show = verbs.add_parser("show", help="what a log holds")
    show.add_argument("files", nargs="+", metavar="FILE")
    show.set_defaults(run=_show)
    compare = verbs.add_parser("compare", help="where two trainings part, and how far apart they end")
    compare.add_argument("reference", metavar="REFERENCE")
    compare.add_argument("candidate", metavar="CANDIDATE")
    compare.add_argument("--figure", action="append", metavar="NAME", help="compare this figure (may be given again); default: all")
    compare.add_argument("--atol", type=number, help="difference that is allowed at every place")
    compare.add_argument("--rtol", type=number, default=0.0, help="the same, times the reference's value; with --atol")
    compare.add_argument("--margin", type=number, help="difference that is allowed between the last values")
    compare.add_argument("--json", action="store_true", help="print the result as JSON")
    quiet(compare)
    compare.set_defaults(run=_compare)
    checks = verbs.add_parser(
        "checks",
        help="what logs of differences say",
        epilog="exit codes: 0 all passed · 1 a check failed · 2 wrong usage · 3 a file is damaged · 4 a log compares nothing",
        description="Read logs of differences, such as forward_diff.log: of reprod_log in both of its formats, and of checks.",
    )
    checks.add_argument("files", nargs="+", metavar="FILE")
    quiet(checks)
    checks.set_defaults(run=_checks)
    convert = verbs.add_parser("convert", help="write a log in another form")
    convert.add_argument("file", metavar="FILE")
    convert.add_argument("--to", choices=["csv", "json", "jsonl"], default="csv", help="the form (default: csv)")
    convert.add_argument("--out", metavar="FILE", help="where to (default: standard output); a file that is there is not replaced")
    convert.set_defaults(run=_convert)


def _show(options: argparse.Namespace) -> int:
    from paralign.training import read_log

    logs = [read_log(name) for name in options.files]
    for log in logs:
        told = "{rows} rows, {damaged} damaged lines, {other} other lines"
        print(f"{log.path}: {say(told, rows=len(log.rows), damaged=len(log.damaged), other=log.other)}")
        print("".join(f"{line}\n" for line in _table(log)) or f"  {say('no line of it tells of a training')}\n", end="")
        for each in log.damaged:
            print(say("  line {line} is damaged: {why}", line=each.line, why=say(each.why)) + f": {each.text}")
    return 0 if any(log.rows for log in logs) else 4


def _table(log: Log) -> list[str]:
    from paralign.training.logs import columns

    # a figure that a line does not tell is no NaN, which would say that a training broke down
    rows = [
        {k: "-" if k in log.names and k not in line.values else _figure(v) for k, v in row.items()}
        for line, row in zip(log.rows, columns(log), strict=True)
    ]
    if not rows:
        return []
    names = list(rows[0])
    left_out = max(0, len(rows) - 2 * SHOWN)
    shown = rows if not left_out else rows[:SHOWN] + rows[-SHOWN:]
    widths = {name: max(len(name), *(len(row[name]) for row in shown)) for name in names}
    lines = ["  ".join(row[name].rjust(widths[name]) for name in names) for row in [{name: name for name in names}, *shown]]
    return lines[: SHOWN + 1] + ([say("… {count} more rows …", count=left_out)] if left_out else []) + lines[SHOWN + 1 :]


def _figure(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _checks(options: argparse.Namespace) -> int:
    from paralign.compat.reprod_log import read_diff_log
    from paralign.errors import one_line

    codes = []
    for name in options.files:
        log = read_diff_log(name)
        said = {True: "passed", False: "failed", None: log.verdict or "compares nothing"}[log.passed]
        codes.append({True: 0, False: 1, None: 4}[log.passed])
        if options.quiet:
            continue
        lines = say(
            "{said}, {count} lines, {failed} of them beyond their threshold", said=say(said), count=len(log.figures), failed=len(log.failed)
        )
        print(f"{one_line(name)}: {lines}")
        print(
            "\n".join(
                f"  {one_line(each.name)}: {say('{method} diff {value}', method=each.method, value=f'{each.value:.6g}')}"
                for each in log.failed
            ),
            end="\n" if log.failed else "",
        )
        print("".join(f"  paralign: {say(one_line(remark))}\n" for remark in log.remarks), end="")
        for line, text in log.unread:
            print(say("  line {line} is none of such a log: ", line=line) + one_line(text)[:80])
    if options.quiet:
        print(say("{count} of {every} logs passed", count=codes.count(0), every=len(codes)))
    return 1 if 1 in codes else max(codes)


def _compare(options: argparse.Namespace) -> int:
    from paralign.commands.codes import CODES
    from paralign.training import compare_logs, read_log

    logs = read_log(options.reference), read_log(options.candidate)
    result = compare_logs(*logs, names=options.figure, atol=options.atol, rtol=options.rtol, margin=options.margin)
    if options.json:
        import dataclasses
        import json

        print(json.dumps(dataclasses.asdict(result), indent=1))
    else:
        lines = _told(result)
        print("\n".join(lines[-1:] if options.quiet else lines))
    return CODES[result.verdict]


def _told(result: LogComparison) -> list[str]:
    lines = []
    for gap in result.gaps:
        apart = say(
            "at most {most} apart ({place}), {final} at the end",
            most=f"{gap.worst[0]:.6g}",
            place=_at(gap.worst[1]),
            final=f"{gap.final:+.6g}",
        )
        line = f"{gap.name} ({say(gap.kind.lower())}): {say('{count} places', count=gap.compared)}, {apart}"
        if gap.first is not None and gap.at_first is not None:
            one, other = (f"{value:.6g}" for value in gap.at_first)
            line += say("; first beyond the limit at {place}: {one} and {other}", place=_at(gap.first), one=one, other=other)
        lines.append(line)
    return [*lines, *(f"{say('note: ')}{say(note)}" for note in result.notes), f"{say('verdict: ')}{say(result.verdict)}"]


def _at(place: tuple[int, int]) -> str:
    """An epoch, and the batch of it where there is one."""
    epoch, batch = place
    return say("epoch {epoch}", epoch=epoch) if batch < 0 else say("epoch {epoch}, batch {batch}", epoch=epoch, batch=batch)


def _convert(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.errors import UsageError, unwritten
    from paralign.training import read_log
    from paralign.training.logs import FORMS

    log = read_log(options.file)
    for each in log.damaged:
        print(say("line {line} is damaged and left out: {why}", line=each.line, why=say(each.why)), file=sys.stderr)
    if not log.rows:
        why = "every line that tells of a training is damaged" if log.damaged else "no line of the log tells of a training"
        raise UsageError(why, where=options.file, hint="name a log that `paralign log show` finds rows in")
    text = FORMS[options.to](log)
    if not options.out:
        sys.stdout.write(text)
        return 0
    try:
        with Path(options.out).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError("the file is there already", where=options.out, hint="name another file; nothing is replaced") from error
    except OSError as error:
        raise unwritten(options.out, error) from error
    return 0
