"""The folder that a check writes into."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.errors import UsageError
from paralign.report import artifacts
from paralign.run.locking import locked
from paralign.run.project import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterator


def make_folders(folder: Path, *inner: str) -> None:
    """Make the output folder and folders in it."""
    try:
        for path in (folder, *(folder / name for name in inner)):
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "a file is there" if isinstance(error, (FileExistsError, NotADirectoryError)) else error.strerror
        raise UsageError(
            f"the output folder cannot be made: {why}",
            where=str(folder),
            hint="name another: --out, or `out` in paralign.toml",
        ) from error


@contextmanager
def check_folder(out: str | Path | None) -> Iterator[Path]:
    """The named output folder, locked and without earlier results.

    A temporary one where none is named.
    """
    if out is not None:
        path = Path(out)
        make_folders(path)
        with locked(path.resolve()):
            artifacts.invalidate(path, STAGES)
            yield path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="paralign-") as folder:
        yield Path(folder)
