"""A plan for a file of which no model tells the layers, by the user's rules or none.

And any plan carried out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.conversion.conversion_outcome import FOLLOWED, KEPT, UNPROVEN, Conversion
from paralign.errors import UsageError
from paralign.formats import convert, open_checkpoint
from paralign.formats.checkpoint import some
from paralign.formats.convert import outgoing
from paralign.formats.saving import check
from paralign.run.toml import read_text
from paralign.weights import Rename, Rules, Way, exact, follow, rules_from_toml
from paralign.weights.byname import renamed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from paralign.formats import Checkpoint

#: the framework that a file's format belongs to, where it belongs to one
FORMATS = {"torch": "torch", "torch legacy": "torch", "paddle": "paddle"}

#: what files say of themselves in their metadata under ``format``
SAID = {"pt": "torch", "pd": "paddle"}

#: the framework that reads files of such names
SUFFIXES = {".pth": "torch", ".pt": "torch", ".bin": "torch", ".ckpt": "torch", ".pdparams": "paddle", ".pdopt": "paddle"}

#: prefixes that wrappers around a model put before its names, which no model has itself
WRAPPERS = re.compile(r"(?:module\.|_orig_mod\.)+")

#: what the statistics of norms are called, framework by framework; every other leaf has the same name in both
STATISTICS = {"torch": ("running_mean", "running_var"), "paddle": ("_mean", "_variance")}

COUNTER = "num_batches_tracked"

MATRIX = 2


def rules_of(path: Path) -> Rules:
    """The rules in a file.

    Raises:
        UsageError: it cannot be read, or holds no rules.
    """
    return rules_from_toml(read_text(path, "the rules are no TOML"), str(path))


def origin(checkpoint: Checkpoint) -> str:
    """Which framework laid a file's tensors out; '' where nothing tells."""
    return FORMATS.get(checkpoint.format) or SAID.get(checkpoint.metadata.get("format", ""), "")


def reader(destination: Path) -> str:
    """Which framework reads files of this name; '' where several do."""
    return SUFFIXES.get(destination.with_name(destination.name.removesuffix(".index.json")).suffix.lower(), "")


def opened(path: str | Path, within: str | None, strip: str | None) -> Checkpoint:
    """A checkpoint without a prefix in its names, given or left by a wrapper.

    Raises:
        As :func:`paralign.formats.open_checkpoint`.
    """
    checkpoint = open_checkpoint(path, within=within, strip=strip)
    if strip is not None:
        return checkpoint
    wrapper = WRAPPERS.match(checkpoint.prefix or "")
    return checkpoint if wrapper is None else open_checkpoint(path, within=within, strip=wrapper.group())


def unwrapped(checkpoint: Checkpoint) -> list[str]:
    """What was taken off to get to the tensors and their names."""
    notes = [f"the tensors lie under {checkpoint.nesting!r} in the file"] if checkpoint.nesting else []
    return notes + ([f"{checkpoint.stripped!r} was taken off the names"] if checkpoint.stripped else [])


def plan(checkpoint: Checkpoint, destination: Path, rules: Rules | None, framework: str | None = None) -> Conversion:
    """The way of every tensor, as far as names tell it.

    Args:
        checkpoint: the source.
        destination: its name tells which framework is to read it.
        rules: the user's, or None.
        framework: which one laid the source's tensors out, where the user says so.

    Raises:
        UsageError: a rule speaks of no tensor, or the framework is none.
    """
    if framework in ("reference", "candidate"):
        raise UsageError(f"--from {framework} needs --model", hint="without models, say which framework laid the tensors out")
    here = framework or origin(checkpoint)
    there = reader(destination)
    if not there and rules is None:  # where rules lead, only the user knows
        there = here
    crossing = bool(there) and here != there
    wanted = Rules()
    if rules is not None:
        wanted = rules
    elif crossing and here:
        wanted = spelling(checkpoint, here, there)
    followed = follow(wanted, checkpoint.names)
    found = Conversion(checkpoint.path, destination, frameworks=(here, there), ways=followed.ways, dropped=followed.dropped)
    found.left = list(checkpoint.ignored)
    found.notes += unwrapped(checkpoint)
    if crossing and (rules is None or not rules.others):
        untold = set(followed.untold)
        found.untold = [name for name in checkpoint.names if name in untold and len(checkpoint.entries[name].shape) == MATRIX]
    if rules is not None:
        found.rules = _counted(rules, followed.ways)
        found.verdict = UNPROVEN if found.untold else FOLLOWED
    else:
        found.rules = exact(found.ways, found.dropped)
        found.verdict = UNPROVEN if crossing else KEPT
    found.notes += _said(found, crossing=crossing, alone=rules is None)
    return found


def carry(
    found: Conversion,
    checkpoint: Checkpoint,
    *,
    dry_run: bool,
    overwrite: bool,
    max_shard_bytes: int | None,
    progress: Callable[[int, int, str], None] | None,
) -> None:
    """Write what is planned, or only see that it could be written.

    Raises:
        UsageError: a transform or a part does not fit, or the destination cannot be written.
    """
    places = {name: number for number, name in enumerate(checkpoint.names)}
    ways = sorted(found.ways, key=lambda way: (places.get(way.source, 0), way.destination))  # the same whoever made them
    if dry_run:
        check(found.destination, outgoing(checkpoint, ways)[0])
        return
    done = convert(
        checkpoint,
        found.destination,
        moves=ways,
        overwrite=overwrite,
        max_shard_bytes=max_shard_bytes,
        metadata=_metadata(found, checkpoint),
        progress=progress,
    )
    found.files, found.bytes, found.seconds = done.files, done.bytes, done.seconds
    found.notes += done.notes


def _metadata(found: Conversion, checkpoint: Checkpoint) -> dict[str, str] | None:
    """The file's own texts, with the name of the framework that reads the destination.

    None, which leaves them as they are, where nothing was converted and no framework is known.
    """
    kept = {key: text for key, text in checkpoint.metadata.items() if key != "format" and text not in checkpoint.entries}
    kind = {framework: text for text, framework in SAID.items()}.get(found.frameworks[1])
    if kind:
        return {**kept, "format": kind}
    return None if found.verdict == KEPT else kept


def spelling(checkpoint: Checkpoint, here: str, there: str) -> Rules:
    """The rules for names that frameworks spell otherwise whatever the model."""
    ends = dict(zip(STATISTICS.get(here, ()), STATISTICS.get(there, ()), strict=False))
    ways, dropped = [], []
    for name in checkpoint.names:
        owner, dot, leaf = name.rpartition(".")
        if leaf == COUNTER:
            dropped.append(name)
        else:
            ways.append(Way(name, owner + dot + ends.get(leaf, leaf)))
    return replace(exact(ways, dropped), others="")


def _counted(rules: Rules, ways: list[Way]) -> Rules:
    """The user's rules with the number of tensors that each speaks of."""
    names = list(dict.fromkeys(way.source for way in ways))
    routes = []
    for route in rules.routes:
        pattern = Rename(route.reference, route.candidate)
        routes.append(replace(route, count=sum(pattern.applied(name) is not None for name in names)))
    renames = [replace(r, count=sum(renamed(r, name) is not None for name in names)) for r in rules.renames]
    return replace(rules, routes=tuple(routes), renames=tuple(renames))


def _said(found: Conversion, *, crossing: bool, alone: bool) -> list[str]:
    here, there = found.frameworks
    notes = []
    if crossing and not here:
        notes.append(
            f"nothing in the file says which framework laid its tensors out, and the destination is for {there}: they are as they were "
            "(say --from torch or --from paddle)"
        )
    elif crossing and alone:
        notes.append(
            f"from {here} to {there} without a model: only names that differ between the frameworks whatever the model were changed"
        )
    if found.untold:
        notes.append(
            f"{len(found.untold)} matrices were NOT transposed, for nothing tells of which layers they are: {some(found.untold, 4)}. "
            "A Linear holds [out, in] in PyTorch and [in, out] in Paddle, embeddings are alike in both, and a shape tells neither: "
            'give --model, or rules (others = "keep" where they are alike)'
        )
    return notes
