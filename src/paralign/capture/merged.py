"""Captures of one job's ranks, read as one: each record says by ``rank`` whose it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Dict, List, Tuple, Union

from paralign.capture.reader import Capture

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Sequence

    from paralign.dtypes import Typed
    from paralign.model import Record


class Merged(Capture):
    """Several captures as one, see :meth:`of`.

    Attributes:
        ranks: the captures, in the order of the ranks.
    """

    ranks: "List[Capture]"
    _home: "Dict[int, Tuple[Capture, Record]]"

    @classmethod
    def of(cls, paths: "Sequence[Union[str, Path]]") -> "Merged":
        """The captures in these folders, one a rank, in the order of the ranks.

        Records are numbered anew; ``rank`` is the place of their capture. The manifest is the first one's, complete where all are.

        Raises:
            CaptureFormatError: as :meth:`Capture.open`.
        """
        captures = [Capture.open(path) for path in paths]
        records: List[Record] = []
        home: "Dict[int, Tuple[Capture, Record]]" = {}
        for rank, capture in enumerate(captures):
            begin = len(records)
            numbers = {record.id: begin + place for place, record in enumerate(capture.records)}
            for record in capture.records:
                inputs = tuple(numbers[i] for i in record.inputs if i in numbers)
                home[numbers[record.id]] = capture, record
                records.append(replace(record, id=numbers[record.id], rank=rank, inputs=inputs))
        first = captures[0]
        manifest = replace(first.manifest, complete=all(c.complete for c in captures), records=len(records))
        merged = cls(first.path, manifest, records)
        merged.ranks, merged._home = captures, home
        return merged

    def value(self, record: "Record") -> "Typed":
        """As :meth:`Capture.value`, from the capture of the record's rank."""
        capture, own = self._home[record.id]
        return capture.value(own)
