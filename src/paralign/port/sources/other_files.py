"""Files beside the source that a program may read: settings, vocabularies, small data."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from paralign.port.sources.texts import ENDINGS, LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: bytes of a file that is copied: settings and vocabularies have less (GPT-2's vocabulary has 1.04 MB), weights and data have more
LARGEST = 1 << 20

#: bytes that are copied in all
MOST_BYTES = 64 << 20

#: files that are copied in all
MOST_FILES = 10_000

#: endings of files that a port does not read: weights of PyTorch, which are converted by themselves, and what Python has compiled
WEIGHTS = frozenset({".pt", ".pth", ".ckpt", ".safetensors", ".pdparams", ".pdopt", ".pyc", ".pyo"})

#: a file that a folder holds if it is a virtual environment
_ENVIRONMENT = "pyvenv.cfg"

_NAMES_TORCH = re.compile(rb"\b(torch|torchvision)\b")


@dataclass(frozen=True)
class LeftOut:
    """A file, or a folder of ``files``, that is not copied: its size in bytes, and why.

    A folder's path ends with a slash.
    """

    path: str
    size: int
    why: str
    files: int = 1


@dataclass
class OtherFiles:
    """Files of a source folder that are no source, by their paths within it.

    ``contents`` holds what is copied; ``modes`` the permissions of each.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def count_left_out(self) -> int:
        """How many files are not copied."""
        return sum(each.files for each in self.left_out)

    @property
    def naming_torch(self) -> list[str]:
        """Files that name PyTorch, and are copied as they are."""
        return sorted(path for path, content in self.contents.items() if _NAMES_TORCH.search(content))


def other_files(folder: Path, taken: Collection[str] = ()) -> OtherFiles:
    """Read what a folder holds beside its source, the smallest first.

    A folder without source below is copied as a whole or not at all, but for files that are never copied: half a data set looks like
    one. Hidden files and folders, caches and virtual environments are passed over. Links are not followed.

    Args:
        folder: the source.
        taken: paths within it under which something else is written.

    Returns:
        What can be copied, and what is left out and why.
    """
    found, sizes, programs = OtherFiles(), dict[str, int](), set[str]()
    for here, folders, files in os.walk(folder):
        links = [name for name in folders if Path(here, name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in links and not _is_passed_over(Path(here, name)))
        for each in sorted([*files, *links]):
            path = Path(here, each)
            if each.startswith("."):
                continue
            if path.suffix in ENDINGS:
                programs.update(parent.as_posix() for parent in path.relative_to(folder).parents)
                continue
            size, why = _judged(path)
            name = path.relative_to(folder).as_posix()
            shown = name.encode(errors="backslashreplace").decode()
            if shown != name:
                why = why or "its name is not UTF-8"
            elif shown in taken:
                why = why or "paralign writes a file of this name"
            if why:
                found.left_out.append(LeftOut(shown, size, why))
            else:
                sizes[shown] = size
    _read(found, folder, sizes, programs)
    return found


def _read(found: OtherFiles, folder: Path, sizes: Mapping[str, int], programs: Collection[str]) -> None:
    """Read files of known sizes as far as there is room; ``programs``: folders with source."""
    units: dict[str, list[str]] = {}
    for shown in sorted(sizes, key=lambda each: (sizes[each], each)):
        units.setdefault(_unit(shown, programs), []).append(shown)
    total = 0
    for unit, size in sorted(((unit, sum(map(sizes.__getitem__, units[unit]))) for unit in units), key=lambda each: (each[1], each[0])):
        members = units[unit]
        if total + size > MOST_BYTES or len(found.contents) + len(members) > MOST_FILES:
            found.left_out.append(LeftOut(unit, size, f"more than {MOST_BYTES >> 20} MiB or {MOST_FILES:,} files in all", len(members)))
            continue
        total += size
        for shown in members:
            why = _read_into(found, folder, shown)
            if why:
                found.left_out.append(LeftOut(shown, sizes[shown], why))


def _unit(shown: str, programs: Collection[str]) -> str:
    """What a file is copied with: the outermost folder around it without source, else itself."""
    outer = [parent.as_posix() for parent in PurePosixPath(shown).parents]
    return next((f"{each}/" for each in reversed(outer[:-1]) if each not in programs), shown)


def _is_passed_over(folder: Path) -> bool:
    """Whether a folder holds nothing that the user wrote."""
    name = folder.name
    return name in LEFT_OUT or name.startswith(".") or name.endswith(".egg-info") or (folder / _ENVIRONMENT).exists()


def _judged(path: Path) -> tuple[int, str]:
    """A file's size, and why it is not copied; empty where it is."""
    try:
        status = path.lstat()
    except OSError as error:
        return 0, error.strerror or type(error).__name__
    if stat.S_ISLNK(status.st_mode):
        return 0, "a link"
    if not stat.S_ISREG(status.st_mode):
        return 0, "no regular file"
    if path.suffix.lower() in WEIGHTS:
        return status.st_size, "weights or compiled code"
    return status.st_size, f"larger than {LARGEST >> 20} MiB" if status.st_size > LARGEST else ""


def _read_into(found: OtherFiles, folder: Path, shown: str) -> str:
    """Read one file; gives why it is left out, else ''.

    What has become a link or a pipe since it was judged is not read.
    """
    try:
        handle = os.open(folder / shown, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return "no regular file"
            content = file.read(LARGEST + 1)
    except OSError as error:
        return error.strerror or type(error).__name__
    if len(content) > LARGEST:
        return f"larger than {LARGEST >> 20} MiB"
    found.contents[shown] = content
    found.modes[shown] = (stat.S_IMODE(status.st_mode) & 0o777) | stat.S_IRUSR | stat.S_IWUSR  # --force writes it again
    return ""
