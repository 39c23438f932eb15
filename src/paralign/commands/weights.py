"""``paralign convert weights``, ``paralign weights diff`` and ``paralign weights show``."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from paralign.commands import carry, listing, source
from paralign.commands.grammar import number, quiet
from paralign.commands.under_way import Progress
from paralign.errors import UsageError, quoted, unwritten

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from paralign.conversion import Conversion

#: verdict of a conversion -> exit code
CODES = {"kept": 0, "as the rules say": 0, "proven": 0, "differs": 1, "incomplete": 1, "not proven": 4}

CONVERT = (
    "exit codes: 0 proven by running both models, or as the rules say, or nothing but the format changed · 1 the models differ, or a "
    "tensor has no place (then nothing is written) · 2 wrong usage · 3 a side or a file failed · 4 written, but not proven"
)

DIFF = "exit codes: 0 the same · 1 different · 2 wrong usage · 3 a file failed"

_SIZES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


def add_commands(commands: Any) -> None:
    """Add both to the command line."""
    convert = commands.add_parser("convert", help="convert weights, an optimizer's state, or source code")
    what = convert.add_subparsers(dest="what", required=True, metavar="WHAT")
    _add_convert(
        what.add_parser(
            "weights",
            help="a checkpoint",
            epilog=CONVERT,
            description="Convert a checkpoint (.pth, .pt, .bin, .safetensors, .pdparams, .npz, an index of shards, a folder with one) to "
            "the format that the name of the destination tells. Without --model and --rules names and layouts stay as they are.",
        )
    )
    carry.add(what)
    source.add(what)
    weights = commands.add_parser("weights", help="look at checkpoints")
    which = weights.add_subparsers(dest="which", required=True, metavar="WHAT")
    listing.add_show(which)
    _add_diff(
        which.add_parser(
            "diff",
            help="what two checkpoints differ in",
            epilog=DIFF,
            description="What is missing, extra or of another shape, what the values of each tensor differ in, and which groups of tensors "
            "are abnormally small in one of two trained checkpoints, as a wrong no-weight-decay group makes them. With --model both models "
            "are run on the same inputs too, and compared layer by layer; else nothing is run.",
        )
    )


def _add_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("destination", metavar="DST")
    parser.add_argument(
        "--model",
        action="append",
        metavar="PROJECT | FILE.py:FUNCTION",
        help="the folder of a paralign.toml whose sides build the two models; or, given twice, what builds the reference and the "
        "candidate: FILE.py:FUNCTION or package.module:FUNCTION",
    )
    parser.add_argument("--rules", metavar="FILE", help="renamings and routes that go before all else; --save-rules writes such a file")
    parser.add_argument(
        "--save-rules", metavar="FILE", help="write the rules of this conversion: edit them, or use them without the models"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the plan, prove it, and write no checkpoint")
    parser.add_argument(
        "--inputs", metavar="SHAPE | FILE", help="with --model: run both models on this, 1,3,224,224 (drawn) or a .npy or .npz file"
    )
    parser.add_argument("--no-proof", action="store_true", help="with --model: do not run the models")
    parser.add_argument(
        "--from",
        dest="origin",
        choices=["torch", "paddle", "numpy", "reference", "candidate"],
        help="whose weights SRC holds, where the file or its names do not tell",
    )
    _add_reading(parser)
    parser.add_argument(
        "--max-shard-size", metavar="SIZE", help="write several files of at most so many bytes (500M, 5G, 2Gi) and an index"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a destination that is there")
    parser.add_argument("--all", action="store_true", help="list every tensor with its shape on both sides")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    quiet(parser)
    parser.set_defaults(run=_convert)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--within", metavar="KEYS", help="dotted keys under which the tensors lie, such as model_ema (default: looked for)")
    parser.add_argument("--strip", metavar="PREFIX", help="prefix to take off the names (default: module. and _orig_mod.; '' for none)")


def _add_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", metavar="A")
    parser.add_argument("candidate", metavar="B")
    parser.add_argument("--rules", metavar="FILE", help="how the names and layouts of A become those of B")
    parser.add_argument(
        "--tolerance", type=number, default=0.0, metavar="SHARE", help="relative L2 distance up to which values are the same"
    )
    parser.add_argument("--all", action="store_true", help="list every tensor, not only those that differ most")
    parser.add_argument(
        "--model",
        metavar="PROJECT",
        help="the folder of a paralign.toml: run the reference with A and the candidate with B, layer by layer",
    )
    parser.add_argument(
        "--again", metavar="A2", help="with --model: a checkpoint of the reference under another seed, to be held against A"
    )
    _add_reading(parser)
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    quiet(parser)
    parser.set_defaults(run=_diff)


def _convert(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.api import convert_weights
    from paralign.capture.bounds import checked_path

    rules = Path(options.save_rules) if options.save_rules else None
    if rules is not None and checked_path(rules).exists() and not options.overwrite:
        raise UsageError("the file of rules is there already", where=str(rules), hint="give another path, or --overwrite")
    if options.model is None and options.inputs:
        raise UsageError("--inputs needs --model", hint="without models nothing is run")
    with Progress(quiet=options.quiet) as progress:
        found = convert_weights(
            options.source,
            options.destination,
            model=_model(options.model),
            rules=options.rules,
            inputs=_inputs(options.inputs),
            origin=options.origin,
            prove=not options.no_proof,
            within=options.within,
            strip=options.strip,
            max_shard_bytes=_bytes(options.max_shard_size),
            overwrite=options.overwrite,
            dry_run=options.dry_run,
            step=progress.step,
            progress=progress.written,
        )
    if rules is not None:
        _save(found, rules)
    _show(found, rules, options)
    return CODES[found.verdict]


def _model(named: list[str] | None) -> str | list[str] | None:
    """A project's folder, or functions."""
    from paralign.capture.bounds import checked_path

    if named is None:
        return None
    if len(named) == 1 and (checked_path(named[0]).exists() or ":" not in named[0]):
        return named[0]
    return named


def _inputs(text: str | None) -> dict[str, Any] | None:
    """An ``[inputs]`` entry: a shape, or a file."""
    from pathlib import Path

    if text is None:
        return None
    if re.fullmatch(r"\d{1,18}(,\d{1,18})*", text, re.ASCII):
        return {"shape": [int(n) for n in text.split(",")]}
    return {"file": str(Path(text).resolve())}


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]I?)?B?", text.upper())
    if found is None:
        raise UsageError(f"{quoted(text)} is no size", where="--max-shard-size", hint="write 500M, 5G or 2Gi")
    number = float(found.group(1))
    if math.isinf(number):
        raise UsageError("the size has more digits than any disk", where="--max-shard-size", hint="write 500M, 5G or 2Gi")
    return int(number * _SIZES[found.group(2) or ""])


def _save(found: Conversion, path: Path) -> None:
    from paralign.weights import to_toml

    head = (
        f"# {found.source.name} → {found.destination.name}: {found.verdict}. "
        "reference: names in the source; candidate: names in the destination.\n"
    )
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(head + to_toml(found.rules), encoding="utf-8")
        temporary.replace(path)
    except OSError as fault:
        raise unwritten(path, fault, "the file of rules") from fault
    finally:
        with suppress(OSError):
            temporary.unlink()


def _show(found: Conversion, rules: Path | None, options: argparse.Namespace) -> None:
    if options.json:
        print(found.to_json())
        return
    from paralign.report.console import console
    from paralign.report.weight_tables import conversion

    shown = conversion(found, planned=options.dry_run, rules=rules, every=options.all)
    console().print(shown.renderables[-1] if options.quiet else shown)  # the last line is the verdict


def _diff(options: argparse.Namespace) -> int:
    from paralign.conversion.difference import diff_weights

    if options.again and not options.model:
        raise UsageError("--again needs --model", hint="a second training is held against the first by running the models")
    with Progress(quiet=options.quiet) as progress:
        found = diff_weights(
            options.reference,
            options.candidate,
            rules=options.rules,
            tolerance=options.tolerance,
            within=options.within,
            strip=options.strip,
            step=progress.part,
        )
        if options.model:
            from paralign.api import trained_layers

            found.layers = trained_layers(
                options.model,
                options.reference,
                options.candidate,
                again=options.again,
                within=options.within,
                strip=options.strip,
                progress=progress.step,
            )
    if options.json:
        print(found.to_json())
    else:
        from paralign.report.console import console
        from paralign.report.weight_tables import difference

        shown = difference(found, every=options.all)
        console().print(shown.renderables[-1] if options.quiet else shown)
    return 0 if found.same else 1
