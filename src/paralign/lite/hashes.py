"""The manifest of a small data set: what every file holds."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from paralign.capture.bounds import checked_path, near
from paralign.errors import CaptureFormatError, UsageError, quoted

#: the file beside the data
MANIFEST = "manifest.json"

#: names the layout of the file, and its version
FORMAT = "paralign-data-1"

#: bytes of a manifest: 100 characters a file, of 100,000 files
LARGEST = 10 << 20


@dataclass
class Checked:
    """What became of a manifest's files: right, missing, other, or not in it."""

    right: int = 0
    missing: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Files in the manifest."""
        return self.right + len(self.missing) + len(self.other)

    @property
    def fine(self) -> bool:
        """Whether every file holds what the manifest says, and no other is there."""
        return not (self.missing or self.other or self.beside)


def sha256(path: Path) -> str:
    """The hash of a file's content, as 64 digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest, checked; ``path`` may be the folder that it lies in.

    Raises:
        UsageError: it is not there.
        CaptureFormatError: it is no manifest, or names a file outside its folder.
    """
    path = path / MANIFEST if checked_path(path).is_dir() else path
    if not checked_path(path).is_file():
        raise UsageError(
            f"there is no manifest{near(path)}",
            where=str(path),
            hint="`paralign data sample` writes one; name the file, or its folder",
        )
    if path.stat().st_size > LARGEST:
        raise CaptureFormatError(
            f"the manifest has more than {LARGEST:,} bytes", where=str(path), hint="name the file that `paralign data sample` wrote"
        )
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as fault:
        raise CaptureFormatError(f"the manifest is no JSON: {fault}", where=str(path), hint="draw the data again") from fault
    files = table.get("files") if isinstance(table, dict) and table.get("format") == FORMAT else None
    if not isinstance(files, dict) or not files:
        raise CaptureFormatError(
            f"this is no manifest of the format {FORMAT}", where=str(path), hint="name the file that `paralign data sample` wrote"
        )
    for name, about in files.items():
        _check_entry(name, about, path)
    return dict(table)


def _check_entry(name: str, about: object, path: Path) -> None:
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or "\\" in name or "\0" in name or not name:
        raise CaptureFormatError(
            f"the manifest names {quoted(name)}, which is not below its folder", where=str(path), hint="do not use this manifest"
        )
    if not isinstance(about, dict) or not isinstance(about.get("sha256"), str) or not isinstance(about.get("bytes"), int):
        raise CaptureFormatError(f"the manifest says no hash and size of {quoted(name)}", where=str(path), hint="draw the data again")


def check_files(manifest: dict[str, Any], folder: Path) -> Checked:
    """Compare the files below a folder with a manifest; sizes first, hashes where these agree."""
    found = Checked()
    for name, about in sorted(manifest["files"].items()):
        path = folder / name
        if not path.is_file():
            found.missing.append(name)
        elif path.stat().st_size != about["bytes"] or sha256(path) != about["sha256"]:
            found.other.append(name)
        else:
            found.right += 1
    known = {*manifest["files"], MANIFEST}
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    found.beside = sorted(name for name in names if name not in known and not any(part.startswith(".") for part in name.split("/")))
    return found
