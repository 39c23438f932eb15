"""The batches of one training given to another.

They are taken apart on one side, and put together as the other side's loop takes them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional

import numpy as np

from paralign.dtypes import Typed, is_complex, is_floating, narrow, widen
from paralign.errors import UnsupportedTensor
from paralign.worker.values.trees import leaves, rebuild, structure, to_value

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.model import Record
    from paralign.worker.sides.session import Session

#: bytes of batches that are kept on disk of one training; later steps have batches of their own and are not compared step by step
MOST_BYTES = 512 << 20

#: under which the settings of a capture hold the epochs that came to their end
ENDED = "ended epochs"


class Keeping:
    """Writes the batches of a training into its capture, as long as there is room."""

    def __init__(self, session: "Session", writer: "CaptureWriter") -> None:
        self._session, self._writer = session, writer
        self.count = self.bytes = 0
        self.why = ""  # why no further batch is kept

    def add(self, batch: Any, epoch: int, number: int) -> None:
        """Keep a batch; the first that cannot be ends it."""
        if self.why:
            return
        known = self._session.adapter.is_tensor
        try:
            values = [(path, to_value(leaf, self._session.adapter)) for path, leaf in leaves(batch, known)]
        except UnsupportedTensor as error:
            self.why = f"a batch holds what cannot be recorded: {error}"
            return
        self.bytes += sum(0 if isinstance(value, str) else value.array.nbytes for _, value in values)
        if self.bytes > MOST_BYTES:
            self.why = f"batches beyond {MOST_BYTES >> 20} MiB are not kept"
            return
        for path, value in values:
            self._writer.add("batch", value, role="input", leaf=path, step=self.count, attrs={"epoch": epoch, "number": number})
        self._writer.manifest.settings.setdefault("batches", structure(batch, known))
        self._writer.manifest.settings.setdefault(ENDED, [])
        self.count += 1

    def end(self, epoch: int) -> None:
        """An epoch came to its end: all of its batches are kept."""
        self._writer.manifest.settings.setdefault(ENDED, []).append(epoch)


class Given:
    """Another training's batches, epoch by epoch, in this side's own containers and types."""

    def __init__(self, session: "Session", capture: "Capture") -> None:
        self._session, self._capture = session, capture
        self._epochs: Dict[int, Dict[int, List["Record"]]] = defaultdict(lambda: defaultdict(list))
        for record in capture.select(name="batch", role="input"):
            self._epochs[int(record.attrs["epoch"])][record.step].append(record)
        self.why = ""  # why the other training's batches could not be used

    def batches(self, loader: Iterable[Any], epoch: int) -> Iterator[Any]:
        """The other training's batches of an epoch; those of the loader where they do not fit."""
        if self.why:
            yield from loader
            return
        own = next(iter(loader), None)
        for records in self._epochs.get(epoch, {}).values():
            batch = self._alike(own, records)
            if batch is None:
                yield from loader
                return
            yield batch[0]

    def is_whole(self, epoch: int) -> bool:
        """Whether these are all batches of an epoch.

        The other training may have been stopped within it, or before it.
        """
        ended = self._capture.manifest.settings.get(ENDED)
        if self.why:
            return True
        return ended is None or epoch in ended

    def _alike(self, own: Any, records: List["Record"]) -> Optional[List[Any]]:
        """The batch in a list, or None where it cannot take the place of this side's own."""
        known = self._session.adapter.is_tensor
        if own is None:
            shape = self._capture.manifest.settings["batches"]
            held = {r.leaf: r for r in records}
            return [rebuild(shape, lambda path: self._plain(held[path]))]
        ends = list(leaves(own, known))
        if len(ends) != len(records):
            self.why = f"this side's batches have {len(ends)} tensors, the reference's {len(records)}"
            return None
        by_name = {r.leaf: r for r in records}
        named = all(path in by_name for path, _ in ends)
        left, fitted = list(records), {}  # type: List[Record], Dict[str, Any]
        for path, leaf in ends:
            tried = [by_name[path]] if named else left
            for record in tried:
                value = self._fitted(leaf, record)
                if value is not None:
                    fitted[path] = value
                    left.remove(record)
                    break
            else:
                self.why = self.why or f"none of the reference's tensors can take the place of {path or 'the batch'}"
                return None
        self.why = ""
        return [rebuild(structure(own, known), lambda path: fitted[path])]

    def _plain(self, record: "Record") -> Any:
        return record.text if record.text is not None else self._session.adapter.from_array(self._capture.value(record))

    def _fitted(self, leaf: Any, record: "Record") -> Any:
        """A recorded value as this side holds its own.

        A tensor, an array, a number or a text; None where it cannot be.
        """
        if record.text is not None or isinstance(leaf, str):
            return record.text
        value, wanted = self._capture.value(record), to_value(leaf, self._session.adapter)
        if isinstance(wanted, str):
            return None
        if self._session.adapter.is_tensor(leaf) or isinstance(leaf, np.ndarray):
            fitted = _shaped(_typed(value, wanted.dtype), wanted)
            if fitted is None:
                self.why = f"a batch of shape {record.shape} cannot take the place of one of shape {wanted.array.shape}"
                return None
            return self._session.adapter.from_array(fitted) if self._session.adapter.is_tensor(leaf) else np.array(widen(fitted))
        return type(leaf)(widen(value).item()) if record.shape == () else None


def _typed(value: Typed, dtype: str) -> Typed:
    """A value in another element type of the same kind."""
    if value.dtype == dtype or is_complex(value.dtype) or is_complex(dtype):
        return value
    if is_floating(value.dtype) and is_floating(dtype):
        return narrow(widen(value), dtype)
    if not is_floating(value.dtype) and not is_floating(dtype):
        return Typed(value.array.astype(dtype), dtype)
    return value


def _shaped(value: Typed, wanted: Typed) -> Optional[Typed]:
    """A value with the axes of another: labels ``[N]`` for ``[N, 1]``.

    The first axis may be longer or shorter.
    """
    if value.array.ndim == 0 or wanted.array.ndim == 0:
        return value if value.array.ndim == wanted.array.ndim else None
    inner = wanted.array.shape[1:]
    if value.array.shape[1:] == inner:
        return value
    single = [length for length in value.array.shape[1:] if length != 1] == [length for length in inner if length != 1]
    return Typed(value.array.reshape(len(value.array), *inner), value.dtype) if single else None
