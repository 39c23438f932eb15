"""What a checkpoint is: named tensors, each read when it is asked for."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from paralign.capture.bounds import FACTOR, NAME, TENSORS, UNFOLDED, axes_fault, is_text
from paralign.dtypes import STORAGE, Typed, canonical
from paralign.errors import CaptureFormatError, UsageError, quoted, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from paralign.formats.mapped import Mapped, Region

#: what wrappers put before every name
PREFIXES = ("module.", "_orig_mod.", "model.")


class Entry(NamedTuple):
    """Element type (canonical name) and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its elements.

        >>> Entry("bfloat16", (2, 3)).nbytes
        12
        """
        return count(self.shape) * STORAGE[self.dtype].itemsize


def count(shape: Sequence[int]) -> int:
    """The number of elements, exact however large.

    >>> count((2, 3)), count(())
    (6, 1)
    """
    total = 1
    for length in shape:
        total *= length
    return total


@dataclass(frozen=True)
class Stored:
    """A tensor where it lies.

    Args:
        entry: element type and shape.
        load: gives the elements in any byte order and layout, as raw bits where the type is in ``RAW``.
        parts: the ranges of files that ``load`` looks at.
        direct: whether ``parts``, one after the other, are exactly the elements: little-endian, in C order.
        identity: equal for two names of one tensor; None where nothing is known.
    """

    entry: Entry
    load: Callable[[], np.ndarray[Any, Any]]
    parts: tuple[Region, ...] = ()
    direct: bool = False
    identity: Hashable = None

    def value(self) -> Typed:
        """The elements in native byte order; without a copy where the file has them so."""
        array = self.load()
        return Typed(array.astype(STORAGE[self.entry.dtype], copy=False), self.entry.dtype)

    def expect(self) -> None:
        """Tell the system that the files' bytes will be looked at soon."""
        for part in self.parts:
            part.expect()

    def release(self) -> None:
        """Give back the memory in which the files' bytes were looked at."""
        for part in self.parts:
            part.release()


def held(array: np.ndarray[Any, Any], dtype: str | None = None) -> Stored:
    """An array that is in memory; ``dtype`` tells what raw bits stand for.

    Raises:
        UnsupportedTensor: its elements are no numbers.
    """
    name = dtype or canonical(array.dtype)
    return Stored(Entry(name, array.shape), lambda: array, identity=("memory", id(array)))


def little(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a numpy type are stored lowest byte first (or have one byte).

    >>> import numpy as np
    >>> little(np.dtype("<f4")), little(np.dtype(">f4")), little(np.dtype("bool"))
    (True, False, True)
    """
    return bool(dtype == dtype.newbyteorder("<"))


@dataclass
class Contents:
    """What a format's reader found in a file."""

    format: str
    tensors: dict[str, Stored]
    files: list[Mapped]
    metadata: dict[str, str] = field(default_factory=dict)
    nesting: str | None = None
    ignored: list[str] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)


class Checkpoint:
    """The tensors of a file or of a set of shards, by name, each read when it is asked for.

    Attributes:
        path: what was opened.
        format: ``torch``, ``torch legacy``, ``safetensors``, ``paddle``, ``pickle``, ``npz`` or ``npy``.
        names: of all tensors, in the order of the file.
        entries: element type, shape and bytes by name.
        aliases: the name of a tensor that is another name of an earlier one -> that earlier name.
        metadata: texts that the file holds about itself.
        nesting: the dotted keys that were unwrapped to reach the tensors, such as ``state_dict``; None where there are none.
        prefix: what every name begins with because of a wrapper, such as ``module.``; it is taken off on request only.
        stripped: the prefix that was taken off.
        ignored: what the file holds besides these tensors, such as ``optimizer``.
        counts: numbers of steps that the state of an optimizer holds as plain numbers, by dotted name.
        files: the paths of all files that it reads.
    """

    def __init__(self, path: Path, contents: Contents, strip: str | None = None) -> None:
        _check_bounds(contents, str(path))
        self.path, self.format = path, contents.format
        self.metadata, self.nesting, self.ignored = contents.metadata, contents.nesting, contents.ignored
        self.counts = contents.counts
        self._files = contents.files
        self.prefix, self.stripped = wrapping(contents.tensors), strip or None
        self._tensors = stripped(contents.tensors, strip, str(path))
        self.names = list(self._tensors)
        self.entries: Mapping[str, Entry] = {name: stored.entry for name, stored in self._tensors.items()}
        self.aliases = _aliases(self._tensors)

    @property
    def files(self) -> list[Path]:
        """The paths of all files that it reads."""
        return [file.path for file in self._files]

    @property
    def identities(self) -> set[tuple[int, int]]:
        """What tells these files from any others, whatever their names."""
        return {file.identity for file in self._files}

    def value(self, name: str) -> Typed:
        """A tensor in native byte order, in the memory of the file where that is possible.

        It is read-only then.

        Raises:
            UsageError: there is no tensor of this name; names those that are spelt like it.
            CaptureFormatError: the bytes of this tensor are damaged.
        """
        return self.stored(name).value()

    def add(self, name: str, value: Typed) -> None:
        """Put a tensor that is in memory beside those of the file.

        Raises:
            UsageError: there is one of this name already.
        """
        if name in self._tensors:
            raise UsageError(f"the checkpoint holds {name!r} already", where=str(self.path))
        self._tensors[name] = held(value.array, value.dtype)
        self.names.append(name)
        self.entries = {**self.entries, name: self._tensors[name].entry}

    def release(self, name: str) -> None:
        """Give back the memory in which a tensor was looked at.

        Its value may still be used and comes from the file again.
        """
        self.stored(name).release()

    def stored(self, name: str) -> Stored:
        """Where a tensor lies.

        Raises:
            UsageError: there is no tensor of this name; names those that are spelt like it.
        """
        if name not in self._tensors:
            close = difflib.get_close_matches(name, self.names, 3)
            raise UsageError(
                f"the checkpoint holds no tensor {name!r}",
                where=str(self.path),
                hint=f"close to it are {', '.join(close)}" if close else f"it holds {some(self.names)}",
            )
        return self._tensors[name]


def some(names: Iterable[str], most: int = 8) -> str:
    """The first of many names, for messages.

    >>> some("abc", 2), some([])
    ('a, b and 1 more', 'none')
    """
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return shortened(", ".join(found[:most])) + more or "none"


def _check_bounds(contents: Contents, where: str) -> None:
    """Refuse tensors that would cost far more than their file.

    Too many, of endless names, or one range of bytes many times over.

    Raises:
        TooLarge: names the limit and what raises it.
        CaptureFormatError: a name that no text can hold, a shape that no array can have.
    """
    TENSORS.check(len(contents.tensors), "the file holds", where)
    most = NAME.value
    for name, stored in contents.tensors.items():
        if len(name) > most:
            NAME.check(len(name), f"the tensor {quoted(name[:32])}… has a name of", where)
        if not is_text(name):
            raise damaged(f"the name {quoted(name)} holds half of a surrogate pair", where)
        fault = axes_fault(stored.entry.shape)
        if fault is not None:
            raise damaged(f"the tensor {quoted(name)} has the {fault}", where)
    unfolded = sum(stored.entry.nbytes for stored in contents.tensors.values())
    UNFOLDED.check(unfolded, "the tensors of this file unfold to", where, least=FACTOR * sum(file.size for file in contents.files))


def wrapping(names: Iterable[str]) -> str | None:
    """The wrappers' prefix that all names have in common.

    >>> wrapping(["module.model.a", "module.model.b"]), wrapping(["a", "b"])
    ('module.model.', None)
    """
    left, found = list(names), ""
    while left:
        prefix = next((p for p in PREFIXES if all(name.startswith(p) for name in left)), None)
        if prefix is None:
            break
        found, left = found + prefix, [name[len(prefix) :] for name in left]
    return found or None


def stripped(tensors: Mapping[str, Stored], prefix: str | None, where: str) -> dict[str, Stored]:
    """The tensors without a prefix in their names; names without it stay.

    Raises:
        UsageError: two names would become one.
    """
    found: dict[str, Stored] = {}
    for name, stored in tensors.items():
        short = name.removeprefix(prefix) if prefix else name
        if short in found:
            raise UsageError(f"without {prefix!r} two tensors are called {short!r}", where=where, hint="leave the prefix on")
        found[short] = stored
    return found


def _aliases(tensors: Mapping[str, Stored]) -> dict[str, str]:
    first: dict[Hashable, str] = {}
    found: dict[str, str] = {}
    for name, stored in tensors.items():
        if stored.identity is not None and first.setdefault(stored.identity, name) != name:
            found[name] = first[stored.identity]
    return found


def damaged(cause: str, where: str) -> CaptureFormatError:
    """The error for what no writer of this format would write."""
    return CaptureFormatError(
        f"the file is truncated or damaged: {cause}", where=where, hint="copy the file again from where it came, or write it again"
    )
