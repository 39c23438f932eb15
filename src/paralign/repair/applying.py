"""The patch as a file, and its edits in the user's files.

These are changed only when asked for, with a copy of each as it was.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from paralign.errors import UsageError, unwritten

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.repair.trying import Repaired

#: the patch's name in the output folder
PATCH = "repair.patch"

#: how the name of a copy of an edited file ends
BACKUP = ".before-repair"


def write_patch(folder: Path, repaired: Repaired) -> Path | None:
    """Write the patch into the output folder; None where there is none.

    Raises:
        WriteFailed: it cannot be written.
    """
    if not repaired.patch:
        return None
    _replace(folder / PATCH, repaired.patch)
    return folder / PATCH


def remove_patch(folder: Path) -> None:
    """Remove the patch of an earlier check: it would be taken for this one's.

    Raises:
        WriteFailed: it cannot be removed.
    """
    try:
        (folder / PATCH).unlink(missing_ok=True)
    except OSError as fault:
        raise unwritten(folder / PATCH, fault, "the patch of an earlier check") from fault


def check_unchanged(repaired: Repaired) -> None:
    """Refuse files that are not what the patch was made of, or that cannot be written.

    Raises:
        UsageError: a file has changed since, is a link or is read-only; nothing was written.
    """
    for path in repaired.after:
        try:
            now = path.read_bytes()
        except OSError as fault:
            raise UsageError(f"the file to be repaired cannot be read: {fault.strerror}", where=str(path), hint="check again") from fault
        if now != repaired.before[path]:
            raise UsageError(
                "the file has changed since it was checked: nothing was written", where=str(path), hint="run the command again"
            )
        if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
            raise UsageError("the file is read-only: nothing was written", where=str(path), hint="apply result/repair.patch yourself")


def apply(repaired: Repaired) -> list[Path]:
    """Write the edits into the user's files; each file as it was is kept beside it.

    Returns:
        The copies of the files as they were.

    Raises:
        UsageError: as :func:`check_unchanged`.
        WriteFailed: a file cannot be written; the copy is there.
    """
    check_unchanged(repaired)
    kept = []
    for path, content in sorted(repaired.after.items()):
        kept.append(_kept(path, repaired.before[path]))
        _replace(path, content)
    return kept


def _kept(path: Path, content: bytes) -> Path:
    """A copy of a file beside it, under a name that no file has."""
    for number in range(1000):
        copy = path.with_name(f"{path.name}{BACKUP}{f'-{number}' if number else ''}")
        try:
            with copy.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        except OSError as fault:
            raise unwritten(copy, fault, "the copy of a file to be repaired") from fault
        return copy
    raise UsageError("there are a thousand copies of the file already", where=str(path), hint="remove old ones")


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, with the rights that it has."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    except OSError as fault:
        raise unwritten(path, fault) from fault
    finally:
        with suppress(OSError):
            temporary.unlink()
