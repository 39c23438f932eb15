"""Some samples of a batch of inputs, as a capture of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear
from paralign.model import Manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from paralign.model import Record

#: what inputs are called in their capture
NAME = "inputs"

#: the setting of a capture that holds some samples of another
PART = "part"


def leading(records: Sequence[Record]) -> int | None:
    """The length of the first axis, if it is the same in all tensors; else None."""
    lengths = {record.shape[0] if record.shape else None for record in records}
    return lengths.pop() if len(lengths) == 1 else None


def batch_size(inputs: Capture) -> int | None:
    """How many samples inputs hold; None where their tensors do not tell, or hold none."""
    records = inputs.select(name=NAME)
    if not records or any(record.text is not None or record.location is None for record in records):
        return None
    return leading(records)


def is_part(capture: Capture) -> bool:
    """Whether a capture holds some samples alone, as :func:`taken` writes them."""
    return bool(capture.manifest.settings.get(PART))


def taken(inputs: Capture, rows: Sequence[int], folder: Path) -> Capture:
    """Inputs with some samples alone, written to a folder; what was there is replaced.

    Args:
        inputs: a capture whose :func:`batch_size` is known.
        rows: the samples' places along the first axis.
        folder: where the new capture goes.
    """
    clear(folder)
    settings = inputs.manifest.settings
    key = f"{settings.get('key', inputs.path)} samples {','.join(map(str, rows))}"
    manifest = Manifest(stage=NAME, settings={"trees": {NAME: settings["trees"][NAME]}, "key": key, PART: True})
    with CaptureWriter(folder, manifest) as writer:
        for record in inputs.select(name=NAME):
            value = inputs.value(record)
            some = np.ascontiguousarray(value.array[list(rows)])
            writer.add(NAME, value._replace(array=some), role="input", leaf=record.leaf)
    return Capture.open(folder)
