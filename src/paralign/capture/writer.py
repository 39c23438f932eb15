"""A capture being written.

Tensors are collected into shards, and a record appears once its shard is safely in place.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, List, Mapping, Optional, Sequence, Type, Union

import numpy as np

from paralign.capture.layout import RECORDS, SHARDS, encode_record, shard_name, unwritable, write_manifest
from paralign.capture.safetensors import pairs, write
from paralign.dtypes import STORAGE, Typed, is_complex, typed
from paralign.errors import ForkedChild, UnsupportedTensor, UsageError
from paralign.model import ROLES, Manifest, Record

if TYPE_CHECKING:
    from types import TracebackType

Value = Union[Typed, "np.ndarray[Any, Any]", "np.generic", bool, int, float, complex, str, None]

_SHARD_BYTES = 32 << 20
#: a shard is also closed after so many records, so that a capture of many small ones appears on disk as it grows
_SHARD_RECORDS = 4096
_ALIGNMENT = 8


class CaptureWriter:
    """Write a capture; a context manager.

    A killed writer leaves a readable capture that says it is incomplete.

    Args:
        path: a folder that does not exist yet, or is empty.
        manifest: how the run is made; kept, and written again at the end with ``complete`` and ``records`` set.
        shard_bytes: tensors below this size share shards of about this size; larger ones get their own.

    Raises:
        UsageError: something is at ``path``, or it cannot be written.
    """

    def __init__(self, path: Union[str, Path], manifest: Manifest, shard_bytes: int = _SHARD_BYTES) -> None:
        self.path, self.manifest = Path(path), manifest
        self._limit = shard_bytes
        self._block: Optional["np.ndarray[Any, Any]"] = None  # one buffer for all shards: its pages are paid for once
        self._used = 0
        self._pending: Dict[str, Typed] = {}
        self._lines: List[str] = []
        self._shard = 0
        self._count = 0
        self._closed = False
        self._process = os.getpid()
        self._records = self._create()

    def _create(self) -> BinaryIO:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if next(self.path.iterdir(), None) is not None:
                raise UsageError(
                    "a capture needs a folder of its own; this one is not empty",
                    where=str(self.path),
                    hint="name a new folder, or discard the old capture first",
                )
            if not self.manifest.created:
                self.manifest.created = datetime.now(timezone.utc).isoformat(timespec="seconds")
            self.manifest.complete, self.manifest.records = False, 0
            write_manifest(self.path, self.manifest)  # first: from now on the folder is known to be a capture
            (self.path / SHARDS).mkdir()
            return (self.path / RECORDS).open("ab")
        except OSError as fault:
            raise unwritable(self.path, fault) from fault

    def add(
        self,
        name: str,
        value: Value,
        *,
        role: str,
        stage: Optional[str] = None,
        leaf: str = "",
        run: str = "",
        step: int = 0,
        rank: int = 0,
        call: int = 0,
        op: str = "",
        source: Optional[str] = None,
        inputs: Sequence[int] = (),
        digest: Optional[str] = None,
        attrs: Optional[Mapping[str, Any]] = None,
        keep: bool = True,
    ) -> Record:
        """Record a tensor, a text or the absence of a tensor (``value=None``).

        Values are copied before this returns.

        Args:
            stage: the manifest's stage unless given.
            keep: False records type and shape without the values.

        Raises:
            UsageError: the writer is closed, an unknown role, attributes that JSON cannot hold, a full disk.
            UnsupportedTensor: an element type that cannot be recorded; names the record.
        """
        self._refuse_child()
        if self._closed:
            raise UsageError(f"{name!r} cannot be recorded: the capture is closed", where=str(self.path))
        if role not in ROLES:
            raise UsageError(f"{name!r} has the unknown role {role!r}", hint="choose one of: " + ", ".join(ROLES))
        tensor = None if value is None or isinstance(value, str) else _tensor(name, value)
        record = Record(
            id=self._count,
            name=name,
            stage=self.manifest.stage if stage is None or not stage else stage,
            role=role,
            dtype=tensor.dtype if tensor else ("none" if value is None else "str"),
            shape=tensor.array.shape if tensor else (),
            leaf=leaf,
            run=run,
            step=step,
            rank=rank,
            call=call,
            op=op,
            source=source,
            inputs=tuple(inputs),
            digest=digest,
            text=value if isinstance(value, str) else None,
            attrs=dict(attrs or {}),
        )
        stored = tensor is not None and keep
        if tensor is not None and stored:
            if self._used + tensor.array.nbytes + _ALIGNMENT > self._limit and self._pending:
                self.flush()
            record.location = (shard_name(self._shard), str(len(self._pending)))
        line = encode_record(record)
        if tensor is not None and record.location is not None:
            self._hold(record.location[1], tensor)
        self._count += 1
        self._lines.append(line)
        if self._used >= self._limit or not self._pending or len(self._lines) >= _SHARD_RECORDS:
            self.flush()
        return record

    def _hold(self, name: str, tensor: Typed) -> None:
        """Copy a tensor to the block.

        One that is too large for it stays where it is: it is written before ``add`` returns.
        """
        array, dtype = tensor
        if array.nbytes >= self._limit:
            self._pending[name] = pairs(tensor)
            self._used = self._limit
            return
        if self._block is None:
            self._block = np.empty(self._limit + _ALIGNMENT, np.uint8)
        region = self._block[self._used : self._used + array.nbytes]
        copy = region.view(STORAGE[dtype]).reshape(array.shape)
        np.copyto(copy, array)
        self._pending[name] = pairs(Typed(copy, dtype)) if is_complex(dtype) else Typed(copy, dtype)
        self._used += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT

    def flush(self) -> None:
        """Write the pending shard and put it in place, then append the lines of its records.

        Raises:
            UsageError: the disk is full or the folder is gone.
        """
        if self._pending:
            write(self.path / shard_name(self._shard), self._pending, {"format": "paralign"})
            self._pending.clear()
            self._shard += 1
        self._used = 0
        if self._lines:
            try:
                self._records.write(("\n".join(self._lines) + "\n").encode("ascii"))
                self._records.flush()
            except OSError as fault:
                raise unwritable(self.path / RECORDS, fault) from fault
            self._lines.clear()

    def note(self, text: str) -> None:
        """Add a remark to the manifest; it is written with the manifest at the end."""
        self.manifest.notes.append(text)

    def close(self) -> None:
        """Write what is pending, then the manifest, which now says that the capture is complete."""
        self._finish(complete=True)

    def _refuse_child(self) -> None:
        """Two processes that write the same files would spoil them."""
        if os.getpid() != self._process:
            raise ForkedChild

    def _finish(self, *, complete: bool) -> None:
        self._refuse_child()
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            self._block = None
            self._close_records()
        self.manifest.complete, self.manifest.records = complete, self._count
        write_manifest(self.path, self.manifest)

    def _close_records(self) -> None:
        """Close the file of records.

        What it could not write before it tries again now, and fails again.
        """
        try:
            self._records.close()
        except OSError as fault:
            raise unwritable(self.path / RECORDS, fault) from fault

    def __enter__(self) -> "CaptureWriter":  # noqa: PYI034 - Self is not in the typing of Python 3.8
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: "Optional[TracebackType]") -> None:
        self._finish(complete=kind is None)


def _tensor(name: str, value: Any) -> Typed:
    """The tensor of a value in native byte order, its storage checked."""
    if isinstance(value, Typed):
        if value.dtype not in STORAGE or value.array.dtype.newbyteorder("=") != STORAGE[value.dtype]:
            raise UnsupportedTensor(
                f"{name!r} is said to be {value.dtype}, its storage is {value.array.dtype}",
                hint="use one of: " + ", ".join(sorted(STORAGE)),
            )
        return value
    if not isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        raise UnsupportedTensor(
            f"{name!r} is a {type(value).__name__}, which cannot be recorded",
            hint="hand over a numpy array, a Typed, a number, a text or None",
        )
    try:
        return typed(value)
    except UnsupportedTensor as fault:
        raise UnsupportedTensor(f"{name!r}: {fault.what}", hint=fault.hint) from fault
