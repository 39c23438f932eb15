"""A copy of the candidate's code in a folder of its own: edits are tried there, and nothing of the user's is touched.

Python files are copied. All else (data, checkpoints) is linked: it may be large, and a program only reads it.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paralign.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.run.project import Project

#: entries that are looked at; folders beyond are linked whole, as data sets are
MOST = 20_000

#: folders that hold no code of the user's
_SKIPPED = frozenset({"__pycache__", ".git", ".hg", "node_modules", "site-packages", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


@dataclass(frozen=True)
class Copy:
    """Folders of the user's and the copies of them."""

    folders: tuple[tuple[Path, Path], ...]

    def inside(self, path: Path) -> Path | None:
        """Where the copy of a file lies; None of a file outside of all copied folders."""
        for own, copied in self.folders:
            if path.is_relative_to(own):
                return copied / path.relative_to(own)
        return None

    def outside(self, text: str) -> str:
        """A text with the user's paths in the place of the copies'."""
        for own, copied in self.folders:
            text = text.replace(str(copied), str(own))
        return text

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
            if inside is None or inside.is_symlink() or not inside.is_file():
                raise UsageError("the file to be edited is not among those that were copied", where=str(path))
            inside.write_bytes(content)


def copied(project: Project, folder: Path, out: Path) -> Copy:
    """Copy the candidate's code below a folder.

    Args:
        project: whose candidate.
        folder: an empty folder for the copy.
        out: the output folder, which is left out.
    """
    wanted = [project.folder.resolve()]
    for path in (project.candidate.root.resolve(), project.candidate.module.resolve().parent):
        if not any(path.is_relative_to(known) for known in wanted):
            wanted.append(path)
    pairs = tuple((own, folder / f"copy-{number}" / own.name) for number, own in enumerate(wanted))
    for own, inside in pairs:
        _mirror(own, inside, out.resolve())
    return Copy(pairs)


def _mirror(own: Path, inside: Path, out: Path) -> None:
    """A folder with its Python files copied and all else linked, the outermost folders first."""
    todo = deque([(own, inside)])
    left = MOST
    while todo:
        folder, copy = todo.popleft()
        copy.mkdir(parents=True, exist_ok=True)
        for entry in os.scandir(folder):
            left -= 1
            path, target = folder / entry.name, copy / entry.name
            if path == out or entry.name in _SKIPPED:
                continue
            if entry.name.endswith(".py") and entry.is_file():
                shutil.copyfile(path, target)
            elif left > 0 and entry.is_dir(follow_symlinks=False) and not (path / "pyvenv.cfg").exists():
                todo.append((path, target))
            else:
                target.symlink_to(path)
