"""Where a sweep's results are kept: a folder, or what fsspec reaches.

``memory://``, ``s3://``, ``gs://`` …
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.capture.bounds import Limit
from paralign.errors import CaptureFormatError, UsageError, unwritten
from paralign.remote import is_remote, reached

if TYPE_CHECKING:
    from collections.abc import Iterator

#: the state of one port: its report, which has about 20 MB with 10,000 operations
LARGEST = Limit("PARALIGN_MAX_REPORT", 1 << 28, "bytes")


class Store:
    """Files of results by their path below one root.

    Args:
        root: a folder, or a URL that fsspec understands.

    Raises:
        EnvironmentUnavailable: a URL, and fsspec or what it needs for such a URL is not installed.
        UsageError: a URL of a kind that nobody knows.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.remote = is_remote(root)
        self._system: Any = None
        self._base = root.rstrip("/")
        if self.remote:
            self._system, self._base = reached(root)

    def read(self, name: str) -> bytes | None:
        """What a file holds; None where there is none.

        Raises:
            CaptureFormatError: it is larger than any that a sweep writes.
            UsageError: it cannot be read.
        """
        path = f"{self._base}/{name}"
        try:
            with self._system.open(path, "rb") if self.remote else Path(path).open("rb") as file:
                data: bytes = file.read(LARGEST.value + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as fault:
            raise UsageError(
                f"an earlier result cannot be read: {fault.strerror or fault}", where=path, hint="sweep with --fresh, or into another --out"
            ) from fault
        LARGEST.check(len(data), "the file has at least", path, CaptureFormatError)
        return data

    def write(self, name: str, data: bytes) -> None:
        """Put a file in place, whole or not at all where the store can.

        Raises:
            WriteFailed: it cannot be written.
        """
        path = f"{self._base}/{name}"
        try:
            if self.remote:
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._system.pipe_file(path, data)
                return
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
            with partial.open("xb") as file:
                file.write(data)
            partial.replace(target)
        except OSError as fault:
            raise unwritten(path, fault) from fault

    def upload(self, folder: Path, name: str) -> int:
        """Copy all files of a folder below a name; gives how many there were.

        Those whose names begin with a dot are left out.

        Raises:
            WriteFailed: one cannot be written.
        """
        count = 0
        for path in _files(folder):
            target = f"{self._base}/{name}/{path.relative_to(folder).as_posix()}"
            try:
                self._system.makedirs(target.rpartition("/")[0], exist_ok=True)
                with path.open("rb") as source, self._system.open(target, "wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
            except OSError as fault:
                raise unwritten(target, fault) from fault
            count += 1
        return count


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
            yield path
