"""``[training]``: the training's length, its schedule's steps, its batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paralign.errors import UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

#: when a schedule is advanced
ITERATION, EPOCH = "iteration", "epoch"

#: whose data loader feeds both sides: the reference's, or each side its own
OWN, REFERENCE = "own", "reference"

#: the keys of this module and their types
KEYS: dict[str, Any] = {
    "epochs": int,
    "steps_per_epoch": int,
    "step_on": (str, dict),
    "schedule_metric": list,
    "accumulate": int,
    "batches": int,
    "batches_from": str,
    "split": str,
}

_LEAST = {"epochs": 1, "steps_per_epoch": 1, "accumulate": 1, "batches": 1}


@dataclass(frozen=True)
class Pace:
    """How long a training is and how it goes.

    Args:
        epochs: of the whole training; None where nobody said.
        steps_per_epoch: updates an epoch; None: as many as the data loader has batches.
        step_on: ``iteration`` or ``epoch``, of the reference and of the candidate: after what its schedule is advanced.
        metric: what schedules that wait for a metric are given, an epoch each.
        accumulate: batches whose gradients make one update.
        batches: real batches that feed the stage ``backward``; 0: one batch again and again.
        batches_from: ``own`` (each side's data loader) or ``reference`` (the reference's for both).
        split: what the data loaders are built with.
    """

    epochs: int | None = None
    steps_per_epoch: int | None = None
    step_on: tuple[str, str] = (ITERATION, ITERATION)
    metric: tuple[float, ...] = ()
    accumulate: int = 1
    batches: int = 0
    batches_from: str = OWN
    split: str = "train"

    def steps_between(self, side: int) -> int:
        """Updates between two steps of a side's schedule.

        0 where that is an epoch of unknown length.
        """
        if self.step_on[side] == ITERATION:
            return 1
        return self.steps_per_epoch or 0


def pace_of(table: Mapping[str, Any], where: str) -> Pace:
    """What ``[training]`` says.

    Raises:
        UsageError: an unknown key, or a value that cannot work.
    """
    unknown = [key for key in table if key not in KEYS]
    if unknown:
        raise UsageError(f"unknown key {quoted(unknown[0])}", where=where, hint="known: " + ", ".join(sorted(KEYS)))
    for key, least in _LEAST.items():
        if key in table and table[key] < least:
            raise UsageError(f"{key!r} must be at least {least}, not {table[key]}", where=f"{where} {key}")
    metric = table.get("schedule_metric", [])
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) for value in metric):
        raise UsageError("schedule_metric must be a list of finite numbers, one an epoch", where=f"{where} schedule_metric")
    if "schedule_metric" in table and not metric:
        raise UsageError("schedule_metric must not be empty: leave it out to have one made up", where=f"{where} schedule_metric")
    words = _step_on(table.get("step_on", ITERATION), where)
    if words[0] != words[1] and "steps_per_epoch" not in table:
        raise UsageError(
            "schedules that are advanced differently need steps_per_epoch", where=f"{where} step_on", hint="set steps_per_epoch"
        )
    source = table.get("batches_from", OWN)
    if source not in (OWN, REFERENCE):
        raise UsageError(f"{quoted(source)} is not a choice", where=f"{where} batches_from", hint=f"choose one of: {OWN}, {REFERENCE}")
    return Pace(
        table.get("epochs"),
        table.get("steps_per_epoch"),
        words,
        tuple(float(value) for value in metric),
        table.get("accumulate", 1),
        table.get("batches", 0),
        source,
        table.get("split", "train"),
    )


def _step_on(value: Any, where: str) -> tuple[str, str]:
    """One word for both sides, or a table of a word for each."""
    sides = value if isinstance(value, dict) else {"reference": value, "candidate": value}
    unknown = [key for key in sides if key not in ("reference", "candidate")]
    if unknown:
        raise UsageError(f"unknown key {quoted(unknown[0])}", where=f"{where} step_on", hint="known: candidate, reference")
    words = sides.get("reference", ITERATION), sides.get("candidate", ITERATION)
    for word in words:
        if word not in (ITERATION, EPOCH):
            raise UsageError(f"{quoted(str(word))} is not a choice", where=f"{where} step_on", hint=f"choose one of: {ITERATION}, {EPOCH}")
    return words
