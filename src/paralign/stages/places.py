"""What the pairs of a stage are of: read off their records, never off the text of a key (``loss_1`` begins ``loss_10``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paralign.model import Pair

_SAMPLE = re.compile(r"sample_(\d+)((?:\..*)?)", re.DOTALL)
_BATCH = re.compile(r"dataloader_(\d+|last)((?:\..*)?)", re.DOTALL)


class Kind(Enum):
    """What a pair of the stage ``backward`` compares."""

    LOSS = "loss"
    RATE = "rate"
    SCHEDULE = "schedule"
    GRADIENT = "gradient"
    BUFFER = "buffer"
    CHANGE = "change"


_ROLES = {"gradient": Kind.GRADIENT, "buffer": Kind.BUFFER, "parameter": Kind.CHANGE}
_SCALARS = {"loss": Kind.LOSS, "lr": Kind.RATE, "schedule": Kind.SCHEDULE}


@dataclass(frozen=True)
class Place:
    """One point of training: ``mode`` is '' for what is done once, from equal gradients or without the model."""

    kind: Kind
    step: int
    mode: str

    @property
    def is_before_updates(self) -> bool:
        """Whether nothing has been updated yet there: the loss and the gradients of the first step."""
        return self.step == 0 and self.kind in (Kind.LOSS, Kind.GRADIENT)


def place_of(pair: Pair) -> Place | None:
    """The point of training that a pair is of; None for anything else."""
    record = pair.reference if pair.reference is not None else pair.candidate
    if record is None:
        return None
    kind = _SCALARS.get(record.name) if record.role == "scalar" else _ROLES.get(record.role)
    return None if kind is None else Place(kind, record.step, record.run.partition(":")[2])


@dataclass(frozen=True)
class SamplePlace:
    """One leaf of a sample, or of what a transform made of it: ``leaf`` is '' for a sample that is one tensor."""

    index: int
    leaf: str


def sample_of(key: str) -> SamplePlace | None:
    """The sample that the key of a record is of; None for anything else.

    >>> sample_of("sample_11.image"), sample_of("length")
    (SamplePlace(index=11, leaf='image'), None)
    """
    found = _SAMPLE.fullmatch(key)
    return None if found is None else SamplePlace(int(found.group(1)), found.group(2)[1:])


def batch_of(key: str) -> SamplePlace | None:
    """The batch that the key of a record is of, the last one as number -1; None for anything else."""
    found = _BATCH.fullmatch(key)
    return None if found is None else SamplePlace(-1 if found.group(1) == "last" else int(found.group(1)), found.group(2)[1:])


def part_of(name: str) -> str:
    """What a record of the stage ``data`` is of: the data set or the loader."""
    return "dataloader" if name.partition("_")[0] in ("dataloader", "batches") else "dataset"


def is_loaders(pair: Pair) -> bool:
    """Whether a pair is of the loader, which is looked at after the data set."""
    record = pair.reference if pair.reference is not None else pair.candidate
    return record is not None and part_of(record.name) == "dataloader"
