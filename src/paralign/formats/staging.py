"""Files that appear under their names together and whole, or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paralign.errors import UsageError, WriteFailed

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self


class Staging:
    """Targets of one write.

    Each is written under a temporary name beside it, then all are renamed.

    Leaving the ``with`` block without :meth:`commit` leaves everything as it was.

    Args:
        targets: the files to be written, the one by which the others are found last.
        stale: files of an earlier write that must not outlive this one.
        overwrite: whether files that are there may be replaced.
        sources: identities (device, inode) of the files that are being read.

    Raises:
        UsageError: a target is there already, or is a source, or its folder is not there.
    """

    def __init__(self, targets: Sequence[Path], stale: Sequence[Path], *, overwrite: bool, sources: Collection[tuple[int, int]]) -> None:
        self._targets = list(targets)
        self._stale = [path for path in stale if path not in self._targets]
        self._temporaries = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in self._targets}
        for path in (*self._targets, *self._stale):
            _check(path, overwrite=overwrite, sources=sources)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        for temporary in self._temporaries.values():
            temporary.unlink(missing_ok=True)

    def temporary(self, target: Path) -> Path:
        """Under which name to write a target for now."""
        return self._temporaries[target]

    def commit(self) -> None:
        """Put every target in place.

        Of several, the one that leads to the others goes first and comes back last: at no moment does it lead to a mixture.
        """
        if len(self._targets) > 1:
            self._targets[-1].unlink(missing_ok=True)
        for target in self._targets:
            self._temporaries[target].replace(target)
        for path in self._stale:
            path.unlink(missing_ok=True)


def _check(path: Path, *, overwrite: bool, sources: Collection[tuple[int, int]]) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.parent.is_dir():
            return
        raise UsageError("the folder of the destination is not there", where=str(path.parent), hint="make it first") from None
    except OSError as fault:
        raise UsageError(f"the destination cannot be used: {fault.strerror or fault}", where=str(path), hint="give another path") from fault
    if (status.st_dev, status.st_ino) in sources:
        raise UsageError("the destination is the source", where=str(path), hint="write to another path, then move it")
    if path.is_dir():
        raise UsageError("the destination is a folder", where=str(path), hint="give the name of a file in it")
    if not overwrite:
        raise UsageError(
            "the destination is there already", where=str(path), hint="give another path, or allow it to be overwritten (--overwrite)"
        )


def check_space(folder: Path, needed: int) -> None:
    """Refuse to begin what cannot end.

    Raises:
        WriteFailed: the folder's file system has fewer bytes free; says both numbers.
    """
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise WriteFailed(
            f"the disk is too full: {needed} bytes are needed, {free} are available",
            where=str(folder),
            hint="free some space or give a destination on another disk",
        )
