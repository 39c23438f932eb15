"""``paralign verify``: a judge of ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.commands.grammar import quiet, whole
from paralign.commands.under_way import Progress
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

EPILOG = (
    "exit codes: 0 accepted · 1 rejected · 2 wrong usage · 3 a side failed · 4 nothing could be concluded · "
    "5 the port did what an honest one has no need of"
)


def add_commands(commands: Any) -> None:
    """Add ``verify``."""
    verify = commands.add_parser(
        "verify",
        help="judge a port that its author may want to pass",
        epilog=EPILOG,
        description="Judge a port by a specification that lies outside of it: weights and inputs are drawn anew, the port answers "
        "before the reference does, and what its process reads, imports and starts is watched.",
    )
    verify.add_argument("port", metavar="PORT", help="the folder of the port")
    verify.add_argument("--spec", required=True, metavar="SPEC", help="folder of the specification: paralign.toml and the reference")
    verify.add_argument("--rounds", type=whole, default=3, metavar="N", help="sets of weights and inputs (default: 3)")
    verify.add_argument("--sizes", metavar="N,N", default="", help="lengths of the first axis of inputs and labels, one a round")
    verify.add_argument(
        "--draws", type=whole, default=8, metavar="N", help="sets of inputs that the forward pass of a round is given (default: 8)"
    )
    verify.add_argument("--tables", action="store_true", help="reject a port that makes a registered table of several values itself")
    verify.add_argument("--out", metavar="FILE", help="write the certificate there (default: it is printed)")
    verify.add_argument("--key", metavar="FILE", help="a secret that the certificate is signed with (HMAC-SHA-256)")
    quiet(verify)
    verify.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    import itertools
    from pathlib import Path

    from paralign.capture.bounds import near, open_regular
    from paralign.errors import UsageError, plain_text
    from paralign.report.artifacts import replace
    from paralign.verification import verify

    if not 1 <= options.rounds <= 1000:  # noqa: PLR2004 - more would take days
        raise UsageError(f"--rounds must lie between 1 and 1000, not {options.rounds}")
    if not 1 <= options.draws <= 1000:  # noqa: PLR2004 - as above
        raise UsageError(f"--draws must lie between 1 and 1000, not {options.draws}")
    sizes = tuple(int(text) for text in options.sizes.split(",") if text.isascii() and text.isdigit() and int(text) > 0)
    if options.sizes and len(sizes) != options.sizes.count(",") + 1:
        raise UsageError(f"--sizes takes numbers above 0, not {options.sizes!r}", hint="--sizes 2,5")
    key = b""
    if options.key:
        with open_regular(options.key) as file:
            key = file.read(1 << 16).strip()
        if not key:
            raise UsageError("the key is empty", where=options.key)
    if options.out and not Path(options.out).absolute().parent.is_dir():  # said before the judgement takes its minutes
        raise UsageError(
            f"the folder of the certificate is not there{near(Path(options.out).parent)}",
            where=options.out,
            hint="make it, or name another --out",
        )

    with Progress(quiet=options.quiet) as progress:
        done = itertools.count()

        def told(line: str) -> None:
            progress.step(line)
            progress.part(next(done), options.rounds, line)

        found = verify(
            Path(options.port),
            Path(options.spec),
            rounds=options.rounds,
            sizes=sizes,
            draws=options.draws,
            tables=options.tables,
            progress=told,
        )
    text = found.to_json(key)
    if options.out:
        replace(Path(options.out), text)
        print(say(found.judgement.value))
        for reason in [] if options.quiet else found.reasons:
            print(plain_text(f"  {say(reason)}"))
    else:
        print(plain_text(text), end="")
    return found.judgement.code
