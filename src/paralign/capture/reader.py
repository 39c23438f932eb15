"""A capture being read: records at once, tensors when they are asked for.

They come straight from the memory of the shard.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Union

from paralign.capture.layout import RECORDS, is_shard_name, read_manifest, read_records
from paralign.capture.safetensors import TensorFile
from paralign.dtypes import STORAGE, Typed, is_complex, widen
from paralign.errors import CaptureFormatError, UsageError
from paralign.model import Manifest, Record

if TYPE_CHECKING:
    import numpy as np

_FIELDS = frozenset([f.name for f in fields(Record)] + ["key"])
#: a mapped shard holds a file descriptor, of which a process has few
_OPEN_SHARDS = 32
_REMEDY = "record this run again, or copy the capture again as a whole"


class Capture:
    """A capture on disk, see :meth:`open`.

    Attributes:
        path: its folder.
        manifest: how it was made.
        records: every record, in the order of recording.
        by_id: record number -> record.
        answer: what the task that recorded it answered, as :meth:`paralign.worker.protocol.Task.answer` reads it; None before.
    """

    def __init__(self, path: Path, manifest: Manifest, records: List[Record]) -> None:
        self.path, self.manifest, self.records = path, manifest, records
        self.by_id: Dict[int, Record] = {record.id: record for record in records}
        self._shards: "OrderedDict[str, TensorFile]" = OrderedDict()
        self.answer: Any = None

    @classmethod
    def open(cls, path: Union[str, Path]) -> "Capture":
        """Read the manifest and the records; tensors are read later.

        A capture whose writer was killed opens too: it holds what was safely written, and ``complete`` is False.

        Raises:
            CaptureFormatError: the folder is no capture, of a newer version, damaged, or lacks records.
        """
        folder = Path(path)
        manifest = read_manifest(folder)
        capture = cls(folder, manifest, read_records(folder, complete=manifest.complete))
        count = len(capture.records)
        if manifest.complete and count != manifest.records:
            raise CaptureFormatError(
                f"the manifest tells of {manifest.records} records, {count} are there", where=str(folder / RECORDS), hint=_REMEDY
            )
        if len(capture.by_id) != count:
            raise CaptureFormatError("two records have the same number", where=str(folder / RECORDS), hint=_REMEDY)
        if manifest.released:
            for record in capture.records:
                record.location = None
        return capture

    @property
    def complete(self) -> bool:
        """Whether the run was recorded to its end."""
        return self.manifest.complete

    def require_values(self) -> None:
        """Refuse a capture whose values were deleted when its check had ended.

        Raises:
            UsageError: they were; says which setting keeps them.
        """
        if self.manifest.released:
            raise UsageError(
                "the values of this capture were released when its check had ended",
                where=str(self.path),
                hint='set [output] keep = "all" in paralign.toml and check again',
            )

    def select(self, **values: Any) -> List[Record]:
        """The records whose fields (or ``key``) have these values, in the order of recording.

        Raises:
            UsageError: a field that records don't have.
        """
        unknown = sorted(set(values) - _FIELDS)
        if unknown:
            raise UsageError(f"records have no field {unknown[0]!r}", hint="choose from: " + ", ".join(sorted(_FIELDS)))
        wanted = list(values.items())
        return [record for record in self.records if all(getattr(record, key) == value for key, value in wanted)]

    def by_name(self, **values: Any) -> Dict[str, Record]:
        """As :meth:`select`, by name."""
        return {record.name: record for record in self.select(**values)}

    def value(self, record: Record) -> Typed:
        """The tensor of a record, read-only, in the memory of its shard: nothing is copied.

        Raises:
            UsageError: the record has no values, or they were not kept.
            CaptureFormatError: the shard is missing or damaged, or holds something other than the record says.
        """
        if record.location is None:
            if record.dtype in STORAGE:
                self.require_values()
            raise UsageError(
                f"the values of {record.key!r} were not kept" if record.dtype in STORAGE else f"{record.key!r} is no tensor",
                where=str(self.path),
                hint="record with full values" if record.dtype in STORAGE else "ask for its text",
            )
        shard_name, name = record.location
        shard = self._shard(shard_name)
        value = shard.complex_tensor(name, record.dtype) if is_complex(record.dtype) else shard.tensor(name)
        if (value.dtype, value.array.shape) != (record.dtype, record.shape):
            raise CaptureFormatError(
                f"{record.key!r} was recorded as {record.dtype} of shape {record.shape}, the shard holds "
                f"{value.dtype} of shape {value.array.shape}",
                where=str(shard.path),
                hint=_REMEDY,
            )
        return value

    def array(self, record: Record) -> "np.ndarray[Any, Any]":
        """The exact values of a record as a numpy array.

        bfloat16 and float8 become float32, all others are as they are.

        Raises:
            UsageError, CaptureFormatError: as :meth:`value`.
        """
        return widen(self.value(record))

    def _shard(self, name: str) -> TensorFile:
        if not is_shard_name(name):
            raise CaptureFormatError(f"the shard {name!r} is none of this capture's", where=str(self.path), hint=_REMEDY)
        if name not in self._shards:
            self._shards[name] = TensorFile(self.path / name)
            if len(self._shards) > _OPEN_SHARDS:
                self._shards.popitem(last=False)
        self._shards.move_to_end(name)
        return self._shards[name]
