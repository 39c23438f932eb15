"""A port that is made again in its own folder.

What the user has edited since stays as it is, and is named.

``port.json`` holds a hash of every file as it was written. A file that has it still is ours to replace; any other is the user's.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paralign.capture.bounds import Limit, open_regular
from paralign.errors import CaptureFormatError, UsageError, unwritten

if TYPE_CHECKING:
    from pathlib import Path

#: the record, in the project's folder
RECORD = "port.json"

#: a record of 100,000 files has 12 MB
LARGEST = Limit("PARALIGN_MAX_PORT_RECORD", 1 << 26, "bytes")


@dataclass
class Written:
    """What a port wrote, or would have: paths from the project's folder."""

    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


def check_own(target: Path) -> None:
    """Refuse a folder that no port has written.

    Raises:
        UsageError: it has no record.
        CaptureFormatError: the record is damaged.
    """
    if not (target / RECORD).is_file():
        raise UsageError(
            f"the folder is not one that `paralign port` wrote: it has no {RECORD}", where=str(target), hint="name a new or empty folder"
        )
    recorded(target)


def recorded(target: Path) -> dict[str, str]:
    """Path -> hash of each file as it was written; empty without a record.

    Raises:
        CaptureFormatError: the record is damaged, or too large.
    """
    path = target / RECORD
    if not path.exists():
        return {}
    with open_regular(path) as file:
        raw = file.read(LARGEST.value + 1)
    LARGEST.check(len(raw), "the record has more than", str(path))
    try:
        content: Any = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as fault:
        raise CaptureFormatError(f"the record of the port is damaged: {fault}", where=str(path), hint="name a new folder") from fault
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        raise CaptureFormatError("the record of the port is damaged: it maps no names to hashes", where=str(path), hint="name a new folder")
    return files


def edited(made: Path, target: Path) -> list[str]:
    """The files of a new port that would not be written, because the user's stand there.

    Args:
        made: the folder of the new port.
        target: the folder of the port so far.
    """
    known = recorded(target)
    return [name for name, path in _files(made) if not _is_ours(target, name, known, path.read_bytes())]


def _files(made: Path) -> list[tuple[str, Path]]:
    return sorted((path.relative_to(made).as_posix(), path) for path in made.rglob("*") if path.is_file())


def merge(made: Path, target: Path) -> Written:
    """Put the files of a new port in the place of those that nobody has edited.

    Args:
        made: the folder of the new port.
        target: the folder of the port so far.

    Raises:
        WriteFailed: a file cannot be written; those before it are, and the record says so.
        CaptureFormatError: the record is damaged.
    """
    known, found = recorded(target), Written()
    hashes = dict(known)
    try:
        for name, path in _files(made):
            content = path.read_bytes()
            if not _is_ours(target, name, known, content):
                found.kept.append(name)
                continue
            _replace(target / name, content)
            hashes[name] = _hash(content)
            found.written.append(name)
    finally:
        _record(target, hashes)
    return found


def record_all(target: Path) -> None:
    """Record a new port: every file of its folder.

    Raises:
        WriteFailed: the record cannot be written.
    """
    files = sorted(path for path in target.rglob("*") if path.is_file() and not path.is_symlink())
    _record(target, {path.relative_to(target).as_posix(): _hash(path.read_bytes()) for path in files})


def is_as_written(name: str, known: dict[str, str], content: bytes) -> bool:
    """Whether a file's content is what a port has written; ``known`` is the record."""
    return known.get(name) == _hash(content)


def record_again(target: Path, names: list[str]) -> None:
    """Record files that paralign itself has changed since.

    Raises:
        WriteFailed: the record cannot be written.
        CaptureFormatError: the record is damaged.
    """
    _record(target, {**recorded(target), **{name: _hash((target / name).read_bytes()) for name in names}})


def _is_ours(target: Path, name: str, known: dict[str, str], content: bytes) -> bool:
    """Whether a file may be written: it is missing, or as it was written, and no link."""
    path = target / name
    if path.is_symlink() or not path.parent.resolve().is_relative_to(target.resolve()) or path.is_dir():
        return False
    try:
        now = path.read_bytes()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return now == content or known.get(name) == _hash(now)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _record(target: Path, files: dict[str, str]) -> None:
    text = json.dumps({"schema": 1, "files": dict(sorted(files.items()))}, ensure_ascii=False, indent=1) + "\n"
    _replace(target / RECORD, text.encode("utf-8"))


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError as fault:
        raise unwritten(path, fault, "the port") from fault
    finally:
        with suppress(OSError):
            temporary.unlink()
