"""Figures of two evaluations may differ by one sample's decision in all, however the batches lie."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.stages.metric.evaluating import _same

#: figures of the reference's batches, of the candidate's, the samples of each batch, and whether they agree
BATCHES = {
    "all of single samples": (np.ones(100), np.zeros(100), 1, False),
    "one of single samples": (np.ones(100), np.r_[np.ones(99), 0.0], 1, True),
    "two of single samples": (np.ones(100), np.r_[np.ones(98), 0.0, 0.0], 1, False),
    "one a batch of two": (np.ones(50), np.full(50, 0.5), 2, False),
    "one and the other way": (np.r_[1.0, 0.5, np.ones(8)], np.r_[0.5, 1.0, np.ones(8)], 2, True),
    "two in one batch": (np.ones(10), np.r_[np.ones(9), 0.5], 4, False),
    "one a batch, in percent": (np.full(20, 75.0), np.full(20, 50.0), 4, False),
    "one, in percent": (np.full(20, 75.0), np.r_[np.full(19, 75.0), 50.0], 4, True),
    "rounding in every batch": (np.full(20, 0.123456), np.full(20, 0.123457), 4, True),
    "a loss that is off in every batch": (np.full(20, 0.123456), np.full(20, 0.1241), 4, False),
}


@pytest.mark.parametrize("name", BATCHES)
def test_one_decision_may_turn_in_all_batches(name):
    first, second, size, due = BATCHES[name]
    assert _same(first, second, np.full(first.size, size), first.size) is due


def test_each_of_several_values_of_a_batch_may_turn():
    first = np.tile([1.0, 1.0, 1.0], 10)
    second = first.copy()
    second[:3] = 0.75
    assert _same(first, second, np.full(30, 4), 10)
    second[:6] = 0.75
    assert not _same(first, second, np.full(30, 4), 10)


def test_last_batches_of_fewer_samples_weigh_less():
    first, sizes = np.ones(5), np.array([4, 4, 4, 4, 1])
    assert _same(first, np.r_[np.ones(4), 0.0], sizes, 5)
    assert not _same(first, np.r_[np.ones(3), 0.75, 0.0], sizes, 5)


def test_a_share_of_nothing_is_no_percentage():
    assert not _same(np.array(0.0), np.array(0.9), 12)
    assert _same(np.array(0.0), np.array(1 / 12), 12)


def test_what_is_not_finite_on_both_sides_is_left_out():
    first = np.r_[np.nan, np.ones(9)]
    assert _same(first, np.r_[np.nan, np.ones(8), 0.0], np.ones(10), 10)
    assert not _same(first, np.ones(10), np.ones(10), 10)
