"""``paralign weights show``: the keys, shapes and types of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.formats.checkpoint import Checkpoint

EPILOG = "exit codes: 0 listed · 2 wrong usage · 3 the file is unsafe or damaged · 4 no tensor matches"


def add_show(verbs: Any) -> None:
    """Add ``show`` to ``weights``."""
    show = verbs.add_parser(
        "show",
        help="the keys, shapes and types of a checkpoint",
        epilog=EPILOG,
        description="List the tensors of a checkpoint (.pth, .pt, .bin, .safetensors, .pdparams, .pdopt, .npz, .npy, an index of shards, "
        "a folder with one): key, shape, type, in the order of the file. Nothing in the file is run, no tensor is read.",
    )
    show.add_argument("file", metavar="FILE")
    show.add_argument("--match", metavar="PATTERN", help="only keys that match, with * and ?: 'backbone.*.weight'")
    show.add_argument("--within", metavar="KEYS", help="dotted keys under which the tensors lie, such as model_ema (default: looked for)")
    show.add_argument("--json", action="store_true", help="print everything as JSON")
    show.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> int:
    from fnmatch import fnmatchcase

    from paralign.formats import open_checkpoint

    checkpoint = open_checkpoint(options.file, within=options.within)
    names = [name for name in checkpoint.names if options.match is None or fnmatchcase(name, options.match)]
    print(_as_json(checkpoint, names) if options.json else "\n".join(_told(checkpoint, names)))
    return 0 if names else 4


def _as_json(checkpoint: Checkpoint, names: list[str]) -> str:
    import json

    from paralign.errors import plain_text

    told = {
        "file": str(checkpoint.path),
        "format": checkpoint.format,
        "nesting": checkpoint.nesting,
        "prefix": checkpoint.prefix,
        "ignored": checkpoint.ignored,
        "tensors": [_tensor(checkpoint, name) for name in names],
    }
    return plain_text(json.dumps(told, indent=1, ensure_ascii=False))


def _tensor(checkpoint: Checkpoint, name: str) -> dict[str, Any]:
    entry = checkpoint.entries[name]
    return {
        "name": name,
        "shape": list(entry.shape),
        "dtype": entry.dtype,
        "bytes": entry.nbytes,
        "same_as": checkpoint.aliases.get(name),
    }


def _told(checkpoint: Checkpoint, names: list[str]) -> list[str]:
    """A line a tensor, then the sums, then what else the file holds."""
    from paralign.errors import one_line
    from paralign.formats.checkpoint import count

    rows = []
    for name in names:
        entry = checkpoint.entries[name]
        alias = checkpoint.aliases.get(name)
        rows.append(
            (one_line(name), str(list(entry.shape)), entry.dtype, say("same tensor as {name}", name=one_line(alias)) if alias else "")
        )
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip() for row in rows]
    owners = [checkpoint.entries[name] for name in names if name not in checkpoint.aliases]
    elements, size = sum(count(entry.shape) for entry in owners), sum(entry.nbytes for entry in owners)
    told = "{count} of {every} tensors, {elements} elements, {size} MB, format {format}"
    every, mega = len(checkpoint.names), f"{size / 1e6:.1f}"
    lines.append(say(told, count=len(names), every=every, elements=f"{elements:,}", size=mega, format=checkpoint.format))
    if checkpoint.nesting:
        lines.append(say("they lie under {keys}", keys=one_line(checkpoint.nesting)))
    if checkpoint.ignored:
        lines.append(say("also in the file: {names}", names=one_line(", ".join(checkpoint.ignored))))
    return lines
