"""``paralign convert code``: a first draft of the port, and what is left by hand.

The latter is a ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.commands import grammar
from paralign.commands.under_way import Progress
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from paralign.port.edits.ledger import Ledger
    from paralign.port.proofs.proof_entries import EntryPoint

EPILOG = (
    "exit codes: 0 everything converted, and with --prove proven · 1 written, but places are left by hand, files refused, or something is "
    "not proven · 2 wrong usage · 3 the interpreter does not answer, the entry fails, or a file cannot be written · 4 with --prove: "
    "nothing is wrong, but something was not reached"
)

#: seconds that an entry may take, as of a job of a check
_TIMEOUT = 600.0


def add(what: Any) -> None:
    """Add it to ``paralign convert``."""
    parser = what.add_parser(
        "code",
        help="PyTorch source to Paddle source",
        epilog=EPILOG,
        description="Rewrite a file or a folder of PyTorch source for Paddle. Only calls that were executed on both sides are converted; "
        "every other one raises where it stands and says why. ledger.json tells of every place. Nothing is imported or run, but with "
        "--prove the entry that you name.",
    )
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("destination", metavar="DST")
    parser.add_argument("--python", metavar="INTERPRETER", help="ask this interpreter's Paddle (default: a stored table of one version)")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    parser.add_argument("--json", action="store_true", help="print the ledger as JSON")
    parser.add_argument(
        "--prove",
        action="store_true",
        help="run --entry, and hold every function and class that it reaches against its original, in float64",
    )
    parser.add_argument(
        "--entry",
        metavar="ENTRY",
        help="what the original runs: module:function (called without arguments), script.py, or the paralign.toml of a project",
    )
    parser.add_argument("--reference-python", metavar="INTERPRETER", help="that of the original (default: the one that runs paralign)")
    parser.add_argument(
        "--timeout", type=grammar.number, default=_TIMEOUT, metavar="N", help="seconds that the entry may take, with --prove (default: 600)"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from paralign.errors import UsageError, one_line
    from paralign.port.drafts.converted import check_free, convert_code

    if bool(options.prove) != bool(options.entry):
        from paralign.port.proofs.proof_entries import HINT

        what = "--prove needs an entry to run" if options.prove else "--entry is run with --prove alone"
        raise UsageError(what, hint=HINT if options.prove else "add --prove, or leave out --entry")
    if options.timeout <= 0:
        raise UsageError("--timeout must be above 0", where=str(options.timeout), hint="give a number of seconds")
    entry = _entry(options)
    proof = proof_file(options.source, options.destination)
    if entry is not None:
        check_free(proof, force=options.force)

    def forget() -> None:
        if options.force:
            from paralign.port.proofs.proving import forget_proof

            forget_proof(proof)

    with Progress() as progress:
        progress.step("converting")
        ledger = convert_code(options.source, options.destination, options.python, force=options.force, before_writing=forget)
    if not options.json:
        for line in ledger.lines():
            print(one_line(line))
    if entry is not None:
        return _proven(options, ledger, entry, proof)
    if options.json:
        print(ledger.to_json(), end="")
    return int(ledger.left)


def _entry(options: argparse.Namespace) -> EntryPoint | None:
    """What a proof runs; what only a proof needs is imported for one alone."""
    if not options.prove:
        return None
    from paralign.port.proofs.proof_entries import entry_of

    return entry_of(options.entry, options.source)


def proof_file(source: str, destination: str) -> Path:
    """Where a proof is kept: in the folder, or beside the file, as the ledger is."""
    from pathlib import Path

    from paralign.port.drafts.converted import PROOF

    target = Path(destination)
    return target / PROOF if Path(source).is_dir() else target.with_name(f"{target.name}.{PROOF}")


def _proven(options: argparse.Namespace, ledger: Ledger, entry: EntryPoint, path: Path) -> int:
    """Prove what was written, keep and print the proof; gives the exit code."""
    import json
    from pathlib import Path

    from paralign.api.code_proof import Conversion, prove_code
    from paralign.errors import one_line
    from paralign.port.drafts.converted import write
    from paralign.port.proofs import proving
    from paralign.port.proofs.proving_code import code_of, entry_proofs

    made = Conversion(Path(options.source), Path(options.destination), ledger, options.python, options.reference_python, options.timeout)
    with Progress() as progress:
        proven = prove_code(made, entry, progress.step)
    text = proving.as_json(proven)
    write(path, text, force=True)
    if options.json:
        print(json.dumps({**json.loads(ledger.to_json()), "proof": json.loads(text)}, ensure_ascii=False, indent=1))
    else:
        for line in proving.lines(proven):
            print(one_line(line))
        print(one_line(f"{say('proof: ')}{path}"))
    proofs, lines = entry_proofs(proven, entry, Path(options.source))
    return code_of(proofs, lines, left=ledger.left)
