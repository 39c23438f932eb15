"""The two line formats of the migration guides, and JSON lines.

``root`` is the guide's sample of a log::

    [2021/12/04 05:16:13] root INFO: [epoch 0, iter 0][TRAIN]avg_samples: 32.0 , avg_reader_cost: 0.0010543 sec, avg_batch_cost: …

``print`` is what the guide's training program prints::

    [Epoch 0, iter: 10] acc: 0.50000, lr: 0.10000, loss: 2.30000, avg_reader_cost: 0.00105 sec, avg_batch_cost: …

Source: the reproduction guide for computer vision, section 3.10.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Callable, Dict

TRAIN, EVAL = "TRAIN", "EVAL"


@dataclass
class Row:
    """What one line of a log says.

    Args:
        kind: ``TRAIN`` or ``EVAL``.
        epoch: from 0.
        iteration: batch within the epoch, from 0; -1 for an evaluation.
        values: further figures by name: ``loss``, ``lr``, ``acc``, …
        samples: samples of a batch, on average.
        reader_cost: seconds of a batch that the loader took, on average.
        batch_cost: seconds of a batch, those of the loader included.
        ips: samples a second.
        time: seconds since the epoch of Unix at which the row was written.
    """

    kind: str
    epoch: int
    iteration: int
    values: Dict[str, float] = field(default_factory=dict)
    samples: float = 0.0
    reader_cost: float = 0.0
    batch_cost: float = 0.0
    ips: float = 0.0
    time: float = 0.0


def as_root(row: Row) -> str:
    """A row as the guide's sample of a log has it, byte for byte.

    >>> as_root(Row("TRAIN", 0, 0, {"loss": 0.345}, 32.0, 0.0010543, 0.01111, 2880.2952878)).partition("INFO")[2]
    ': [epoch 0, iter 0][TRAIN]avg_samples: 32.0 , avg_reader_cost: 0.0010543 sec, avg_batch_cost: 0.0111100 sec, loss: 0.3450000 , avg_ips: 2880.2952878 images/sec'
    """  # noqa: E501 - a line of the guide is one line
    stamp = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(row.time))
    told = "".join(f"{name}: {value:.7f} , " for name, value in row.values.items())
    if row.kind == EVAL:
        return f"[{stamp}] root INFO: [epoch {row.epoch}][EVAL]{told.rstrip(' ,')}"
    costs = f"avg_samples: {row.samples:.1f} , avg_reader_cost: {row.reader_cost:.7f} sec, avg_batch_cost: {row.batch_cost:.7f} sec, "
    return f"[{stamp}] root INFO: [epoch {row.epoch}, iter {row.iteration}][TRAIN]{costs}{told}avg_ips: {row.ips:.7f} images/sec"


def as_print(row: Row) -> str:
    """A row as the guide's training program prints it, byte for byte.

    >>> as_print(Row("TRAIN", 1, 10, {"acc": 0.5, "lr": 0.1, "loss": 2.3}, 32.0, 0.001, 0.01, 3200.0))
    '[Epoch 1, iter: 10] acc: 0.50000, lr: 0.10000, loss: 2.30000, avg_reader_cost: 0.00100 sec, avg_batch_cost: 0.01000 sec, avg_samples: 32.0, avg_ips: 3200.00000 images/sec.'
    """  # noqa: E501 - a line of the guide is one line
    told = "".join(f"{name}: {value:.5f}, " for name, value in row.values.items())
    if row.kind == EVAL:
        return f"[Epoch {row.epoch}, eval] {told.rstrip(', ')}."
    costs = f"avg_reader_cost: {row.reader_cost:.5f} sec, avg_batch_cost: {row.batch_cost:.5f} sec, avg_samples: {row.samples}, "
    return f"[Epoch {row.epoch}, iter: {row.iteration}] {told}{costs}avg_ips: {row.ips:.5f} images/sec."


def as_json(row: Row) -> str:
    """A row as one line of JSON; NaN and infinities become text, as JSON has neither."""
    told = {
        "kind": row.kind,
        "epoch": row.epoch,
        "iter": row.iteration,
        "time": row.time,
        "samples": row.samples,
        "reader_cost": row.reader_cost,
        "batch_cost": row.batch_cost,
        "ips": row.ips,
        "values": {name: value if _finite(value) else str(value) for name, value in row.values.items()},
    }
    return json.dumps(told, ensure_ascii=False)


def _finite(value: float) -> bool:
    return value - value == 0.0


#: name of a format -> what writes a row in it
STYLES: Dict[str, Callable[[Row], str]] = {"root": as_root, "print": as_print}
