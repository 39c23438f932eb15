"""Paths that an agent names: below one folder, without tricks."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.bounds import near
from paralign.errors import UsageError, plain_text, quoted

if TYPE_CHECKING:
    from typing import Any

#: characters of a path at most: what Linux takes (PATH_MAX)
LONGEST_PATH = 4096


def text(value: Any, what: str, longest: int) -> str:
    """A text without control characters.

    Args:
        value: what was given.
        what: what messages call it.
        longest: characters at most.

    Raises:
        UsageError: it is no text, empty, too long, or holds characters that are not shown.
    """
    if not isinstance(value, str):
        raise UsageError(f"{what} must be a text, not {type(value).__name__}")
    if len(value) > longest:
        raise UsageError(f"{what} has {len(value)} characters; at most {longest} are taken")
    if not value.strip():
        raise UsageError(f"{what} is empty")
    if plain_text(value) != value or any(unicodedata.category(letter) == "Cc" for letter in value):
        raise UsageError(f"{what} holds control characters: {quoted(value)}", hint="name it in plain characters")
    return value


class Root:
    """The folder that every path has to lie in.

    Args:
        folder: it; links in it are followed once, here.

    Raises:
        UsageError: it is no folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise UsageError(f"the root is no folder{near(folder)}", where=str(folder), hint="paralign mcp FOLDER")

    def path(self, value: Any, what: str = "the path") -> Path:
        """A path below the root, whole and with all links followed; it need not be there.

        Args:
            value: from the root, or absolute.
            what: what messages call it.

        Raises:
            UsageError: it leads out of the root, or is no path.
        """
        given = text(value, what, LONGEST_PATH)
        try:
            resolved = (self.folder / given).resolve()
        except (OSError, RuntimeError) as fault:
            raise UsageError(f"{what} cannot be followed: {fault}", where=quoted(given)) from fault
        if not resolved.is_relative_to(self.folder):
            raise UsageError(f"{what} leads out of the root", where=quoted(given), hint=f"name a path below {self.folder}")
        return resolved

    def check_links(self, path: Path) -> None:
        """Refuse a folder in which a link leads out of the root.

        Its files would be read as the root's.

        Raises:
            UsageError: there is one.
        """
        for here, folders, files in os.walk(path):
            for each in (Path(here, name) for name in (*folders, *files)):
                if each.is_symlink() and not each.resolve().is_relative_to(self.folder):
                    raise UsageError("a link leads out of the root", where=quoted(str(each)), hint="name a folder without it")

    def within(self, path: Path) -> str:
        """A path as commands take it from the root: never an option, never the name of a stage.

        >>> Root("/").within(Path("/-x"))
        './-x'
        """
        return f"./{path.relative_to(self.folder).as_posix()}"
