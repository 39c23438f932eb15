"""A few outsized values, as where a mask stands, do not hide what is wrong with the others."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.comparison.outsized import outsized, without
from paralign.dtypes import Typed

DRAWS = np.random.default_rng(3).normal(size=(4, 6))
MASK = np.triu(np.ones((4, 6), bool), 1)


@pytest.mark.parametrize(
    "masked", [np.where(MASK, -1e6, DRAWS), DRAWS - 1e9 * MASK, np.where(MASK, np.float32(1e4), DRAWS.astype("float32"))]
)
def test_masked_values_stand_out(masked):
    assert (outsized(masked) == MASK).all()


@pytest.mark.parametrize(
    "values",
    [
        DRAWS,
        np.geomspace(1e-8, 1e12, 24),  # without a gap
        np.where(MASK, -1e6, 0.0),  # nothing else is there
        np.where(MASK, -np.inf, DRAWS),  # which are compared apart in any case
        np.where(MASK, np.nan, 0.0),
        np.full((2, 3), -1e6),
        np.zeros(3),
        np.zeros((0, 3)),
        np.float64(-1e6),
    ],
)
def test_no_values_stand_out(values):
    assert outsized(np.asarray(values)) is None


def test_infinities_beside_them_are_no_values():
    values = np.where(MASK, -1e6, DRAWS)
    values[0, 0] = np.inf
    assert (outsized(values) == MASK).all()


def test_zeros_stand_in_their_place_whatever_the_axes_of_length_one():
    rest = without(Typed(np.where(MASK, -1e6, DRAWS).astype("float32")[:, None], "float32"), MASK)
    assert rest.dtype == "float64"
    assert rest.array.shape == (4, 6)
    assert (rest.array == np.where(MASK, 0, DRAWS.astype("float32"))).all()
