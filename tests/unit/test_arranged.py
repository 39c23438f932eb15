"""Masks follow the values that they fall on, into other orders of axes and into rows with padding."""

from __future__ import annotations

import numpy as np

from paralign.locate.suspects import random_operations
from paralign.worker.draws.arranged import arranged
from paralign.worker.protocol import RandomOperation

RNG = np.random.default_rng(3)


def mask(*shape):
    return (RNG.random(shape) > 0.4).astype("float64")


def test_a_mask_follows_its_values_into_another_order_of_axes():
    drawn, on = mask(3, 4, 4), RNG.standard_normal((3, 4, 4))
    own = on.transpose(0, 2, 1)
    assert np.array_equal(arranged(drawn, on, own, own.shape, np.zeros(own.shape)), drawn.transpose(0, 2, 1))
    assert np.array_equal(arranged(drawn, on, on.reshape(12, 4), (12, 4), np.zeros((12, 4))), drawn.reshape(12, 4))
    other = RNG.standard_normal((3, 4, 4))  # something before is wrong: as it comes
    assert np.array_equal(arranged(drawn, on, other, other.shape, np.zeros(other.shape)), drawn)


def test_without_values_lengths_decide_where_they_can():
    drawn = mask(2, 3, 5)
    assert np.array_equal(arranged(drawn, None, None, (2, 5, 3), np.zeros((2, 5, 3))), drawn.transpose(0, 2, 1))
    assert np.array_equal(arranged(drawn, None, None, (6, 5), np.zeros((6, 5))), drawn.reshape(6, 5))


def test_rows_of_packed_sequences_go_where_their_values_are():
    whole = RNG.standard_normal((4, 3, 5))
    places = [2, 0, 7, 10, 4]
    drawn = mask(5, 5)
    there = arranged(drawn, whole.reshape(12, 5)[places], whole, whole.shape, np.zeros(whole.shape))
    assert np.array_equal(there.reshape(12, 5)[places], drawn)
    assert there.sum() == drawn.sum()
    back = arranged(there, whole, whole.reshape(12, 5)[places], (5, 5), np.ones((5, 5)))
    assert np.array_equal(back, drawn)


def test_rows_that_are_not_there_or_there_twice_have_no_place():
    whole = RNG.standard_normal((12, 5))
    drawn, rows = mask(3, 5), whole[:3].copy()
    assert arranged(drawn, rows + 1, whole, whole.shape, np.zeros(whole.shape)) is None
    whole[7] = whole[1]
    assert arranged(drawn, rows, whole, whole.shape, np.zeros(whole.shape)) is None
    assert arranged(drawn, None, None, whole.shape, np.zeros(whole.shape)) is None


def said(number, shape, p=0.2):
    return RandomOperation(number, "d", "", "", "mask", p, list(shape), f"draw {number}")


def test_masks_of_rows_with_and_without_padding_are_paired_for_a_trial():
    one, other = said(1, (31, 24)), said(2, (7, 6, 24))
    pairs = random_operations.packed([(one, None), (None, other), (None, said(3, (7, 6, 24), p=0.5))])
    assert pairs[0] == (one, other)
    assert len(pairs) == 2
    assert random_operations.apart(pairs[:1], {2}) == [(one, other)]
    assert random_operations.apart(pairs[:1], set()) == [(one, None), (None, other)]
