"""How a wrong result comes from the reference's: what must be told, and what must not be explained away."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.locate.formula.relation import relation

RANDOM = np.random.default_rng(3)
VALUE = RANDOM.normal(size=(2, 3, 5))


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (VALUE * 3, "times 3"),
        (-VALUE, "with the other sign"),
        (VALUE + 0.25, "plus 0.25"),
        (VALUE * 8 / 7, "times 1.14286, as of a variance over 7 in place of 8"),
        (VALUE * 7 / 8, "times 0.875, as of a variance over 8 in place of 7"),
        (VALUE * 40, "times 40, as of a sum over 40 values in place of their mean"),
        (VALUE / 40, "times 1/40, as of a mean of 40 values in place of their sum"),
        (VALUE.transpose(1, 0, 2), "in another order of axes: transpose(1, 0, 2)"),
    ],
)
def test_one_step_from_the_reference_is_told(candidate, said):
    assert relation(candidate, VALUE, [(5, 8)]) == f"the result is the reference's {said}"


def test_a_square_in_another_order_of_axes_is_told():
    square = RANDOM.normal(size=(4, 4))
    assert relation(square.T, square).endswith("transpose(1, 0)")


@pytest.mark.parametrize(
    "candidate",
    [
        VALUE,
        VALUE * (1 + 1e-7 * RANDOM.normal(size=VALUE.shape)) * 3,
        VALUE**2,
        np.full_like(VALUE, np.nan),
        VALUE[:1],
        VALUE > 0,
        np.zeros((0, 3)),
    ],
)
def test_what_no_single_step_explains_is_left_alone(candidate):
    assert relation(candidate, VALUE, [(5, 8)]) == ""


def test_two_single_numbers_have_a_factor_that_tells_nothing_unless_it_is_simple():
    assert relation(np.float64(0.7312), np.float64(0.4119)) == ""
    assert relation(np.float64(0.5), np.float64(0.25)) == "the result is the reference's times 2"
    assert relation(np.float64(0.5 / 12), np.float64(0.5), [(3, 4)]).endswith("times 1/12, as of a mean of 12 values in place of their sum")


def test_a_reference_of_zeros_has_no_factor():
    assert relation(np.ones(4), np.zeros(4)) == ""
