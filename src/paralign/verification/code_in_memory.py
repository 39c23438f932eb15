"""Compiled code that a running process has loaded, as the system tells it.

Nothing in the process can take that back. Linux alone tells; elsewhere nothing is found.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.worker.process.deeds import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Iterable

#: the first parts of packages that hold a framework's compiled code under another name than its own
_PARTS = {"jaxlib": "jax"}

#: columns of a line before the path
_COLUMNS = 5


def code_of(process: int) -> set[str]:
    """The files from which a process has executable code.

    Empty where the system does not tell.
    """
    try:
        lines = Path(f"/proc/{process}/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return set()
    parts = [line.split(maxsplit=_COLUMNS) for line in lines]
    return {each[_COLUMNS] for each in parts if len(each) > _COLUMNS and "x" in each[1] and each[_COLUMNS].startswith("/")}


def frameworks(files: Iterable[str]) -> set[str]:
    """The frameworks whose packages files of compiled code belong to."""
    found = set()
    for file in files:
        parts = Path(file).parts
        for folder in ("site-packages", "dist-packages"):
            if folder in parts[:-1]:
                first = parts[parts.index(folder) + 1]
                found |= {_PARTS.get(first, first)} & FRAMEWORKS
    return found


def within(files: Iterable[str], folder: Path) -> set[str]:
    """Compiled code of a folder's own, installed packages in it left out."""
    return {
        file
        for file in files
        if file.startswith(str(folder.resolve()) + os.sep) and not {"site-packages", "dist-packages"} & set(Path(file).parts)
    }
