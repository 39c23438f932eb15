"""Files on object stores: what fsspec reaches by a URL, copied to this machine and back.

``s3://``, ``gs://``, ``memory://`` …
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from paralign.errors import EnvironmentUnavailable, UsageError, WriteFailed, one_line, quoted, shortened, unwritten

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

#: what was copied, beside the copies: name -> what the store knew it by
NOTE = ".copied.json"

#: what stores tell of a file that is another once the file is; one of which they tell none is copied each time
STATES = (
    "ETag",
    "etag",
    "md5Hash",
    "content_md5",
    "md5",
    "sha256",
    "LastModified",
    "last_modified",
    "updated",
    "mtime",
    "modified",
    "created",
)


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a URL.

    >>> is_remote("s3://bucket/model.safetensors"), is_remote("models/model.safetensors")
    (True, False)
    """
    return isinstance(path, str) and "://" in path


def reached(url: str) -> tuple[Any, str]:
    """Fsspec's file system for a URL, and the path in it.

    Raises:
        EnvironmentUnavailable: fsspec, or what it needs for such a URL, is not installed.
        UsageError: a URL of a kind that nobody knows.
    """
    kind = url.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError as fault:
        raise EnvironmentUnavailable("fsspec is not installed", where=url, hint="pip install 'paralign[remote]'") from fault
    try:
        system, path = url_to_fs(url)
    except FileNotFoundError as fault:  # an archive in which something is asked for is opened at once
        raise UsageError("nothing lies there", where=url, hint="check the URL") from fault
    except ImportError as fault:
        told = f"what {quoted(kind + '://')} needs is not installed: {shortened(str(fault))}"
        raise EnvironmentUnavailable(told, where=url, hint="install the package that the message names") from fault
    except ValueError as fault:
        raise UsageError(f"nothing reaches {quoted(kind + '://')}: {shortened(str(fault))}", where=url, hint="give a folder") from fault
    except Exception as fault:  # packages of stores raise what they like
        raise _unread(url, fault) from fault
    return system, str(path).rstrip("/")


@lru_cache(maxsize=1)
def passing() -> Path:
    """A folder for copies that this process alone needs; it goes when the process ends."""
    return Path(_passing().name)


@lru_cache(maxsize=1)
def _passing() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="paralign-")


class Fetched:
    """What lies at a URL, copied into a folder of this machine file by file.

    A file that was copied before and has not changed since is not copied again.

    Args:
        url: of a file, or of all that lies below a name.
        into: the folder for the copies; of this URL alone. None: one that goes with the process.

    Raises:
        EnvironmentUnavailable, UsageError: as :func:`reached`; nothing lies at the URL, or it cannot be read.
    """

    def __init__(self, url: str, into: Path | None = None) -> None:
        self.url = url
        self._system, self._base = reached(url)
        self._folder = into if into is not None else Path(tempfile.mkdtemp(dir=passing()))
        self._known = self._asked(self._base)
        self.is_folder = self._known["type"] == "directory"
        #: of the file, or of the last folder; the part of a chained URL that names it
        self.name = PurePosixPath(self._base).name

    def all(self) -> Path:
        """The copy of the file, or of the folder with all that lies in it.

        Raises:
            UsageError: a file cannot be read, or its name leads out of the folder.
            WriteFailed: a copy cannot be written.
        """
        if not self.is_folder:
            return self.file(self.name)
        for path in self._listed():
            self.file(path.removeprefix(self._base).lstrip("/"))
        return self._folder

    def holds(self, name: str) -> bool:
        """Whether a file of a name lies in the folder.

        Raises:
            UsageError: the store does not answer.
        """
        return bool(self._asked_for(lambda: self._system.exists(f"{self._base}/{name}" if self._base else name)))

    def file(self, name: str) -> Path:
        """The copy of a file in the folder, or of the file itself or one beside it.

        Raises:
            UsageError: it is not there or cannot be read, or its name leads out of the folder.
            WriteFailed: the copy cannot be written.
        """
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or name.startswith("/") or "\\" in name or "\0" in name:
            raise UsageError(f"the file {quoted(name)} does not lie below it", where=self.url, hint="rename it in the store")
        base = self._base if self.is_folder else self._base.rpartition("/")[0]
        path = f"{base}/{name}" if base else name
        known = self._known if path == self._base else self._asked(path)
        mark = [known.get("size"), *(str(known[key]) for key in STATES if known.get(key))]
        target = self._folder.joinpath(*parts)
        noted = self._noted()
        if len(mark) > 1 and noted.get(name) == mark and target.is_file() and target.stat().st_size == mark[0]:
            return target
        self._copy(path, target)
        self._write(self._folder / NOTE, json.dumps({**noted, name: mark}))
        return target

    def _noted(self) -> dict[str, list[Any]]:
        try:
            noted = json.loads((self._folder / NOTE).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return noted if isinstance(noted, dict) else {}

    def _copy(self, path: str, target: Path) -> None:
        partial = target.with_name(f".{target.name}.partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as copy:
                self._pour(path, copy)
            partial.replace(target)
        except OSError as fault:
            raise unwritten(str(target), fault) from fault
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def _pour(self, path: str, copy: Any) -> None:
        """A file's bytes, block by block.

        What cannot be read is told apart from what cannot be written.
        """
        stream = self._asked_for(lambda: self._system.open(path, "rb"))
        with stream:
            while block := self._asked_for(lambda: stream.read(1 << 24)):
                copy.write(block)

    def _write(self, path: Path, text: str) -> None:
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as fault:
            raise unwritten(str(path), fault) from fault

    def _listed(self) -> list[str]:
        found: list[str] = self._asked_for(lambda: self._system.find(self._base))
        return found

    def _asked(self, path: str) -> dict[str, Any]:
        known: dict[str, Any] = self._asked_for(lambda: self._system.info(path))
        return known

    def _asked_for(self, what: Any) -> Any:
        """What a store answers.

        Raises:
            UsageError: it does not, whatever exception its package has for that.
        """
        try:
            return what()
        except FileNotFoundError as fault:
            raise UsageError("nothing lies there", where=self.url, hint="check the URL") from fault
        except Exception as fault:  # packages of stores raise what they like
            raise _unread(self.url, fault) from fault


def _unread(url: str, fault: Exception) -> UsageError:
    """The error for what a store raises when it is read."""
    told = shortened(one_line(str(fault)) or type(fault).__name__)
    return UsageError(f"it cannot be read: {told}", where=url, hint="check the URL, and the credentials of the store")


class Destination:
    """A URL that files are to be put at.

    Args:
        url: of the file, or of the first of several that lie beside each other.

    Raises:
        EnvironmentUnavailable, UsageError: as :func:`reached`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._system, self._base = reached(url)

    @property
    def name(self) -> str:
        """Of the file."""
        return PurePosixPath(self._base).name

    def is_there(self, name: str) -> bool:
        """Whether a file of a name lies there.

        Raises:
            WriteFailed: the store does not answer.
        """
        return bool(self._done(lambda: self._system.exists(f"{self._base.rpartition('/')[0]}/{name}")))

    def put(self, files: Sequence[Path]) -> list[str]:
        """Copy files there, in their order; their URLs.

        Raises:
            WriteFailed: one cannot be written.
        """
        folder = self._base.rpartition("/")[0]
        self._done(lambda: self._system.makedirs(folder, exist_ok=True))
        for file in files:
            self._done(lambda file=file: self._put(file, f"{folder}/{file.name}"))
        start = self.url.rpartition("/")[0]
        return [f"{start}/{file.name}" for file in files]

    def _put(self, file: Path, path: str) -> None:
        with file.open("rb") as source, self._system.open(path, "wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 24)

    def _done(self, what: Any) -> Any:
        try:
            return what()
        except Exception as fault:  # packages of stores raise what they like
            told = shortened(one_line(str(fault)) or type(fault).__name__)
            raise WriteFailed(
                f"it cannot be written: {told}", where=self.url, hint="check the URL, and the credentials of the store"
            ) from fault
