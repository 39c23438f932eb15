"""What the pairs of a stage are of, read off their records once.

The text of a key is never asked: ``loss_1`` begins ``loss_10``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from paralign.model import Pass

if TYPE_CHECKING:
    from paralign.model import Pair, Record

#: the number of the last batch, which is not counted
LAST = -1


class Kind(Enum):
    """What a pair compares."""

    LOSS = "loss"
    RATE = "rate"
    SCHEDULE = "schedule"
    GRADIENT = "gradient"
    BUFFER = "buffer"
    CHANGE = "change"
    LENGTH = "length"
    SAMPLE = "sample"
    BATCH = "batch"
    #: what all batches of a loader hold
    LOADER = "loader"


_ROLES = {"gradient": Kind.GRADIENT, "buffer": Kind.BUFFER, "parameter": Kind.CHANGE}
_SCALARS = {"loss": Kind.LOSS, "lr": Kind.RATE, "schedule": Kind.SCHEDULE, "length": Kind.LENGTH}
_NUMBERED = {"sample": Kind.SAMPLE, "dataloader": Kind.BATCH}


@dataclass(frozen=True)
class PairKey:
    """One point of a training, or one leaf of a sample or batch.

    Args:
        kind: what is compared.
        name: of the tensor; of the leaf of a sample or batch, '' where that is one tensor.
        step: of the training; the number of the sample or batch.
        mode: of the training; '' for what is done once, from equal gradients or without the model.
    """

    kind: Kind
    name: str
    step: int = 0
    mode: str = ""

    @property
    def place(self) -> tuple[Kind, int, str]:
        """The point of training without the tensor."""
        return self.kind, self.step, self.mode

    @property
    def is_before_updates(self) -> bool:
        """Whether it is the loss or a gradient of the first step, before any update."""
        return self.step == 0 and self.kind in (Kind.LOSS, Kind.GRADIENT)

    @property
    def is_later_buffer(self) -> bool:
        """Whether it is a buffer after a pass that came behind an update."""
        return self.kind is Kind.BUFFER and self.step > 0


def key_of(pair: Pair) -> PairKey | None:
    """What a pair is of; None for what is neither of a training nor of data."""
    return None if pair.record is None else key_of_record(pair.record)


def key_of_record(record: Record) -> PairKey | None:
    """What a record is of, as :func:`key_of`."""
    if record.role == "sample":
        return _numbered(record)
    kind = _SCALARS.get(record.name) if record.role == "scalar" else _ROLES.get(record.role)
    return None if kind is None else PairKey(kind, record.name, record.step, Pass.of(record.run).mode)


def _numbered(record: Record) -> PairKey | None:
    """The sample or batch that a record is of.

    ``sample_11``, ``sample_3.raw``, ``dataloader_last``, ``dataloader``.
    """
    whole, _, inner = record.name.partition(".")
    word, _, number = whole.partition("_")
    kind = _NUMBERED.get(word)
    if kind is None:
        return None
    leaf = ".".join(filter(None, (inner, record.leaf)))
    if kind is Kind.BATCH and number == "":
        return PairKey(Kind.LOADER, leaf, LAST)
    if kind is Kind.BATCH and number == "last":
        return PairKey(Kind.BATCH, leaf, LAST)
    return PairKey(kind, leaf, int(number)) if number.isdecimal() else None


def sample_of(pair: Pair) -> PairKey | None:
    """The sample that a pair is of; None for anything else."""
    return _of_kind(key_of(pair), Kind.SAMPLE)


def batch_of(pair: Pair) -> PairKey | None:
    """The batch that a pair is of; None for anything else."""
    return _of_kind(key_of(pair), Kind.BATCH)


def is_set_of_batches(pair: Pair) -> bool:
    """Whether a pair is of all samples in the batches of a loader, in any order."""
    return _of_kind(key_of(pair), Kind.LOADER) is not None


def _of_kind(key: PairKey | None, kind: Kind) -> PairKey | None:
    if key is not None and key.kind is kind:
        return key
    return None


def is_length(pair: Pair) -> bool:
    """Whether a pair is the length of the data set."""
    return _of_kind(key_of(pair), Kind.LENGTH) is not None


def part_of(name: str) -> str:
    """What a record of the stage ``data`` is of: the data set or the loader."""
    return "dataloader" if name.partition("_")[0] in ("dataloader", "batches") else "dataset"


def is_loaders(pair: Pair) -> bool:
    """Whether a pair is of the loader, which is looked at after the data set."""
    return pair.record is not None and part_of(pair.record.name) == "dataloader"
