"""``paralign data sample|example|verify``: a small set, and whether it is unchanged.

It is drawn from a data set or made by formulas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.commands.grammar import above_zero, quiet, whole
from paralign.commands.under_way import Progress
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.lite import Drawn

#: samples of a split: what the guides ask for at most
COUNT = 16


def add_commands(commands: Any) -> None:
    """Add ``data`` and what it can do."""
    data = commands.add_parser(
        "data",
        help="draw a small data set, and verify it",
        description="Draw the small set that a port is checked on: a few samples of every split, every class kept where possible, "
        "annotations cut to them, with a manifest of hashes.",
    )
    verbs = data.add_subparsers(dest="verb", required=True, metavar="VERB")
    sample = verbs.add_parser("sample", help="draw a small set: a folder, its .tar, and a manifest in it")
    sample.add_argument("source", metavar="SOURCE", help="folder of the data set: images in folders, COCO or VOC annotations, or lists")
    sample.add_argument("--out", default="lite_data", metavar="DIR", help="folder to write; DIR.tar beside it (default: lite_data)")
    sample.add_argument("--form", choices=["auto", "folder", "coco", "voc", "list"], default="auto", help="how the data set is laid out")
    sample.add_argument("--list", action="append", default=[], metavar="FILE", help="a file of lines `path class`, one a split")
    sample.add_argument("--count", type=above_zero, default=COUNT, metavar="N", help=f"samples of each split (default: {COUNT})")
    sample.add_argument("--bytes", type=above_zero, metavar="N", help="the archive is at most so large (default: 20,000,000)")
    sample.add_argument("--seed", type=whole, default=0, metavar="N", help="which samples of a class are taken (default: 0)")
    sample.set_defaults(run=_sample)
    example = verbs.add_parser(
        "example",
        help="make a small set where you have no data yet: pictures of four shapes",
        description="Write pictures of four shapes with their labels, made by formulas: no download, the same bytes everywhere.",
    )
    example.add_argument("--out", default="lite_data", metavar="DIR", help="folder to write; DIR.tar beside it (default: lite_data)")
    example.add_argument("--count", type=above_zero, default=COUNT, metavar="N", help=f"pictures of each split (default: {COUNT})")
    example.add_argument("--seed", type=whole, default=0, metavar="N", help="which pictures are made (default: 0)")
    example.set_defaults(run=_example)
    verify = verbs.add_parser("verify", help="compare the files of a small set with its manifest", epilog="exit codes: 0 equal · 1 not")
    verify.add_argument("folder", metavar="DIR")
    verify.add_argument("--manifest", metavar="FILE", help="another copy's manifest (default: DIR/manifest.json)")
    quiet(verify)
    verify.set_defaults(run=_verify)


def _sample(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.lite import draw
    from paralign.lite.subset import LARGEST

    lists = [Path(name) for name in options.list]
    size = options.bytes or LARGEST
    with Progress() as progress:
        progress.step(f"drawing from {options.source}")
        found = draw(
            Path(options.source), Path(options.out), form=options.form, lists=lists, count=options.count, seed=options.seed, largest=size
        )
    for name, about in found.splits.items():
        count, every = about["samples"], f"{about['of']:,}"
        print(
            say("{name}: {count} of {every} samples, {classes} classes", name=name, count=count, every=every, classes=len(about["classes"]))
        )
    _tell_written(found)
    return 0


def _example(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.lite import make

    with Progress() as progress:
        progress.step("drawing shapes")
        found = make(Path(options.out), count=options.count, seed=options.seed)
    for name, about in found.splits.items():
        told = say("{name}: {count} pictures, {classes} classes", name=name, count=about["samples"], classes=len(about["classes"]))
        print(f"{told}; {found.folder}/{name}_list.txt")
    _tell_written(found)
    return 0


def _tell_written(found: Drawn) -> None:
    archive = say("{file}: {size} bytes", file=str(found.archive), size=f"{found.bytes:,}")
    print("\n".join([*map(say, found.notes), f"{found.folder}/manifest.json", archive]))
    after = say("read {folder} in both sides' build_dataset, and set in paralign.toml: ", folder=str(found.folder))
    print("\n" + say("next: {what}", what=f'{after}[data] manifest = "{found.folder}"'))


def _verify(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.lite import check_files, read_manifest

    folder = Path(options.folder)
    found = check_files(read_manifest(Path(options.manifest) if options.manifest else folder), folder)
    for what, names in (("missing", found.missing), ("other content", found.other), ("not in the manifest", found.beside)):
        for name in [] if options.quiet else names:
            print(f"{say(what)}: {name}")
    print(say("{right} of {total} files are as the manifest says", right=found.right, total=found.total))
    return 0 if found.fine else 1
