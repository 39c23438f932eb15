"""What a check leaves on disk: values that a later command reads, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.capture.layout import read_manifest
from paralign.capture.released import release, shards_of, share, values_size
from paralign.errors import CaptureFormatError
from paralign.model import ALIGNED, NOT_TESTED
from paralign.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from paralign.model import CheckResult

#: bytes of a capture's values that nobody misses: they are left
SMALL = 1 << 20

#: the reference's values that the next check takes may be this many times its weights, and at least so many bytes; one that has to be
#: run again runs beside the candidate, which runs anyway
TIMES, LEAST = 2, 16 << 20

#: ends of the names of captures that were made for single experiments of the candidate, of no use after them
EXPERIMENTS = ("-values", "-patches", "-replayed")

#: captures of watched operations, by the start of their names -> the stage that leaves them for ``paralign locate``
WATCHED = {"operations": "forward", "gradients-": "backward"}


def settle(captures: Path, result: CheckResult, asked: AbstractSet[str]) -> None:
    """Release the values that nothing reads after a check.

    One file takes the place of equal ones.

    Args:
        captures: the folder of both sides' captures.
        result: of the check.
        asked: names of the reference's captures that this check took: the next one takes them too.

    Raises:
        WriteFailed: a manifest cannot be written.
    """
    verdicts = {stage.name: stage.verdict for stage in result.stages}
    for folder in _folders(captures / "candidate"):
        if _is_spent(folder, verdicts):
            release(folder)
    share(folder for inner in (captures, captures / "reference", captures / "candidate") for folder in _folders(inner))
    if _agreed(verdicts, *verdicts):
        _keep_within([folder for folder in _folders(captures / "reference") if folder.name in asked])


def _folders(place: Path) -> list[Path]:
    """The captures in a folder that can be read.

    What a link leads to is another's.
    """
    if place.is_symlink() or not place.is_dir():
        return []
    return sorted(folder for folder in place.iterdir() if not folder.is_symlink() and _is_readable(folder))


def _is_readable(folder: Path) -> bool:
    """Whether a folder is a capture with a manifest of this version or before."""
    try:
        read_manifest(folder)
    except CaptureFormatError:
        return False
    return True


def _agreed(verdicts: dict[str, str], *stages: str) -> bool:
    """Whether stages were all looked at by this check, and nothing of them is left to look at."""
    return all(verdicts.get(stage) in (ALIGNED, NOT_TESTED) for stage in stages)


def _is_spent(folder: Path, verdicts: dict[str, str]) -> bool:
    """Whether no command reads the values of a candidate's capture any more.

    The candidate is recorded anew by every check.

    Outputs of ``forward`` are for ``paralign compare``; what belongs to a stage that differs, or that this check did not
    look at, is for a person.
    """
    if values_size(folder) <= SMALL:
        return False
    stage = read_manifest(folder).stage
    if folder.name.endswith(EXPERIMENTS):
        return True
    if stage in BY_NAME and folder.name.startswith(stage):
        return stage != "forward" and _agreed(verdicts, stage)
    if any(folder.name.startswith(start) and of not in verdicts for start, of in WATCHED.items()):
        return False
    return _agreed(verdicts, *verdicts)


def _keep_within(folders: list[Path]) -> None:
    """Release captures of the reference until the others are in bounds.

    What frees most goes first; its weights stay.
    """
    files = {folder: {shard.stat().st_ino: shard.stat().st_size for shard in shards_of(folder)} for folder in folders}
    limit = max(LEAST, TIMES * sum(size for folder, held in files.items() if folder.name == "weights" for size in held.values()))
    others = [folder for folder in folders if folder.name != "weights"]
    for folder in sorted(others, key=lambda folder: sum(files[folder].values()), reverse=True):
        held = {number: size for each in files.values() for number, size in each.items()}  # a file that two captures share counts once
        if sum(held.values()) <= limit:
            return
        if release(folder):
            files[folder] = {}
