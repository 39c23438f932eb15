"""What both models were given: a difference there comes before all that follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison import compare_pair
from paralign.model import DIVERGED
from paralign.worker.sides.session import NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.model import Record, StageResult

#: the name under which a forward pass records what its model was given
NAME = "input"

#: names under which the guides' files hold what a model was given
INPUTS = frozenset({"input", "inputs", "fake_data", "label", "labels", "fake_label"})


def is_given(key: str) -> bool:
    """Whether an entry of the guides' files holds what a model was given, by its name.

    >>> is_given("input.0"), is_given("label"), is_given("labelled")
    (True, True, False)
    """
    return key.partition(".")[0] in INPUTS


def compare(result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Put inputs that differ before the stage's other pairs.

    Inputs of other element types are a note.

    Where the element types differ (a model in another precision, a framework without the type), values cannot be held against each other.
    """
    sides = [{r.key: r for r in capture.records if _is_recorded(r)} for capture in (reference, candidate)]
    wrong = []
    for key, one in sides[0].items():
        other = sides[1].get(key)
        if other is None:
            continue  # trees of the same capture: only tensors that a side cannot hold are missing
        if one.dtype != other.dtype:
            result.notes.append(f"{key}: the reference was given {one.dtype}, the candidate {other.dtype}")
            continue
        values = reference.value(one), candidate.value(other)
        if not _equal(values[0].array, values[1].array):
            pair = compare_pair(key, one, other, *values)
            pair.verdict = DIVERGED
            pair.notes.append("the models were given different inputs: what follows may only follow from that")
            wrong.append(pair)
    result.pairs[:0] = wrong


def _is_recorded(record: Record) -> bool:
    return record.name == NAME and record.role == "input" and record.run == NATIVE and record.location is not None


def _equal(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays hold the same bytes: NaN, too, is handed over as it is."""
    return one.shape == other.shape and np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
