"""The command ``paralign``."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paralign import __version__
from paralign.commands import (
    completion,
    dataset,
    doctor,
    explain,
    gradient,
    grammar,
    guide,
    log,
    mcp,
    plot,
    port,
    rank_logs,
    repairing,
    report,
    scan,
    sweep,
    verify,
    watch,
    weights,
)
from paralign.commands.codes import CODES
from paralign.commands.folder_and_stages import split_arguments
from paralign.commands.grammar import Parser, add_language, asked_language, language, quiet, verbose
from paralign.errors import (
    CaptureFormatError,
    EnvironmentUnavailable,
    ParalignError,
    UnsafeFile,
    UnsupportedTensor,
    UsageError,
    WorkerFailed,
    WriteFailed,
    unwritten,
)
from paralign.report import translated_errors
from paralign.report.language import say, speaking
from paralign.report.streams import neutral_streams

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from paralign.model import CheckResult

#: what the system says where a file cannot be written: no space left, over the quota, over the limit of a file's size, read-only
DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})

#: exit code of a fault of paralign's own
SOFTWARE = 70

EPILOG = (
    "exit codes: 0 aligned · 1 diverged · 2 wrong usage · 3 a side or a file failed · 4 nothing could be concluded · "
    "70 a fault of paralign itself"
)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = Parser(
        prog="paralign", description="Port a deep-learning model to another framework and prove that it is the same model.", epilog=EPILOG
    )
    top.add_argument("--version", action="version", version=f"paralign {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    _add_init(commands)
    _add_check(commands)
    _add_compare(commands)
    _add_locate(commands)
    weights.add_commands(commands)
    repairing.add_commands(commands)
    log.add_commands(commands)
    rank_logs.add_commands(commands)
    doctor.add_commands(commands)
    watch.add_commands(commands)
    gradient.add_commands(commands)
    guide.add_commands(commands)
    explain.add_commands(commands)
    dataset.add_commands(commands)
    report.add_commands(commands)
    scan.add_commands(commands)
    port.add_commands(commands)
    verify.add_commands(commands)
    sweep.add_commands(commands)
    mcp.add_commands(commands)
    plot.add_commands(commands)
    completion.add_commands(commands, top)
    add_language(top)
    return top


def _add_init(commands: Any) -> None:
    """Add ``init``."""
    init = commands.add_parser(
        "init",
        help="write a project to start from",
        description="Write paralign.toml, reference.py and candidate.py: short, commented, runnable.",
    )
    init.add_argument("directory", metavar="DIR", help="folder to write into; files that are there are never overwritten")
    init.add_argument("--reference", metavar="DIR", help="the reference repository: its source is read, never run, and its names filled in")
    init.add_argument("--model", metavar="CLASS", default="", help="with --reference: the class of the model (default: the likeliest)")
    init.set_defaults(run=_init)


def _add_compare(commands: Any) -> None:
    """Add ``compare``."""
    compare = commands.add_parser(
        "compare",
        help="compare two captures or two .npy files",
        epilog=EPILOG,
        description="Compare what was recorded earlier: two captures (folders), or two files of arrays as reprod_log writes them. "
        "Nothing is run.",
    )
    compare.add_argument("reference", metavar="REFERENCE")
    compare.add_argument("candidate", metavar="CANDIDATE")
    compare.add_argument("--json", action="store_true", help="print the report as JSON")
    compare.add_argument("--ratio", type=grammar.number, help="greatest error ÷ noise that counts as aligned")
    compare.add_argument("--atol", type=grammar.number, help="absolute tolerance instead of error ÷ noise")
    compare.add_argument("--rtol", type=grammar.number, help="relative tolerance, with --atol")
    compare.add_argument("--log", metavar="FILE", help="write reprod_log's lines about every entry to a new file")
    compare.add_argument(
        "--diff-threshold", type=grammar.number, metavar="D", help="greatest mean difference that passes in --log (default: 1e-6)"
    )
    quiet(compare)
    verbose(compare)
    compare.set_defaults(run=_compare)


def _add_locate(commands: Any) -> None:
    """Add ``locate``."""
    locate = commands.add_parser(
        "locate",
        help="find where two recorded runs part, by single operations",
        epilog=EPILOG,
        description="Find the first diverging operations of two captures that `paralign check` recorded. Nothing is run: what only a run "
        "could confirm is said.",
    )
    locate.add_argument("reference", metavar="REFERENCE", help="the reference's capture of operations, or the output folder of a check")
    locate.add_argument("candidate", metavar="CANDIDATE", nargs="?", help="the candidate's capture; left out for an output folder")
    locate.add_argument("--json", action="store_true", help="print the report as JSON")
    quiet(locate)
    verbose(locate)
    locate.set_defaults(run=_locate)


def _add_check(commands: Any) -> None:
    """Add ``check``."""
    check = commands.add_parser(
        "check",
        help="check a port against its reference",
        epilog=EPILOG,
        description="Run both sides of a project, each in its own interpreter, compare them stage by stage, "
        "and say whether the port is the same model.",
    )
    check.add_argument(
        "arguments",
        nargs="*",
        metavar="[DIR] [STAGE …]",
        help="folder of paralign.toml (here, if left out), and stages: weights forward data metric loss optimizer backward init train "
        "infer distributed (those of the project file, if left out; without it all but optimizer, init, train and distributed)",
    )
    check.add_argument("--out", metavar="DIR", help="output folder (default: the project file's, `result`)")
    check.add_argument("--json", action="store_true", help="print report.json instead of the table")
    check.add_argument("--fresh", action="store_true", help="run the reference again although nothing of it has changed")
    check.add_argument(
        "--repair", action="store_true", help="try edits of what diverges for two minutes, not 20 seconds (`paralign repair` shows them)"
    )
    check.add_argument("--strict", action="store_true", help="let inherent differences between the frameworks count as diverged")
    check.add_argument("--profile", action="store_true", help="say where the time went")
    quiet(check)
    verbose(check)
    check.instead["--stages"] = "stages stand after the folder, as in `paralign check DIR weights forward`"
    check.instead["--format"] = check.instead["--html"] = "every check writes report.html; other forms: `paralign report --format`"
    check.set_defaults(run=_check)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    with neutral_streams(), speaking(asked_language(words)):  # errors of the command line itself, too
        return _main(words)


def _main(words: Sequence[str]) -> int:
    options = parser().parse_args(list(words))
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        options.lang = language(options.lang)
        with speaking(options.lang), _ended_by_signals():
            code = run(options)
            sys.stdout.flush()
            return code
    except (UsageError, EnvironmentUnavailable) as error:
        return _fail(error, 2 if isinstance(error, UsageError) and not isinstance(error, WriteFailed) else 3)
    except (CaptureFormatError, UnsafeFile, UnsupportedTensor, WorkerFailed) as error:
        return _fail(error, 3)
    except BrokenPipeError:  # what reads our output has ended, as `head` does: nobody is left to tell
        _abandon_output()
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print(say("interrupted"), file=sys.stderr)
        return 130
    except Exception as error:  # noqa: BLE001 - a fault of ours: shown whole, and never with the exit code of a divergence
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    """The exit code of what no reader foresaw.

    A disk or a memory that does not suffice, or a fault of ours.
    """
    if isinstance(error, MemoryError):
        return _fail(ParalignError("the memory does not suffice", hint="compare or convert in parts, or on a larger machine"), 3)
    if isinstance(error, OSError) and error.errno in DISK:
        _abandon_output()
        return _fail(unwritten(error.filename or "the output", error), 3)
    traceback.print_exc()
    return SOFTWARE


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what runs as Ctrl-C does; a second one ends at once.

    Workers and temporary folders are cleared away.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(128 + number)  # what a shell says of a process that a signal ended

    caught = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


def _abandon_output() -> None:
    """Drop what is left of standard output where it cannot be written.

    The interpreter would try, and fail, again at its end.
    """
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for as long as the process lives


def _fail(error: ParalignError, code: int) -> int:
    print(f"paralign: {translated_errors.told(error)}", file=sys.stderr)
    return code


def _init(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.run.template import write

    if options.reference:
        from paralign.commands.scaffold import from_reference

        return from_reference(Path(options.directory), Path(options.reference), options.model)
    if options.model:
        raise UsageError("--model needs --reference", hint="name the reference repository")
    for path in write(Path(options.directory)):
        print(path)
    print("\n" + say("next: {what}", what=f"paralign check {options.directory}"))
    return 0


def _check(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.api import check_project, durations
    from paralign.commands.under_way import Progress
    from paralign.report.text import place

    directory, stages = split_arguments(options.arguments)
    before = durations(directory, stages, options.out)
    with Progress(quiet=options.quiet, steps=list(before), seconds={n: s for n, s in before.items() if s is not None}) as progress:
        result, folder = check_project(
            directory,
            stages,
            out=options.out,
            fresh=options.fresh,
            strict=options.strict,
            profile=options.profile,
            progress=progress.step,
            repair=repairing.SECONDS if options.repair else None,
            unless_told=repairing.short_box(),
        )
    return _show(result, options, footer=f"{say('report: ')}{place(folder / 'report.html')}", root=Path(directory).resolve())


def _compare(options: argparse.Namespace) -> int:
    from paralign.api import compare
    from paralign.commands.under_way import Progress
    from paralign.errors import UsageError

    if options.diff_threshold is not None and options.log is None:
        raise UsageError("--diff-threshold decides what passes in the lines of --log", hint="name a new file: --log FILE")
    with Progress(quiet=options.quiet) as progress:
        progress.step("comparing")
        result = compare(
            options.reference,
            options.candidate,
            ratio=options.ratio,
            atol=options.atol,
            rtol=options.rtol,
            log=options.log,
            threshold=1e-6 if options.diff_threshold is None else options.diff_threshold,
        )
    return _show(result, options, footer=f"{say('log: ')}{options.log}" if options.log else "", full=True, saved=False)


def _locate(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.api import locate_captures
    from paralign.commands.under_way import Progress

    with Progress(quiet=options.quiet) as progress:
        progress.step("looking for where the runs part")
        result = locate_captures(options.reference, options.candidate)
    root = Path(options.reference).resolve().parent if options.candidate is None else None
    return _show(result, options, root=root, saved=False)


def _show(
    result: CheckResult,
    options: argparse.Namespace,
    *,
    footer: str = "",
    full: bool = False,
    root: Path | None = None,
    saved: bool = True,
) -> int:
    from paralign.report.console import console
    from paralign.report.short_form import render
    from paralign.report.text import conclusion, pairs

    out = console()
    if options.json:
        print(result.to_json())
    elif options.quiet:
        out.print(conclusion(result))
    else:
        if full:
            out.print(pairs(result))
        out.print(render(result, root, verbose=options.verbose, saved=saved))
        if result.profile is not None:
            from paralign.report.profiled import tables

            out.print(tables(result.profile))
        if footer:
            out.print(footer, style="dim", soft_wrap=True, highlight=False, markup=False)
    return CODES[result.verdict]


if __name__ == "__main__":
    sys.exit(main())
