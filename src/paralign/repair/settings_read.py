"""Which settings files each side reads, by the names that stand in its sources.

A file of both sides is never edited: an edit there is one of the reference too. What the reference really read is known once it ran.
"""

from __future__ import annotations

import ast
import os
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.layout import read_manifest
from paralign.errors import CaptureFormatError
from paralign.repair.edited_settings import LARGEST
from paralign.repair.edited_source import ENDINGS, Source, Unreadable
from paralign.repair.fault_sites import imported_files
from paralign.worker.process import looked_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.run.project import Project, SideSettings
    from paralign.run.recorder import Recorder

#: entries of folders that are looked at, and settings files of a side: more are data
ENTRIES, MOST = 20_000, 64

#: folders that hold no code of the user's
SKIPPED = frozenset({"__pycache__", ".git", ".hg", "node_modules", "site-packages", ".mypy_cache", ".ruff_cache", ".pytest_cache"})

#: files that are never a program's settings
_OURS = frozenset({"paralign.toml", "pyproject.toml", "package.json"})

#: letters of a name without its ending from which on it names a file
_SHORTEST = 3


#: what stands for a file that is not there
_NOWHERE = (-1, -1)


@dataclass(frozen=True)
class SettingsRead:
    """Settings files by their real paths: of the candidate alone, of the reference."""

    own: tuple[Path, ...] = ()
    theirs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _Side:
    """What is known of a side.

    The words of its sources, the folders of these, and those that are its own.
    """

    words: frozenset[str]
    folders: frozenset[Path]
    own: frozenset[Path]

    def names(self, path: Path) -> bool:
        """Whether the side's sources have a file's name, with or without its ending."""
        return path.name in self.words or (path.stem in self.words and len(path.stem) >= _SHORTEST)

    def has(self, path: Path) -> bool:
        """Whether a file lies in or below a folder of the side's alone."""
        return any(path.is_relative_to(folder) for folder in self.own)

    def reads(self, path: Path) -> bool:
        """Whether a file is named, or lies beside a source in a folder of this side alone."""
        return self.names(path) or (path.parent in self.folders and path.parent in self.own)


def settings_read(project: Project, out: Path) -> SettingsRead:
    """The settings files that each side seems to read.

    One in a folder of the candidate's alone is the reference's too only if that names it and has no other file of this name.

    Args:
        project: whose sides.
        out: the output folder, which is left out.
    """
    places = {project.folder.resolve(), *(each.resolve() for side in _sides(project) for each in (side.root, side.module.parent))}
    found = list(_below(places, out.resolve()))
    if not found:
        return SettingsRead()
    theirs, own = (_side(side, other) for side, other in (_sides(project), reversed(_sides(project))))
    outside = {path.name for path in found if not own.has(path)}
    named_alone = theirs.words - outside
    read = []
    for path in found:
        is_possible = not own.has(path) or path.name in named_alone
        if is_possible and theirs.reads(path):
            read.append(path)
    files = {_file(path) for path in read}
    editable = [path for path in found if own.reads(path) and not path.is_symlink() and _file(path) not in files]
    return SettingsRead(tuple(editable[:MOST]), tuple(read[:MOST]))


@dataclass(frozen=True)
class FilesRead:
    """Files that a side's processes were seen to open, whatever path led there."""

    files: frozenset[tuple[int, int]] = frozenset()

    def has(self, path: Path) -> bool:
        """Whether a file is among them."""
        return _file(path) in self.files


def files_read(recorder: Recorder) -> FilesRead:
    """The files behind all captures of a side so far.

    A file of which only was asked whether it is there is not among them: no edit changes that.
    """
    told = set(recorder.depended_on)
    for name in recorder.asked:
        told.update(_files_of(recorder.folder / name))
    paths = [path for path, mark in map(looked_at.unmarked, told) if mark in ("", looked_at.TIME)]
    return FilesRead(frozenset(_file(Path(path)) for path in paths) - {_NOWHERE})


def _files_of(capture: Path) -> Iterable[str]:
    try:
        return read_manifest(capture).files
    except CaptureFormatError:  # it is being recorded anew
        return ()


def _sides(project: Project) -> tuple[SideSettings, SideSettings]:
    return project.reference, project.candidate


def _side(side: SideSettings, other: SideSettings) -> _Side:
    module, foreign = side.module.resolve(), other.module.resolve()
    files = [path.resolve() for path in imported_files(side.root.resolve(), module)]
    folders = {path.parent for path in files}
    own = {folder for folder in folders | {side.root.resolve()} if not foreign.is_relative_to(folder)}
    return _Side(frozenset(word for path in files for word in _words(path)), frozenset(folders), frozenset(own))


def _words(path: Path) -> Iterator[str]:
    """The texts of a source that may name a file, and the last parts of paths."""
    try:
        tree = Source.read(path).tree
    except Unreadable:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= 500:  # noqa: PLR2004 - a path
            yield node.value
            yield re.split(r"[\\/]", node.value)[-1]


def _file(path: Path) -> tuple[int, int]:
    """What tells a file from others, whatever path leads there."""
    try:
        stat = path.stat()
    except OSError:
        return _NOWHERE
    return stat.st_dev, stat.st_ino


def _below(places: Iterable[Path], out: Path) -> Iterator[Path]:
    """The settings files in and below some folders, the outermost first."""
    todo = deque(sorted(places, key=lambda each: (len(each.parts), each)))
    seen: set[Path] = set()
    left = ENTRIES
    while todo and left > 0:
        folder = todo.popleft()
        if folder in seen or folder == out or (folder / "pyvenv.cfg").exists():
            continue
        seen.add(folder)
        for entry in sorted(entries_of(folder), key=lambda each: each.name):
            left -= 1
            if entry.name in SKIPPED or entry.name in _OURS:
                continue
            if _is_folder(entry):
                todo.append(folder / entry.name)
            elif _is_small(entry):
                yield folder / entry.name


def entries_of(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing of one that cannot be read."""
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_small(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a regular file that is named and as small as settings are."""
    try:
        return entry.name.lower().endswith(tuple(ENDINGS)) and entry.is_file() and entry.stat().st_size <= LARGEST
    except OSError:
        return False
