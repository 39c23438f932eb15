"""A copy of the candidate's code, in which edits are tried.

Nothing of the user's is touched.

Python files and the candidate's settings files are copied. All else (data, checkpoints) is linked: it may be large, and a program only
reads it.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paralign.errors import UsageError
from paralign.repair.settings_read import SKIPPED, SettingsRead, entries_of, settings_read

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.run.project import Project

#: entries that are looked at; folders beyond are linked whole, as data sets are
MOST = 20_000


@dataclass(frozen=True)
class Copy:
    """Folders of the user's and the copies of them.

    Args:
        folders: of the user's, each with its copy.
        settings: files of settings, of the candidate and of the reference.
    """

    folders: tuple[tuple[Path, Path], ...]
    settings: SettingsRead = field(default_factory=SettingsRead)

    def inside(self, path: Path) -> Path | None:
        """Where the copy of a file lies; None of a file outside of all copied folders."""
        for own, copied in self.folders:
            if path.is_relative_to(own):
                return copied / path.relative_to(own)
        return None

    def holds(self, path: Path) -> bool:
        """Whether a file was copied.

        One that is linked, or lies in a folder that is, is the user's own.
        """
        inside = self.inside(path)
        return inside is not None and inside.is_file() and inside.resolve() == inside

    def outside(self, text: str) -> str:
        """A text with the user's paths in the place of the copies'."""
        for own, copied in self.folders:
            text = text.replace(str(copied), str(own))
        return text

    def names(self) -> frozenset[str]:
        """The names of the copied files and of their folders, without their endings."""
        files = [path for _, copied in self.folders for path in copied.rglob("*.py")]
        return frozenset(name for path in files for name in (path.stem, *path.parent.parts))

    def project(self, project: Project) -> Project:
        """The project with the candidate's side in the copy."""
        side = project.candidate
        module, root = self.inside(side.module), self.inside(side.root)
        if module is None or root is None:
            raise UsageError("the candidate's code was not copied", where=str(side.root))
        moved = replace(side, module=module, root=root)
        settings = replace(project.settings, sides={**project.settings.sides, "candidate": moved})
        return replace(project, path=self.inside(project.path) or project.path, candidate=moved, settings=settings)

    def write(self, edited: dict[Path, bytes]) -> None:
        """Put edited files in the place of copied ones."""
        for path, content in edited.items():
            inside = self.inside(path)
            if inside is None or not self.holds(path):
                raise UsageError("the file to be edited is not among those that were copied", where=str(path))
            inside.write_bytes(content)


def copied(project: Project, folder: Path, out: Path) -> Copy:
    """Copy the candidate's code below a folder.

    Args:
        project: whose candidate.
        folder: an empty folder for the copy.
        out: the output folder, which is left out.
    """
    wanted: list[Path] = []
    places = {project.folder.resolve(), project.candidate.root.resolve(), project.candidate.module.resolve().parent}
    for path in sorted(places, key=lambda each: (len(each.parts), each)):
        if not any(path.is_relative_to(known) for known in wanted):
            wanted.append(path)
    pairs = tuple((own, folder.resolve() / f"copy-{number}" / own.name) for number, own in enumerate(wanted))
    settings = settings_read(project, out)
    for own, inside in pairs:
        _mirror(own, inside, out.resolve(), frozenset(settings.own))
    return Copy(pairs, settings)


def _mirror(own: Path, inside: Path, out: Path, settings: frozenset[Path] = frozenset()) -> None:
    """A folder with its Python and settings files copied and all else linked.

    The outermost folders come first.
    """
    todo = deque([(own, inside)])
    left = MOST
    while todo:
        folder, copy = todo.popleft()
        copy.mkdir(parents=True, exist_ok=True)
        for entry in entries_of(folder):
            left -= 1
            path, target = folder / entry.name, copy / entry.name
            if path == out or entry.name in SKIPPED:
                continue
            if _is_copied(entry, path, target, settings):
                continue
            if left > 0 and _is_opened(entry, path):
                todo.append((path, target))
            else:
                target.symlink_to(path)


def _is_copied(entry: os.DirEntry[str], path: Path, target: Path, settings: frozenset[Path]) -> bool:
    """Copy an entry that is Python code or one of the settings.

    False of all else, and of what cannot be read.
    """
    try:
        if not (entry.name.endswith(".py") or path in settings) or not entry.is_file():
            return False
        shutil.copyfile(path, target)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True


def _is_opened(entry: os.DirEntry[str], path: Path) -> bool:
    """Whether an entry is a folder to look into: not a link, not an environment, and readable."""
    try:
        return entry.is_dir(follow_symlinks=False) and os.access(path, os.R_OK | os.X_OK) and not (path / "pyvenv.cfg").exists()
    except OSError:
        return False
