"""Scores of both sides ranked: in how many rows the largest are the same, and by which margins."""

import numpy as np
import pytest

from paralign.dtypes import narrow, typed
from paralign.streaming import free_running


@pytest.fixture(params=[1, 256])
def rows_at_a_time(request, monkeypatch):
    monkeypatch.setattr(free_running, "ROWS", request.param)


@pytest.mark.usefixtures("rows_at_a_time")
def test_rows_with_another_largest_value_are_told_with_their_margin():
    scores = np.array([[[0.0, 3.0, 1.0, 9.0, 4.0, 5.0, 6.0], [8.0, 7.5, 1.0, 2.0, 3.0, 4.0, 5.0]]])
    other = scores.copy()
    other[0, 1, 0] -= 0.75
    told = free_running.ranked(typed(scores), typed(other))
    assert told.startswith("the largest value is the same in 1 of 2 rows (the 5 largest in 2); the sides differ by at most 0.75")
    assert told.endswith("the smallest margin is 0.5; where another is largest, the reference's margin is at most 0.5")


@pytest.mark.usefixtures("rows_at_a_time")
def test_equal_rows_are_the_same_in_bfloat16_too():
    scores = narrow(np.random.default_rng(0).standard_normal((3, 4, 20)), "bfloat16")
    told = free_running.ranked(scores, scores)
    assert told.startswith("the largest value is the same in 12 of 12 rows (the 5 largest in 12); the sides differ by at most 0,")
    assert "where another" not in told


@pytest.mark.usefixtures("rows_at_a_time")
def test_suppressed_words_do_not_hide_what_differs():
    scores = np.random.default_rng(1).standard_normal((4, 6))
    scores[:, 2] = -np.inf
    other = scores.copy()
    other[:, 0] += 3.0
    assert "the sides differ by at most 3," in free_running.ranked(typed(scores), typed(other))
    other[1, 4] = np.nan
    assert "the sides differ by at most inf," in free_running.ranked(typed(scores), typed(other))
