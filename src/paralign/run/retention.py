"""What a check leaves on disk: values that a later command reads, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.capture.layout import read_manifest
from paralign.capture.released import release, shards_of, share, values_size
from paralign.errors import CaptureFormatError
from paralign.model import ALIGNED, NOT_TESTED
from paralign.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from paralign.model import CheckResult

#: bytes of a capture's values that nobody misses: they are left
SMALL = 1 << 20

#: the reference's values that the next check takes may be this many times its weights, and at least so many bytes; one that has to be
#: run again runs beside the candidate, which runs anyway
TIMES, LEAST = 2, 16 << 20

#: where a stage differs, all captures of both sides may be this many times the reference's weights, and at least so many bytes: with the
#: reports, `result/` stays below five times the weights
TIMES_DIFFERING, LEAST_DIFFERING = 4, 64 << 20

#: captures that commands read after a check that differs: ``compare``, ``plot``, ``locate``, and each check that follows
READ_LATER = frozenset({"weights", "forward", "operations"})

#: ends of the names of captures that were made for single experiments, of no use after them
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
    reference = _folders(captures / "reference")
    if _agreed(verdicts, *verdicts):
        _keep_within([folder for folder in reference if folder.name in asked])
    else:
        _bound(captures, asked)


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


def _bound(captures: Path, asked: AbstractSet[str]) -> None:
    """Release captures of a check that differs until those of both sides are in bounds.

    First goes what the next check does not take.

    ``asked``: names of the reference's captures that the next check takes, as long as the port's fault is where it is.
    """
    reference, candidate = _folders(captures / "reference"), _folders(captures / "candidate")
    files = {folder: _files(folder) for folder in (*_folders(captures), *reference, *candidate)}
    weights = next((held for folder, held in files.items() if folder == captures / "reference" / "weights"), {})
    limit = max(LEAST_DIFFERING, TIMES_DIFFERING * sum(weights.values()))
    experiments = [folder for folder in reference if folder.name.endswith(EXPERIMENTS)]
    left = [folder for folder in reference if folder.name not in asked and folder.name not in READ_LATER]
    own = [folder for folder in candidate if folder.name not in READ_LATER]
    taken = [folder for folder in reference if folder.name not in READ_LATER]
    watched = [folder for folder in (*candidate, *reference) if folder.name == "operations"]
    for group in (experiments, own, left, taken, watched):
        if _release_until(group, files, limit):
            return


def _release_until(folders: Sequence[Path], files: dict[Path, dict[int, int]], limit: int) -> bool:
    """Release captures, the largest first, until all are in bounds; whether they are."""
    for folder in sorted(folders, key=lambda folder: sum(files[folder].values()), reverse=True):
        if _held(files) <= limit:
            return True
        if release(folder):
            files[folder] = {}
    return _held(files) <= limit


def _files(folder: Path) -> dict[int, int]:
    """Number of each file of a capture's values -> its bytes."""
    return {shard.stat().st_ino: shard.stat().st_size for shard in shards_of(folder)}


def _held(files: dict[Path, dict[int, int]]) -> int:
    """Bytes that captures take; a file that two of them share counts once."""
    return sum({number: size for each in files.values() for number, size in each.items()}.values())


def _keep_within(folders: list[Path]) -> None:
    """Release captures of the reference until the others are in bounds; its weights stay."""
    files = {folder: _files(folder) for folder in folders}
    limit = max(LEAST, TIMES * sum(size for folder, held in files.items() if folder.name == "weights" for size in held.values()))
    _release_until([folder for folder in folders if folder.name != "weights"], files, limit)
