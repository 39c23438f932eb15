"""A further batch counts as wrong where it differs by far more than the first does: rounded constants differ in every batch."""

from __future__ import annotations

import pytest

from paralign.model import ALIGNED, DIVERGED, Noise, Pair, Stats
from paralign.stages.forward.later_batches import is_beyond


def pair(ratio, verdict):
    return Pair(
        "output", None, None, verdict=verdict, stats=Stats(count=4, mismatched=4, rel_l2=ratio * 1e-7), noise=Noise(1e-7, "measured")
    )


@pytest.mark.parametrize(
    ("first", "later", "beyond"),
    [
        (0.8, 1.14, False),  # as a filter bank of rounded numbers
        (0.1, 1.14, True),
        (1e-8, 1.01, True),
        (0.9, 8.9, False),
        (0.9, 900.0, True),
        (0.0, 1.5, True),
    ],
)
def test_how_much_more(first, later, beyond):
    assert is_beyond([pair(later, DIVERGED)], [pair(first, ALIGNED)]) is beyond


def test_one_of_several_is_enough():
    assert is_beyond([pair(1.1, DIVERGED), pair(1e4, DIVERGED)], [pair(0.9, ALIGNED)])


def test_what_cannot_be_measured_is_wrong():
    assert is_beyond([Pair("output", None, None, verdict=DIVERGED)], [pair(0.9, ALIGNED)])


def test_nothing_wrong_is_not_beyond():
    assert not is_beyond([], [pair(0.9, ALIGNED)])
