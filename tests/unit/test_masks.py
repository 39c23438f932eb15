"""Masked elements are told from values that are only large."""

import numpy as np
import pytest

from paralign.worker.values.masks import unmasked

SCORES = np.array([[0.5, -3.0, 2.0], [1.0, 0.0, -0.25]])
MASK = np.array([[False, True, False], [False, False, True]])


@pytest.mark.parametrize("number", [-1e4, -1e9, -np.inf, float(np.finfo("float32").min)])
@pytest.mark.parametrize("add", [False, True])
def test_masked_elements_are_zero_whatever_number_masks_them(number, add):
    masked = np.where(MASK, SCORES + number if add else number, SCORES)
    np.testing.assert_array_equal(unmasked(masked), np.where(MASK, 0.0, SCORES))


def test_two_masks_may_add_up():
    masked = np.where(MASK, [[-1e9], [-2e9]], SCORES)
    np.testing.assert_array_equal(unmasked(masked), np.where(MASK, 0.0, SCORES))


@pytest.mark.parametrize(
    "array",
    [
        SCORES,
        np.random.default_rng(0).standard_normal(1000) * 1e4,
        -np.geomspace(1, 1e9, 50),
        np.array([-1e4, -2000.0, 1.0]),
        np.array([np.inf, 1.0]),
    ],
)
def test_values_that_become_large_by_degrees_are_none(array):
    assert unmasked(array) is None


def test_nan_stays():
    np.testing.assert_array_equal(unmasked(np.array([np.nan, -1e9, 1.0])), [np.nan, 0.0, 1.0])


def test_integers_that_were_made_of_minus_infinity_are_masked():
    least = np.iinfo(np.int64).min
    np.testing.assert_array_equal(unmasked(np.array([8, least, 11])), [8, 0, 11])
    assert unmasked(np.array([8, -100, 11])) is None
