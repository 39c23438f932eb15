"""The manifest of a small data set, held against the files that both sides read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.errors import CaptureFormatError, UsageError, WorkerFailed
from paralign.lite import check_files, read_manifest
from paralign.lite.hashes import MANIFEST
from paralign.model import ALIGNED, DIVERGED, Finding, Pair, Record

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.lite import Checked
    from paralign.model import StageResult

#: what to do where files are not as they were drawn
AGAIN = "draw the data again, or copy it anew"

#: names that a line lists
SHOWN = 3


def verify(result: StageResult, captures: tuple[Capture, Capture], manifests: dict[str, Path]) -> None:
    """Hash the files of each side's copy, and say which of them the side has opened.

    What is wrong diverges.

    Args:
        result: gets a pair ``manifest`` for each side.
        captures: of both sides, with the files that they depended on.
        manifests: side -> its manifest, or the folder that it lies in.

    Raises:
        UsageError: a manifest that is not there or is none.
    """
    tables = {side: read_manifest(path) for side, path in manifests.items()}
    if len(tables) > 1 and tables["reference"]["files"] != tables["candidate"]["files"]:
        wrong = _apart(tables["reference"]["files"], tables["candidate"]["files"])
        _judge(result, "manifest", f"the two manifests differ: {wrong}", "give both sides the same copy")
    for side, capture in zip(("reference", "candidate"), captures, strict=True):
        path = manifests[side]
        folder = path if path.is_dir() else path.parent
        checked = check_files(tables[side], folder)
        told = _told(checked)
        _judge(result, f"manifest.{side}", f"{side}: {told}" if told else "", AGAIN, checked)
        _opened(result, side, tables[side], folder, capture)


def explained(failure: WorkerFailed, manifests: dict[str, Path]) -> WorkerFailed:
    """The failure of a side, with the files of its data that are missing or changed.

    A manifest that cannot be read, and files beside those in it, are no reason why a side fails.
    """
    path = manifests.get(failure.side or "")
    if path is None:
        return failure
    try:
        checked = check_files(read_manifest(path), path if path.is_dir() else path.parent)
    except (UsageError, CaptureFormatError, OSError):
        return failure
    told = _told(replace(checked, beside=[]))
    if not told:
        return failure
    message = f"{failure.message}\n  its files are not as the manifest says: {told}\n  fix: {AGAIN}"
    return WorkerFailed(failure.type, message, traceback=failure.traceback, log=failure.log, side=failure.side, frames=failure.frames)


def _apart(one: dict[str, object], other: dict[str, object]) -> str:
    names = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    return f"{len(names)} files, the first is {names[0]}"


def _told(checked: Checked) -> str:
    parts = []
    for what, names in (("missing", checked.missing), ("of other content", checked.other), ("not in the manifest", checked.beside)):
        if names:
            parts.append(f"{len(names)} {what}: {', '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''}")
    return "; ".join(parts)


def _judge(result: StageResult, key: str, wrong: str, fix: str, checked: Checked | None = None) -> None:
    end = Record(0, key, "data", "fact", "none", (), text=wrong or f"{checked.right if checked else 0} files as the manifest says")
    pair = Pair(key, end, end, verdict=DIVERGED if wrong else ALIGNED, judged=bool(wrong), notes=[wrong] if wrong else [])
    result.pairs.append(pair)
    if wrong:
        result.findings.append(Finding("data/manifest", wrong, fix, proven=True))


def _opened(result: StageResult, side: str, table: dict[str, dict[str, object]], folder: Path, capture: Capture) -> None:
    """How many of the data files a side has opened, as far as Python's own audit events tell."""
    real = folder.resolve()
    read = {path for path in capture.manifest.files if Path(path).is_relative_to(real)}
    names = [name for name in table["files"] if name != MANIFEST]
    seen = [name for name in names if str((real / name).resolve()) in read]
    note = f"{side}: {len(names)} files are as the manifest says, it opened {len(seen)} of them"
    if not seen:
        note = f"{side}: it opened none of the {len(names)} files of the manifest, or by a library that opens files by itself"
    result.notes.append(note)
