"""Results that experiments share: known by all that they were made of, and no more of them than there is room for."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.dtypes import typed
from paralign.worker.values.known_results import KnownResults, cause_of, taken

KEY = taken(typed(np.arange(6.0)))
CAUSE = cause_of(3, "conv2d", {"groups": 1}, (KEY,))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param((4, "conv2d", {"groups": 1}, (KEY,)), id="number"),
        pytest.param((3, "conv3d", {"groups": 1}, (KEY,)), id="name"),
        pytest.param((3, "conv2d", {"groups": 2}, (KEY,)), id="arguments"),
        pytest.param((3, "conv2d", {"groups": 1}, (KEY, KEY)), id="another input"),
        pytest.param((3, "conv2d", {"groups": 1}, (taken(typed(np.arange(1.0, 7.0))),)), id="other input"),
        pytest.param((3, "conv2d", {"groups": 1}, (taken(typed(np.arange(6.0).reshape(2, 3))),)), id="another shape"),
    ],
)
def test_what_is_made_of_anything_else_is_not_known(other):
    results = KnownResults()
    results.keep(CAUSE, typed(np.arange(2.0)))
    assert results.find(cause_of(*other)) is None
    assert np.array_equal(results.find(cause_of(3, "conv2d", {"groups": 1}, (KEY,))).array, [0.0, 1.0])


def test_an_input_whose_elements_lie_in_no_order_has_no_cause():
    assert taken(typed(np.arange(24.0).reshape(2, 3, 4).transpose(0, 2, 1))) is None
    assert cause_of(3, "conv2d", {}, (KEY, None)) is None


def test_a_transposed_matrix_is_told_from_one_of_the_same_bytes_and_shape():
    matrix = np.arange(9.0).reshape(3, 3)
    assert taken(typed(matrix.T)) not in (None, taken(typed(matrix)))
    assert taken(typed(matrix.T)) != taken(typed(matrix.T.copy()))


def test_a_result_that_is_changed_later_stays_as_it_was_made():
    results, made = KnownResults(), np.arange(4.0)
    results.keep(CAUSE, typed(made))
    made[:] = 7.0
    assert np.array_equal(results.find(CAUSE).array, np.arange(4.0))


def test_a_full_table_keeps_what_it_has_and_one_out_of_order_is_not_kept():
    results = KnownResults(budget=40)
    results.keep(CAUSE, typed(np.arange(12.0).reshape(4, 3).T))
    assert len(results) == 0
    results.keep(CAUSE, typed(np.arange(4.0)))
    results.keep(cause_of(4, "conv2d", {}, (KEY,)), typed(np.arange(2.0)))
    assert len(results) == 1
    results.clear()
    results.keep(cause_of(4, "conv2d", {}, (KEY,)), typed(np.arange(5.0)))
    assert len(results) == 1
